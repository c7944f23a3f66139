// npm @microfleet/ioredis-lock on the first node, as its README shows it, over an ioredis client created from a host and a port,
// with the defaults of both.
//
// The library's bugs are part of what is tested: nothing is fixed here. `acquire` resolves, or rejects after its retries, with
// the same class of error for a refusal and for a node that did not reply: only the message tells them apart. So the client
// notes when it sends a SET, which is when an attempt begins.

import Redis from 'ioredis'
import { createLock } from '@microfleet/ioredis-lock'
import { attemptBegins, fail, ok, serve, timedCall, versionOf, warmUp } from './fencepost_adapter.mjs'

class NotingClient extends Redis {
  set(...words) {
    attemptBegins()
    return super.set(...words)
  }
}

const REFUSALS = [/^Could not acquire lock on "/, /^Lock on ".*" had expired$/, /^Lock has not been acquired$/]

/** The answer to an error by which the library says no; it throws what leaves open what the node did. */
function refused(error) {
  if (!REFUSALS.some((refusal) => refusal.test(error.message))) throw error
  return fail({ error: error.message })
}

function open([{ host, port, password }]) {
  const client = new NotingClient({ host, port, password })
  client.on('error', (error) => console.error('ioredis:', error))
  const held = new Map()
  const granted = (lock, bounds) => ok({ value: lock._id, ...bounds })

  return warmUp([client], (client) => client.ping()).then(() => ({
    async acquire({ key, ttl_ms }) {
      const lock = createLock(client, { timeout: ttl_ms })
      try {
        const { bounds } = await timedCall(() => lock.acquire(key))
        held.set(lock._id, lock)
        return granted(lock, bounds)
      } catch (error) {
        return refused(error)
      }
    },

    async extend({ value, ttl_ms }) {
      const lock = held.get(value)
      try {
        const { bounds } = await timedCall(() => lock.extend(ttl_ms))
        return granted(lock, bounds)
      } catch (error) {
        return refused(error)
      }
    },

    async release({ value }) {
      const lock = held.get(value)
      held.delete(value)
      try {
        await lock.release()
        return ok()
      } catch (error) {
        return refused(error)
      }
    },

    describe() {
      const { retries, delay, jitter } = createLock(client).config
      return {
        library: `@microfleet/ioredis-lock ${versionOf('@microfleet/ioredis-lock')}`,
        ioredis: versionOf('ioredis'),
        retries,
        delay_ms: delay,
        jitter,
        command_timeout_ms: client.options.commandTimeout ?? 'none',
        max_retries_per_request: client.options.maxRetriesPerRequest,
      }
    },
  }))
}

serve(open)
