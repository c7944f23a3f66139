"""A control, broken on purpose: Redlock that deletes the key regardless of its owner, even after a refused attempt."""

from __future__ import annotations

from workloads.connection import pack
from workloads.locks.redlock import Redlock


class ReleaseWithoutComparing(Redlock):
    """One client's failed attempt frees another client's lock."""

    def release_request(self, key: str, value: str) -> bytes:
        return pack("DEL", key)


LOCK = ReleaseWithoutComparing
