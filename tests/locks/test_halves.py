"""The adapters' half of the protocol in every language, each under a toy lock that asks nobody, and all toys alike.

What only one language has is tested in a file of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest
from _pytest.mark import ParameterSet

import workloads
from fencepost.errors import BrokenEnvironmentError
from tests.locks.conftest import redis_at
from tests.needs import find_go
from workloads.base import LockSettings
from workloads.foreign import ForeignLock, UnknownOutcomeError
from workloads.installation import installed_folder
from workloads.languages.base import language_names
from workloads.options import LockOptions
from workloads.registry import foreign_locks

HALVES = Path(workloads.__file__).parent / "adapters"
TOYS = Path(__file__).parent.parent / "toys" / "halves"
NODES = [{"host": "127.0.0.1", "port": 1, "url": "redis://127.0.0.1:1/0"}]


class EndsWith(str):
    """Equal to every text that ends with it: languages name the class of an exception in front of its message."""

    __slots__ = ()
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and other.endswith(str(self))


NOT_TEXT = "/wBB"
"""The bytes ff 00 41 in base64: no UTF-8."""


def _python(source: Path, folder: Path) -> list[str]:
    for file in (source / "adapter.py", HALVES / "python" / "fencepost_adapter.py"):
        shutil.copy(file, folder)
    return [sys.executable, str(folder / "adapter.py")]


def _node(source: Path, folder: Path) -> list[str]:
    for file in (source / "adapter.mjs", *(HALVES / "node").iterdir()):
        shutil.copy(file, folder)
    return ["node", str(folder / "adapter.mjs")]


def _go(source: Path, folder: Path) -> list[str]:
    shutil.copytree(source, folder / "toy")
    shutil.copytree(HALVES / "go", folder / "fencepost")
    go = str(find_go())
    settings = os.environ | {"GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "GOWORK": "off", "CGO_ENABLED": "0"}
    for words in ["mod", "edit", "-replace=fencepost=../fencepost"], ["build", "-o", str(folder / "adapter"), "."]:
        subprocess.run([go, *words], cwd=folder / "toy", env=settings, check=True)
    return [str(folder / "adapter")]


def _rust(source: Path, folder: Path) -> list[str]:
    shutil.copytree(source, folder / "toy")
    shutil.copy(HALVES / "rust" / "fencepost_adapter.rs", folder / "toy")
    words = ["cargo", "build", "--quiet", "-j1", "--target-dir", str(folder / "target")]
    subprocess.run(words, cwd=folder / "toy", check=True)
    return [str(folder / "target" / "debug" / "toy")]


def _java(source: Path, folder: Path) -> list[str]:
    sources = map(str, [*(HALVES / "java").glob("*.java"), source / "Adapter.java"])
    words = ["javac", "--release", "17", "-Xlint:all,-fallthrough", "-Werror", "-d", str(folder), *sources]
    subprocess.run(words, check=True)
    return ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", str(folder), "Adapter"]


def _php(source: Path, folder: Path) -> list[str]:
    for file in (source / "adapter.php", HALVES / "php" / "fencepost_adapter.php"):
        shutil.copy(file, folder)
    (lock,) = (lock for lock in foreign_locks() if lock.name == "laravel-cache-lock")
    return [str(installed_folder(lock) / "php"), str(folder / "adapter.php")]


_BUILD: dict[str, Callable[[Path, Path], list[str]]] = {
    "go": _go,
    "java": _java,
    "node": _node,
    "php": _php,
    "python": _python,
    "rust": _rust,
}
_WITH_THREADS = sorted(_BUILD.keys() - {"php"})
"""Where a program does something else while a call of the lock waits."""


def _where(languages: Iterable[str]) -> list[ParameterSet]:
    """These, each where its toolchain is."""
    return [
        pytest.param(each, marks=[] if each == "python" else pytest.mark.needs(each), id=each) for each in languages
    ]


@dataclass
class Program:
    """A toy that was built. `command` runs it."""

    language: str
    command: list[str]


@dataclass
class Adapter:
    """An adapter that was started and opened; `ask` sends one request and returns the answer."""

    process: subprocess.Popen[str]

    def ask(self, do: str, **fields: object) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"do": do, **fields}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert isinstance(answer, dict)
        return answer


@pytest.fixture(scope="session", params=_where(_BUILD))
def program(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Program:
    language: str = request.param
    return Program(language, _BUILD[language](TOYS / language, tmp_path_factory.mktemp(language)))


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.fixture
def unopened(program: Program, log: Path) -> Iterator[Adapter]:
    with log.open("wb") as stderr:
        pipe = subprocess.PIPE
        process = subprocess.Popen(program.command, stdin=pipe, stdout=pipe, stderr=stderr, text=True)
    with process:
        yield Adapter(process)
        process.kill()


@pytest.fixture
def adapter(unopened: Adapter) -> Adapter:
    settings = {"seed": 2**48 - 1, "node_timeout_ms": 50.0, "retry_delay_ms": 50.0, "manifest": {"tries": 3}}
    assert unopened.ask("open", nodes=NODES, settings=settings, protocol=1, later="ignored")["outcome"] == "ok"
    return unopened


def test_there_is_a_toy_in_every_language() -> None:
    assert sorted(_BUILD) == list(language_names())


def test_an_adapter_describes_itself_and_gets_every_setting(unopened: Adapter) -> None:
    options = {field.name: field.default for field in msgspec.structs.fields(LockOptions)}
    settings = options | {"seed": 2**48 - 1, "manifest": {"tries": 3, "fast": True}, "added later": [1.5, None]}
    answer = unopened.ask("open", nodes=NODES, settings=settings)
    assert answer == {"outcome": "ok", "describe": {"library": "toy 1.0", "settings": settings}}


def test_an_adapter_that_cannot_open_says_why(unopened: Adapter) -> None:
    answer = unopened.ask("open", nodes=[], settings={})
    assert answer == {"outcome": "fail", "error": EndsWith("there are no nodes")}


def test_a_deadline_is_told_on_the_clock_that_all_processes_share(adapter: Adapter) -> None:
    before_ns = time.monotonic_ns()
    answer = adapter.ask("acquire", key="until", ttl_ms=1500)
    after_ns = time.monotonic_ns()
    assert before_ns + 1_500_000_000 <= answer["deadline_ns"] <= after_ns + 1_500_000_000
    assert answer["value"] == "v"
    assert "validity_ms" not in answer


@pytest.mark.parametrize("program", _where(["go"]), indirect=True)
def test_a_deadline_of_the_wall_clock_is_converted(adapter: Adapter) -> None:
    before_ns = time.monotonic_ns()
    answer = adapter.ask("acquire", key="until, by the wall clock", ttl_ms=1500)
    after_ns = time.monotonic_ns()
    slewed_ns = 10_000_000
    assert before_ns - slewed_ns <= answer["deadline_ns"] - 1_500_000_000 <= after_ns + slewed_ns


def test_a_duration_was_computed_within_the_call(adapter: Adapter) -> None:
    before_ns = time.monotonic_ns()
    answer = adapter.ask("acquire", key="for", ttl_ms=1500)
    after_ns = time.monotonic_ns()
    assert answer["validity_ms"] == 1500
    assert before_ns <= answer["computed_after_ns"] <= answer["computed_before_ns"] <= after_ns


@pytest.mark.parametrize("program", _where(["rust"]), indirect=True)
def test_what_a_thread_slept_does_not_count_if_it_computed_at_the_end(adapter: Adapter) -> None:
    answers = [adapter.ask("acquire", key="for, on this thread", ttl_ms=1500) for _ in range(5)]
    widths_ns = [answer["computed_before_ns"] - answer["computed_after_ns"] for answer in answers]
    assert 1_000_000 <= min(widths_ns) < 20_000_000, "a busy machine makes single ones wide"


def test_a_yes_and_nothing_else_is_bounded_by_the_whole_call_and_has_no_validity(adapter: Adapter) -> None:
    before_ns = time.monotonic_ns()
    answer = adapter.ask("acquire", key="yes", ttl_ms=1500)
    after_ns = time.monotonic_ns()
    waited_ns = 19_000_000  # a timer of Node.js may be a millisecond early
    assert before_ns <= answer["computed_after_ns"] <= answer["computed_before_ns"] - waited_ns
    assert answer["computed_before_ns"] <= after_ns
    assert {"validity_ms", "deadline_ns", "value"}.isdisjoint(answer)
    assert answer["token"] == 7


def test_a_value_that_is_no_text_comes_and_goes_as_base64(adapter: Adapter) -> None:
    assert adapter.ask("acquire", key="yes", ttl_ms=1500)["value_base64"] == NOT_TEXT
    assert adapter.ask("release", key="yes", value_base64=NOT_TEXT) == {"outcome": "ok"}
    assert adapter.ask("release", key="yes", value="v")["outcome"] == "fail"


def test_refusals_and_unknown_outcomes_say_why_in_one_line(adapter: Adapter) -> None:
    refused = {"outcome": "fail", "error": "somebody else has it"}
    assert adapter.ask("acquire", key="held", ttl_ms=1500) == refused
    assert adapter.ask("acquire", key="unknown", ttl_ms=1500) == {"outcome": "info", "error": "no reply"}
    assert adapter.ask("extend", key="k", value="v", ttl_ms=1500)["outcome"] == "fail"
    assert adapter.ask("dance")["error"] == "this adapter does not support dance"


def test_an_exception_is_an_unknown_outcome_and_its_place_is_in_the_log(adapter: Adapter, log: Path) -> None:
    assert adapter.ask("acquire", key="panic", ttl_ms=1500)["outcome"] == "info"
    assert adapter.ask("acquire", key="until", ttl_ms=1500)["outcome"] == "ok"
    assert "out of luck" in log.read_text()
    assert "adapter." in log.read_text().lower()


def test_what_the_library_prints_goes_to_the_log_and_an_answer_carries_whatever_it_shows(
    adapter: Adapter, log: Path
) -> None:
    answer = adapter.ask("acquire", key="k", ttl_ms=1500)
    assert answer["token"] == 7
    assert (answer["granted_ms"], answer["requested_ns"]) == (2000, 1)
    assert log.read_text() == "opening 127.0.0.1:1\nprinted by the library\nand once more\n"


@pytest.mark.parametrize("program", _where(_WITH_THREADS), indirect=True)
def test_tasks_share_the_lock_and_each_answer_names_its_task(adapter: Adapter) -> None:
    assert adapter.process.stdin is not None
    assert adapter.process.stdout is not None
    for task in (1, 2):  # neither is answered before both are inside
        request = {"do": "acquire", "task": task, "key": "meet", "ttl_ms": 1}
        adapter.process.stdin.write(json.dumps(request) + "\n")
    adapter.process.stdin.flush()
    answers = [json.loads(adapter.process.stdout.readline()) for _ in range(2)]
    assert {(answer["task"], answer["outcome"]) for answer in answers} == {(1, "ok"), (2, "ok")}
    assert adapter.ask("acquire", task=7, key="panic", ttl_ms=1)["task"] == 7


def test_a_library_that_renews_is_asked_whether_the_lock_is_held(unopened: Adapter) -> None:
    node = {**NODES[0], "host": "renews"}
    assert unopened.ask("open", nodes=[node], settings={"renewal_ms": 100})["outcome"] == "ok"
    assert unopened.ask("held", key="k", value="v") == {"outcome": "ok"}
    assert unopened.ask("held", key="k", value="w") == {"outcome": "fail", "error": "it is another one"}


def test_a_library_that_does_not_renew_says_so(unopened: Adapter) -> None:
    answer = unopened.ask("open", nodes=NODES, settings={"renewal_ms": 100})
    assert answer["outcome"] == "fail"
    assert "--renewal" in answer["error"]


def test_after_close_the_program_exits(adapter: Adapter) -> None:
    assert adapter.ask("close") == {"outcome": "ok"}
    assert adapter.process.wait(60) == 0


def test_what_was_asked_before_stdin_ended_is_answered(adapter: Adapter) -> None:
    answers, _ = adapter.process.communicate('{"do":"acquire","key":"held","ttl_ms":1}\n' * 3, timeout=60)
    assert answers.count("somebody else has it") == 3
    assert adapter.process.returncode == 0


@pytest.mark.parametrize("program", _where(["php"]), indirect=True)
def test_a_language_without_threads_says_that_tasks_cannot_share_its_lock(unopened: Adapter) -> None:
    answer = unopened.ask("open", nodes=NODES, settings={"tasks": 2})
    assert answer["outcome"] == "fail"
    assert "--tasks" in answer["error"]


@pytest.mark.parametrize("program", _where(_WITH_THREADS), indirect=True)
def test_a_call_that_hangs_does_not_outlive_stdin(adapter: Adapter) -> None:
    adapter.process.communicate('{"do":"acquire","key":"hang","ttl_ms":1}\n', timeout=60)
    assert adapter.process.returncode == 0


@pytest.mark.parametrize("program", _where(["go", "node", "rust"]), indirect=True)
def test_a_library_that_dies_is_reported_with_its_last_words(program: Program, log: Path) -> None:
    lock = ForeignLock(program.command, [redis_at("127.0.0.1", 1)], LockSettings(log_path=log))
    try:
        with pytest.raises(UnknownOutcomeError):
            lock.acquire("panic", 1_000)
        with pytest.raises(
            BrokenEnvironmentError, match=r"ended with exit code \d.*out of luck|was killed by signal 6"
        ):
            lock.acquire("panic elsewhere", 1_000)
    finally:
        lock.close()
