"""Kinds of Docker engine: a short run works with each, or ends in one line; in both cases nothing is left.

    python -m tests.engines                # each kind that this machine can have; ends with 1 if one is not well
    python -m tests.engines --only Podman  # those whose name contains a word

With each engine three runs begin: one is left alone, one gets SIGINT in the middle, one SIGKILL. Engines and runs are
in namespaces of their own (processes, network, mounts), with an empty /run and a copy of /etc, so the engine of this
machine is out of reach, and the kernel ends what this program does not. It needs root.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cluster.engine_address import Engine, NoEngineError, find_engine
from cluster.engine_http import ask_engine
from cluster.engine_runs import image_ids
from cluster.polling import becomes_true
from fencepost.setup.machine import tools_folder
from tests import signals
from tests.cluster.engines import use_context, write_context
from tests.cluster.reapers import WITHIN_S, left_of
from tests.foreground import obey_signals
from tests.harness import runs
from tests.needs import why_not

RUN: Final = (
    *("test", "--lock", "redlock", "--nemesis", "standard", "--clients", "3", "--duration", "5s"),
    *("--cluster", "docker"),
)
UNFIT: Final = 255
STARTS_WITHIN_S: Final = 60.0
ENDS_WITHIN_S: Final = 30.0
_PLACE: Final = "FENCEPOST_ENGINES_PLACE"
_UID: Final = 61234
_DEBIANS: Final = "/usr/share/docker.io/contrib"
"""Where Debian has what starts a rootless Docker."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of engine. `command`: what starts it, with `{}` for its folder, in which it listens at `engine.sock`.
    `says`: None if a run works with it, else a pattern for the one line. `as_user`: an ordinary user starts it.
    `by_context`: the current Docker context names it, not DOCKER_HOST. `needs`: programs, and folders of programs."""

    name: str
    command: Sequence[str]
    needs: Sequence[str] = ()
    says: str | None = None
    as_user: bool = False
    by_context: bool = False

    def missing(self) -> list[str]:
        needs = (*self.needs, *(("newuidmap", "setpriv", "slirp4netns") if self.as_user else ()))
        return [each for each in (*self.command[:1], *needs) if not (_found(each) or Path(each).is_dir())]


_DOCKER: Final = ("--data-root", "{}/data", "--host", "unix://{}/engine.sock")
_PODMAN: Final = (
    *("podman", "--root", "{}/data", "--runroot", "{}/run", "--tmpdir", "{}/tmp", "--cgroup-manager", "cgroupfs"),
    *("system", "service", "--time", "0", "unix://{}/engine.sock"),
)
KINDS: Final = (
    Kind("Docker by a context", ("dockerd", *_DOCKER), by_context=True),
    Kind("Docker by DOCKER_HOST", ("dockerd", *_DOCKER)),
    Kind("Docker with userns-remap", ("dockerd", *_DOCKER, "--userns-remap", "default"), by_context=True),
    Kind(
        "rootless Docker",
        ("dockerd-rootless.sh", *_DOCKER),
        ("dockerd", "rootlesskit"),
        "cannot host a cluster: it is rootless",
        as_user=True,
        by_context=True,
    ),
    Kind("Podman by a context", _PODMAN, ("/usr/lib/podman",), by_context=True),
    Kind("Podman by DOCKER_HOST", _PODMAN, ("/usr/lib/podman",)),
    Kind(
        "Podman with CNI",
        ("env", "CONTAINERS_CONF={}/cni.conf", *_PODMAN),
        ("podman", "/usr/lib/cni"),
        "for Podman set network_backend to netavark",
    ),
    Kind("rootless Podman", _PODMAN, says="cannot host a cluster: it is rootless", as_user=True),
)


def _found(program: str) -> str | None:
    return shutil.which(program, path=f"{os.environ['PATH']}:{_DEBIANS}")


@contextmanager
def started(kind: Kind, folder: Path) -> Iterator[None]:
    """The engine, which is the current one from now on. Raises RuntimeError if it does not answer."""
    folder.mkdir()
    shutil.chown(folder, _UID if kind.as_user else 0)
    (folder / "cni.conf").write_text('[network]\nnetwork_backend = "cni"\n')
    words = [each.format(folder) for each in kind.command]
    words[0] = _found(words[0]) or words[0]
    environment = dict(os.environ)
    if kind.as_user:
        words = ["setpriv", "--reuid", str(_UID), "--regid", str(_UID), "--clear-groups", *words]
        environment |= {"HOME": str(folder), "XDG_RUNTIME_DIR": str(folder)}
    host, log = f"unix://{folder}/engine.sock", folder / "engine.log"
    with log.open("w") as record:
        engine = subprocess.Popen(words, stdout=record, stderr=record, cwd=folder, env=environment)
    try:
        becomes_true(lambda: _answers(host) or engine.poll() is not None, within_s=STARTS_WITHIN_S)
        if not _answers(host):
            raise RuntimeError(f"does not answer: {log.read_text(errors='replace').strip().rpartition(chr(10))[2]}")
        write_context(folder / "config", "second", host)
        use_context(folder / "config", "second")
        os.environ["DOCKER_CONFIG"] = str(folder / "config")
        os.environ.pop("DOCKER_HOST", None)
        if not kind.by_context:
            os.environ["DOCKER_HOST"] = host
        yield
    finally:
        engine.terminate()
        if not becomes_true(lambda: engine.poll() is not None, within_s=ENDS_WITHIN_S):
            engine.kill()
            engine.wait()


def _answers(host: str) -> bool:
    try:
        return ask_engine(Engine(host), "GET", "/version").is_success
    except NoEngineError:
        return False


def wrong_with(kind: Kind, place: Path) -> list[str]:
    """Play the three runs with the current engine; returns what is not as it should be."""
    (alone := place / "alone").mkdir(parents=True)
    began_s = time.monotonic()
    code, out, err = runs.fencepost(alone, *RUN)
    seconds = time.monotonic() - began_s
    _say(f"      left alone: {code} in {seconds:.1f} s: {(err or out).strip().rpartition(chr(10))[2]}")
    wrong = ["shows a traceback"] if "Traceback" in out + err else []
    if kind.says is None:
        if code not in (0, 2) or err:  # a busy machine may show too little in five seconds
            wrong.append(f"ended with {code}, not with a verdict: {err}")
        elif not image_ids(find_engine()):
            wrong.append("the run was not in this engine")
    else:
        if code != UNFIT or len(err.splitlines()) != 1 or not re.search(kind.says, err):
            wrong.append(f"ended with {code}, not with {UNFIT} and one line that says {kind.says!r}: {err}")
        if images := image_ids(find_engine()):
            wrong.append(f"left {len(images)} images in an engine that cannot host a cluster")
    wrong += [f"left {each}" for each in left_by(alone)]
    for number in (signal.SIGINT, signal.SIGKILL):
        trial = signals.strike(place / number.name, "docker", number, seconds / 2, words=RUN)
        _say(f"      {trial}; it ended with {trial.code} and said: {trial.said}")
        wrong += [] if trial.is_clean else [str(trial)]
        wrong += [f"{number.name} left {each}" for each in left_by(place / number.name)]
    code, out, err = runs.fencepost(alone, "clean", "--all")
    if code or image_ids(find_engine()):
        wrong.append(f"clean --all ended with {code}, and the engine has images: {out}{err}")
    return wrong


def left_by(folder: Path) -> list[str]:
    """What is left of the runs that were started in a folder, some seconds after they ended. Nothing else makes volumes
    in the engine."""

    def left() -> list[str]:
        found = [line for state in (folder / "tmp").glob("fencepost-*/[!.]*") for line in left_of(state)]
        volumes = ask_engine(find_engine(), "GET", "/volumes").body["Volumes"] or []
        found += signals.in_the_engine(folder, [each["Name"] for each in volumes])
        return found + runs.processes_below(folder)

    becomes_true(lambda: not left(), within_s=WITHIN_S, every_s=0.1)
    return left()


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="those whose name contains this")
    asked = parser.parse_args()
    if lacks := [lack for need in ("root", "mounts", "networks") if (lack := why_not(need))]:
        _say(f"engines: {lacks[0]}")
        return 1
    if _PLACE not in os.environ:
        return _in_namespaces()
    place, bad = Path(os.environ.pop(_PLACE)), 0
    for number, kind in enumerate(kind for kind in KINDS if asked.only in kind.name):
        if missing := kind.missing():
            _say(f"      {kind.name}: not on this machine, which lacks {', '.join(missing)}")
            continue
        try:
            with started(kind, place / str(number)):
                wrong = wrong_with(kind, place / f"{number}.runs")
        except RuntimeError as error:
            _say(f"      {kind.name}: not on this machine, where it {error}")
            continue
        bad += bool(wrong)
        _say(f"BAD   {kind.name}: {'; '.join(wrong)}" if wrong else f"good  {kind.name}")
    return int(bool(bad))


_PREPARE: Final = f"""
set -e
ip link set lo up
mkdir -p "$1/upper" "$1/work" "$2"
mount -t overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" none /etc
mount -t tmpfs -o mode=755 none /run
mount -t tmpfs none "$2"
mknod -m 666 "$1/tun" c 10 200 && mount --bind "$1/tun" /dev/net/tun || true
echo "fencepost-engines:x:{_UID}:{_UID}::$1:/bin/sh" >>/etc/passwd
echo "fencepost-engines:x:{_UID}:" >>/etc/group
echo "fencepost-engines:400000:65536" | tee -a /etc/subuid >>/etc/subgid
shift 2
"$@"
exit $?
"""
"""What process 1 of the namespaces does: users, /run, and which engine passed its trial are known there only."""


def _in_namespaces() -> int:
    """This program again, where it disturbs nothing."""
    with tempfile.TemporaryDirectory(prefix="fencepost-engines-") as place:
        Path(place).chmod(0o711)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
        words = ["setpriv", "--pdeathsig", "KILL"]
        words += ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        words += ["bash", "-c", _PREPARE, "bash", place, str(tools_folder() / "engines")]
        words += [sys.executable, "-m", "tests.engines", *sys.argv[1:]]
        return subprocess.run(words, env=environment | {_PLACE: place}, cwd=runs.ROOT).returncode


if __name__ == "__main__":
    obey_signals()
    sys.exit(main())
