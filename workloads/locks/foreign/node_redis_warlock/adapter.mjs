// npm node-redis-warlock on the first node, as its README shows it, with its own defaults, over the last version of node-redis
// whose calls take callbacks, created from a host and a port with its own defaults.
//
// The library's bugs are part of what is tested: nothing is fixed here. `lock` tries once, and says yes or no.

import { promisify } from 'node:util'
import redis from 'redis'
import Warlock from 'node-redis-warlock'
import { fail, ok, serve, timedCall, versionOf, warmUp } from './fencepost_adapter.mjs'

function open([{ host, port, password }]) {
  const client = redis.createClient({ host, port, password })
  client.on('error', (error) => console.error('Redis:', error)) // without a listener it would end the process
  const warlock = Warlock(client)
  const unlock = promisify(warlock.unlock)
  const lock = (key, ttl) =>
    new Promise((resolve, reject) =>
      warlock.lock(key, ttl, (error, unlock, id) => (error ? reject(error) : resolve(unlock && id))),
    )

  return warmUp([client], (client) => new Promise((resolve) => client.ping(resolve))).then(() => ({
    async acquire({ key, ttl_ms }) {
      const { result: value, bounds } = await timedCall(() => lock(key, ttl_ms))
      return value ? ok({ value, ...bounds }) : fail()
    },

    async extend({ key, value, ttl_ms }) {
      const { result, bounds } = await timedCall(() => warlock.touch(key, value, ttl_ms))
      return result === 'OK' ? ok({ value, ...bounds }) : fail({ error: `touch returned ${result}` })
    },

    async release({ key, value }) {
      const result = await unlock(key, value)
      return result === 1 ? ok() : fail({ error: `unlock returned ${result}` })
    },

    describe: () => ({
      library: `node-redis-warlock ${versionOf('node-redis-warlock')}`,
      redis: versionOf('redis'),
      attempts: 1,
      command_timeout_ms: 'none',
    }),
  }))
}

serve(open)
