"""Recorded runs of an older fencepost, as test data: no manifest, no replies, no logs of servers."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Final

from fencepost.history import ClientEnd
from harness.store.manifest import FIRST_SCHEMA, write_manifest
from harness.store.run_folder import RunFolder, client_logs
from workloads.options import FENCED_COUNTER

_ARCHIVE: Final = Path(__file__).parent / "recorded.tar.xz"
WITH_LINKS: Final = Path(__file__).parent / "recorded_links.tar.xz"
"""Two runs of four seconds, with a record of their links."""


def names(of: Path = _ARCHIVE) -> list[str]:
    with tarfile.open(of) as archive:
        return sorted(Path(each.name).name for each in archive if each.isdir() and each.name.count("/") == 1)


def unpack(folder: Path, of: Path = _ARCHIVE) -> Path:
    """All of them; returns the folder that holds one folder per run."""
    with tarfile.open(of) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Pythons before 3.11.4 have none
        archive.extractall(folder)
    for config in folder.glob("*/*/config.json"):  # what the workload of a script is called today
        config.write_text(config.read_text().replace('"workload": "script"', f'"workload": "{FENCED_COUNTER}"'))
    return folder / of.name.partition(".")[0]


def complete(folder: RunFolder, end_ns: int) -> None:
    """What else a run leaves that ends as planned: an end of every client, and each of its logs."""
    for log in (folder.nemesis_log(), folder.resource_log()):
        log.close()
    lives = {(client, life) for client, life, _ in client_logs(folder.clients)}
    silent = set(folder.read_config().user_names) - {client for client, _ in lives}
    ended = {(end.client, end.life) for end in folder.read_log("client-ends.jsonl", ClientEnd)}
    with folder.client_ends_log() as log:
        log.extend(ClientEnd(client, life, "cut-off", end_ns) for client, life in sorted(lives - ended))
        log.extend(ClientEnd(client, 1, "cut-off", end_ns, "starting") for client in sorted(silent))
    if not (folder.path / "environment.json").exists():
        folder.write_environment({})
    if folder.read_final() is None:
        folder.write_final({})


def with_manifest(run: Path, copy: Path) -> RunFolder:
    """A copy of the run as today's fencepost would have left it."""
    shutil.copytree(run, copy, ignore=shutil.ignore_patterns("verdict.json", "history.parquet"))
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | {"schema_version": FIRST_SCHEMA}))
    write_manifest(RunFolder(copy))
    return RunFolder(copy)
