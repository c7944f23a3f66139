"""The library that gives a process a wall clock of its own, built with the machine's C compiler."""

from __future__ import annotations

import subprocess
from pathlib import Path

from fencepost.setup.machine import on_path
from fencepost.setup.workshop import Step, Workshop, replace

CLOCK = "fencepost-clock.so"
COMPILERS = ("cc", "gcc", "clang")
NO_COMPILER = f"no C compiler that works ({', '.join(COMPILERS)}), so the nemesis clock will not run; all else will"
_CLOCK_SOURCE = Path(__file__).resolve().parent / "clock" / "clock.c"
# Without the compiler's start files and helpers it needs only what every libc has, also an older one in a container.
_CLOCK_FLAGS = ("-std=c11", "-D_GNU_SOURCE", "-O2", "-fPIC", "-shared", "-nostdlib", "-fno-stack-protector")


def clock_step(shop: Workshop) -> Step | None:
    """None if no compiler can build it: all else works without it."""
    compiler = next((found for name in COMPILERS if (found := on_path(name)) and _compiles_clock(found)), None)
    if compiler is None:
        return None
    library = shop.tools / "lib" / CLOCK

    def make(shop: Workshop) -> str:
        with shop.scratch(CLOCK) as scratch:
            built = scratch / CLOCK
            shop.run(CLOCK, compiler, *_CLOCK_FLAGS, "-o", built, _CLOCK_SOURCE)
            replace(built, library)
        return f"built with {compiler}"

    inputs = (_CLOCK_SOURCE.read_text(), *_CLOCK_FLAGS)
    return Step(CLOCK, f"nothing; {compiler} builds it", inputs, (library,), make)


def _compiles_clock(compiler: Path) -> bool:
    """Whether it has the headers of the C library, too, which are often a package of their own."""
    command = [str(compiler), *_CLOCK_FLAGS, "-fsyntax-only", str(_CLOCK_SOURCE)]
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True).returncode == 0
