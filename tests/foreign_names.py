"""`python -m tests.foreign_names`: every foreign lock that can be installed here, as a step of a workflow outputs it:
`names=["pottery", …]`."""

from __future__ import annotations

import json
import sys

from fencepost.setup.machine import tools_folder
from workloads.languages.base import language_of
from workloads.registry import foreign_locks

if __name__ == "__main__":
    names = [lock.name for lock in foreign_locks() if language_of(lock).missing(tools_folder()) is None]
    sys.stdout.write(f"names={json.dumps(names)}\n")
