// npm redlock-universal as its README shows it, over ioredis clients created from a host and a port, with the defaults of
// both: `createRedlock` over all nodes, or `createLock` on the first. The manifest's [settings] name the function.
//
// The library's bugs are part of what is tested: nothing is fixed here. `acquire` returns a handle with the TTL that was asked
// for, and without a deadline: it says yes and nothing else. It makes several attempts, each with a new value; the first
// node's adapter notes when one begins. With --renewal clients work in `using`, which extends the lock by itself: a client
// is inside from when its routine runs until the AbortSignal says otherwise.

import { AsyncLocalStorage } from 'node:async_hooks'
import Redis from 'ioredis'
import { createLock, createRedlock, IoredisAdapter, LockAcquisitionError } from 'redlock-universal'
import { attemptBegins, fail, info, inside, ok, serve, timedCall, versionOf, warmUp } from './fencepost_adapter.mjs'

/** What an acquire is trying to set: a routine is not told which handle it has. */
const acquiring = new AsyncLocalStorage()

class FirstAdapter extends IoredisAdapter {
  setNX(key, value, ttl) {
    attemptBegins()
    acquiring.getStore().value = value
    return super.setNX(key, value, ttl)
  }
}

function open(nodes, settings) {
  const { lock: kind = 'createRedlock' } = settings.manifest ?? {}
  const isAlone = kind === 'createLock'
  const clients = nodes
    .slice(0, isAlone ? 1 : nodes.length)
    .map(({ host, port, password }) => new Redis({ host, port, password }))
  const adapters = clients.map((client, index) => new (index ? IoredisAdapter : FirstAdapter)(client))
  const lockOf = (key, ttl) =>
    isAlone ? createLock({ adapter: adapters[0], key, ttl }) : createRedlock({ adapters, key, ttl })

  const locks = new Map() // by key and TTL, as a program would keep them: a lock on one node has a circuit breaker
  function lockFor(key, ttl) {
    const name = `${ttl} ${key}`
    if (!locks.has(name)) locks.set(name, lockOf(key, ttl))
    return locks.get(name)
  }

  const held = new Map()
  const take = (value) => {
    const section = held.get(value)
    held.delete(value)
    return section
  }
  /** Enters with `enter(lock)`, which resolves to what is kept of the section. */
  async function acquire({ key, ttl_ms }, enter) {
    const trying = {}
    try {
      const { result, bounds } = await timedCall(() => acquiring.run(trying, () => enter(lockFor(key, ttl_ms))))
      held.set(trying.value, result)
      return ok({ value: trying.value, ...bounds })
    } catch (error) {
      if (!(error instanceof LockAcquisitionError)) throw error
      return fail({ error: error.message })
    }
  }

  const byHand = {
    acquire: (request) => acquire(request, async (lock) => ({ lock, handle: await lock.acquire() })),
    // A RedLock answers false, too, if it does not know: because nodes did not reply. Then it is not extended for its user.
    async extend({ value, ttl_ms }) {
      const { lock, handle } = held.get(value)
      const { result: extended, bounds } = await timedCall(() => lock.extend(handle, ttl_ms))
      return extended ? ok({ value, ...bounds }) : fail({ error: 'extend returned false' })
    },
    async release({ value }) {
      const { lock, handle } = take(value)
      if (await lock.release(handle)) return ok()
      return isAlone ? fail({ error: 'release returned false' }) : info('release returned false: not on a majority')
    },
  }
  const inUsing = {
    acquire: (request) => acquire(request, (lock) => inside((routine) => lock.using(routine))),
    held({ value }) {
      const [signal] = held.get(value).given
      return signal.aborted ? fail({ error: `${signal.error}` }) : ok()
    },
    // The library does not say whether the release at the end of `using` succeeded.
    async release({ value }) {
      const { given, leave } = take(value)
      const [signal] = given
      const lost = signal.aborted && fail({ error: `${signal.error}` })
      await leave()
      return lost || ok()
    },
  }

  return warmUp(clients, (client) => client.ping()).then(() => ({
    ...(settings.renewal_ms == null ? byHand : inUsing),

    describe: () => {
      const { connectTimeout, commandTimeout, maxRetriesPerRequest } = clients[0].options
      const { retryAttempts, retryDelay, clockDriftFactor } = lockOf('describe', 1000).getConfig()
      const { timeout } = adapters[0].options
      // One node: a SET at each attempt, and now and then a PING first. Several: each attempt that fails is undone with a
      // script, which may have to be loaded and sent twice.
      const commands = isAlone ? retryAttempts + 2 : (retryAttempts + 1) * (1 + 4)
      return {
        library: `redlock-universal ${versionOf('redlock-universal')}`,
        ioredis: versionOf('ioredis'),
        acquire_limit_ms: commands * timeout + retryAttempts * retryDelay,
        retry_attempts: retryAttempts,
        retry_delay_ms: retryDelay,
        clock_drift_factor: clockDriftFactor ?? 'none',
        node_timeout_ms: timeout,
        connect_timeout_ms: connectTimeout,
        command_timeout_ms: commandTimeout ?? 'none',
        max_retries_per_request: maxRetriesPerRequest,
      }
    },
  }))
}

serve(open)
