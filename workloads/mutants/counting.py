"""Mutants that count the nodes' answers wrongly."""

from __future__ import annotations

from typing import ClassVar

from workloads.connection import SILENT, Connection, Reply
from workloads.locks.redlock import Redlock
from workloads.mutants.declared import mutant


@mutant("half is enough", "N/2 + 1 nodes must say yes", conditions="busy", nemesis="partition", finding="overlap")
class HalfIsEnough(Redlock):
    """Of five nodes two are content with one client and two others with another one."""

    def quorum(self) -> int:
        return len(self._pool) // 2


@mutant(
    "silence is a yes",
    "a node that gave no answer in time did not say yes",
    conditions="busy",
    nemesis="partition",
    finding="overlap",
)
class SilenceIsYes(Redlock):
    """Whoever is cut off from a majority has it."""

    def grants(self, reply: Reply) -> bool:
        return reply == b"OK" or reply is SILENT


class _Forgetful(Connection):
    """The reply to a request that was given up is taken for the reply to the next one, and so on for ever."""

    def owe(self) -> None:
        pass


@mutant(
    "a late reply counts",
    "an answer belongs to the request that it answers",
    conditions="busy",
    nemesis="latency",
    finding="overlap",
)
class LateReplyCounts(Redlock):
    """On slow links the yes to a try that was given up, and undone, is heard as the yes to the next one."""

    WIRE: ClassVar[type[Connection]] = _Forgetful


@mutant(
    "any node extends",
    "a majority must prolong the key",
    conditions="long work",
    nemesis="partition",
    finding="overlap",
)
class ExtendedByAnyNode(Redlock):
    """Cut off from a majority it goes on working, while the keys expire there."""

    def extend_quorum(self) -> int:
        return 1
