"""SET NX PX on the first node only, released by a plain DEL, whichever client owns the key by then."""

from __future__ import annotations

from workloads.base import Lease
from workloads.connection import pack
from workloads.locks.set_nx_px import SetNxPx


class SetNxPxDel(SetNxPx):
    """A holder that outlived its lease frees the next holder's lock."""

    def release(self, lease: Lease) -> bool:
        return self._ask(pack("DEL", lease.key)) == [1]


LOCK = SetNxPxDel
