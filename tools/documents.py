"""The environment of what makes the documentation: the site and the recording. It is made anew when its pins change."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from checkout import ROOT

# isort: split
from fencepost.setup.python import make_environment
from fencepost.setup.workshop import Workshop

PINS: Final = ROOT / "tools/documents.txt"


def environment(shop: Workshop, who: str) -> Path:
    """The folder of the environment's programs. Raises SetupError."""
    made = shop.tools / "documents"
    made_from = made / "made-from.txt"
    with shop.alone(waiting=lambda: print(f"{who}: a set-up of this folder is running; waiting for it")):
        if not made_from.is_file() or made_from.read_bytes() != PINS.read_bytes():
            print(f"{who}: installing what it needs")
            make_environment(shop, "documents", PINS, made)
            shutil.copyfile(PINS, made_from)
    return made / "bin"
