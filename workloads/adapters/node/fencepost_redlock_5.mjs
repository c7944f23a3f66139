// What the adapters of redlock 5 and of its fork share: both have the same interface, and only their packages differ.
//
// Clients are ioredis clients, created from a host and a port. The manifest's [settings] may contain options for each
// (`redlock`, `ioredis`). ioredis has no time limit for a command by default; the library goes on as soon as a majority has
// agreed or refused.
//
// `acquire` and `extend` return a lock with an `expiration` of the wall clock, which the library itself compares with
// Date.now(), and so must its users. With --renewal clients work in `using`, which extends the lock by itself: a client is
// inside from when its routine runs until the AbortSignal says otherwise, and is told no deadline.

import { fail, info, inside, ok, timedCall, untilWallClock, versionOf, warmUp } from './fencepost_adapter.mjs'

/** Opens the library of the package `name`. `lockOf(library, resources, given)`: the lock that `using` acquired for these
 * resources, when it gave its routine these arguments. */
export function openRedlock5(nodes, settings, { name, Redis, Redlock, ExecutionError, ResourceLockedError, lockOf }) {
  const { redlock: redlockOptions = {}, ioredis: ioredisOptions = {} } = settings.manifest ?? {}
  const clients = nodes.map(({ host, port, password }) => new Redis({ host, port, password, ...ioredisOptions }))
  const library = new Redlock(clients, redlockOptions)
  let nodeErrors = 0
  library.on('error', (error) => {
    if (error instanceof ResourceLockedError) return // as in the README
    nodeErrors++
    console.error(error)
  })

  const held = new Map()
  const take = (value) => {
    const lock = held.get(value)
    held.delete(value)
    return lock
  }
  const grant = (lock) => {
    held.set(lock.value, lock)
    return ok({ value: lock.value, ...untilWallClock(lock.expiration) })
  }
  /** An ExecutionError means: a majority did not agree. */
  const refused = (error) => {
    if (!(error instanceof ExecutionError)) throw error
    return fail({ error: error.message })
  }
  /** Without a majority the library does not say whether the lock was no longer held or nodes did not reply. */
  const left = (leaving) => {
    const errorsBefore = nodeErrors
    return leaving.then(
      () => ok(),
      (error) => (nodeErrors > errorsBefore ? info(error) : refused(error)),
    )
  }

  const byHand = {
    acquire: ({ key, ttl_ms }) => library.acquire([key], ttl_ms).then(grant, refused),
    extend: ({ value, ttl_ms }) => held.get(value).extend(ttl_ms).then(grant, refused),
    release: ({ value }) => left(take(value).release()),
  }
  const inUsing = {
    acquire({ key, ttl_ms }) {
      const resources = [key]
      const entering = timedCall(() => inside((routine) => library.using(resources, ttl_ms, routine)))
      return entering.then(({ result, bounds }) => {
        const { value } = lockOf(library, resources, result.given)
        held.set(value, { signal: result.given[0], leave: result.leave })
        return ok({ value, ...bounds })
      }, refused)
    },
    held({ value }) {
      const { signal } = held.get(value)
      return signal.aborted ? fail({ error: `${signal.error}` }) : ok()
    },
    async release({ value }) {
      const { signal, leave } = take(value)
      const lost = signal.aborted && fail({ error: `${signal.error}` })
      const released = await left(leave())
      return lost || released
    },
  }

  return warmUp(clients, (client) => client.ping()).then(() => ({
    ...(settings.renewal_ms == null ? byHand : inUsing),

    describe: () => {
      const { connectTimeout, commandTimeout, maxRetriesPerRequest, autoResendUnfulfilledCommands } = clients[0].options
      const { driftFactor, retryCount, retryDelay, retryJitter, automaticExtensionThreshold } = library.settings
      // A script at each attempt, and one to release in the end; each may be sent twice (EVALSHA, then EVAL).
      const attemptsMs = (retryCount + 2) * 2 * commandTimeout
      return {
        // Without a time limit for commands there is none for an acquire.
        ...(commandTimeout && { acquire_limit_ms: attemptsMs + retryCount * (retryDelay + retryJitter) }),
        library: `${name} ${versionOf(name)}`,
        ioredis: versionOf('ioredis'),
        retry_count: retryCount,
        retry_delay_ms: retryDelay,
        retry_jitter_ms: retryJitter,
        drift_factor: driftFactor,
        automatic_extension_threshold_ms: automaticExtensionThreshold,
        connect_timeout_ms: connectTimeout,
        command_timeout_ms: commandTimeout ?? 'none',
        max_retries_per_request: maxRetriesPerRequest,
        resends_unanswered_commands: autoResendUnfulfilledCommands,
      }
    },
  }))
}
