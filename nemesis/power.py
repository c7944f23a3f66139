"""Power cuts: nodes lose their memory, and on their disks everything that was not fsynced."""

from __future__ import annotations

from typing import ClassVar

from nemesis.going_down import GoingDown, How, NodesGoDown


class PowerCut(GoingDown, frozen=True):
    """One power cut, of all its nodes at the same moment."""

    how: ClassVar[How] = "power cut"
    needs_disks: ClassVar[bool] = True


NEMESIS = NodesGoDown("power", "power cuts, for which nodes get disks of their own (root)", PowerCut)
