// A toy: SET NX PX on the first node, over a bare socket.

import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { createInterface } from 'node:readline'
import { fail, nowNs, ok, serve } from './fencepost_adapter.mjs'

const IF_MINE = 'if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end'

serve(async ([{ host, port, password }], settings) => {
  const socket = connect(port, host).setNoDelay()
  const replies = createInterface({ input: socket })[Symbol.asyncIterator]()
  /** One request, and its reply of one line. */
  async function ask(...words) {
    socket.write(`*${words.length}\r\n` + words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join(''))
    return (await replies.next()).value
  }
  if (password) await ask('AUTH', password)

  return {
    async acquire({ key, ttl_ms }) {
      const value = `${settings.manifest.name}-${randomBytes(8).toString('hex')}`
      const asked_ns = nowNs()
      if ((await ask('SET', key, value, 'NX', 'PX', `${ttl_ms}`)) !== '+OK') return fail()
      return ok({ value, validity_ms: ttl_ms, deadline_ns: asked_ns + ttl_ms * 1e6, requested_ns: asked_ns })
    },
    release: async ({ key, value }) => ((await ask('EVAL', IF_MINE, '1', key, value)) === ':1' ? ok() : fail()),
    describe: () => ({ library: 'a socket' }),
  }
})
