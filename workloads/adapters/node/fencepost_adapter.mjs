// The adapters' side of the lock protocol (docs/lock-protocol.md) for Node.js, without dependencies.
//
// An adapter imports this file and calls `serve` with a function that opens its library:
//
//     serve(async (nodes, settings) => ({
//       describe: () => ({ library: 'my-lock 1.2.3' }),
//       acquire: async ({ key, ttl_ms }) => ok({ value, … }),
//       extend: async ({ key, value, ttl_ms }) => …,
//       release: async ({ key, value }) => …,
//     }))
//
// When did the library compute the validity that it reports? The judge needs bounds for that time: if the validity counts
// from too late, the lock is blamed for time that something else took. Which helper provides them depends on what the
// library returns:
//
// - A deadline of the wall clock, compared with Date.now(): `untilWallClock`. It reports a `deadline_ns` and no validity: a
//   validity that the adapter computed would be too short, or negative, if the process was stopped before it could.
// - A duration: `boundedCall`. Its upper bound is a timestamp taken right after the call. Its lower bound uses the event
//   loop: while anything is ready to run, the loop does not wait for events. So if the library neither waits nor sleeps
//   between computing its result and resolving its promise, the loop waited only *before* the result was computed. Node
//   counts for how long the loop has waited. The result was computed no earlier than the start of the call plus the time
//   for which the loop waited during it. Running other callbacks, garbage collection, waiting for a processor and being
//   stopped are not waiting for events: all of these keep the bound where it is.
// - Nothing but "yes": `timedCall`, whose bounds are the start and the end of the call. Nothing narrower is true: the nodes
//   count the TTL from the request, and the library waited for their replies after that. If the library repeats attempts,
//   and the adapter sees each one begin, it calls `attemptBegins`: the lease cannot be older than the last attempt.
//
// A library that holds its lock while a routine runs (`using(…, routine)`) is entered and left with `inside`.
//
// The same works in any language whose event loop counts the time it waits. Elsewhere, the time after the computation is
// bounded by what the kernel counts (processor time plus waiting for a processor; see the Python half).

import { AsyncLocalStorage } from 'node:async_hooks'
import { createRequire } from 'node:module'
import { performance } from 'node:perf_hooks'
import { createInterface } from 'node:readline'
import { calling, noteSenders } from './fencepost_senders.mjs'

const LAST_ANSWERS_MS = 1000 // after stdin has ended, how long requests that were already read may take
const ERROR_CHARACTERS = 500
const NS_PER_MS = 1_000_000n
const CLOCKS_WITHIN_NS = 50_000n

/** CLOCK_MONOTONIC in nanoseconds, which all processes of a host share. */
export const nowNs = () => Number(process.hrtime.bigint())

/** It happened. `fields` are those of the protocol; a `value` may be a Buffer, and `extend` and `release` then get a Buffer. */
export const ok = ({ value, ...fields } = {}) =>
  Buffer.isBuffer(value)
    ? { outcome: 'ok', value_base64: value.toString('base64'), ...fields }
    : { outcome: 'ok', value, ...fields }
/** It certainly did not happen. `error`: what the library said. */
export const fail = ({ error } = {}) => ({ outcome: 'fail', error: error && oneLine(error) })
/** Unknown whether it happened. */
export const info = (error) => ({ outcome: 'info', error: oneLine(error) })

/** The version of an installed package, for `describe`. Not every package lets its package.json be imported. */
export function versionOf(name) {
  return createRequire(import.meta.url)(`./node_modules/${name}/package.json`).version.replace(/^v/, '')
}

/** Awaits `call()`. Returns its result, and `bounds`: the fields that bound when a lease began of which the library says
 * nothing but yes. */
export async function timedCall(call) {
  const attempt = { beganNs: nowNs() }
  const result = await timedCalls.run(attempt, call)
  return { result, bounds: { computed_after_ns: attempt.beganNs, computed_before_ns: nowNs() } }
}
const timedCalls = new AsyncLocalStorage()

/** Whatever the `timedCall` that this is part of will return, it asked for from now on: earlier attempts were refused. */
export function attemptBegins() {
  const attempt = timedCalls.getStore()
  if (attempt) attempt.beganNs = nowNs()
}

/** Enters a lock that is held while a routine runs. `using(routine)` is the library's call, which runs the routine when it
 * has the lock. Resolves then: to `given`, the arguments of the routine, and `leave()`, which ends the routine and resolves
 * or rejects as the library's call does. Rejects as that call does if it never ran the routine. */
export function inside(using) {
  return new Promise((resolve, reject) => {
    let end
    const ended = new Promise((resolve) => (end = resolve))
    const call = using((...given) => {
      resolve({ given, leave: () => (end(), call) })
      return ended
    })
    call.catch(reject)
  })
}

/** Awaits `call()`. Returns its result, and `bounds`: the fields that bound when the duration in it was computed. */
export async function boundedCall(call) {
  const waitedBeforeNs = waitedNs()
  const beganNs = nowNs()
  const result = await call()
  const endedNs = nowNs()
  const computedAfterNs = Math.min(beganNs + waitedNs() - waitedBeforeNs, endedNs)
  return { result, bounds: { computed_after_ns: computedAfterNs, computed_before_ns: endedNs } }
}

/** The fields of a lease that ends when Date.now() reaches `expirationMs`, with the earliest reading of that time. */
export function untilWallClock(expirationMs) {
  return { deadline_ns: Number(BigInt(Math.floor(expirationMs)) * NS_PER_MS - aheadNs()) }
}

/** Calls `connect` for every client, so that no client's first acquire includes the handshake of a new connection. A node
 * that is down is left to the library: none is waited for longer than `limitMs`. */
export async function warmUp(clients, connect, limitMs = 2000) {
  let timer
  const late = new Promise((resolve) => (timer = setTimeout(resolve, limitMs)))
  await Promise.race([Promise.allSettled([...clients].map(connect)), late])
  clearTimeout(timer)
}

/** Answers requests until stdin ends: those of one task (`--tasks`) one after the other, those of different tasks side by
 * side. An exception is answered with `info`, because it is unknown how far the call got (while opening: with `fail`); its
 * stack goes to stderr. An adapter of a library that renews its leases has a method `held`, for `--renewal`. */
export function serve(open) {
  // A library's own output must not mix with the answers: its stdout is our stderr.
  const write = process.stdout.write.bind(process.stdout)
  process.stdout.write = process.stderr.write.bind(process.stderr)

  let adapter
  async function answerTo(request) {
    const verb = request.do
    try {
      if (verb === 'open') {
        if (request.settings.senders) noteSenders(request.settings.senders)
        adapter = await calling(undefined, () => open(request.nodes, request.settings))
        if (request.settings.renewal_ms != null && !adapter.held)
          return fail({ error: 'this adapter cannot say whether a lock is still held (--renewal)' })
        return ok({ describe: await adapter.describe() })
      }
      if (verb === 'close') return ok()
      if (!['acquire', 'extend', 'release', 'held'].includes(verb) || !adapter?.[verb])
        return fail({ error: `this adapter does not support ${verb}` })
      return await calling(request.caller, () => adapter[verb](request))
    } catch (error) {
      console.error(error)
      return verb === 'open' ? fail({ error: oneLine(error) }) : info(error)
    }
  }

  async function handle(request) {
    if (request.value_base64 !== undefined) request.value = Buffer.from(request.value_base64, 'base64')
    const answer = await answerTo(request)
    write(JSON.stringify({ ...answer, task: request.task }) + '\n')
    if (request.do === 'close') process.exit(0)
  }
  const answered = new Map() // by task, undefined without tasks: when its last request has been answered
  const input = createInterface({ input: process.stdin })
  input.on('line', (line) => {
    const request = JSON.parse(line)
    const before = answered.get(request.task) ?? answered.get(undefined) ?? Promise.resolve() // a task waits for `open`
    answered.set(request.task, before.then(() => handle(request)))
  })
  // Exit even if a library still waits for a hung node.
  input.on('close', () => {
    Promise.all(answered.values()).then(() => process.exit(0))
    setTimeout(() => process.exit(0), LAST_ANSWERS_MS)
  })
}

/** For how long the event loop has waited for events since the process started, in nanoseconds. */
const waitedNs = () => Math.floor(performance.eventLoopUtilization().idle * 1e6)

/** By how much the wall clock is ahead of CLOCK_MONOTONIC, in nanoseconds: the upper of two bounds. Date.now() is in whole
 * milliseconds, rounded down, so each reading bounds it to one millisecond, and several readings bound it more closely. NTP
 * slews both clocks alike; after a step of the wall clock, the readings contradict each other and the old ones are dropped. */
function aheadNs() {
  do {
    const before = process.hrtime.bigint()
    const wall = BigInt(Date.now()) * NS_PER_MS
    const least = wall - process.hrtime.bigint()
    const most = wall + NS_PER_MS - before
    if (least > ahead.most || most < ahead.least) ahead = { least, most }
    else ahead = { least: max(least, ahead.least), most: min(most, ahead.most) }
  } while (ahead.most - ahead.least > CLOCKS_WITHIN_NS)
  return ahead.most
}
let ahead = { least: -(2n ** 63n), most: 2n ** 63n }
const max = (a, b) => (a > b ? a : b)
const min = (a, b) => (a < b ? a : b)

const oneLine = (error) => `${error}`.split(/\s+/).join(' ').slice(0, ERROR_CHARACTERS)
