"""The shared libraries and the loader of a program, as `ldd` names them."""

from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

from fencepost.errors import BrokenEnvironmentError

_ELF_64, _ELF_LITTLE, _PT_INTERP = 2, 1, 3


def shared_libraries(program: Path) -> tuple[str, ...]:
    """Absolute paths of the libraries and of the loader, as `ldd` names them; empty for a static program."""
    return libraries_of(program) if needs_loader(program) else ()


def libraries_of(file: Path) -> tuple[str, ...]:
    """The same for a file that certainly has some, such as a library that a program loads when it runs."""
    try:
        told = subprocess.run(
            ["ldd", os.fspath(file)],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BrokenEnvironmentError(f"`ldd {file}` did not work: {error}") from error
    if told.returncode != 0:
        raise BrokenEnvironmentError(f"`ldd {file}` failed: {told.stderr.strip() or told.stdout.strip()}")
    return parse_ldd(told.stdout, file)


def needs_loader(program: Path) -> bool:
    """Whether the program is an ELF file that names a dynamic loader (PT_INTERP, see elf(5)). Raises OSError."""
    with program.open("rb") as file:
        header = file.read(64)
        if len(header) < 64 or header[:4] != b"\x7fELF" or header[4] != _ELF_64:
            return False
        order = "<" if header[5] == _ELF_LITTLE else ">"
        (offset,) = struct.unpack_from(f"{order}Q", header, 32)
        size, count = struct.unpack_from(f"{order}HH", header, 54)
        file.seek(offset)
        segments = file.read(size * count)
    return any(struct.unpack_from(f"{order}I", segments, at)[0] == _PT_INTERP for at in range(0, len(segments), size))


def parse_ldd(text: str, program: Path) -> tuple[str, ...]:
    """The paths in the output of `ldd`. Raises BrokenEnvironmentError if it misses a library."""
    libraries = set()
    for line in text.splitlines():
        name, arrow, rest = line.strip().partition(" => ")
        target = (rest if arrow else name).split(" (")[0].strip()
        if target == "not found":
            raise BrokenEnvironmentError(f"{program} needs {name}, which this host does not have; install it")
        if target.startswith("/"):
            libraries.add(target)
    return tuple(sorted(libraries))
