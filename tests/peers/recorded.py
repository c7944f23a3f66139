"""Recorded runs of an older fencepost, as test data: no manifest, no replies, no logs of servers."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Final

from harness.store.manifest import FIRST_SCHEMA, write_manifest
from harness.store.run_folder import RunFolder

_ARCHIVE: Final = Path(__file__).parent / "recorded.tar.xz"


def names() -> list[str]:
    with tarfile.open(_ARCHIVE) as archive:
        return sorted(Path(each.name).name for each in archive if each.isdir() and each.name.count("/") == 1)


def unpack(folder: Path) -> Path:
    """All of them; returns the folder that holds one folder per run."""
    with tarfile.open(_ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Pythons before 3.11.4 have none
        archive.extractall(folder)
    return folder / "recorded"


def with_manifest(run: Path, copy: Path) -> RunFolder:
    """A copy of the run as today's fencepost would have left it."""
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("verdict.json", "history.parquet"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"schema_version": FIRST_SCHEMA}))
    write_manifest(RunFolder(copy))
    return RunFolder(copy)
