"""A run on processes lives in namespaces of its own: nobody else reaches its servers, and it ends as a whole."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import psutil
import pytest

import fencepost
from cluster.engine import connect
from cluster.engine_address import find_engine
from cluster.engine_sweep import RUN_LABEL
from cluster.lifetime import state_parent
from cluster.polling import becomes_true
from fencepost.files import matching
from tests.cluster.reapers import WITHIN_S, is_gone, left_of
from tests.harness import runs
from tests.harness.second_tries import first_that_counts
from tests.harness.test_whole_runs import assert_nothing_missing_but_the_last, await_load

pytestmark = pytest.mark.needs("sandbox")
BACKENDS = ["process", pytest.param("docker", marks=pytest.mark.needs("engine"))]


def state_of(folder: Path, run: Path) -> Path:
    return folder / "tmp" / state_parent().name / run.name


def inside(folder: Path, *command: str) -> str:
    """What a command prints that `fencepost shell` runs inside the live run of this folder."""
    code, out, err = runs.fencepost(folder, "shell", "--", *command)
    assert code == 0, err
    return out


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a run under load."""
    folder = tmp_path_factory.mktemp("live")
    process = runs.start(folder, *runs.short_run("--nemesis", "none", "--duration", "110s"))
    await_load(process, folder)
    yield folder
    process.kill()
    process.communicate()


def test_nobody_outside_can_dial_a_server_the_proxy_or_a_link(live: Path) -> None:
    listening = inside(live, "cat", "/proc/net/tcp").splitlines()[1:]
    ports = {int(line.split()[1].partition(":")[2], 16) for line in listening if line.split()[3] == "0A"}
    assert len(ports) == 5 + 1 + 3 * 6, "the nodes, the resource, and a link from every client to each"
    answered = []
    for port in ports:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except ConnectionRefusedError:
            continue
        answered.append(port)
    assert answered == []


def test_the_network_inside_is_a_loopback_interface_that_is_up_and_nothing_else(live: Path) -> None:
    assert [line.split(":")[0].strip() for line in inside(live, "cat", "/proc/net/dev").splitlines()[2:]] == ["lo"]
    listens_and_dials = (
        "import socket as s; a = s.create_server(('127.0.0.1', 0)); s.create_connection(a.getsockname())"
    )
    inside(live, sys.executable, "-c", listens_and_dials)


def test_inside_only_the_processes_of_the_run_are_seen(live: Path) -> None:
    names = inside(live, "sh", "-c", "cat /proc/[0-9]*/comm").split()
    assert names.count("redis-server") == 6
    assert names.count("fencepost-toxip") == 1
    assert {name for name in names if "redis" not in name and "toxip" not in name} <= {"python", "cat", "sh"}
    assert f"{os.getpid()}" not in inside(live, "ls", "/proc").split() or os.getpid() < 1000


def test_mounts_inside_are_not_seen_outside(live: Path) -> None:
    empty = live / "empty"
    empty.mkdir()
    see = ["sh", "-c", "mount -t tmpfs none empty && touch empty/file && ls empty"]
    code, out, err = runs.fencepost(live, "shell", "--", *see)
    if os.geteuid() == 0:
        assert (code, out) == (0, "file\n"), err
    assert list(empty.iterdir()) == []


def test_a_shell_has_the_addresses_and_passes_the_exit_code_on(live: Path) -> None:
    code, out, err = runs.fencepost(
        live, "shell", "--", "sh", "-c", 'echo "$N1 $N1_HOST:$N1_PORT $PROXY_SOCKET"; exit 9'
    )
    assert code == 9
    first, again, proxy = out.split()
    assert first == again
    assert first in err
    assert proxy in err
    assert Path(proxy).is_socket()
    ask = "import os, redis; print(redis.Redis(port=int(os.environ['RESOURCE_PORT'])).ping())"
    assert inside(live, sys.executable, "-c", ask) == "True\n"


def test_a_shell_works_in_the_current_folder_and_can_name_its_run(live: Path) -> None:
    run = runs.only_run(live)
    assert inside(live, "pwd").strip() == str(live)
    for name in (run.name, str(run), "results/runs/latest"):
        code, out, err = runs.fencepost(live, "shell", name, "--", "echo", "here")
        assert (code, out) == (0, "here\n"), err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-run", "--", "true"], "no run 'no-such-run' of this user is alive"),
        (["--", "no-such-program"], "no program 'no-such-program' on PATH"),
    ],
)
def test_a_shell_that_cannot_be_had_is_one_line(live: Path, arguments: list[str], words: str) -> None:
    code, out, err = runs.fencepost(live, "shell", *arguments)
    assert (code, out) == (254, "")
    assert len(err.splitlines()) == 1
    assert words in err


def test_without_a_live_run_a_shell_is_refused_in_one_line(tmp_path: Path) -> None:
    code, out, err = runs.fencepost(tmp_path, "shell", "--", "true")
    assert (code, out) == (254, "")
    assert err.count("\n") == 1
    assert "no run of this user is alive" in err


@pytest.mark.needs("engine")
def test_with_containers_a_shell_has_the_same_variables(tmp_path: Path) -> None:
    process = runs.start(tmp_path, *runs.short_run("--nemesis", "none", "--duration", "60s", cluster="docker"))
    try:
        await_load(process, tmp_path)
        ask = (
            "from os import environ as e; import redis; "
            "print(redis.Redis(e['N1_HOST'], int(e['N1_PORT']), password=e['REDISCLI_AUTH']).ping())"
        )
        assert inside(tmp_path, sys.executable, "-c", ask) == "True\n"
    finally:
        process.send_signal(signal.SIGINT)
        runs.finish(process)


VICTIMS: dict[str, Callable[[psutil.Process], psutil.Process]] = {
    "launcher": lambda init: psutil.Process(init.ppid()),
    "init": lambda init: init,
    "inner": lambda init: init.children()[0],
}


def sandbox_of(folder: Path) -> psutil.Process | None:
    """The first process of the sandbox, once it has started the one that makes the run."""
    for path in matching(folder, "tmp/fencepost-*/*/init.pid"):
        if (text := path.read_text()) and (init := psutil.Process(int(text))).children():
            return init
    return None


def await_moment(moment: str, process: subprocess.Popen[str], folder: Path) -> None:
    match moment:
        case "bring-up":
            reached = lambda: any(matching(folder, "tmp/fencepost-*/*/process"))  # noqa: E731
        case "load":
            await_load(process, folder)
            return
        case _:
            reached = lambda: any(folder.glob("results/runs/2*/final.json"))  # noqa: E731
    assert becomes_true(reached, within_s=40, every_s=0.004), runs.finish(process)


@pytest.mark.parametrize("moment", ["bring-up", "load", "tear-down"])
@pytest.mark.parametrize("victim", ["outer", *VICTIMS])
def test_whoever_of_the_four_is_killed_the_run_is_gone_within_seconds(tmp_path: Path, victim: str, moment: str) -> None:
    # A tear-down takes a moment: on a busy machine it may be over before the signal comes.
    code, err = first_that_counts(
        tmp_path, lambda place: end_of_a_killed_run(place, victim, moment), lambda end: end[0] not in (0, 1, 2)
    )
    if victim == "outer":
        assert code == -signal.SIGKILL
    else:
        status = -signal.SIGKILL if victim == "launcher" else 128 + signal.SIGKILL
        assert err == f"fencepost: the process that makes the run ended too early (exit status {status})\n"
        assert code == 255


def end_of_a_killed_run(folder: Path, victim: str, moment: str) -> tuple[int, str]:
    """Kill one of the processes of a run, which must then be gone; how the command ended, and its stderr."""
    duration = "1s" if moment == "tear-down" else "60s"
    process = runs.start(folder, *runs.short_run("--duration", duration, "--recovery", "0"))
    assert becomes_true(lambda: sandbox_of(folder) is not None, within_s=40)
    init = sandbox_of(folder)
    assert init is not None
    victims = {"outer": psutil.Process(process.pid)} | {name: find(init) for name, find in VICTIMS.items()}
    await_moment(moment, process, folder)
    with suppress(psutil.NoSuchProcess):
        victims[victim].kill()
    run = runs.only_run(folder)
    assert runs.is_gone(folder, run), runs.processes_of(run) + runs.state_left(folder)
    assert left_of(state_of(folder, run)) == []
    code, _, err = runs.finish(process)
    return code, err


@pytest.mark.parametrize("victim", ["outer", "inner"])
def test_the_history_is_whole_up_to_the_last_operation(tmp_path: Path, victim: str) -> None:
    process = runs.start(tmp_path, *runs.short_run("--nemesis", "pause+crash", "--duration", "60s"))
    folder = await_load(process, tmp_path)
    logs = [folder / "clients" / f"c{number}.1.jsonl" for number in (1, 2, 3)]
    assert becomes_true(lambda: all(log.exists() and log.stat().st_size for log in logs), within_s=30)
    init = sandbox_of(tmp_path)
    assert init is not None
    (psutil.Process(process.pid) if victim == "outer" else VICTIMS[victim](init)).kill()
    runs.finish(process)
    assert runs.is_gone(tmp_path, folder)
    assert runs.fencepost(tmp_path, "analyze", str(folder))[0] == 2
    run = fencepost.load(folder)
    assert set(run.ops["client"]) == {"c1", "c2", "c3"}
    for _, ops in run.ops.groupby(["client", "life"], observed=True):
        assert_nothing_missing_but_the_last(ops["f"].tolist(), ops["outcome"].tolist(), ops["section"].tolist())


@pytest.mark.needs("ext4")
def test_the_disks_of_a_killed_run_leave_no_mount_and_no_loop_device(tmp_path: Path) -> None:
    faults = ("--nemesis", "power", "--persistence", "aof-everysec", "--duration", "60s")
    process = runs.start(tmp_path, *runs.short_run(*faults))
    run = await_load(process, tmp_path)
    assert [line for line in left_of(state_of(tmp_path, run)) if line.startswith("loop device")]
    assert not [line for line in left_of(state_of(tmp_path, run)) if line.startswith("mount")], "they are private"
    process.kill()
    process.communicate()
    assert is_gone(state_of(tmp_path, run)), left_of(state_of(tmp_path, run))


def test_ctrl_c_reaches_the_run_once_and_ends_as_ever(tmp_path: Path) -> None:
    process = runs.start(tmp_path, *runs.short_run("--duration", "60s"))
    folder = await_load(process, tmp_path)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the whole group
    code, out, err = runs.finish(process)
    assert code == 2, out + err
    assert err == ""
    assert json.loads((folder / "timeline.json").read_text())["interrupted"]
    ends = [json.loads(line) for line in (folder / "client-ends.jsonl").read_text().splitlines()]
    # Or were cut off, if a busy machine let them end too late.
    assert {end["how"] for end in ends} <= {"finished", "cut-off"}, "the signal ended no client"
    logs = sorted((folder / "logs").glob("c*.log"))
    assert {log.name for log in logs} >= {"c1.1.log", "c2.1.log", "c3.1.log"}
    assert not [log.name for log in logs if "KeyboardInterrupt" in log.read_text()]


def test_the_process_for_the_next_of_many_runs_ends_with_them_and_with_a_killed_command(tmp_path: Path) -> None:
    few = ["--lock", "redlock", "--clients", "2", "--duration", "1s", "--recovery", "0", "--nemesis", "none"]
    process = runs.start(tmp_path, "compare", "--axis", "ttl=1s,2s", "--seeds", "3", "--", "--cluster", "process", *few)
    assert becomes_true(lambda: len(list(tmp_path.glob("results/runs/2*"))) >= 2, within_s=60), runs.finish(process)
    descendants = psutil.Process(process.pid).children(recursive=True)
    assert descendants
    process.kill()
    process.communicate()
    alive = lambda: [each for each in descendants if each.is_running()]  # noqa: E731
    assert becomes_true(lambda: not alive(), within_s=WITHIN_S), alive()
    for run in tmp_path.glob("results/runs/2*"):
        assert runs.is_gone(tmp_path, run)


REFUSING = 'echo 0 > /proc/sys/user/max_pid_namespaces; echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'


def test_where_the_kernel_refuses_namespaces_a_run_says_so_in_one_line_and_works(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    environment = os.environ | {"PYTHONPATH": str(runs.ROOT), "COLUMNS": "200", "TMPDIR": str(tmp_path / "tmp")}
    run = runs.short_run("--nemesis", "none", "--duration", "1s", "--recovery", "0")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", REFUSING, "sh", *runs.command(*run)],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if "no sandbox" in line]
    assert len(said) == 1
    assert "unshare: No space left on device" in said[0]
    isolation = json.loads((runs.only_run(tmp_path) / "environment.json").read_text())["isolation"]
    assert isolation == {"by": "passwords", "refused": "unshare: No space left on device"}
    assert runs.state_left(tmp_path) == []
    told = subprocess.run(
        ["unshare", "--user", "--map-root-user", "sh", "-c", REFUSING, "sh", *runs.command("doctor")],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=90, check=False,
    )  # fmt: skip
    (line,) = [line for line in told.stdout.splitlines() if "unshare: No space left on device" in line]
    assert line.split()[:2] == ["absent", "sandbox"]


def left_everywhere(folder: Path, run: Path, backend: str) -> list[str]:
    left = left_of(state_of(folder, run))
    if backend == "docker":
        engine = connect(find_engine())
        filters: dict[str, str | list[str] | bool] = {"label": f"{RUN_LABEL}={run.name}"}
        left += [str(each.name) for each in engine.containers.list(all=True, filters=filters, ignore_removed=True)]
        left += [str(each.name) for each in engine.networks.list(filters=filters)]
        engine.close()
    return left


@pytest.mark.timeout(400)
@pytest.mark.parametrize("backend", BACKENDS)
def test_killed_harnesses_leave_nothing(tmp_path: Path, backend: str) -> None:
    """At random moments from the first file of its state to the end of the run; `tests.signals` tries hundreds."""
    moments = Random(backend)
    for number in range(4):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        took_s = kill_at_a_random_moment(folder, backend, moments.uniform(0, 3))
        print(f"{backend} {number}: gone after {took_s:.1f} s")  # noqa: T201


def kill_at_a_random_moment(folder: Path, backend: str, after_s: float) -> float:
    """How long it took until nothing was left."""
    process = runs.start(folder, *runs.short_run("--duration", "1s", "--recovery", "0", cluster=backend))
    assert becomes_true(lambda: bool(runs.state_left(folder)), within_s=40), runs.finish(process)
    time.sleep(after_s)  # any moment will do: what must hold, holds at all of them
    process.kill()
    process.communicate()
    killed_at = time.monotonic()
    run = runs.only_run(folder)
    gone = becomes_true(
        lambda: not state_of(folder, run).exists() and not left_everywhere(folder, run, backend), within_s=WITHIN_S
    )
    assert gone, left_everywhere(folder, run, backend)
    return time.monotonic() - killed_at
