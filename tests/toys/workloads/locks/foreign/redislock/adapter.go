// github.com/bsm/redislock on the first node, as its README shows.
package main

import (
	"context"
	"errors"
	"time"

	"fencepost"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type adapter struct {
	library *redislock.Client
	held    map[string]*redislock.Lock
}

func main() { fencepost.Serve(open) }

func open(nodes []fencepost.Node, _ fencepost.Settings) (fencepost.Lock, error) {
	client := redis.NewClient(&redis.Options{Addr: nodes[0].Addr(), Password: nodes[0].Password})
	client.Ping(context.Background()) // connects now; if the node is down, the library will notice
	return &adapter{redislock.New(client), map[string]*redislock.Lock{}}, nil
}

func (a *adapter) Acquire(key string, ttl time.Duration) fencepost.Answer {
	var lock *redislock.Lock
	var err error
	call := fencepost.Timed(func() { lock, err = a.library.Obtain(context.Background(), key, ttl, nil) })
	if err != nil {
		return refusal(err)
	}
	a.held[lock.Token()] = lock
	return fencepost.Granted(lock.Token(), call)
}

func (a *adapter) Extend(key, value string, ttl time.Duration) fencepost.Answer {
	var err error
	call := fencepost.Timed(func() { err = a.held[value].Refresh(context.Background(), ttl, nil) })
	if err != nil {
		return refusal(err)
	}
	return fencepost.Granted(value, call)
}

func (a *adapter) Release(key, value string) fencepost.Answer {
	err := a.held[value].Release(context.Background())
	delete(a.held, value)
	if err != nil {
		return refusal(err)
	}
	return fencepost.OK()
}

func (a *adapter) Describe() map[string]any {
	return map[string]any{"library": "redislock v0.9.4", "go-redis": "v9.23.0"}
}

// refusal tells a definite no from errors after which nobody knows what the server did.
func refusal(err error) fencepost.Answer {
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return fencepost.Refused("held", err)
	case errors.Is(err, redislock.ErrLockNotHeld):
		return fencepost.Fail(err)
	}
	return fencepost.Info(err)
}
