// go-zero's RedisLock (core/stores/redis) on the first node, with the library's own client and its defaults.
//
// The library's bugs are part of what is tested: nothing is fixed here. Acquire makes one attempt, and says yes or no. The
// library counts in whole seconds, and grants half a second more than it was asked for. It hides the value, so the value
// that names a lease is the adapter's own.
package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"fencepost"

	"github.com/zeromicro/go-zero/core/breaker"
	"github.com/zeromicro/go-zero/core/stores/redis"
)

// toleranceMs is what the library adds to each time, under this name in redislock.go.
const toleranceMs = 500

type adapter struct {
	store  *redis.Redis
	held   sync.Map // the library's lock of each value
	leases atomic.Int64
}

func main() { fencepost.Serve(open) }

func open(nodes []fencepost.Node, _ fencepost.Settings) (fencepost.Lock, error) {
	conf := redis.RedisConf{
		Host:               nodes[0].Addr(),
		Pass:               nodes[0].Password,
		Type:               redis.NodeType,
		NonBlock:           true, // these are the defaults of a configuration file
		Protocol:           3,
		MaintNotifications: "disabled",
		PingTimeout:        time.Second,
	}
	store, err := redis.NewRedis(conf)
	if err != nil {
		return nil, err
	}
	store.Ping() // connects now; if the node is down, the library will notice
	return &adapter{store: store}, nil
}

func (a *adapter) Acquire(key string, ttl time.Duration) fencepost.Answer {
	seconds := int((ttl + time.Second - 1) / time.Second)
	lock := redis.NewRedisLock(a.store, key)
	lock.SetExpire(seconds)
	var granted bool
	var err error
	call := fencepost.Timed(func() { granted, err = lock.Acquire() })
	switch {
	case err != nil:
		return failure(err)
	case !granted:
		return fencepost.Fail("Acquire returned false")
	}
	value := fmt.Sprintf("%d#%d", os.Getpid(), a.leases.Add(1))
	a.held.Store(value, lock)
	answer := fencepost.Granted(value, call)
	grantedMs := float64(seconds*1000 + toleranceMs)
	answer.GrantedMs = &grantedMs
	return answer
}

func (a *adapter) Extend(key, value string, ttl time.Duration) fencepost.Answer {
	return fencepost.Fail("go-zero has no call that only extends: Acquire takes a lock that is over anew")
}

func (a *adapter) Release(key, value string) fencepost.Answer {
	lock, _ := a.held.LoadAndDelete(value)
	released, err := lock.(*redis.RedisLock).Release()
	switch {
	case err != nil:
		return failure(err)
	case !released:
		return fencepost.Fail("Release returned false")
	}
	return fencepost.OK()
}

func (a *adapter) Describe() map[string]any {
	return map[string]any{
		"library":  "go-zero " + fencepost.Version("github.com/zeromicro/go-zero"),
		"go-redis": fencepost.Version("github.com/redis/go-redis/v9"),
		"attempts": 1,
	}
}

// failure tells an open circuit breaker, which sends nothing, from errors after which it is unknown what the server did.
func failure(err error) fencepost.Answer {
	if errors.Is(err, breaker.ErrServiceUnavailable) {
		return fencepost.Fail(err)
	}
	return fencepost.Info(err)
}
