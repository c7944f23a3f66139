// A lock that asks nobody: the key says how it behaves.

import { boundedCall, fail, info, nowNs, ok, serve, timedCall } from './fencepost_adapter.mjs'

const NOT_TEXT = Buffer.from([0xff, 0, 0x41])
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

let met
const meeting = new Promise((resolve) => (met = resolve))
let there = 0

async function acquire({ key, ttl_ms }) {
  switch (key) {
    case 'until':
      return ok({ value: 'v', deadline_ns: nowNs() + ttl_ms * 1e6 })
    case 'for':
      return ok({ value: 'v', validity_ms: ttl_ms, ...(await boundedCall(() => sleep(20))).bounds })
    case 'yes': {
      const { bounds } = await timedCall(() => sleep(20))
      return ok({ value: NOT_TEXT, token: 7, ...bounds })
    }
    case 'held':
      return fail({ error: 'somebody\n\telse has it' })
    case 'unknown':
      return info('no reply')
    case 'panic':
      throw new Error('out of luck')
    case 'panic elsewhere':
      Promise.reject(new Error('out of luck'))
      return sleep(3_600_000)
    case 'meet': // until two tasks are here at once
      if (++there === 2) met()
      await meeting
      return ok({ value: 'v', deadline_ns: nowNs() })
    case 'hang':
      await sleep(3_600_000)
  }
  console.log('printed by the library')
  process.stdout.write('and once more\n')
  return ok({ value: 'v', token: 7, granted_ms: 2000, requested_ns: 1 })
}

serve(([node], settings) => {
  if (!node) throw new Error('there are no nodes')
  console.log(`opening ${node.host}:${node.port}`)
  const toy = {
    acquire,
    extend: () => fail({ error: 'it cannot extend' }),
    release: ({ value }) => (NOT_TEXT.equals(Buffer.from(value)) ? ok() : fail({ error: 'another value' })),
    describe: () => ({ library: 'toy 1.0', settings }),
  }
  const held = ({ value }) => (value === 'v' ? ok() : fail({ error: 'it is another one' }))
  return node.host === 'renews' ? { ...toy, held } : toy
})
