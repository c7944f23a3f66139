"""Nobody else gets in: an ordinary user of the same machine can talk neither to a run's servers nor to its proxy."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from cluster.engine import connect
from cluster.engine_address import find_engine
from cluster.engine_sweep import RUN_LABEL
from cluster.live_run import LiveRun, find_live_run
from cluster.run_processes import RUN_VARIABLE
from tests.harness import runs
from tests.harness.test_sandbox import REFUSING
from tests.harness.test_whole_runs import await_load
from tests.processes import every_process

pytestmark = pytest.mark.needs("root")

Port = tuple[str, int]
UNSHARED = ["unshare", "--user", "--map-root-user", "sh", "-c", REFUSING, "sh"]
WHERE = [
    pytest.param(("process", []), marks=pytest.mark.needs("sandbox"), id="namespaces"),
    pytest.param(("process", UNSHARED), id="no-namespaces"),
    pytest.param(("docker", []), marks=pytest.mark.needs("engine"), id="containers"),
]

# Becomes nobody in the very folder of the proxy's socket, asks each port as a client of Redis and of the proxy would,
# and prints the answers.
STRANGER = """
import encodings.idna, json, os, socket, sys  # all of it now: nobody may not be able to read the interpreter
os.chdir(sys.argv[2])
os.setgroups([]), os.setgid(65534), os.setuid(65534)
requests = {"redis": b"PING\\r\\n", "info": b"INFO\\r\\n", "proxy": b"GET /proxies HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n"}
heard = {}
for host, port in json.loads(sys.argv[1]):
    for name, request in requests.items():
        try:
            with socket.create_connection((host, port), timeout=2) as line:
                line.sendall(request)
                heard[f"{host}:{port} {name}"] = line.recv(100).decode(errors="replace")
        except OSError as error:
            heard[f"{host}:{port} {name}"] = type(error).__name__
try:
    socket.socket(socket.AF_UNIX).connect(sys.argv[3])
    heard["socket"] = "connected"
except OSError as error:
    heard["socket"] = type(error).__name__
print(json.dumps(heard))
"""


@pytest.fixture(scope="module", params=WHERE)
def live(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, LiveRun]]:
    """A folder with a run under load, and the run."""
    backend, before = request.param
    folder = tmp_path_factory.mktemp("live")
    arguments = runs.short_run("--nemesis", "none", "--duration", "110s", cluster=backend)
    process = runs.start(folder, *arguments, before=before)
    try:
        await_load(process, folder)
        yield folder, find_live_run(None, next(folder.glob("tmp/fencepost-*")))
    finally:
        process.kill()
        process.communicate()


def processes(live: LiveRun) -> list[psutil.Process]:
    """The processes of the run, those in containers included."""
    found = []
    for process in every_process():
        with suppress(psutil.Error):
            if process.environ().get(RUN_VARIABLE) == live.run_id:
                found.append(process)
    return found + [psutil.Process(pid) for pid in containers(live)]


def containers(live: LiveRun) -> dict[int, str]:
    """The containers of the run: the process of each, and its own address on this machine's bridge, if it has one."""
    try:
        engine = connect(find_engine())
    except Exception:  # no engine, no containers
        return {}
    there = engine.containers.list(filters={"label": f"{RUN_LABEL}={live.run_id}"})
    networks = {each.attrs["State"]["Pid"]: list(each.attrs["NetworkSettings"]["Networks"].values()) for each in there}
    engine.close()
    return {pid: (joined[0]["IPAddress"] if joined else "") for pid, joined in networks.items()}


def listening(live: LiveRun) -> list[Port]:
    """Every port that a process of the run listens at, as another process of this machine would dial it."""
    own = containers(live)
    return sorted(
        {
            (own.get(process.pid) or host, port)
            for process in processes(live)
            for host, port in listening_of(process.pid)
        }
    )


def listening_of(pid: int) -> Iterator[Port]:
    """The ports that one process listens at, in its own network namespace."""
    mine = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):  # closed in this moment
            mine.add(str(descriptor.readlink()).removeprefix("socket:[").removesuffix("]"))
    for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_, inode = line.split()[:10]
        if state == "0A" and inode in mine:
            host, port = local.split(":")
            yield socket.inet_ntoa(bytes.fromhex(host)[::-1]), int(port, 16)


def test_an_ordinary_user_gets_no_answer_from_any_port(live: tuple[Path, LiveRun]) -> None:
    _, run = live
    ports = listening(run)
    assert len(ports) == 5 + 1 + 3 * 6, "the nodes, the resource, and a link from every client to each"
    proxy = [str(run.proxy_socket.parent), run.proxy_socket.name]
    stranger = subprocess.run(
        [sys.executable, "-I", "-c", STRANGER, json.dumps(ports), *proxy],
        capture_output=True, text=True, check=True, cwd="/", timeout=100,
    )  # fmt: skip
    heard = json.loads(stranger.stdout)
    assert heard.pop("socket") == "PermissionError"
    assert len(heard) == 3 * len(ports)
    welcome = {
        port: said
        for port, said in heard.items()
        if said not in ("ConnectionRefusedError", "ConnectionResetError", "")
        and not said.startswith("-NOAUTH")
        # what is no command of Redis's protocol is refused before anybody asks who says it
        and not (port.endswith("proxy") and said.startswith("-ERR"))
    }
    assert welcome == {}


def test_no_password_can_be_read_from_a_command_line_or_from_the_runs_folder(live: tuple[Path, LiveRun]) -> None:
    folder, run = live
    secrets = [run.access.harness.password, *([run.access.clients] if run.access.clients else [])]
    assert all(len(secret) > 40 for secret in secrets)
    arguments = " ".join(word for process in processes(run) for word in process.cmdline())
    assert "redis-server" in arguments
    written = [path.read_bytes() for path in runs.only_run(folder).rglob("*") if path.is_file()]
    assert written
    for secret in secrets:
        assert secret not in arguments
        assert not any(secret.encode() in text for text in written)


def test_the_folders_of_a_run_can_be_entered_by_its_user_alone(live: tuple[Path, LiveRun]) -> None:
    folder, run = live
    for path in (runs.only_run(folder), run.proxy_socket.parent.parent):
        assert path.stat().st_mode & 0o777 == 0o700, path
    assert run.proxy_socket.stat().st_mode & 0o777 == 0o600


def test_the_servers_and_the_proxy_have_no_privileges(
    live: tuple[Path, LiveRun], request: pytest.FixtureRequest
) -> None:
    """Where another user number exists, they are nobody."""
    _, run = live
    servers = [each for each in processes(run) if each.name() in ("redis-server", "fencepost-toxiproxy", "toxiproxy")]
    assert len(servers) == 7
    if "no-namespaces" in request.node.name:
        return  # a user namespace in which root is the only number
    (uid,) = {process.uids().effective for process in servers}
    assert uid > 1_000_000_000
    for process in servers:
        status = Path(f"/proc/{process.pid}/status").read_text()
        assert "\nCapEff:\t0000000000000000\n" in status
        assert "\nCapPrm:\t0000000000000000\n" in status


def test_a_container_can_gain_nothing_and_write_nowhere_but_to_its_data(live: tuple[Path, LiveRun]) -> None:
    _, run = live
    if not (there := containers(run)):
        return
    for pid in there:
        status = Path(f"/proc/{pid}/status").read_text()
        assert "\nCapBnd:\t0000000000000000\n" in status
        assert "\nNoNewPrivs:\t1\n" in status
        mounts = [line.split() for line in Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]
        assert ["ro" in mount[5].split(",") for mount in mounts if mount[4] == "/"] == [True]
