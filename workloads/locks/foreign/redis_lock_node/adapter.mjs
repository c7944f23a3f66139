// npm redis-lock on the first node, as its README shows it, with its own defaults, over node-redis 4, which it requires, created
// from a host and a port with its own defaults.
//
// The library's bugs are part of what is tested: nothing is fixed here. `lock` resolves when the lock is held, and not before:
// it tries again after each refusal and each error, for ever. What it sets on the node is the time at which the lease will be
// over, which several clients may have in common: it names no lease.

import { randomUUID } from 'node:crypto'
import redis from 'redis'
import redisLock from 'redis-lock'
import { attemptBegins, fail, ok, serve, timedCall, versionOf, warmUp } from './fencepost_adapter.mjs'

/** The client, which notes when an attempt begins: a SET. */
function noting(client) {
  const set = client.set.bind(client)
  client.set = (...words) => (attemptBegins(), set(...words))
  return client
}

function open([{ host, port, password }]) {
  const client = noting(redis.createClient({ socket: { host, port }, password }))
  client.on('error', (error) => console.error('Redis:', error)) // without a listener it would end the process
  const lock = redisLock(client)
  const held = new Map()

  return warmUp([client], (client) => client.connect()).then(() => ({
    async acquire({ key, ttl_ms }) {
      const { result: done, bounds } = await timedCall(() => lock(key, ttl_ms))
      const value = randomUUID()
      held.set(value, done)
      return ok({ value, ...bounds })
    },

    // The library deletes the key if the TTL is not over by its clock, whoever's it is, and returns how many were deleted.
    async release({ value }) {
      const done = held.get(value)
      held.delete(value)
      const deleted = await done()
      return deleted ? ok() : fail({ error: `done returned ${deleted}` })
    },

    describe: () => ({
      library: `redis-lock ${versionOf('redis-lock')}`,
      redis: versionOf('redis'),
      attempts: 'for ever',
      retry_delay_ms: 50,
      command_timeout_ms: 'none',
    }),
  }))
}

serve(open)
