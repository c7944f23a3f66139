"""The resource: what the lock protects, as a workload sees it.

A workload uses it through Lua scripts of its own, so that every access is one atomic step. A script that writes appends
the write, in the same step, to the list `ACCEPTED` in the resource itself. That list is the truth about who wrote in
which order, whatever any client believes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

ACCEPTED: Final = "accepted"
"""The list of accepted writes, oldest first, each a JSON `Write` without its index."""

STALE: Final = "STALE"
"""How the error begins with which a script refuses an access that comes too late."""

encoded = msgspec.json.Encoder().encode
"""A `Write` as `ACCEPTED` keeps it."""


class StaleAccessError(Exception):
    """The resource refused a read or a write because it came too late; nothing was read or written."""


class Resource(Protocol):
    """What a client may ask of the resource."""

    def run(self, script: str, keys: Sequence[str], args: Sequence[object]) -> object:
        """Run a Lua script and return its reply. Raises StaleAccessError for an error that begins with `STALE`; any
        other exception means that the outcome is unknown (`info`)."""
        ...
