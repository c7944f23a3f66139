"""Mutants that count the nodes' replies wrongly."""

from __future__ import annotations

from typing import ClassVar

from workloads.connection import SILENT, Connection, Reply
from workloads.locks.redlock import Redlock
from workloads.mutants.declared import mutant


@mutant("half is enough", "N/2 + 1 nodes must grant it", conditions="busy", nemesis="partition", finding="overlap")
class HalfIsEnough(Redlock):
    """Of five nodes, two can grant the lock to one client and two others to another client."""

    def quorum(self) -> int:
        return len(self._pool) // 2


@mutant(
    "silence is a yes",
    "a node that did not reply in time has not granted the lock",
    conditions="busy",
    nemesis="partition",
    finding="overlap",
)
class SilenceIsYes(Redlock):
    """A client that is cut off from a majority acquires the lock."""

    def grants(self, reply: Reply) -> bool:
        return reply == b"OK" or reply is SILENT


class _Forgetful(Connection):
    """The reply to an abandoned request is taken for the reply to the next request, and so on forever."""

    def owe(self) -> None:
        pass


@mutant(
    "a late reply counts",
    "a reply belongs to the request that it answers",
    conditions="busy",
    nemesis="latency",
    finding="overlap",
)
class LateReplyCounts(Redlock):
    """On slow links, the grant of an attempt that was given up and undone counts as the grant of the next attempt."""

    WIRE: ClassVar[type[Connection]] = _Forgetful


@mutant(
    "any node extends",
    "a majority must extend the key",
    conditions="long work",
    nemesis="partition",
    finding="overlap",
)
class ExtendedByAnyNode(Redlock):
    """Cut off from a majority, the client continues to work while the keys expire there."""

    def extend_quorum(self) -> int:
        return 1
