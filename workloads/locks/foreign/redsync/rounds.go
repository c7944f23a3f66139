package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"fencepost"

	"github.com/redis/go-redis/v9"
)

// rounds records what redsync sends to the nodes in one call and what they reply, through go-redis's hooks, which find it
// in the call's context. redsync sends one command to every node and then waits, so a second command to the same node
// begins a new round.
type rounds struct {
	mutex sync.Mutex
	// script is what redsync's scripts are for in this call. Its only other command is an acquire's SET.
	script  string
	done    []fencepost.Round
	current *round
}

// round holds a reply for each node that was asked, by the node's number; nil: it has not replied yet.
type round struct {
	fencepost.Round
	replies map[int]*fencepost.Reply
}

type contextKey struct{}

// record returns a context for one call of the library, and what will have its rounds.
func record(script string) (context.Context, *rounds) {
	r := &rounds{script: script}
	return context.WithValue(context.Background(), contextKey{}, r), r
}

func (r *rounds) take() []fencepost.Round {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.close()
	return r.done
}

// asked notes a request, and returns what notes its reply. A reply that comes after the round was closed is dropped: the
// library no longer waited for it.
func (r *rounds) asked(node int, command redis.Cmder) func(error) {
	at := fencepost.Now()
	purpose, key, value := r.script, 3, 4 // EVALSHA sha 1 key value …
	switch command.Name() {
	case "set": // SET key value …
		purpose, key, value = "acquire", 1, 2
	case "evalsha", "eval":
	default:
		return func(error) {}
	}
	arguments := command.Args()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.current == nil || r.current.For != purpose || r.current.asked(node) {
		r.close()
		r.current = &round{
			Round:   fencepost.Round{For: purpose, Key: fmt.Sprint(arguments[key]), Value: fmt.Sprint(arguments[value]), AskedNs: at},
			replies: map[int]*fencepost.Reply{},
		}
	}
	// The nodes are asked side by side: whoever gets here first need not be the first one who asked, or was answered.
	mine := r.current
	mine.AskedNs = min(mine.AskedNs, at)
	mine.replies[node] = nil
	return func(err error) {
		at := fencepost.Now()
		r.mutex.Lock()
		defer r.mutex.Unlock()
		mine.DoneNs = max(mine.DoneNs, at)
		mine.replies[node] = &fencepost.Reply{Node: name(node), Text: text(command, err), AtNs: at}
		if mine.replies[node].Text == "silent" {
			mine.replies[node].AtNs = 0
		}
	}
}

// asked is false for a node that does not know the script yet: it gets the same request again, with the script's text.
func (r *round) asked(node int) bool {
	reply, asked := r.replies[node]
	return asked && (reply == nil || !strings.HasPrefix(reply.Text, "NOSCRIPT"))
}

func (r *rounds) close() {
	if r.current == nil {
		return
	}
	for node := 1; len(r.current.Replies) < len(r.current.replies); node++ {
		reply, asked := r.current.replies[node]
		if !asked {
			continue
		}
		if reply == nil {
			reply = &fencepost.Reply{Node: name(node), Text: "silent"}
			r.current.DoneNs = fencepost.Now()
		}
		r.current.Replies = append(r.current.Replies, *reply)
	}
	r.done, r.current = append(r.done, r.current.Round), nil
}

func name(node int) string { return fmt.Sprintf("n%d", node) }

// text is a reply as Redis writes it, an error's text, or "silent".
func text(command redis.Cmder, err error) string {
	var network net.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return "silent"
	case err != nil:
		return err.Error()
	}
	switch command := command.(type) {
	case *redis.BoolCmd: // SET with NX
		if !command.Val() {
			return "nil"
		}
	case *redis.Cmd: // a script
		return fmt.Sprint(command.Val())
	}
	return "OK"
}

// hook is a client's hook; it watches one node.
type hook struct{ node int }

func (h hook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		rounds, recorded := ctx.Value(contextKey{}).(*rounds)
		if !recorded {
			return next(ctx, command)
		}
		replied := rounds.asked(h.node, command)
		err := next(ctx, command)
		replied(err)
		return err
	}
}
