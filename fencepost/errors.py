"""The one small tree of errors, and the exit code that each branch means.

A leaf: it imports nothing, and every folder may import it. A message says what was found, what was expected and what
to do about it, in one line.
"""

from __future__ import annotations

from typing import ClassVar


class FencepostError(Exception):
    """Anything that fencepost itself raises. `exit_code` is what the command line ends with."""

    exit_code: ClassVar[int] = 255


class UsageError(FencepostError):
    """The user asked for something impossible. Raised before anything is started (exit 254)."""

    exit_code = 254


class BrokenEnvironmentError(FencepostError):
    """Something outside of us is missing or broke: a server, Docker, the disk, a lock command (exit 255)."""


class InternalError(FencepostError):
    """A bug of ours: an invariant that fencepost itself must keep does not hold (exit 255)."""
