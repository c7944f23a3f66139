"""Mutants that release wrongly."""

from __future__ import annotations

from workloads.connection import Reply, pack
from workloads.locks.redlock import Redlock
from workloads.mutants.declared import mutant


@mutant(
    "frees without comparing",
    "delete the key only if it holds the client's own value",
    conditions="busy",
    nemesis="partition",
    finding="overlap",
)
class FreesWithoutComparing(Redlock):
    """A failed attempt, or a late release, frees another client's lock."""

    def release_request(self, key: str, value: str) -> bytes:
        return pack("DEL", key)


@mutant(
    "frees a majority",
    "release on all nodes, whatever they replied",
    conditions="alone",
    nemesis="partition",
    finding="refused-alone",
    liveness=True,
)
class FreesAMajority(Redlock):
    """The keys on the other nodes stay until they expire. If one of the freed nodes is unreachable, no client can get a
    majority for that long."""

    def ask_to_release(self, request: bytes, patient: bool) -> list[Reply]:
        return [self._pool.ask(request, only=index, patient=patient)[0] for index in range(self.quorum())]
