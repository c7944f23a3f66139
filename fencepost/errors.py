"""The errors that fencepost raises, and the exit code of each.

This module imports nothing, and every package may import it. A message is one line: what was found, what was expected,
and what to do about it.
"""

from __future__ import annotations

from typing import ClassVar


class FencepostError(Exception):
    """The base of all errors that fencepost raises. `exit_code` is the exit code of the command line; `kind` is what
    other programs go by."""

    exit_code: ClassVar[int] = 255
    kind: ClassVar[str] = "internal"


class UsageError(FencepostError):
    """The user asked for something impossible. Raised before anything starts (exit 254)."""

    exit_code = 254
    kind = "usage"


class LackingMachineError(UsageError):
    """The run needs something that other machines have and this one has not: root, disks. Raised before anything
    starts (exit 254)."""

    kind = "lacking"


class BrokenEnvironmentError(FencepostError):
    """Something outside of fencepost is missing or broken: a server, Docker, the disk, a lock command (exit 255)."""

    kind = "environment"


class InternalError(FencepostError):
    """A bug in fencepost: an invariant that it must keep does not hold (exit 255)."""
