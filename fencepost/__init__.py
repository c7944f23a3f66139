"""What a user imports: `load` for a recorded run, and the protocols for a lock of one's own.

    import fencepost
    run = fencepost.load("results/runs/latest")
    run.sections.groupby("client").size()

Importing this package is quick: each name here is imported when it is first used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as typing has it; nothing is imported here that a user's folder could shadow
if TYPE_CHECKING:
    from typing import Any

    from harness.api import Run, load
    from workloads.base import Lease, Lock, LockSettings, NodeAddress

__all__ = ["Lease", "Lock", "LockSettings", "NodeAddress", "Run", "check_module_names", "load"]

_FOLDERS = ("cluster", "workloads", "nemesis", "harness")
_HOMES = {
    **dict.fromkeys(("Run", "load"), "harness.api"),
    **dict.fromkeys(("Lease", "Lock", "LockSettings", "NodeAddress"), "workloads.base"),
}


def check_module_names() -> None:
    """Raise UsageError if another project's module has the name of one of our packages: these are common words."""
    from importlib.util import find_spec
    from pathlib import Path

    from fencepost.errors import UsageError

    home = Path(__file__).resolve().parent.parent
    for name in _FOLDERS:
        spec = find_spec(name)
        found = spec.origin if spec else None
        if found is None or Path(found).resolve().parent != home / name:
            raise UsageError(
                f"the module {name} comes from {found or 'nowhere'}, not from {home / name}; "
                "fencepost needs that name: use a separate environment or another folder"
            )


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        from importlib import import_module

        check_module_names()
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
