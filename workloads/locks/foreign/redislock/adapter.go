// github.com/bsm/redislock on the first node, as its README shows.
package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"fencepost"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

type adapter struct {
	library *redislock.Client
	held    sync.Map // the library's lock of each token
}

func main() { fencepost.Serve(open) }

func open(nodes []fencepost.Node, _ fencepost.Settings) (fencepost.Lock, error) {
	client := redis.NewClient(&redis.Options{Addr: nodes[0].Addr(), Password: nodes[0].Password})
	client.Ping(context.Background()) // connects now; if the node is down, the library will notice
	return &adapter{library: redislock.New(client)}, nil
}

func (a *adapter) Acquire(key string, ttl time.Duration) fencepost.Answer {
	var lock *redislock.Lock
	var err error
	call := fencepost.Timed(func() { lock, err = a.library.Obtain(context.Background(), key, ttl, nil) })
	switch {
	case errors.Is(err, redislock.ErrNotObtained):
		return fencepost.Fail(err)
	case err != nil:
		return fencepost.Info(err)
	}
	a.held.Store(lock.Token(), lock)
	return fencepost.Granted(lock.Token(), call)
}

func (a *adapter) Extend(key, value string, ttl time.Duration) fencepost.Answer {
	var err error
	call := fencepost.Timed(func() { err = a.lock(value).Refresh(context.Background(), ttl, nil) })
	if err != nil {
		return failure(err)
	}
	return fencepost.Granted(value, call)
}

func (a *adapter) Release(key, value string) fencepost.Answer {
	err := a.lock(value).Release(context.Background())
	a.held.Delete(value)
	if err != nil {
		return failure(err)
	}
	return fencepost.OK()
}

func (a *adapter) Describe() map[string]any {
	return map[string]any{
		"library":  "redislock " + fencepost.Version("github.com/bsm/redislock"),
		"go-redis": fencepost.Version("github.com/redis/go-redis/v9"),
	}
}

func (a *adapter) lock(value string) *redislock.Lock {
	lock, _ := a.held.Load(value)
	return lock.(*redislock.Lock)
}

// failure tells a lock that is no longer held from errors after which it is unknown what the server did.
func failure(err error) fencepost.Answer {
	if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, redislock.ErrLockNotHeld) {
		return fencepost.Fail(err)
	}
	return fencepost.Info(err)
}
