// github.com/redis/rueidis/rueidislock on the first node, as its README shows for a single Redis (`KeyMajority: 1`), with
// the TTL as KeyValidity and the defaults of the library.
//
// The library's bugs are part of what is tested: nothing is fixed here. Its lock is a context, and the caller holds the lock
// until that is done. With --renewal the library extends its key each time half of the TTL has passed, and the adapter
// answers whether the context is done. Without, it is given a context that ends after the TTL, which is then the lease's
// deadline, and it extends nothing.
//
// TryWithContext makes one attempt. WithContext, which the README shows, goes on trying until it has the lock.
package main

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"fencepost"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func main() { fencepost.Serve(open) }

type adapter struct {
	option     rueidislock.LockerOption
	renews     bool
	connecting sync.Mutex
	locker     rueidislock.Locker // nil: the node has not been reached yet
	held       sync.Map           // the lease of each value
}

type lease struct {
	context context.Context
	release func()
}

func open(nodes []fencepost.Node, settings fencepost.Settings) (fencepost.Lock, error) {
	a := &adapter{
		renews: settings.RenewalMs != nil,
		option: rueidislock.LockerOption{
			ClientOption:  rueidis.ClientOption{InitAddress: []string{nodes[0].Addr()}, Password: nodes[0].Password},
			ClientBuilder: connect,
			KeyMajority:   1,
			KeyValidity:   settings.TTL(),
		},
	}
	if !a.renews {
		a.option.ExtendInterval = math.MaxInt64
	}
	a.connected() // now, so that no first acquire includes it; if the node is down, an acquire connects
	return a, nil
}

// connected returns the library's locker, which cannot be made while the node is down.
func (a *adapter) connected() (rueidislock.Locker, error) {
	a.connecting.Lock()
	defer a.connecting.Unlock()
	var err error
	if a.locker == nil {
		a.locker, err = rueidislock.NewLocker(a.option)
	}
	return a.locker, err
}

func (a *adapter) Acquire(key string, ttl time.Duration) fencepost.Answer {
	locker, err := a.connected()
	if err != nil {
		return fencepost.Fail(err) // nothing was asked
	}
	ctx, end := context.WithCancel(context.Background())
	if !a.renews {
		ctx, end = context.WithTimeout(context.Background(), ttl)
	}
	var value atomic.Pointer[string]
	var held context.Context
	var release context.CancelFunc
	call := fencepost.Timed(func() {
		held, release, err = locker.TryWithContext(context.WithValue(ctx, valueKey{}, &value), key)
	})
	if err != nil {
		end()
		return refusal(err)
	}
	a.held.Store(*value.Load(), lease{held, func() { release(); end() }})
	if deadline, ends := ctx.Deadline(); ends {
		return fencepost.GrantedUntil(*value.Load(), deadline)
	}
	return fencepost.Granted(*value.Load(), call)
}

// refusal tells a definite no from errors after which it is unknown what the node did.
func refusal(err error) fencepost.Answer {
	if errors.Is(err, rueidislock.ErrNotLocked) {
		return fencepost.Fail(err)
	}
	return fencepost.Info(err)
}

func (a *adapter) Extend(key, value string, ttl time.Duration) fencepost.Answer {
	return fencepost.Fail("rueidislock extends by itself (--renewal), and not when it is asked to")
}

func (a *adapter) Held(key, value string) fencepost.Answer {
	if err := a.lease(value).context.Err(); err != nil {
		return fencepost.Fail(err)
	}
	return fencepost.OK()
}

// Release calls what the library returned for it, which does not say whether the key was deleted.
func (a *adapter) Release(key, value string) fencepost.Answer {
	lease := a.lease(value)
	a.held.Delete(value)
	lost := lease.context.Err()
	lease.release()
	if lost != nil {
		return fencepost.Fail(lost)
	}
	return fencepost.OK()
}

func (a *adapter) Describe() map[string]any {
	described := map[string]any{
		"library":         "rueidislock " + fencepost.Version("github.com/redis/rueidis"),
		"key_majority":    a.option.KeyMajority,
		"key_validity_ms": a.option.KeyValidity.Milliseconds(),
		"renews_after":    "never",
	}
	if a.renews {
		described["renews_after"] = "0.5 TTL"
	}
	return described
}

func (a *adapter) lease(value string) lease {
	found, _ := a.held.Load(value)
	return found.(lease)
}

type valueKey struct{}

// observed notes which value the library gives its key: it does not tell its caller. A call's context says where.
type observed struct{ rueidis.Client }

func connect(option rueidis.ClientOption) (rueidis.Client, error) {
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	return observed{client}, nil
}

func (o observed) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if value, wanted := ctx.Value(valueKey{}).(*atomic.Pointer[string]); wanted {
		if words := command.Commands(); len(words) > 4 { // EVALSHA sha 1 key value …
			first := words[4]
			value.CompareAndSwap(nil, &first)
		}
	}
	return o.Client.Do(ctx, command)
}
