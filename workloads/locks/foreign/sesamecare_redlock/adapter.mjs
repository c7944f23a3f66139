// npm @sesamecare-oss/redlock with `new Redlock([client, …])` as its README shows, and its own defaults, over ioredis clients
// created from a host and a port, with ioredis's own defaults (`fencepost_redlock_5.mjs`). It is a fork of redlock
// 5.0.0-beta.2, whose `using` gives its routine the lock.
//
// The library's bugs are part of what is tested: nothing is fixed here.

import Redis from 'ioredis'
import { ExecutionError, Redlock, ResourceLockedError } from '@sesamecare-oss/redlock'
import { serve } from './fencepost_adapter.mjs'
import { openRedlock5 } from './fencepost_redlock_5.mjs'

const library = {
  name: '@sesamecare-oss/redlock',
  Redis,
  Redlock,
  ExecutionError,
  ResourceLockedError,
  lockOf: (library, resources, [, { lock }]) => lock,
}

serve((nodes, settings) => openRedlock5(nodes, settings, library))
