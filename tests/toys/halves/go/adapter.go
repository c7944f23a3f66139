// A lock that asks nobody: the key says how it behaves.
package main

import (
	"fmt"
	"os"
	"time"

	"fencepost"
)

const notText = "\xff\x00A"

type toy struct{ settings fencepost.Settings }

type renewingToy struct{ *toy }

var meeting = make(chan bool)

// meet returns when two tasks are in it at once.
func meet() fencepost.Answer {
	select {
	case meeting <- true:
	case <-meeting:
	}
	return fencepost.GrantedUntil("v", time.Now())
}

func (renewingToy) Held(key, value string) fencepost.Answer {
	if value == "v" {
		return fencepost.OK()
	}
	return fencepost.Fail("it is another one")
}

func main() { fencepost.Serve(open) }

func open(nodes []fencepost.Node, settings fencepost.Settings) (fencepost.Lock, error) {
	if len(nodes) == 0 {
		return nil, fmt.Errorf("there are no nodes")
	}
	fmt.Println("opening", nodes[0].Addr())
	lock := &toy{settings}
	if nodes[0].Host == "renews" {
		return renewingToy{lock}, nil
	}
	return lock, nil
}

func (*toy) Acquire(key string, ttl time.Duration) fencepost.Answer {
	switch key {
	case "until":
		return fencepost.GrantedUntil("v", time.Now().Add(ttl))
	case "until, by the wall clock":
		return fencepost.GrantedUntil("v", time.Now().Add(ttl).Round(0))
	case "for":
		call := fencepost.Timed(func() { time.Sleep(20 * time.Millisecond) })
		return fencepost.GrantedFor("v", ttl, call)
	case "yes":
		answer := fencepost.Granted(notText, fencepost.Timed(func() { time.Sleep(20 * time.Millisecond) }))
		token := int64(7)
		answer.Token = &token
		return answer
	case "held":
		return fencepost.Fail("somebody\n\telse has it")
	case "unknown":
		return fencepost.Info(fmt.Errorf("no reply"))
	case "panic":
		panic("out of luck")
	case "panic elsewhere":
		go func() { panic("out of luck") }()
		select {}
	case "meet":
		return meet()
	case "hang":
		time.Sleep(time.Hour)
	}
	fmt.Println("printed by the library")
	os.Stdout.WriteString("and once more\n")
	token, requestedNs, grantedMs := int64(7), int64(1), 2000.0
	answer := fencepost.GrantedUntil("v", time.Now().Add(ttl))
	answer.Token, answer.RequestedNs, answer.GrantedMs = &token, &requestedNs, &grantedMs
	return answer
}

func (*toy) Extend(key, value string, ttl time.Duration) fencepost.Answer {
	return fencepost.Fail("it cannot extend")
}

func (*toy) Release(key, value string) fencepost.Answer {
	if value != notText {
		return fencepost.Fail("another value")
	}
	return fencepost.OK()
}

func (t *toy) Describe() map[string]any {
	return map[string]any{"library": "toy 1.0", "settings": t.settings.All}
}
