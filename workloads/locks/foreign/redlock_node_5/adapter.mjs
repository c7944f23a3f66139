// npm redlock 5.0.0-beta.2 with `new Redlock([client, …])` as its README shows, and its own defaults, over ioredis clients
// created from a host and a port, with ioredis's own defaults (`fencepost_redlock_5.mjs`).
//
// The library's bugs are part of what is tested: nothing is fixed here.

import Redis from 'ioredis'
import Redlock, { ExecutionError, ResourceLockedError } from 'redlock'
import { serve } from './fencepost_adapter.mjs'
import { openRedlock5 } from './fencepost_redlock_5.mjs'

/** Remembers the locks that `using` acquires, by their resources: a routine is not told which it has. */
class Remembering extends Redlock {
  acquired = new WeakMap()
  async acquire(resources, ...options) {
    const lock = await super.acquire(resources, ...options)
    this.acquired.set(resources, lock)
    return lock
  }
}

const library = {
  name: 'redlock',
  Redis,
  Redlock: Remembering,
  ExecutionError,
  ResourceLockedError,
  lockOf: (library, resources) => library.acquired.get(resources),
}

serve((nodes, settings) => openRedlock5(nodes, settings, library))
