// npm simple-redis-mutex on the first node, with `tryLock` as its README shows it, over node-redis, which it requires, created
// from a host and a port with its own defaults.
//
// The library's bugs are part of what is tested: nothing is fixed here. `tryLock` tries once, and says yes or no. A grant has a
// fencing token, for which the library asks after it has the lock. The library hides the value that it sets: the value that
// names a lease is the adapter's own.

import { randomUUID } from 'node:crypto'
import { createClient } from 'redis'
import { tryLock } from 'simple-redis-mutex'
import { fail, ok, serve, timedCall, versionOf, warmUp } from './fencepost_adapter.mjs'

function open([{ host, port, password }]) {
  const client = createClient({ socket: { host, port }, password })
  client.on('error', (error) => console.error('Redis:', error)) // without a listener it would end the process
  const held = new Map()

  /** The first lock of a process makes the library subscribe. */
  async function connect(client) {
    await client.connect()
    const [, release] = await tryLock(client, `fencepost-warm-up-${process.pid}`, { timeout: 1000 })
    await release()
  }

  return warmUp([client], connect).then(() => ({
    async acquire({ key, ttl_ms }) {
      const { result, bounds } = await timedCall(() => tryLock(client, key, { timeout: ttl_ms }))
      const [hasLock, release] = result
      if (!hasLock) return fail({ error: 'tryLock returned false' })
      const value = randomUUID()
      held.set(value, release)
      return ok({ value, token: release.fencingToken, ...bounds })
    },

    // The library does not say whether the key was deleted, or was another client's by then.
    async release({ value }) {
      const release = held.get(value)
      held.delete(value)
      await release()
      return ok()
    },

    describe: () => ({
      library: `simple-redis-mutex ${versionOf('simple-redis-mutex')}`,
      redis: versionOf('redis'),
      attempts: 1,
      command_timeout_ms: 'none',
    }),
  }))
}

serve(open)
