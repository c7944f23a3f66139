// A toy: SET NX PX on the first node, over a bare socket.
package main

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"time"

	"fencepost"
)

const ifMine = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`

type toy struct {
	Name    string `json:"name"`
	socket  net.Conn
	replies *bufio.Reader
}

func main() { fencepost.Serve(open) }

func open(nodes []fencepost.Node, settings fencepost.Settings) (fencepost.Lock, error) {
	socket, err := net.Dial("tcp", nodes[0].Addr())
	if err != nil {
		return nil, err
	}
	t := &toy{socket: socket, replies: bufio.NewReader(socket)}
	if nodes[0].Password != "" {
		t.ask("AUTH", nodes[0].Password)
	}
	return t, json.Unmarshal(settings.Manifest, t)
}

func (t *toy) Acquire(key string, ttl time.Duration) fencepost.Answer {
	value := t.Name + "-" + rand.Text()
	deadline := time.Now().Add(ttl)
	if t.ask("SET", key, value, "NX", "PX", fmt.Sprint(ttl.Milliseconds())) != "+OK" {
		return fencepost.Fail(nil)
	}
	return fencepost.GrantedUntil(value, deadline)
}

func (t *toy) Extend(key, value string, ttl time.Duration) fencepost.Answer {
	return fencepost.Fail("a toy cannot")
}

func (t *toy) Release(key, value string) fencepost.Answer {
	if t.ask("EVAL", ifMine, "1", key, value) != ":1" {
		return fencepost.Fail("lost")
	}
	return fencepost.OK()
}

func (t *toy) Describe() map[string]any { return map[string]any{"library": "a socket"} }

// ask sends one request, and returns its reply of one line.
func (t *toy) ask(words ...string) string {
	fmt.Fprintf(t.socket, "*%d\r\n", len(words))
	for _, word := range words {
		fmt.Fprintf(t.socket, "$%d\r\n%s\r\n", len(word), word)
	}
	reply, _ := t.replies.ReadString('\n')
	return strings.TrimSpace(reply)
}
