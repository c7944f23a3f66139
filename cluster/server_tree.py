"""A server that reads files beside its program: its tree in the server's folder.

Where servers work as a user of their own, that user can enter no folder above its own, and the program finds its files
by their paths. So there the server's folder is its root directory (chroot), with the system's libraries in it.

A file that set-up made read-only is shared by all servers on its file system: it is linked and not copied.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import stat
import tarfile
from pathlib import Path
from typing import Final

from cluster.archive import archive_of
from cluster.run_user import Owner
from cluster.shared_libraries import libraries_of, shared_libraries
from fencepost.errors import BrokenEnvironmentError

_WRITABLE: Final = stat.S_IWUSR | stat.S_IWGRP | stat.S_IWOTH
_URANDOM: Final = Path("dev/urandom")
_LOADED: Final = "libjvm.so"
"""A library that its program loads when it runs, and that needs libraries which the program itself does not name."""


def plant(program: Path, folder: Path, owner: Owner) -> None:
    """Put the tree that the program belongs to into the folder, unless it is there. What is not shared is the owner's
    alone. Raises BrokenEnvironmentError."""
    tree = program.resolve().parents[1]
    if (folder / "bin").exists():
        return
    try:
        for part in sorted(tree.iterdir(), key=lambda path: path.name == "bin"):
            shutil.copytree(part, folder / part.name, copy_function=_link_or_copy)
            _give(folder / part.name, owner)
        if owner.is_somebody_else:
            _make_root(folder)
        _keep(folder)
    except (OSError, shutil.Error) as error:
        raise BrokenEnvironmentError(f"{program.name} cannot be put into {folder}: {error}") from error


def _link_or_copy(source: str, target: str) -> None:
    """Raises OSError."""
    mode = Path(source).stat().st_mode
    if mode & _WRITABLE == 0 and mode & stat.S_IROTH:
        with contextlib.suppress(OSError):  # another file system, or another user's file
            os.link(os.path.realpath(source), target)
            return
    shutil.copy(source, target)


def _is_shared(path: Path) -> bool:
    return path.is_file() and path.stat().st_nlink > 1


def _keep(folder: Path) -> None:
    """On a disk of its own, whose power may be cut: an installed server has its files then."""
    if folder.stat().st_dev != folder.parent.stat().st_dev:
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            ctypes.CDLL(None).syncfs(descriptor)
        finally:
            os.close(descriptor)


def archive(program: Path, owner: Owner) -> bytes:
    """The tree that the program belongs to, as the owner's alone. Raises BrokenEnvironmentError."""
    tree = program.resolve().parents[1]
    members = []
    try:
        for path in sorted(tree.rglob("*")):
            member = tarfile.TarInfo(str(path.relative_to(tree)))
            member.uid, member.gid = owner
            member.type = tarfile.DIRTYPE if path.is_dir() else tarfile.REGTYPE
            member.mode = 0o700 if path.is_dir() or os.access(path, os.X_OK) else 0o600
            members.append((member, b"" if path.is_dir() else path.read_bytes()))
    except OSError as error:
        raise BrokenEnvironmentError(f"{program.name} cannot be packed with what is beside it: {error}") from error
    return archive_of(members)


def _give(folder: Path, owner: Owner) -> None:
    folder.chmod(0o700)
    for path in (folder, *folder.rglob("*")):
        if not _is_shared(path):
            owner.take(path)


def system_files(tree: Path) -> set[str]:
    """The files of the system that the programs in a tree need: libraries, and a shell if one is a script. Raises
    OSError and BrokenEnvironmentError."""
    programs = list((tree / "bin").iterdir())
    shells = {shell for program in programs if (shell := _shell_of(program))}
    needed = {library for program in (*programs, *map(Path, shells)) for library in shared_libraries(program)}
    needed |= {library for loaded in (tree / "lib").rglob(_LOADED) for library in libraries_of(loaded)}
    return needed | shells


def _make_root(folder: Path) -> None:
    """Put the files of the system beside the tree."""
    for file in system_files(folder):
        target = folder / file.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    (folder / _URANDOM).parent.mkdir(exist_ok=True)
    os.mknod(folder / _URANDOM, stat.S_IFCHR | 0o666, os.makedev(1, 9))
    (folder / _URANDOM).chmod(0o666)


def _shell_of(program: Path) -> str | None:
    """The interpreter of a script."""
    with program.open("rb") as file:
        first = file.readline(128)
    return first[2:].split()[0].decode() if first.startswith(b"#!") else None


def command(program: Path, folder: Path, arguments: list[str], owner: Owner) -> tuple[Path, list[str]]:
    """How to start the program in its tree: as what, and with which arguments. Raises BrokenEnvironmentError."""
    name = program.resolve().name
    if not owner.is_somebody_else:
        return folder / "bin" / name, arguments
    if (chroot := shutil.which("chroot", path="/usr/sbin:/sbin:/usr/bin:/bin")) is None:
        raise BrokenEnvironmentError(f"{program.name} needs chroot, which is not on this machine; run as another user")
    return Path(chroot), [f"--userspec=+{owner.uid}:+{owner.gid}", "--groups=", ".", f"/bin/{name}", *arguments]
