"""Passwords of a run in what its processes printed: hidden once all of them have ended.

Locks and libraries write into `logs/` by themselves, and some print what they were opened with. What clients, the
history and the reports quote is hidden before it is written (`workloads.secrecy`).
"""

from __future__ import annotations

import mmap
from pathlib import Path

from cluster.credentials import Access
from fencepost.files import on_disk
from workloads.secrecy import TELLING, hidden


def redact(logs: Path, access: Access) -> None:
    """Replace the passwords in the files of this folder by stars. Raises BrokenEnvironmentError."""
    secrets = [access.harness.password, *filter(None, [access.clients])]
    for log in logs.iterdir():
        if log.is_file() and not log.is_symlink():
            with on_disk(log):
                _redact(log, secrets)


def _redact(log: Path, secrets: list[str]) -> None:
    with log.open("r+b") as file:
        if not file.seek(0, 2):
            return
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            if all(text.find(secret[:TELLING].encode()) < 0 for secret in secrets):
                return
            said = bytes(text)
        for secret in secrets:
            said = hidden(said, secret)
        # In place, because its writer may still have it open.
        file.seek(0)
        file.write(said)
        file.truncate()
