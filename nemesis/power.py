"""Power cuts: nodes lose their memory, and on their disks everything that was not fsynced."""

from __future__ import annotations

from typing import ClassVar

from fencepost.history import HowDown
from nemesis.base import Needs
from nemesis.node_down import NodeDown, NodeDownNemesis


class PowerCut(NodeDown, frozen=True):
    """One power cut, of all its nodes at the same moment."""

    how: ClassVar[HowDown] = "power cut"

    @property
    def needs(self) -> Needs:
        return Needs(disks=True)


NEMESIS = NodeDownNemesis("power", "power cuts, for which nodes get disks of their own (root)", PowerCut)
