// redsync, with go-redis as its README shows: `redsync.New(goredis.NewPool(redis.NewClient(…)), …)`, a new mutex for every
// acquire, `Lock`, `Extend` and `Unlock`, and the defaults of both libraries.
//
// The libraries' bugs are part of what is tested: nothing is fixed here.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"time"

	"fencepost"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	goredislib "github.com/redis/go-redis/v9"
)

func main() { fencepost.Serve(open) }

// settings are the [settings] of lock.toml. Both are options of the libraries that their README leaves out:
// `redsync.WithFailFast` does not wait for more nodes than decide, and go-redis's ContextTimeoutEnabled lets redsync limit
// how long it waits for a node.
type settings struct {
	FailFast        bool `json:"fail_fast"`
	ContextTimeouts bool `json:"context_timeouts"`
}

type adapter struct {
	settings settings
	clients  []*goredislib.Client
	library  *redsync.Redsync
	held     sync.Map // the mutex of each value
}

func open(nodes []fencepost.Node, given fencepost.Settings) (fencepost.Lock, error) {
	a := &adapter{}
	if len(given.Manifest) > 0 {
		if err := json.Unmarshal(given.Manifest, &a.settings); err != nil {
			return nil, err
		}
	}
	var pools []redis.Pool
	var connecting sync.WaitGroup
	for _, node := range nodes {
		client := goredislib.NewClient(&goredislib.Options{
			Addr:                  node.Addr(),
			Password:              node.Password,
			ContextTimeoutEnabled: a.settings.ContextTimeouts,
		})
		// Connect now, so that no first acquire includes it. A node that is down is left to the library.
		connecting.Go(func() { client.Ping(context.Background()) })
		a.clients, pools = append(a.clients, client), append(pools, goredis.NewPool(client))
	}
	connecting.Wait()
	a.library = redsync.New(pools...)
	return a, nil
}

func (a *adapter) Acquire(key string, ttl time.Duration) fencepost.Answer {
	mutex := a.library.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithFailFast(a.settings.FailFast))
	if err := mutex.Lock(); err != nil {
		// Refused, however it came about: a caller that gets an error does not hold the lock.
		return fencepost.Fail(err)
	}
	a.held.Store(mutex.Value(), mutex)
	return fencepost.GrantedUntil(mutex.Value(), mutex.Until())
}

// Extend extends by the time with which the mutex was created, as the library does; clients always ask for the same.
func (a *adapter) Extend(key, value string, ttl time.Duration) fencepost.Answer {
	mutex := a.mutex(value)
	extended, err := mutex.Extend()
	switch {
	case extended:
		return fencepost.GrantedUntil(value, mutex.Until())
	case err == nil || unreached(err) == 0:
		return fencepost.Fail(err)
	}
	return fencepost.Info(err)
}

func (a *adapter) Release(key, value string) fencepost.Answer {
	released, err := a.mutex(value).Unlock()
	a.held.Delete(value)
	switch {
	case released:
		return fencepost.OK()
	case err == nil || unreached(err) == 0:
		return fencepost.Fail(err)
	}
	return fencepost.Info(err)
}

func (a *adapter) mutex(value string) *redsync.Mutex {
	mutex, _ := a.held.Load(value)
	return mutex.(*redsync.Mutex)
}

func (a *adapter) Describe() map[string]any {
	options := a.clients[0].Options()
	return map[string]any{
		"library":                 "redsync " + fencepost.Version("github.com/go-redsync/redsync/v4"),
		"go-redis":                fencepost.Version("github.com/redis/go-redis/v9"),
		"go":                      runtime.Version(),
		"fail_fast":               a.settings.FailFast,
		"context_timeout_enabled": options.ContextTimeoutEnabled,
		"dial_timeout_s":          options.DialTimeout.Seconds(),
		"read_timeout_s":          options.ReadTimeout.Seconds(),
		"write_timeout_s":         options.WriteTimeout.Seconds(),
		"socket_retries":          options.MaxRetries,
	}
}

// unreached counts the nodes whose reply the library did not get.
func unreached(err error) int {
	var lost *redsync.RedisError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		count := 0
		for _, each := range joined.Unwrap() {
			count += unreached(each)
		}
		return count
	}
	if errors.As(err, &lost) {
		return 1
	}
	return 0
}
