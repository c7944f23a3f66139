"""Clean shutdowns: servers are told to end, save what they are set up to save, and come back."""

from __future__ import annotations

from typing import ClassVar

from nemesis.going_down import GoingDown, How, NodesGoDown


class Shutdown(GoingDown, frozen=True):
    """One clean shutdown, as an upgrade or a reboot makes it."""

    how: ClassVar[How] = "shutdown"


NEMESIS = NodesGoDown("shutdown", "clean shutdown and restart", Shutdown)
