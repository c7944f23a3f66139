"""`python -m tests.foreign_names`: every foreign lock, as a step of a workflow outputs it: `names=["pottery", …]`."""

from __future__ import annotations

import json
import sys

from workloads.registry import foreign_locks

if __name__ == "__main__":
    sys.stdout.write(f"names={json.dumps([lock.name for lock in foreign_locks()])}\n")
