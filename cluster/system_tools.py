"""Tools of the system that make and mount disks, and networks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from fencepost.errors import BrokenEnvironmentError

_ROOTS_PATH = ("/usr/sbin", "/sbin")
_PACKAGES = {
    "mkfs.ext4": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "mount": "mount",
    "umount": "mount",
    "ip": "iproute2",
    "iptables-restore": "iptables",
}


def find_tool(name: str) -> Path:
    """A tool of the system, also one for root that is not on every user's PATH. Raises BrokenEnvironmentError if there
    is none."""
    found = shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *_ROOTS_PATH)))
    if found is None:
        package = _PACKAGES.get(name)
        raise BrokenEnvironmentError(f"no {name} on PATH" + (f"; install {package}" if package else ""))
    return Path(found)
