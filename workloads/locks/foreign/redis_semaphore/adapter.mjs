// npm redis-semaphore's RedlockMutex, or its Mutex on the first node, as its README shows them, over ioredis clients created
// from a host and a port, with the defaults of both. The manifest's [settings] name the class.
//
// The libraries' bugs are part of what is tested: nothing is fixed here. The library renews by itself: every 0.8 TTL it
// extends the lease of a mutex until that is released, and `isAcquired` says whether the caller still holds it. With
// --renewal that is what the adapter answers. Without, renewal is switched off as the README says (`refreshInterval: 0`), so
// that a lease ends after the TTL.
//
// `tryAcquire` returns yes or no, and tries again until its time is up. So the first client notes when it sends a SET: an
// attempt asks all nodes at once, the first one first.
//
// When a renewal of a Mutex fails, the library lets the error go where nobody can catch it, which ends the process of a user
// who holds it. This process has to go on; it takes all that it held for lost.

import Redis from 'ioredis'
import * as library from 'redis-semaphore'
import { attemptBegins, fail, ok, serve, timedCall, versionOf, warmUp } from './fencepost_adapter.mjs'

class FirstClient extends Redis {
  set(...words) {
    attemptBegins()
    return super.set(...words)
  }
}

function open(nodes, settings) {
  const renews = settings.renewal_ms != null
  const { mutex: kind = 'RedlockMutex' } = settings.manifest ?? {}
  const isAlone = kind === 'Mutex'
  const connect = ({ host, port, password }, index) => new (index ? Redis : FirstClient)({ host, port, password })
  const clients = nodes.slice(0, isAlone ? 1 : nodes.length).map(connect)
  const held = new Map()
  let processDied = new Set() // who was inside then
  process.on('unhandledRejection', (error) => {
    console.error('A user of the library would have died of this:', error)
    processDied = new Set(held.values())
  })
  const isHeld = (mutex) => mutex.isAcquired && !processDied.has(mutex)

  return warmUp(clients, (client) => client.ping()).then(() => ({
    async acquire({ key, ttl_ms }) {
      const onLockLost = (error) => console.error(`${error}`) // as in the README; the default ends the process
      const options = { lockTimeout: ttl_ms, onLockLost, ...(!renews && { refreshInterval: 0 }) }
      const mutex = new library[kind](isAlone ? clients[0] : clients, key, options)
      const { result: acquired, bounds } = await timedCall(() => mutex.tryAcquire())
      if (!acquired) return fail({ error: 'tryAcquire returned false' })
      held.set(mutex.identifier, mutex)
      return ok({ value: mutex.identifier, ...bounds })
    },

    held: ({ value }) => (isHeld(held.get(value)) ? ok() : fail({ error: 'isAcquired is false' })),

    // The library does not say whether a release succeeded; RedlockMutex not even when no node could be reached.
    async release({ value }) {
      const mutex = held.get(value)
      held.delete(value)
      const lost = !isHeld(mutex)
      await mutex.release()
      return lost ? fail({ error: 'the lock was lost before' }) : ok()
    },

    describe: () => ({
      library: `redis-semaphore ${versionOf('redis-semaphore')}`,
      ioredis: versionOf('ioredis'),
      acquire_limit_ms: library.defaultTimeoutOptions.acquireTimeout, // "max timeout" of an acquire, by its documentation
      retry_interval_ms: library.defaultTimeoutOptions.retryInterval,
      renews_after: renews ? '0.8 TTL' : 'never',
      connect_timeout_ms: clients[0].options.connectTimeout,
      command_timeout_ms: clients[0].options.commandTimeout ?? 'none',
      max_retries_per_request: clients[0].options.maxRetriesPerRequest,
    }),
  }))
}

serve(open)
