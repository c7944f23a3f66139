"""A run folder in one piece, to be sent from the machine that made it to the one that keeps it."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

from fencepost.errors import BrokenEnvironmentError
from fencepost.files import on_disk
from harness.store.run_folder import RunFolder


def pack(run: RunFolder) -> bytes:
    """The folder and all that is in it."""
    parcel = io.BytesIO()
    with tarfile.open(fileobj=parcel, mode="w") as tar:
        tar.add(run.path, arcname=run.name)
    return parcel.getvalue()


def unpack(parcel: bytes, name: str, results: Path) -> RunFolder:
    """Put the run folder of this name into `results`, whole or not at all. Raises BrokenEnvironmentError if that is not
    what came, or if it cannot be written."""
    with on_disk(results):
        results.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=".coming-", dir=results) as coming:
            try:
                with tarfile.open(fileobj=io.BytesIO(parcel)) as tar:
                    tar.extraction_filter = lambda member, _: member  # Pythons before 3.11.4 have none
                    tar.extractall(coming, [_plain(member) for member in tar])  # noqa: S202 - `_plain` looks
            except tarfile.TarError as error:
                raise BrokenEnvironmentError(f"the run folder {name} did not come whole: {error}") from error
            if [path.name for path in Path(coming).iterdir()] != [name]:
                raise BrokenEnvironmentError(f"something else came instead of the run folder {name}")
            return RunFolder(Path(coming) / name).move_to(results)


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """A file or folder that will belong to this user. Raises tarfile.TarError for everything else: links, devices, and
    what would lie outside of the folder that it is unpacked into."""
    place = PurePosixPath(member.name)
    if not (member.isreg() or member.isdir()) or place.is_absolute() or ".." in place.parts:
        raise tarfile.ExtractError(f"{member.name!r} is neither a file nor a folder of a run")
    member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
    member.mode = 0o755 if member.isdir() else 0o644
    return member
