"""Files of pinned Python packages: a version and the hashes of its files, and no address."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from fencepost.setup.workshop import SetupError

WHEELS: Final = Path(__file__).with_name("wheels.lock")
"""The wheels that programs are taken from, with the SHA-256 of every file of theirs."""


def pin_of(pins: Path, package: str) -> str | None:
    """The lines of a package in a file of pins: its version, and its hashes."""
    found = re.search(rf"^{re.escape(package)}==.*(?:\n +--hash=.*)*$", pins.read_text(), re.MULTILINE)
    return f"{found[0]}\n" if found else None


def pinned(wheel: str) -> str:
    """The lines of `wheels.lock` for a wheel, `name==version`. Raises SetupError if it is not pinned there."""
    lines = pin_of(WHEELS, wheel.partition("==")[0])
    if lines is None or not lines.startswith((f"{wheel} ", f"{wheel}\n")):
        raise SetupError(f"{WHEELS.name} has no hash of the wheel {wheel}; pin it there")
    return lines
