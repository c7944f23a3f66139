// npm redlock 4.2.0 with `new Redlock([client, …])` as its README shows, and its own defaults, over ioredis clients created
// from a host and a port, with ioredis's own defaults.
//
// The library's bugs are part of what is tested: nothing is fixed here. ioredis has no time limit for a command, and after
// a reconnect it sends the commands again that had no reply; the library waits until every node has replied or failed.
// The manifest's [settings] may contain options for each (`redlock`, `ioredis`).
//
// A lock has an `expiration` of the wall clock, which the library itself compares with Date.now(), and so must its users.

import Bluebird from 'bluebird'
import Redis from 'ioredis'
import Redlock from 'redlock'
import { fail, info, ok, serve, untilWallClock, versionOf, warmUp } from './fencepost_adapter.mjs'

function open(nodes, settings) {
  const { redlock: redlockOptions = {}, ioredis: ioredisOptions = {} } = settings.manifest ?? {}
  const clients = nodes.map(({ host, port, password }) => new Redis({ host, port, password, ...ioredisOptions }))
  if (settings.senders) Bluebird.config({ asyncHooks: true }) // the library's promises: each keeps whose call it is in
  const library = new Redlock(clients, redlockOptions)
  let nodeErrors = 0
  library.on('clientError', (error) => {
    nodeErrors++
    console.error('A redis error has occurred:', error) // as in the README
  })

  const held = new Map()
  const grant = (lock) => {
    held.set(lock.value, lock)
    return ok({ value: lock.value, ...untilWallClock(lock.expiration) })
  }
  /** A LockError means: a majority did not agree. */
  const refused = (error) => {
    if (!(error instanceof Redlock.LockError)) throw error
    return fail({ error: error.message })
  }

  return warmUp(clients, (client) => client.ping()).then(() => ({
    acquire: ({ key, ttl_ms }) => library.lock(key, ttl_ms).then(grant, refused),

    // The library reports a refusal by deleting the lock's keys.
    extend: ({ value, ttl_ms }) => held.get(value).extend(ttl_ms).then(grant, refused),

    // Without a majority the library does not say whether the lock was no longer held or nodes did not reply.
    release: ({ value }) => {
      const lock = held.get(value)
      held.delete(value)
      const errorsBefore = nodeErrors
      return lock.unlock().then(
        () => ok(),
        (error) => (nodeErrors > errorsBefore ? info(error) : refused(error)),
      )
    },

    describe: () => {
      const { connectTimeout, commandTimeout, maxRetriesPerRequest, autoResendUnfulfilledCommands } = clients[0].options
      const { driftFactor, retryCount, retryDelay, retryJitter } = library
      // Each attempt runs two scripts (lock, unlock), and each script may be sent twice (EVALSHA, then EVAL).
      const attemptsMs = (retryCount + 1) * 2 * 2 * commandTimeout
      return {
        // Without a time limit for commands there is none for an acquire.
        ...(commandTimeout && { acquire_limit_ms: attemptsMs + retryCount * (retryDelay + retryJitter) }),
        library: `redlock ${versionOf('redlock')}`,
        ioredis: versionOf('ioredis'),
        retry_count: retryCount,
        retry_delay_ms: retryDelay,
        retry_jitter_ms: retryJitter,
        drift_factor: driftFactor,
        connect_timeout_ms: connectTimeout,
        command_timeout_ms: commandTimeout ?? 'none',
        max_retries_per_request: maxRetriesPerRequest,
        resends_unanswered_commands: autoResendUnfulfilledCommands,
      }
    },
  }))
}

serve(open)
