// npm redis-semaphore's RedlockMutex as its README shows, over ioredis clients created from a host and a port, with the
// defaults of both.
//
// The libraries' bugs are part of what is tested: nothing is fixed here. The library renews by itself: every 0.8 TTL it
// extends the lease of a mutex until that is released, and `isAcquired` says whether the caller still holds it. With
// --renewal that is what the adapter answers. Without, renewal is switched off as the README says (`refreshInterval: 0`), so
// that a lease ends after the TTL.
//
// `tryAcquire` returns yes or no, and tries again until its time is up. So the first client notes when it sends a SET: the
// lease began at some time between that of the attempt that succeeded and the return.

import { createRequire } from 'node:module'
import Redis from 'ioredis'
import { defaultTimeoutOptions, RedlockMutex } from 'redis-semaphore'
import { fail, nowNs, ok, serve, warmUp } from './fencepost_adapter.mjs'

const versionOf = (name) => `${name} ${createRequire(import.meta.url)(`${name}/package.json`).version}`

/** By identifier, while it is acquired: when its newest attempt began. An attempt asks all nodes at once, the first one first. */
const attemptedNs = new Map()

class FirstClient extends Redis {
  set(key, identifier, ...options) {
    if (attemptedNs.has(identifier)) attemptedNs.set(identifier, nowNs())
    return super.set(key, identifier, ...options)
  }
}

function open(nodes, settings) {
  const renews = settings.renewal_ms != null
  const connect = ({ host, port, password }, index) => new (index ? Redis : FirstClient)({ host, port, password })
  const clients = nodes.map(connect)
  const held = new Map()

  return warmUp(clients, (client) => client.ping()).then(() => ({
    async acquire({ key, ttl_ms }) {
      const onLockLost = (error) => console.error(`${error}`) // as in the README; the default ends the process
      const options = { lockTimeout: ttl_ms, onLockLost, ...(!renews && { refreshInterval: 0 }) }
      const mutex = new RedlockMutex(clients, key, options)
      const value = mutex.identifier
      attemptedNs.set(value, nowNs())
      const acquired = await mutex.tryAcquire()
      const bounds = { computed_after_ns: attemptedNs.get(value), computed_before_ns: nowNs() }
      attemptedNs.delete(value)
      if (!acquired) return fail({ error: 'tryAcquire returned false' })
      held.set(value, mutex)
      return ok({ value, ...bounds })
    },

    held: ({ value }) => (held.get(value).isAcquired ? ok() : fail({ error: 'isAcquired is false' })),

    // The library does not say whether a release succeeded, even when no node could be reached.
    async release({ value }) {
      const mutex = held.get(value)
      held.delete(value)
      const lost = !mutex.isAcquired
      await mutex.release()
      return lost ? fail({ error: 'the lock was lost before' }) : ok()
    },

    describe: () => ({
      library: versionOf('redis-semaphore'),
      ioredis: versionOf('ioredis'),
      acquire_limit_ms: defaultTimeoutOptions.acquireTimeout, // "max timeout" of an acquire, by its documentation
      retry_interval_ms: defaultTimeoutOptions.retryInterval,
      renews_after: renews ? '0.8 TTL' : 'never',
      connect_timeout_ms: clients[0].options.connectTimeout,
      command_timeout_ms: clients[0].options.commandTimeout ?? 'none',
      max_retries_per_request: clients[0].options.maxRetriesPerRequest,
    }),
  }))
}

serve(open)
