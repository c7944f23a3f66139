"""Leader election: the client that is granted the lock leads for a term, and extends its lease again and again.

A term is `--hold`, if that is longer than the TTL, and otherwise one to three TTLs. A leader resigns at its end, or
when an extension is not granted. At most one client leads at any time, by what the lock told the clients; if the lock
grants tokens, that of each term is larger than the last.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from workloads.hold import Hold
from workloads.load import LoadPhase
from workloads.options import ClientOptions
from workloads.workload import Workload

_AGAIN_AND_AGAIN: Final = 10_000


class Leader(Workload):
    checkers = ("fencing",)

    def shaped(self, load: LoadPhase, options: ClientOptions) -> LoadPhase:
        ttl_ms = options.ttl_ms
        hold = load.hold if load.hold.high_ms > ttl_ms else Hold("uniform", ttl_ms, 3 * ttl_ms)
        extensions = 0 if options.renewal_ms is not None else _AGAIN_AND_AGAIN
        return replace(load, hold=hold, keys=options.keys, extensions=extensions)

    def story(self, options: ClientOptions) -> str:
        return (
            f"A client that acquired it led for a term of {options.stay_in_words}, extended its lease meanwhile, and "
            "released the lock."
        )


WORKLOAD = Leader()
