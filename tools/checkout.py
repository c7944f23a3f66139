"""Where this checkout is. Importing this makes `fencepost` importable, which on a bare machine is not installed yet."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

sys.path.insert(1, str(ROOT))
