"""`make setup-docker`: installs and starts a Docker engine on Debian as root; elsewhere it says in one line what is
missing.

If systemd runs, systemd starts the engine. Otherwise the engine runs in its own session and keeps running when this
program and its terminal are gone.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

from checkout import ROOT

# isort: split
from cluster.engine_address import find_engine
from fencepost.errors import BrokenEnvironmentError
from fencepost.setup.machine import apt_install, has_apt
from fencepost.setup.workshop import SetupError, Workshop

_SOCKET = Path("/var/run/docker.sock")
_PID_FILE = Path("/var/run/docker.pid")
_PATIENCE_S = 60


def main() -> int:
    shop = Workshop(ROOT / ".tools")
    try:
        with shop.alone(waiting=lambda: print("setup-docker: a set-up of this folder is running; waiting for it")):
            print(f"setup-docker: {_bring(shop)}")
    except KeyboardInterrupt:
        shop.stop()
        print("\nsetup-docker: interrupted", file=sys.stderr)
        return 130
    except (SetupError, OSError) as error:
        print(f"setup-docker: {error}", file=sys.stderr)
        return 1
    return 0


def _bring(shop: Workshop) -> str:
    """Make an engine answer; returns which one does. Raises SetupError."""
    try:
        found = find_engine()
    except BrokenEnvironmentError as error:
        raise SetupError(str(error)) from error
    if not found.is_default:
        return f"nothing to do, DOCKER_HOST or a Docker context names an engine: {found}"
    if _answers():
        return f"nothing to do, an engine answers at {_SOCKET}"
    if not has_apt():
        raise SetupError(
            "this needs root on Debian or a derivative; install and start a Docker engine with this machine's own "
            "tools, or run without containers: CLUSTER=process"
        )
    if shutil.which("dockerd") is None:
        print("setup-docker: installing docker.io", flush=True)
        apt_install(shop, "docker", "docker.io")
    if Path("/run/systemd/system").is_dir():
        shop.run("docker", "systemctl", "start", "docker")
        engine, log = None, "journalctl -u docker"
    else:
        # The installation may have started an engine with a SysV script; a second one would fail.
        engine, log = None if _is_starting() else _start_engine(shop), ".tools/log/dockerd.log"
    deadline = time.monotonic() + _PATIENCE_S
    while not _answers():
        if engine is not None and engine.poll() is not None:
            raise SetupError(f"dockerd exited with {engine.returncode}{_reason(ROOT / log)}; see {log}")
        if time.monotonic() > deadline:
            raise SetupError(f"dockerd did not answer at {_SOCKET} within {_PATIENCE_S} s; see {log}")
        time.sleep(0.1)
    return f"an engine answers at {_SOCKET}" + (f", process {engine.pid}, log {log}" if engine else "")


def _start_engine(shop: Workshop) -> subprocess.Popen[bytes]:
    log = shop.tools / "log/dockerd.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("w") as record:
        return subprocess.Popen(
            ["dockerd"],
            stdin=subprocess.DEVNULL,
            stdout=record,
            stderr=subprocess.STDOUT,
            cwd="/",
            start_new_session=True,
        )


def _reason(log: Path) -> str:
    """Why an engine exited, if its log says so, as the end of a sentence."""
    reasons = [line for line in log.read_text(errors="replace").splitlines() if line.startswith("failed to start")]
    return f", {reasons[-1]}" if reasons else ""


def _is_starting() -> bool:
    """Whether the engine that wrote the pid file is running. A dead process that was not reaped has a name, but no
    program."""
    try:
        pid = int(_PID_FILE.read_text())
        return Path(f"/proc/{pid}/exe").readlink().name == "dockerd"
    except (OSError, ValueError):
        return False


def _answers() -> bool:
    """Whether the engine answers its ping: 200 OK within two seconds."""
    try:
        with socket.socket(socket.AF_UNIX) as line:
            line.settimeout(2)
            line.connect(str(_SOCKET))
            line.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 " in line.recv(256).split(b"\r\n")[0]
    except OSError:
        return False


if __name__ == "__main__":
    sys.exit(main())
