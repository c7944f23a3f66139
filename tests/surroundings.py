"""Hostile surroundings of a command: variables, limits, folders, streams and namespaces that users have unawares.

    python -m tests.surroundings                # all of them, also the rare ones; ends with 1 if one is not well
    python -m tests.surroundings --only stdout  # those whose name contains a word

A surrounding is one line of the table: the shell script that makes it, in which `"$@"` is the command, the exit code,
and for an error the words that the one line on stderr has. A surrounding that changes nothing ends with a verdict and
an empty stderr. In both cases nothing is left: no process, no mount, no temporary file.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from cluster.polling import becomes_true
from tests.foreground import obey_signals
from tests.harness.runs import ROOT, short_run
from tests.needs import why_not
from tests.processes import every_process

SHORT: Final = tuple(short_run("--nemesis", "none", "--clients", "2", "--duration", "1s", "--recovery", "0"))
LIMIT_S: Final = 100
GONE_WITHIN_S: Final = 5.0
_MARK: Final = "FENCEPOST_SURROUNDING"
_SILENT: Final = "(nothing can be said)"


@dataclass(frozen=True, slots=True)
class Surrounding:
    """`script`: it begins in an empty folder, with TMPDIR in it. `code`: None for a verdict. `says`: a pattern for the
    one line. `words`: the command's. `rare`: not for every commit."""

    name: str
    script: str
    code: int | None = None
    says: str = ""
    words: Sequence[str] = SHORT
    needs: Sequence[str] = ()
    rare: bool = False


@dataclass(frozen=True, slots=True)
class Ending:
    """What came of a command. `left`: what was still there some seconds later."""

    code: int
    out: str
    err: str
    seconds: float
    left: Sequence[str]

    def wrong(self, surrounding: Surrounding) -> list[str]:
        """What is not as it should be, one thing a line."""
        wrong = [f"left: {each}" for each in self.left]
        if "Traceback" in self.out + self.err:
            wrong.append("shows a traceback")
        if surrounding.code is None:
            if self.code not in (0, 2):  # a busy machine may show too little in a second
                wrong.append(f"ended with {self.code}, not with a verdict")
            if self.err:
                wrong.append("printed to stderr")
        elif self.code != surrounding.code:
            wrong.append(f"ended with {self.code} instead of {surrounding.code}")
        lines = self.err.splitlines()
        if surrounding.says and surrounding.says != _SILENT:
            if len(lines) != 1:
                wrong.append(f"printed {len(lines)} lines to stderr instead of one")
            elif not re.search(surrounding.says, lines[0]):
                wrong.append(f"does not say {surrounding.says!r}")
        return wrong


def surround(surrounding: Surrounding, folder: Path) -> Ending:
    """Run the command in the surrounding, in this empty folder."""
    mark = f"{os.getpid()}.{time.monotonic_ns()}"
    work, tmp, home = folder / "work", folder / "tmp", folder / "home"
    for each in (work, tmp, home):
        each.mkdir()
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    environment |= {"TMPDIR": str(tmp), "HOME": str(home), "ROOT": str(ROOT), _MARK: mark}
    began_s = time.monotonic()
    process = subprocess.Popen(
        ["bash", "-c", surrounding.script, "bash", str(ROOT / ".venv/bin/fencepost"), *surrounding.words],
        cwd=work,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="backslashreplace",
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        for left in _processes(mark):
            with suppress(psutil.Error):
                left.kill()
        out, err = process.communicate()
        err += f"(was not over after {LIMIT_S} s)"
    seconds = time.monotonic() - began_s
    becomes_true(lambda: not _left(mark, folder), within_s=GONE_WITHIN_S)
    return Ending(process.returncode, out, err, seconds, _left(mark, folder))


def _processes(mark: str) -> list[psutil.Process]:
    found = []
    for process in every_process():
        with suppress(psutil.Error):
            if process.environ().get(_MARK) == mark:
                found.append(process)
    return found


def _left(mark: str, folder: Path) -> list[str]:
    left = [f"process {each.pid}" for each in _processes(mark)]
    left += [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    return left + [str(path.relative_to(folder)) for path in (folder / "tmp").rglob("*")]


BROKEN, USAGE, UNREAD = 255, 254, 141

PYTHON_VARIABLES: Final = (
    "PYTHONDEVMODE=1",
    "PYTHONMALLOC=debug",
    "PYTHONWARNINGS=error",
    "PYTHONOPTIMIZE=2",
    "PYTHONUTF8=0",
    "PYTHONSAFEPATH=1",
    "PYTHONHASHSEED=7",
    "PYTHONSTARTUP=/nowhere/start.py",
    "PYTHONUNBUFFERED=1",
    "PYTHONDONTWRITEBYTECODE=1",
    "PYTHONPYCACHEPREFIX=/proc/none",
    "PYTHONINSPECT=1",
    "PYTHONBREAKPOINT=nowhere.at_all",
    "PYTHONASYNCIODEBUG=1",
    "PYTHONTRACEMALLOC=20",
    "PYTHONNODEBUGRANGES=1",
    "PYTHONFAULTHANDLER=1",
    "PYTHONWARNDEFAULTENCODING=1",
)
SHADOWS: Final = (
    "for name in calendar copy email enum http inspect json logging pathlib platform queue random re secrets select "
    "selectors signal socket statistics string struct subprocess tempfile threading token traceback types typing uuid "
    "cluster fencepost harness nemesis workloads "
    "distributed docker hiredis jinja2 markdown_it msgspec numpy pandas psutil pyarrow redis rich scipy tornado; "
    "do echo 'raise RuntimeError(__file__)' >$name.py; done; "
)
"""Modules of the user's with the names of others."""
LOCK: Final = (
    "echo 'from workloads.locks.redlock import Redlock as Base' >utils.py; "
    "echo 'from utils import Base' >locks.py; echo 'class Lock(Base): pass' >>locks.py; "
)
_NO_SANDBOX: Final = "sh -c 'echo 0 >/proc/sys/user/max_net_namespaces; exec \"$@\"' sh"
_ODD: Final = "$'a b\\'c\"d%s%n\\ne {f} $HOME \u00e9 \u2691'"
_MOUNTS: Final = ("mounts",)


def _mounting(script: str) -> str:
    """The command where a script has mounted something."""
    return f'unshare -m bash -c \'{script} && "$@"\' bash "$@"'


SURROUNDINGS: Final = (
    Surrounding("an ordinary one", '"$@"', rare=True),
    Surrounding("all of Python's variables", f'{" ".join(PYTHON_VARIABLES)} "$@"'),
    *(Surrounding(name, f'{name} "$@"', rare=True) for name in PYTHON_VARIABLES),
    *(
        Surrounding(name, f'{name} "$@"', rare=True)
        for name in (
            "TERM=dumb",
            "NO_COLOR=1",
            "COLUMNS=1",
            "COLUMNS=nonsense",
            "TZ=nonsense",
            "env -u HOME",
            "HOME=/proc/none",
            "HOME=relative",
            "env -u TMPDIR -u USER -u LOGNAME -u SHELL -u TERM",
            "nohup",
            "setsid --wait",
            "timeout 90",
            "nice -n 10",
            "umask 077;",
            "umask 000;",
            "ulimit -c unlimited;",
            "ulimit -s unlimited;",
            "ulimit -s 512;",
        )
    ),
    Surrounding(
        "nothing in the environment but PATH",
        f'env -i PATH=/usr/bin:/bin TMPDIR="$TMPDIR" {_MARK}="${_MARK}" "$@"',
        rare=True,
    ),
    # modules of the user's
    Surrounding("shadows in the folder", f'{SHADOWS} "$@"'),
    Surrounding(
        "shadows in the folder, python -m",
        f'{SHADOWS} rm types.py enum.py; cd ..; "${{1%fencepost}}python" -m fencepost "${{@:2}}"',
        rare=True,
    ),
    Surrounding(
        "shadows on PYTHONPATH",
        f'{SHADOWS} rm fencepost.py re.py enum.py types.py typing.py pathlib.py; cd ..; PYTHONPATH=work "$@"',
        rare=True,
    ),
    Surrounding(
        "an empty entry on PYTHONPATH",
        f'{SHADOWS} rm fencepost.py re.py enum.py types.py typing.py pathlib.py; PYTHONPATH=:/nowhere "$@"',
        rare=True,
    ),
    Surrounding("shadows beside a lock of the user's", f'{SHADOWS} {LOCK} "$@" --lock locks:Lock'),
    Surrounding(
        "shadows beside another language's lock",
        f'{SHADOWS} "$@" --lock redlock-ng',
        needs=["lock:redlock-ng"],
        rare=True,
    ),
    Surrounding(
        "shadows beside a grid",
        f'{SHADOWS} "$1" compare --axis nemesis=none --seeds 1 --workers 1 -- "${{@:3:10}}"',
        rare=True,
    ),
    Surrounding(
        "shadows while judging again",
        f'{SHADOWS} "$@" && for it in analyze explain "export --to csv --output x"; do "$1" $it latest || exit; done',
        rare=True,
    ),
    Surrounding(
        "shadows beside the pages",
        f'{SHADOWS} "$1" serve --port 0 >url & until grep -q http url; do sleep 0.1; done; '
        'curl -fs "$(grep -o "http:[^ ]*" url)" >page; code=$?; kill $!; wait $!; exit $code',
        rare=True,
    ),
    # streams
    Surrounding("stdin closed", '"$@" <&-', rare=True),
    Surrounding("stdout closed", '"$@" >&-', rare=True),
    Surrounding("stderr closed", '"$@" 2>&-', rare=True),
    Surrounding("all streams closed", '"$@" <&- >&- 2>&-', rare=True),
    Surrounding("stdout full", '"$@" >/dev/full', BROKEN, "stdout"),
    Surrounding("stdout full, a help", '"$@" >/dev/full', BROKEN, "stdout", ["test", "--help"]),
    Surrounding("stdout full, doctor", '"$@" >/dev/full', BROKEN, "stdout", ["doctor"], rare=True),
    Surrounding("stdout full, a list", '"$@" >/dev/full', BROKEN, "stdout", ["list"], rare=True),
    Surrounding("stdout only for reading", '"$@" 1</dev/null', BROKEN, "stdout", ["list"], rare=True),
    Surrounding("stderr full", '"$@" 2>/dev/full', rare=True),
    Surrounding("stdout and stderr full", '"$@" >/dev/full 2>/dev/full', BROKEN, _SILENT, ["list"]),
    Surrounding("a reader that leaves", 'set -o pipefail; "$@" | head -1', UNREAD, rare=True),
    Surrounding(
        "a reader that leaves, SIGPIPE ignored", 'trap "" PIPE; set -o pipefail; "$@" | head -1', UNREAD, rare=True
    ),
    # limits
    Surrounding("ulimit -n 64", 'ulimit -n 64; "$@"', USAGE, "open files", rare=True),
    Surrounding("ulimit -u 20", 'ulimit -u 20; exec "$@"', USAGE, "processes and threads", rare=True),
    Surrounding("ulimit -v 400000", 'ulimit -v 400000; "$@"', USAGE, "address space", rare=True),
    Surrounding("ulimit -f 1", 'ulimit -f 1; PYTHONDONTWRITEBYTECODE=1 "$@"', USAGE, "ulimit -f"),
    Surrounding(
        "ulimit -f 1, a grid",
        'ulimit -f 1; PYTHONDONTWRITEBYTECODE=1 "$@"',
        USAGE,
        "ulimit -f",
        ["compare", "--axis", "nemesis=none", "--seeds", "1", "--workers", "1", "--", "--cluster", "process"],
        rare=True,
    ),
    Surrounding("ulimit -t 5", 'ulimit -t 5; "$@"', USAGE, "CPU time", rare=True),
    Surrounding("ulimit -l 0", 'ulimit -l 0; "$@"', rare=True),
    # folders
    Surrounding("a folder that was deleted", 'rmdir "$PWD"; "$@"', USAGE, "was deleted"),
    Surrounding("a folder that was deleted, list", 'rmdir "$PWD"; "$@"', USAGE, "was deleted", ["list"], rare=True),
    Surrounding("TMPDIR that does not exist", 'TMPDIR=$TMPDIR/none "$@"', BROKEN, "TMPDIR"),
    Surrounding("TMPDIR that is a file", 'touch file; TMPDIR=$PWD/file "$@"', BROKEN, "TMPDIR", rare=True),
    Surrounding("TMPDIR that is relative", 'mkdir here; TMPDIR=here "$@"; code=$?; rmdir here; exit $code', rare=True),
    Surrounding("TMPDIR in /proc", 'TMPDIR=/proc/sys "$@"', BROKEN, "TMPDIR", rare=True),
    Surrounding(
        "TMPDIR with 150 bytes",
        "TMPDIR=$TMPDIR/$(printf 'x%.0s' {1..150}); mkdir $TMPDIR; \"$@\"; code=$?; rmdir $TMPDIR; exit $code",
        rare=True,
    ),
    Surrounding(
        "TMPDIR with spaces, quotes, percent and more",
        f'TMPDIR=$TMPDIR/{_ODD}; mkdir "$TMPDIR"; "$@"; code=$?; rmdir "$TMPDIR"; exit $code',
    ),
    Surrounding("a folder with spaces and more", f'cd ..; mv work {_ODD}; cd {_ODD}; "$@"', rare=True),
    Surrounding("a folder that is not UTF-8", "mkdir $'\\xff'; cd $'\\xff'; \"$@\"", rare=True),
    Surrounding(
        "results full",
        _mounting("mkdir results; mount -t tmpfs -o size=200k none results"),
        BROKEN,
        "no space left",
        needs=_MOUNTS,
    ),
    Surrounding(
        "TMPDIR full",
        _mounting("mount -t tmpfs -o size=4k none $TMPDIR && { dd if=/dev/zero of=$TMPDIR/x 2>/dev/null; true; }"),
        BROKEN,
        "space|room",
        needs=_MOUNTS,
        rare=True,
    ),
    Surrounding(
        "TMPDIR with 300 KB",
        _mounting("mount -t tmpfs -o size=300k none $TMPDIR"),
        needs=_MOUNTS,
        rare=True,
    ),
    Surrounding(
        "results only for reading",
        _mounting("mkdir results; mount --bind results results; mount -o remount,ro,bind results"),
        BROKEN,
        "cannot be written: .*; run fencepost in a folder",
        needs=_MOUNTS,
        rare=True,
    ),
    Surrounding(
        "no /dev/shm",
        _mounting("mount -t tmpfs -o ro none /dev/shm"),
        needs=_MOUNTS,
        rare=True,
    ),
    Surrounding(
        "/proc with hidepid",
        _mounting("mount -t proc -o hidepid=2 proc /proc"),
        needs=_MOUNTS,
        rare=True,
    ),
    Surrounding(
        "no /proc",
        _mounting("mount -t tmpfs none /proc"),
        BROKEN,
        "/proc is not mounted",
        needs=_MOUNTS,
        rare=True,
    ),
    Surrounding("no /sys", _mounting("mount -t tmpfs none /sys"), needs=_MOUNTS, rare=True),
    Surrounding(
        "a clone only for reading",
        _mounting("mount --bind $ROOT $ROOT && mount -o remount,ro,bind $ROOT"),
        needs=_MOUNTS,
        rare=True,
    ),
    # what root may do
    *(
        Surrounding(name, f'setpriv --inh-caps=-all --bounding-set=-all{kept} "$@"', needs=["root"], rare=True)
        for name, kept in (
            ("root without any capability", ""),
            ("root with the capabilities of a container", ",+chown,+dac_override,+fowner,+kill,+setgid,+setuid"),
        )
    ),
    # network and names
    Surrounding("no network but a loopback that is down", 'unshare -n "$@"', needs=["networks"], rare=True),
    Surrounding(
        "loopback down, and no sandbox",
        f'unshare -Urn {_NO_SANDBOX} "$@"',
        BROKEN,
        "loopback",
        needs=["networks", "sandbox"],
    ),
    Surrounding("no sandbox", f'unshare -Ur {_NO_SANDBOX} "$@"', needs=["networks", "sandbox"], rare=True),
    Surrounding(
        "a host name that does not resolve",
        'unshare -u sh -c \'hostname nowhere.invalid && exec "$@"\' sh "$@"',
        needs=_MOUNTS,
        rare=True,
    ),
    Surrounding("a time namespace", 'unshare -T --monotonic 86400 --fork "$@"', needs=_MOUNTS, rare=True),
    Surrounding(
        "an engine behind ssh",
        'DOCKER_HOST=ssh://user@nowhere.invalid "$@" --cluster docker',
        BROKEN,
        "another machine.*--cluster process",
    ),
    Surrounding("an engine behind ssh, clean", 'DOCKER_HOST=ssh://user@nowhere.invalid "$@"', words=["clean"]),
    # what ends a run
    Surrounding("a terminal that closes", 'timeout -s HUP 4 "$@" --duration 20s', 124, rare=True),
    Surrounding(
        "a terminal that closes, under nohup",
        'nohup "$@" & until ls results/runs/* >/dev/null 2>&1; do sleep 0.1; done; kill -HUP $!; wait $!',
        rare=True,
    ),
    Surrounding("a terminal of one column", 'script -qefc "stty cols 1; $*" /dev/null', rare=True),
    Surrounding("SIGTERM", 'timeout 4 "$@" --duration 20s', 124, rare=True),
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="those whose name contains this")
    parser.add_argument("--at-once", type=int, default=2)
    asked = parser.parse_args()
    chosen = [each for each in SURROUNDINGS if asked.only in each.name]
    place = Path(tempfile.mkdtemp(prefix="fencepost-surroundings-"))
    bad = 0

    def tried(surrounding: Surrounding, number: int) -> tuple[Surrounding, Ending | None]:
        if any(why_not(need) for need in surrounding.needs):
            return surrounding, None
        folder = place / str(number)
        folder.mkdir()
        return surrounding, surround(surrounding, folder)

    with ThreadPoolExecutor(asked.at_once) as pool:
        for surrounding, ending in pool.map(tried, chosen, range(len(chosen))):
            if ending is None:
                sys.stdout.write(f"      {surrounding.name}: not on this machine\n")
                continue
            wrong = ending.wrong(surrounding)
            bad += bool(wrong)
            said = (ending.err or ending.out).strip()[-600:].rpartition("\n")[2]
            judged = f"BAD   ({'; '.join(wrong)})" if wrong else "good "
            sys.stdout.write(f"{judged} {surrounding.name}: {ending.code} in {ending.seconds:.1f} s\n        {said}\n")
            sys.stdout.flush()
    shutil.rmtree(place)
    sys.stdout.write(f"{len(chosen)} surroundings, {bad} bad\n")
    return int(bool(bad))


if __name__ == "__main__":
    obey_signals()
    sys.exit(main())
