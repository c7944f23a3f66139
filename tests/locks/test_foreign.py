"""Locks that run in a separate program: the real libraries, and programs that misbehave."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import msgspec
import psutil
import pytest

from fencepost.errors import BrokenEnvironmentError
from fencepost.history import Sender
from tests.cluster.processes import is_gone
from tests.locks.conftest import Server, redis_at
from workloads import foreign
from workloads.base import Lease, Lock, LockSettings, NodeAddress
from workloads.foreign import ForeignLock, UnknownOutcomeError
from workloads.registry import open_lock

FOREIGN = [
    pytest.param(name, marks=pytest.mark.needs(f"lock:{name}")) for name in ("redlock-ng", "redlock-py", "pottery")
]
EXTENDING = [
    pytest.param(name, marks=pytest.mark.needs(f"lock:{name}"))
    for name in (
        "redlock-ng",
        "pottery",
        "pottery-async",
        "pyredlock",
        "redis-py-lock",
        "redis-py-lock-async",
        "python-redis-lock",
    )
]
DOCUMENT = Path(__file__).parents[2] / "docs" / "lock-protocol.md"


def open_foreign(name: str, nodes: list[NodeAddress], log: Path) -> Lock:
    return open_lock(name, None, nodes, LockSettings(log_path=log))


@pytest.mark.parametrize("name", FOREIGN)
def test_a_library_acquires_refuses_and_releases(
    name: str, servers: list[Server], nodes: list[NodeAddress], tmp_path: Path
) -> None:
    one, other = (open_foreign(name, nodes, tmp_path / f"{who}.log") for who in ("one", "other"))
    try:
        before_ns = time.monotonic_ns()
        lease = one.acquire("k", 60_000)
        after_ns = time.monotonic_ns()
        assert lease is not None
        assert lease.validity_ms is None if name == "pottery" else 50_000 < lease.validity_ms < 60_000
        assert lease.computed_after_ns is not None
        assert lease.computed_before_ns is not None
        assert before_ns <= lease.computed_after_ns <= lease.computed_before_ns <= after_ns
        assert other.acquire("k", 10_000) is None
        assert one.release(lease) is True
        assert [server.client().dbsize() for server in servers] == [0] * 5
        assert other.acquire("k", 10_000) is not None
    finally:
        one.close()
        other.close()


@pytest.mark.parametrize("name", FOREIGN)
def test_a_library_s_versions_timeouts_and_retries_are_described(
    name: str, nodes: list[NodeAddress], tmp_path: Path
) -> None:
    lock = open_foreign(name, nodes, tmp_path / "log")
    lock.close()
    described = lock.describe()
    assert str(described["library"]).startswith(name + " ")
    assert {"redis-py", "socket_timeout_s", "socket_connect_timeout_s", "socket_retries"} <= described.keys()


@pytest.mark.parametrize("name", EXTENDING)
def test_a_library_that_can_extends(name: str, servers: list[Server], nodes: list[NodeAddress], tmp_path: Path) -> None:
    lock = open_foreign(name, nodes, tmp_path / "log")
    try:
        lease = lock.acquire("k", 10_000)
        assert lease is not None
        extended = lock.extend(lease, 10_000)
        assert extended is not None
        assert extended.validity_ms is None, "none tells what is left"
        for server in servers:
            server.client().flushall()
        assert lock.extend(extended, 10_000) is None
    finally:
        lock.close()


@pytest.mark.needs("lock:redlock-py")
def test_a_grant_with_a_failed_node_is_info_from_redlock_py(
    servers: list[Server], nodes: list[NodeAddress], tmp_path: Path
) -> None:
    servers[0].client().set("k", "held")
    servers[0].client().config_set("min-replicas-to-write", 1)
    lock = open_foreign("redlock-py", nodes, tmp_path / "log")
    try:
        with pytest.raises(UnknownOutcomeError, match="MultipleRedlockException"):
            lock.acquire("k", 10_000)
    finally:
        servers[0].client().config_set("min-replicas-to-write", 0)
        lock.close()


def test_the_bounds_are_narrower_than_the_call(nodes: list[NodeAddress], servers: list[Server], tmp_path: Path) -> None:
    """A call that waited long for a hung node still has tight bounds for when it computed its validity."""
    lock = open_foreign("redlock-ng", nodes, tmp_path / "log")
    servers[0].pause()
    try:
        widths = []
        for key in ("k1", "k2", "k3"):  # a busy machine makes single ones wide
            before_ns = time.monotonic_ns()
            lease = lock.acquire(key, 10_000)
            assert lease is not None
            assert lease.computed_after_ns is not None
            assert lease.computed_before_ns is not None
            waited_ns = lease.computed_before_ns - before_ns
            assert waited_ns > 90_000_000, "the library waits 100 ms for a hung node"
            widths.append((lease.computed_before_ns - lease.computed_after_ns) / waited_ns)
        assert min(widths) < 0.5
    finally:
        lock.close()


# Programs that misbehave.


@pytest.fixture
def program(tmp_path: Path) -> Callable[..., list[str]]:
    """Writes an adapter that opens, and then runs the given lines for every further request."""

    def write(body: str, opening: str = 'say({"outcome": "ok"})') -> list[str]:
        lines = f"""
            import json, os, signal, sys, time
            def say(answer): print(json.dumps(answer), flush=True)
            def main():
                sys.stdin.readline()
                {opening}
                for line in sys.stdin:
                    request = json.loads(line)
                    if request["do"] == "close":
                        return
                    {body}
            main()
        """
        path = tmp_path / "adapter.py"
        path.write_text(textwrap.dedent(lines))
        return [sys.executable, str(path)]

    return write


@pytest.mark.parametrize(("own", "told"), [(None, "-XX:-UsePerfData"), ("-Dmine=1", "-Dmine=1 -XX:-UsePerfData")])
def test_a_jvm_keeps_no_file_in_which_it_would_meet_one_of_another_run(
    own: str | None, told: str, program: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    if own:
        monkeypatch.setenv("JAVA_TOOL_OPTIONS", own)
    said = 'say({"outcome": "ok", "describe": {"library": os.environ["JAVA_TOOL_OPTIONS"]}})'
    lock = ForeignLock(program("pass", said), [], LockSettings(log_path=tmp_path / "log"))
    lock.close()
    assert lock.describe()["library"] == told


def running(folder: Path) -> list[psutil.Process]:
    """Our children that run a program from this folder."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile
            if str(folder) in " ".join(child.cmdline()):
                found.append(child)
    return found


def opened(command: list[str], log: Path) -> ForeignLock:
    return ForeignLock(command, [redis_at("127.0.0.1", 1)], LockSettings(log_path=log))


def broken(command: list[str], log: Path) -> str:
    """The message with which an acquire ends the client."""
    lock = opened(command, log)
    with pytest.raises(BrokenEnvironmentError) as caught:
        lock.acquire("k", 1_000)
    lock.close()
    message = str(caught.value)
    assert "\n" not in message
    assert command[-1] in message
    assert str(log) in message
    return message


def test_an_adapter_that_dies_is_named_with_the_end_of_its_log(
    program: Callable[..., list[str]], tmp_path: Path
) -> None:
    message = broken(program("raise ValueError('no such luck')"), tmp_path / "log")
    assert "ended with exit code 1 before it answered" in message
    assert "ValueError: no such luck" in message


@pytest.mark.parametrize(
    "log",
    [
        "warming up\npanic: out of luck\n\ngoroutine 1 [running]:\nmain.main()\nexit status 2",
        "/a.mjs:3\n  throw new Error()\n  ^\n\nError: out of luck\n    at main (a.mjs:3)\n\nNode.js v24.1.0",
        'Exception in thread "main" java.lang.IllegalStateException: out of luck\n\tat Main.main(Main.java:3)',
        'Traceback (most recent call last):\n  File "a.py", line 1\nValueError: no\nstopped, out of luck',
    ],
    ids=["go", "node", "java", "python"],
)
def test_an_adapter_that_dies_is_named_with_its_error_and_not_with_the_end_of_a_stack(
    program: Callable[..., list[str]], tmp_path: Path, log: str
) -> None:
    message = broken(program(f"sys.stderr.write({log!r}); sys.exit(1)"), tmp_path / "log")
    assert message.endswith("out of luck)")


def test_an_adapter_that_is_killed_is_named_with_the_signal(program: Callable[..., list[str]], tmp_path: Path) -> None:
    assert "was killed by signal 9" in broken(program("os.kill(os.getpid(), signal.SIGKILL)"), tmp_path / "log")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("print('hello', flush=True)", "answered acquire with 'hello', which is no answer"),
        ("say({'outcome': 'maybe'})", "which is no answer"),
        ("say({'outcome': 'ok', 'value': 7, 'validity_ms': 1})", "which is no answer"),
        ("say({'outcome': 'ok'})", "granted a lock, but the answer needs either `value` or `value_base64`"),
        ("say({'outcome': 'ok', 'value_base64': '?'})", "granted a lock, but its `value_base64` is not base64"),
        ("say({'outcome': 'ok', 'value': 'v', 'granted_ms': 0})", "granted_ms 0; it must be more than 0"),
        ("say([])", "which is no answer"),
        ("say({'outcome': 'ok', 'value': 'v', 'validity_ms': 1e15})", "it must be finite, and at most"),
        ("say({'outcome': 'ok', 'value': 'v', 'token': 2**63})", "which is no answer"),
        ("say({'outcome': 'ok', 'value': 'v', 'deadline_ns': 2**62 + 1})", "must fit into 64 bits"),
        ("say({'outcome': 'ok', 'value': 'v' * 70_000})", "at most 65,536 characters"),
        ('print(\'{"outcome":"ok","validity_ms":NaN}\', flush=True)', "which is no answer"),
        ("print('{\"outcome\":\"ok\",\"token\":' + '9' * 5_000 + '}', flush=True)", "which is no answer"),
        ('print(\'{"outcome":"fail","describe":\' + \'{"a":\' * 5_000, flush=True)', "which is no answer"),
        ('os.write(1, b\'{"outcome":"fail","error":"\\xff"}\\n\')', "which is no answer"),
        ("sys.stdout.write('x' * 2_000_000); sys.stdout.flush()", "more than a megabyte without ending its line"),
        ("print('par', end='', flush=True); return", "ended with exit code 0 before it answered, after saying 'par'"),
        ("sys.stdout.close(); os.close(1); time.sleep(60)", "closed its stdout, but runs on"),
    ],
)
def test_an_adapter_that_sends_nonsense_is_quoted(
    program: Callable[..., list[str]], tmp_path: Path, body: str, expected: str
) -> None:
    assert expected in broken(program(body), tmp_path / "log")


def test_an_adapter_that_answers_a_request_twice_is_not_believed_again(
    program: Callable[..., list[str]], tmp_path: Path
) -> None:
    lock = opened(program('sys.stdout.write(\'{"outcome":"fail"}\\n\' * 2); sys.stdout.flush()'), tmp_path / "log")
    assert lock.acquire("k", 1_000) is None
    with pytest.raises(BrokenEnvironmentError, match="without a request"):
        lock.acquire("k", 1_000)
    lock.close()
    assert not running(tmp_path)


def test_a_second_answer_to_the_last_request_is_found_at_the_end(
    program: Callable[..., list[str]], tmp_path: Path
) -> None:
    lock = opened(program('sys.stdout.write(\'{"outcome":"fail"}\\n\' * 2); sys.stdout.flush()'), tmp_path / "log")
    assert lock.acquire("k", 1_000) is None
    with pytest.raises(BrokenEnvironmentError, match="without a request"):
        lock.close()
    assert not running(tmp_path)


def test_info_concerns_only_one_operation(program: Callable[..., list[str]], tmp_path: Path) -> None:
    lock = opened(program("say({'outcome': 'info', 'error': 'the reply was lost'})"), tmp_path / "log")
    for _ in range(2):
        with pytest.raises(UnknownOutcomeError, match="the reply was lost"):
            lock.acquire("k", 1_000)
    lock.close()


@pytest.mark.parametrize(
    ("opening", "expected"),
    [
        ("say({'outcome': 'fail', 'error': 'no driver'})", "did not open: no driver"),
        ("sys.exit('cannot work here')", "ended with exit code 1 before it answered; .*cannot work here"),
        ("time.sleep(60)", "did not answer open within 0.5 s"),
    ],
)
def test_an_adapter_that_never_opens(
    program: Callable[..., list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    opening: str,
    expected: str,
) -> None:
    if "sleep" in opening:  # the others have to start an interpreter before they can answer
        monkeypatch.setattr(foreign, "OPEN_TIMEOUT_S", 0.5)
    with pytest.raises(BrokenEnvironmentError, match=expected):
        opened(program("pass", opening), tmp_path / "log")
    assert not running(tmp_path), "a program that did not open is ended"


def test_a_program_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    with pytest.raises(BrokenEnvironmentError, match="`/does/not/exist` cannot be started: No such file"):
        opened(["/does/not/exist"], tmp_path / "log")


def test_closing_kills_an_adapter_that_does_not_listen(program: Callable[..., list[str]], tmp_path: Path) -> None:
    lock = opened(program("pass", "say({'outcome': 'ok'}); time.sleep(60)"), tmp_path / "log")
    began = time.monotonic()
    lock.close()
    assert time.monotonic() - began < 30
    assert not running(tmp_path)


CLIENT = """
import sys
import msgspec
from workloads.base import LockSettings, NodeAddress
from workloads.registry import open_lock
lock, command, nodes = msgspec.json.decode(sys.argv[1], type=tuple[str, str | None, list[NodeAddress]])
lock = open_lock(lock, command, nodes, LockSettings())
print("ready", flush=True)
sys.stdin.read()
"""


def client_with_child(
    lock: str | list[str], nodes: Sequence[NodeAddress] = ()
) -> tuple[subprocess.Popen[bytes], psutil.Process]:
    """A process that holds a foreign lock (its name, or its command), in its own process group, and the lock's
    process."""
    which = (lock, None) if isinstance(lock, str) else ("", shlex.join(lock))
    client = subprocess.Popen(
        [sys.executable, "-c", CLIENT, msgspec.json.encode([*which, nodes]).decode()],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    [child] = psutil.Process(client.pid).children()
    return client, child


def test_the_child_is_stopped_and_killed_with_the_client_s_group(program: Callable[..., list[str]]) -> None:
    client, child = client_with_child(program("pass"))
    assert os.getpgid(child.pid) == client.pid
    os.killpg(client.pid, signal.SIGSTOP)
    deadline = time.monotonic() + 30
    while child.status() != psutil.STATUS_STOPPED:
        assert time.monotonic() < deadline
    os.killpg(client.pid, signal.SIGKILL)
    client.wait()
    psutil.wait_procs([child], timeout=30)
    assert is_gone(child)


@pytest.mark.parametrize("name", FOREIGN)
def test_an_adapter_ends_when_its_client_is_gone(name: str, nodes: list[NodeAddress], tmp_path: Path) -> None:
    open_foreign(name, nodes, tmp_path / "log").close()
    client, child = client_with_child(name, nodes)
    client.kill()
    client.wait()
    psutil.wait_procs([child], timeout=30)
    assert is_gone(child)


# What the documentation shows.


def example(language: str) -> str:
    text = DOCUMENT.read_text(encoding="utf-8")
    return text.split(f"```{language}\n", 1)[1].split("```", 1)[0]


def test_every_message_in_the_document_is_one_of_the_protocol() -> None:
    blocks = DOCUMENT.read_text(encoding="utf-8").split("```json\n")[1:]
    messages = [line for block in blocks for line in block.split("```", 1)[0].strip().splitlines()]
    requests = [json.loads(line)["do"] for line in messages if '"do"' in line]
    answers = [msgspec.json.decode(line, type=foreign.AdapterAnswer) for line in messages if '"do"' not in line]
    steps = ["open", "acquire", "extend", "release", "close", "acquire", "held"]
    assert requests == [*steps, "acquire", "acquire", "acquire_shared", "run"]
    assert {answer.outcome for answer in answers} == {"ok", "fail", "info"}
    assert msgspec.json.decode(example("jsonl"), type=Sender).task == "c1@2"


@pytest.mark.needs("node")
def test_the_documented_example_is_a_working_lock_of_at_most_forty_lines(
    servers: list[Server], nodes: list[NodeAddress], tmp_path: Path
) -> None:
    source = example("javascript")
    assert len(source.splitlines()) <= 40
    (tmp_path / "lock.mjs").write_text(source)
    command = f"node {tmp_path / 'lock.mjs'}"
    settings = LockSettings(log_path=tmp_path / "log", node_timeout_ms=2_000)
    one, other = (open_lock("", command, nodes, settings) for _ in range(2))
    try:
        before_ns = time.monotonic_ns()
        lease = one.acquire("k", 10_000)
        after_ns = time.monotonic_ns()
        assert lease is not None
        assert servers[0].client().get("k") == lease.value
        assert lease.deadline_ns is not None
        assert before_ns <= lease.deadline_ns - (10_000 - 102) * 1_000_000 <= after_ns, "less an allowance for drift"
        assert other.acquire("k", 10_000) is None
        extended = one.extend(lease, 60_000)
        assert extended is not None
        assert 50_000 < extended.validity_ms < 60_000
        assert servers[0].client().pttl("k") > 10_000
        assert one.release(lease) is True
        assert one.release(lease) is False
        assert other.acquire("k", 10_000) is not None
        servers[0].pause()
        with pytest.raises(UnknownOutcomeError, match="no reply in time"):
            one.acquire("late", 10_000)
        servers[0].resume()
        assert one.acquire("k2", 10_000) is not None, "over a new connection"
        servers[0].stop()
        with pytest.raises(UnknownOutcomeError):
            one.acquire("k3", 10_000)
    finally:
        one.close()
        other.close()


def test_a_lock_that_says_yes_and_nothing_else_and_one_that_grants_another_time(
    program: Callable[..., list[str]], tmp_path: Path
) -> None:
    bare = opened(program("say({'outcome': 'ok', 'value': 'v'})"), tmp_path / "log")
    rounded = opened(
        program("say({'outcome': 'ok', 'value': 'v', 'validity_ms': 1990.5, 'granted_ms': 2000})"), tmp_path / "log"
    )
    try:
        assert bare.acquire("k", 1_500) == Lease("k", "v")
        assert rounded.acquire("k", 1_500) == Lease("k", "v", 1_990.5, granted_ms=2_000)
    finally:
        bare.close()
        rounded.close()


def test_a_value_of_any_bytes_is_named_to_the_adapter_as_it_named_it(
    program: Callable[..., list[str]], tmp_path: Path
) -> None:
    granted = "{'outcome': 'ok', 'value_base64': '/wE='}"
    body = f"say({granted} if request.get('value_base64', '/wE=') == '/wE=' and 'value' not in request else {{}})"
    lock = opened(program(body), tmp_path / "log")
    try:
        lease = lock.acquire("k", 1_000)
        assert lease is not None
        assert lease.value == "0xff01", "as the witness shows it"
        assert lock.extend(lease, 1_000) is not None
        assert lock.release(lease) is True
    finally:
        lock.close()


def test_what_a_program_says_when_it_refuses_is_shown_once(program: Callable[..., list[str]], tmp_path: Path) -> None:
    why = "{'outcome': 'fail', 'error': 'not today'} if request['key'] == 'k1' else {'outcome': 'fail'}"
    lock = opened(program(f"say({why})"), tmp_path / "log")
    try:
        assert (lock.acquire("k1", 1_000), lock.take_error(), lock.take_error()) == (None, "not today", None)
        assert (lock.acquire("k2", 1_000), lock.take_error()) == (None, None)
    finally:
        lock.close()


# Several tasks that share one lock.

OUT_OF_ORDER = """
if request['do'] == 'release':
    say({'outcome': 'ok', 'task': request['task']})
    continue
waiting.append(request)
if len(waiting) == 3:
    for asked in reversed(waiting):
        say({'outcome': 'ok', 'task': asked['task'], 'value': asked['key']})
    waiting.clear()
"""


def test_each_task_gets_the_answer_to_its_own_request(program: Callable[..., list[str]], tmp_path: Path) -> None:
    body = textwrap.indent(OUT_OF_ORDER.strip(), " " * 20).lstrip()
    command = program(body, "waiting = []; say({'outcome': 'ok'})")
    lock = ForeignLock(command, [redis_at("127.0.0.1", 1)], LockSettings(log_path=tmp_path / "log", tasks=3))
    try:
        with ThreadPoolExecutor(3) as tasks:
            leases = list(tasks.map(lambda key: lock.acquire(key, 1_000), ["k1", "k2", "k3"]))
            assert leases == [Lease("k1", "k1"), Lease("k2", "k2"), Lease("k3", "k3")]
    finally:
        lock.close()


def test_an_adapter_that_does_not_say_whose_request_it_answers_ends_every_task(
    program: Callable[..., list[str]], tmp_path: Path
) -> None:
    command = program("say({'outcome': 'fail'})")
    lock = ForeignLock(command, [redis_at("127.0.0.1", 1)], LockSettings(log_path=tmp_path / "log", tasks=2))
    try:
        with ThreadPoolExecutor(2) as tasks:
            results = [tasks.submit(lock.acquire, key, 1_000) for key in ("k1", "k2")]
            for result in results:
                with pytest.raises(BrokenEnvironmentError, match="has to say whose request it answers"):
                    result.result(10)
            with pytest.raises(BrokenEnvironmentError, match="has to say whose request it answers"):
                tasks.submit(lock.acquire, "k3", 1_000).result(10)
    finally:
        lock.close()


HALF = """
import sys, threading
sys.path.append({folder!r})
from fencepost_adapter import fail, ok, serve
class Local:
    def __init__(self, nodes, settings):
        self.mutex = threading.Lock()
        self.both = threading.Barrier(2)
    def acquire(self, key, ttl_ms):
        self.both.wait(10)  # until the other task is here too
        return ok(value=threading.current_thread().name) if self.mutex.acquire(blocking=False) else fail()
    def extend(self, key, value, ttl_ms): return fail()
    def release(self, key, value):
        self.mutex.release()
        return ok()
    def describe(self): return {{}}
serve(Local)
"""


def test_the_python_half_calls_the_adapter_from_one_thread_for_each_task(tmp_path: Path) -> None:
    source = tmp_path / "adapter.py"
    source.write_text(HALF.format(folder=str(Path(__file__).parents[2] / "workloads" / "adapters" / "python")))
    command = [sys.executable, str(source)]
    lock = ForeignLock(command, [redis_at("127.0.0.1", 1)], LockSettings(log_path=tmp_path / "log", tasks=2))
    try:
        with ThreadPoolExecutor(2) as tasks:
            leases = list(tasks.map(lambda _: lock.acquire("k", 1_000), range(2)))
            (lease,) = [lease for lease in leases if lease is not None]
            assert tasks.submit(lock.release, lease).result(10) is True
    finally:
        lock.close()


WARMED = """
import sys, threading, time
sys.path.append({folder!r})
import fencepost_adapter
from fencepost_adapter import BoundedCall, ok, serve, warm_up
fencepost_adapter.WARM_UP_S = 0.05
class Hung:
    def ping(self): {ping}
class Local:
    def __init__(self, nodes, settings): warm_up([Hung(), Hung()])
    def acquire(self, key, ttl_ms):
        with BoundedCall() as call:
            time.sleep(0.5)
        return ok(value="v", validity_ms=ttl_ms, **call.bounds())
    def describe(self): return {{}}
serve(Local)
"""


@pytest.mark.parametrize("ping", ["threading.Event().wait()", "raise ConnectionError"])
def test_opening_does_not_wait_for_a_hung_node_and_a_call_beside_its_thread_is_bounded_by_its_start(
    ping: str, tmp_path: Path
) -> None:
    source = tmp_path / "adapter.py"
    folder = str(Path(__file__).parents[2] / "workloads" / "adapters" / "python")
    source.write_text(WARMED.format(folder=folder, ping=ping))
    lock = opened([sys.executable, str(source)], tmp_path / "log")
    try:
        lease = lock.acquire("k", 1_000)
        assert lease is not None
        assert lease.computed_after_ns is not None
        assert lease.computed_before_ns is not None
        is_wide = lease.computed_before_ns - lease.computed_after_ns >= 500_000_000
        assert is_wide == ("wait" in ping)
    finally:
        lock.close()


@pytest.mark.parametrize(("held", "expected"), [("ok", True), ("fail", False)])
def test_an_adapter_is_asked_whether_its_lock_is_still_held(
    program: Callable[..., list[str]], tmp_path: Path, held: str, expected: bool
) -> None:
    body = f"say({{'outcome': {held!r} if request['do'] == 'held' else 'ok', 'value': 'v'}})"
    lock = opened(program(body), tmp_path / "log")
    try:
        lease = lock.acquire("k", 1_000)
        assert lease is not None
        assert lock.is_held(lease) is expected
    finally:
        lock.close()


def test_an_adapter_that_cannot_tell_does_not_open_for_renewal(tmp_path: Path) -> None:
    source = tmp_path / "adapter.py"
    source.write_text(HALF.format(folder=str(Path(__file__).parents[2] / "workloads" / "adapters" / "python")))
    with pytest.raises(BrokenEnvironmentError, match=r"did not open: .*cannot say whether a lock is still held"):
        ForeignLock([sys.executable, str(source)], [redis_at("127.0.0.1", 1)], LockSettings(renewal_ms=100))
