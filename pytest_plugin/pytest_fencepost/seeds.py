"""The seeds of failed tests, kept in pytest's cache: the next time each is tried first."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Seeds:
    """`folder`: where they are kept, a file for each test; None: nowhere."""

    folder: Path | None

    def of(self, test: str) -> list[int | None]:
        """The seeds with which the runs of this test begin, in the order of its runs; None: any seed."""
        if self.folder is None:
            return []
        try:
            kept: list[int | None] = json.loads(self._path(self.folder, test).read_bytes())["seeds"]
        except (OSError, ValueError, KeyError, TypeError):
            return []  # a cache may be emptied or come from another version
        return kept

    def keep(self, test: str, seeds: Sequence[int | None]) -> None:
        """Forget what was kept for the test, and keep these, if any."""
        if self.folder is None:
            return
        path = self._path(self.folder, test)
        if any(seed is not None for seed in seeds):
            path.write_text(json.dumps({"test": test, "seeds": list(seeds)}))
        else:
            path.unlink(missing_ok=True)

    @staticmethod
    def _path(folder: Path, test: str) -> Path:
        return folder / f"{hashlib.sha256(test.encode()).hexdigest()[:20]}.json"
