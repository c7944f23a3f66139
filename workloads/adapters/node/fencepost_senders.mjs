// Notes which call of the lock sends which bytes (docs/lock-protocol.md, "Which call sent it").
//
// The proxy sees bytes, not which of several tasks sent them. So before bytes of another task leave a connection, this
// writes how many had left it until then. What is sent in a call is of the task that calls; AsyncLocalStorage knows in
// which call code runs. Of two things nothing is noted, because the bytes may be for several calls:
//
// - What the handlers of a connection send, whichever call opened it: there a client sends what had waited for it.
// - What a callback sends that was put off (setImmediate, nextTick, queueMicrotask), if code of another call has run
//   since then: clients that send in batches collect the requests of both (node-redis), queues of callbacks (Bluebird)
//   their callbacks.

import { AsyncLocalStorage, createHook, executionAsyncResource } from 'node:async_hooks'
import { openSync, writeSync } from 'node:fs'
import { Socket } from 'node:net'

const PUT_OFF = new Set(['Immediate', 'TickObject', 'Microtask'])
const calls = new AsyncLocalStorage() // each is { task }, which is undefined when the call has ended
const since = Symbol('since') // on what was put off: the turn at that time
const sentBy = new WeakMap() // by socket: the `number` of bytes that were given to it, and the `task` of the last ones
let running, turn = 0 // the call whose code ran last, and how often that was another one than before

/** Awaits `call()`, which this task makes; undefined: none does. Notes it once `noteSenders` was called. */
export let calling = (task, call) => call()

/** From now on, notes who sends what. Nothing must be connected yet. */
export function noteSenders(path) {
  const file = openSync(path, 'a')
  const { connect } = Socket.prototype
  Socket.prototype.connect = function (...to) {
    sentBy.set(this, { number: 0 })
    return calls.run(undefined, () => connect.apply(this, to))
  }
  for (const name of ['write', 'end']) {
    const send = Socket.prototype[name]
    Socket.prototype[name] = function (chunk, ...how) {
      if (sentBy.has(this)) note(file, this, bytesOf(this, chunk, how[0]))
      return send.call(this, chunk, ...how)
    }
  }
  createHook({ init: remember, before: check }).enable()
  calling = async (task, call) => {
    const own = { task }
    runs(own)
    return calls.run(own, async () => call()).finally(() => (own.task = undefined))
  }
}

function note(file, socket, bytes) {
  const sent = sentBy.get(socket)
  const [task, after_bytes] = [calls.getStore()?.task, sent.number]
  sent.number += bytes
  if (!bytes || task === sent.task) return
  sent.task = task
  const write = () => {
    const line = { at_ns: Number(process.hrtime.bigint()), port: socket.localPort, after_bytes, task }
    if (line.port !== undefined) writeSync(file, JSON.stringify(line) + '\n') // others are no TCP
  }
  if (socket.connecting) socket.prependOnceListener('connect', write) // it has no port yet, and sends nothing
  else write()
}

function bytesOf(socket, chunk, encoding) {
  if (typeof chunk !== 'string') return chunk?.byteLength ?? 0
  return Buffer.byteLength(chunk, typeof encoding === 'string' ? encoding : socket._writableState.defaultEncoding)
}

function remember(id, type, trigger, resource) {
  if (PUT_OFF.has(type) && calls.getStore()) resource[since] = turn
}

function check() {
  if ((executionAsyncResource()[since] ?? turn) !== turn) calls.enterWith(undefined)
  if (calls.getStore()) runs(calls.getStore())
}

function runs(call) {
  if (call !== running) [running, turn] = [call, turn + 1]
}
