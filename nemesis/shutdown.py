"""Clean shutdowns: servers are told to end, save what they are set up to save, and come back."""

from __future__ import annotations

from typing import ClassVar

from fencepost.history import HowDown
from nemesis.base import Needs
from nemesis.node_down import NodeDown, NodeDownNemesis


class Shutdown(NodeDown, frozen=True):
    """One clean shutdown, as an upgrade or a reboot makes it."""

    how: ClassVar[HowDown] = "shutdown"

    @property
    def needs(self) -> Needs:
        return Needs(server=frozenset({"a clean shutdown"}))


NEMESIS = NodeDownNemesis("shutdown", "clean shutdown and restart", Shutdown)
