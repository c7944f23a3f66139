"""A newcomer's mistakes on the command line: each is refused in one line that says what was perhaps meant."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fencepost.errors import UsageError
from fencepost.units import Duration, DurationRange, parse_duration_ms
from harness.config import RunConfig
from harness.options import RunArguments, parse_run, replay_command
from harness.report.listing import list_runs
from harness.store.run_folder import RunFolder
from nemesis.spec import parse_spec
from tests.fuzz.command import outcome
from tests.harness import runs
from workloads.hold import Hold

MISTAKES = [
    (["test", "--nemsis", "partition"], "option --nemsis is not known, did you mean --nemesis?"),
    (["test", "--Nemesis", "partition"], "did you mean --nemesis?"),
    (["list", "--lst"], "option --lst is not known, did you mean --last?"),
    (["test", "-l", "redlock"], "option -l is not known; see `fencepost test --help`"),
    (["doctor", "--fix"], "option --fix is not known"),
    (["test", "--ttl", "-1s"], "--ttl: '-1s' is negative, and a duration cannot be"),
    (["test", "--ttl=-1s"], "--ttl: '-1s' is negative, and a duration cannot be"),
    (["test", "--restart-delay", "-1s", "--nemesis", "crash"], "--restart-delay: '-1s' is negative"),
    (["test", "--nemesis", "partition:interval=-4s"], "--nemesis partition:interval: '-4s' is negative"),
    (["test", "--clients", "-3"], "--clients is -3; it must be between 1 and 256"),
    (["test", "--nemesis", "partition,crash"], "faults are joined by +, did you mean partition+crash?"),
    (["test", "--nemesis", "partition, crash"], "did you mean partition+crash?"),
    (["test", "--nemesis", "partition crash"], "did you mean partition+crash?"),
    (["test", "--nemesis", "partition;crash"], "did you mean partition+crash?"),
    (["test", "--nemesis", "partition and pause"], "did you mean partition+pause?"),
    (["test", "--nemesis", "parttion+crsh"], "did you mean partition+crash?"),
    (["test", "--nemesis", "partition:interval=4s+crsh"], "did you mean partition:interval=4s+crash?"),
    (["test", "--nemesis", "partition", "crash"], "'crash' has no place here, did you mean --nemesis partition+crash?"),
    (["test", "--nemesis", "partition", "+crash"], "did you mean --nemesis partition+crash?"),
    (["test", "--nemesis", "partiton"], "nemesis 'partiton' is not known, did you mean partition?"),
    (["test", "partition"], "'partition' has no place here, did you mean --nemesis partition?"),
    (["test", "redlock"], "did you mean --lock redlock?"),
    (["test", "register"], "did you mean --workload register?"),
    (["test", "docker"], "did you mean --cluster docker?"),
    (["test", "nonsense"], "'nonsense' has no place here; see `fencepost test --help`"),
    (["test", "--lock", "redlok"], "no lock is named 'redlok', did you mean redlock?"),
    (["test", "--lock", "RedLock"], "no lock is named 'RedLock', did you mean redlock?"),
    (["setup", "--lock", "redlok"], "no lock is named 'redlok', did you mean redlock?"),
    (["setup", "redlock"], "did you mean --lock redlock?"),
    (["test", "--lock", "mine.MyLock"], "a class of your own is --lock mine:MyLock"),
    (["test", "--lock", "./mine.py"], "a class of your own is --lock mine:Class"),
    (["test", "--lock", "mine.py:MyLock"], "'mine.py' is a file and no module; write --lock mine:MyLock"),
    (["test", "--lock", "redlock", "--lock-command", "true"], "--lock and --lock-command cannot be given together"),
    (["replay", "latest", "--lock", "redlock", "--lock-command", "true"], "cannot be given together"),
    (["compare", "--axis", "ttl=1s", "--", "--lock", "redlock", "--lock-command", "true"], "cannot be given together"),
    (["test", "--lock-command", "node", "lock.js"], 'did you mean --lock-command "node lock.js"?'),
    (["test", "--lock"], "--lock needs a value; see `fencepost test --help`"),
    (["analyze", "--json"], "--json needs a value"),
    (["list", "--findings=yes"], "--findings takes no value"),
    (["test", "--no"], "option --no is not clear: it may be"),
    (["test", "--nodes-at", "localhost:6379"], "it is no URL; write redis://host:port"),
    (["test", "--nodes-at", "http://localhost:6379"], "http:// is not known here; write redis://host:port"),
    (["test", "--nodes-at", "redis+sentinel://s1,s2:26380/mymaster"], "`redis-cli -h s1 -p 26379 sentinel masters`"),
    (["test", "--nodes-at", "rediss+sentinel://app:pw@s1:7000"], "name the primary that the sentinel watches"),
    (["test", "--nodes-at", "redis://127.0.0.1:1"], "it cannot be reached (Connection refused); check host and port"),
    (["test", "--nodes-at", "redis://localhost:6379/2"], "locks use database 0; leave out /2"),
    (["test", "--nodes-at", "redis://a,redis://a"], "--nodes-at names a:6379 twice"),
    (["test", "--nodes-at", "redis://a,redis://b", "--nodes", "3"], "--nodes-at names 2; leave out --nodes"),
    (["test", "--nodes-at", "redis://a", "--cluster", "docker"], "--cluster docker is where the run starts servers"),
    (["test", "--nodes-at", "redis://a", "--server", "valkey"], "--server cannot be set for the servers of --nodes-at"),
    (["test", "--nodes-at", "redis://a", "--lock", "etcd"], "--lock etcd runs on etcd, and --nodes-at names servers"),
    (["test", "--nodes-at", "rediss://a", "--nodes-ca", "no.pem"], "--nodes-ca no.pem cannot be read"),
    (["test", "--nodes-at", "redis://a", "--nodes-ca", "no.pem"], "no URL of --nodes-at begins with rediss://"),
    (["test", "--nodes-with-data"], "--nodes-with-data is about servers of your own; name them with --nodes-at"),
    (["test", "--cluster", "elsewhere"], "--cluster elsewhere is for servers of yours; name them with --nodes-at"),
    (["run"], "command 'run' is not known, did you mean test?"),
    (["install", "redlock"], "command 'install' is not known, did you mean setup?"),
    (["list", "--results", __file__], "is no folder; name a folder of runs"),
    (["serve", "--results", __file__], "is no folder; name a folder of runs"),
    (["test", "--results", ""], "--results: an empty text is no path"),
    (["list", "--results="], "--results: an empty text is no path"),
    (["list", "--results", "nope"], "--results nope: there is no such folder"),
    (["serve", "--results", "nope"], "--results nope: there is no such folder"),
    (["serve", "--reports", "nope"], "--reports nope: there is no such folder"),
    (["mutants", "--only", "half is enuogh"], "is not a mutant, did you mean half is enough?"),
    (["mutants", "--only", "xyz"], "is not a mutant; docs/mutants.md and the published table"),
    (["test", "--lock", "rslock", "--nemesis", "partitoin"], "did you mean partition?"),
    (["test", "--limit", "p99 < 200ms"], "'p99' is not a figure, did you mean acquire p99?"),
    (["test", "--quiet", "-v"], "--quiet and -v cannot be given together"),
    (["test", "--duration", "30"], "--duration: '30' has no unit, did you mean 30ms or 30s?"),
    (["test", "--ttl", "2"], "--ttl: '2' has no unit, did you mean 2ms or 2s?"),
    (["test", "--hold", "300"], "--hold: '300' has no unit, did you mean 300ms or 300s"),
    (["test", "--nemesis", "partition:interval=4"], "--nemesis partition:interval: '4' has no unit"),
    (["test", "--restart-delay", "5", "--nemesis", "crash"], "--restart-delay: '5' has no unit"),
    (["compare", "--axis", "ttl=500,1000"], "'500' has no unit"),
    (["shrink", "latest", "--limit", "10"], "--limit: '10' has no unit"),
    (["replay"], "which RUN? see `fencepost replay --help`"),
    (["shrink"], "which RUN?"),
    (["analyze", "nosuch"], "there is no run folder nosuch; `fencepost list` shows those in"),
    (["analyze", "latest", "extra"], "'extra' has no place here"),
    (["claims", "nosuch"], "'nosuch' has no place here"),
    (["script", "crash-without"], "did you mean crash-without-persistence?"),
    (["script", "nosuch"], "`fencepost script --list` shows the known ones"),
    (["lsit"], "command 'lsit' is not known, did you mean list?"),
    (["version"], "did you mean --version?"),
    (["frobnicate"], "command 'frobnicate' is not known; see `fencepost --help`"),
    (["--lock", "redlock"], "--lock follows a command, as in `fencepost test --lock`"),
]


@pytest.mark.parametrize(("words", "says"), MISTAKES, ids=[" ".join(words) for words, _ in MISTAKES])
def test_a_mistake_is_one_short_line_with_what_was_meant(tmp_path: Path, words: list[str], says: str) -> None:
    code, said, error = outcome(*words, folder=tmp_path)
    assert (code, said) == (254, "")
    assert says in error
    assert len(error) < 300, "no list of everything that there is"


def test_without_a_command_the_help_is_shown_and_nothing_looks_like_a_verdict(tmp_path: Path) -> None:
    code, said, error = outcome(folder=tmp_path)
    assert code == 254
    assert re.search(r"^ +test +make a run and judge it$", said, re.MULTILINE)
    assert error == "fencepost: no command was given, so nothing was done; `fencepost test` makes a run\n"


@pytest.mark.parametrize("words", [["help"], ["-h"], ["--help"]])
def test_the_help_that_is_asked_for_is_no_mistake(tmp_path: Path, words: list[str]) -> None:
    code, said, error = outcome(*words, folder=tmp_path)
    assert (code, error) == (0, "")
    assert said.startswith("usage: fencepost")


def test_help_knows_the_commands_and_version_says_a_version(tmp_path: Path) -> None:
    assert outcome("help", "shell", folder=tmp_path) == outcome("shell", "--help", folder=tmp_path)
    code, said, _ = outcome("--version", folder=tmp_path)
    assert (code, said[:10]) == (0, "fencepost ")


@pytest.mark.parametrize("parse", [parse_duration_ms, Duration.parse, DurationRange.parse, Hold.parse])
def test_every_duration_needs_its_unit_and_only_0_needs_none(parse: object) -> None:
    for text in ("5", "0.5", "1e3", "5 s", "5sec", "-5s", "-0", "", "s"):
        with pytest.raises(UsageError, match=r"^'.*' (has no unit|is not a duration|is negative)"):
            parse(text)  # type: ignore[operator]
    assert parse("0") == parse("0ms") == parse("0.0")  # type: ignore[operator]
    assert parse("0.5s") == parse("500ms")  # type: ignore[operator]


@pytest.mark.parametrize("text", ["2-20ms", "2ms-20", "uniform:2-20ms", "exponential:20"])
def test_both_ends_of_a_range_need_their_unit(text: str) -> None:
    with pytest.raises(UsageError, match="has no unit"):
        (Hold if ":" in text else DurationRange).parse(text)


def test_a_fault_that_names_several_with_options_is_joined_as_it_was_meant() -> None:
    with pytest.raises(UsageError, match=r"did you mean partition:duration=2s\+crash:interval=3s\?"):
        parse_spec("partition:duration=2s; crash:interval=3s")
    assert len(parse_spec("pause:targets=n1,n2").lanes) == 1, "a list of nodes is one option"


def test_the_words_that_repeat_a_run_with_a_command_name_no_lock_beside_it() -> None:
    config = RunArguments(lock="redlock", lock_command="node lock.mjs", seed=1)
    words = replay_command(config, Path("schedule.json"))
    assert "--lock-command 'node lock.mjs'" in words
    assert "--lock redlock" not in words
    assert parse_run(["--lock-command", "node lock.mjs"]).lock_command == "node lock.mjs"


def test_a_run_is_listed_by_the_name_that_other_commands_take(tmp_path: Path) -> None:
    code, _, error = runs.fencepost(tmp_path, *runs.short_run("--nemesis", "none", "--duration", "500ms"))
    assert code in (0, 2), error
    (listed,) = list_runs(tmp_path / "results" / "runs")
    _, table, _ = outcome("list", folder=tmp_path)
    name = table.splitlines()[3].split()[0]
    assert name == listed.short
    assert listed.name.startswith(f"{name}.")
    assert outcome("explain", name, folder=tmp_path)[0] == 0
    assert outcome("analyze", name, folder=tmp_path)[0] == code
    assert "is the beginning of" not in outcome("analyze", name[:9], folder=tmp_path)[2]
    other = listed.path.with_name(f"{name}.000000Z-another")
    other.mkdir()
    (other / "config.json").write_text("{}")
    assert {run.short for run in list_runs(listed.path.parent)} == {listed.name[:23], f"{name}.000000Z"}
    code, _, error = outcome("analyze", name, folder=tmp_path)
    assert code == 254
    assert f"{name} is the beginning of 2 runs in" in error


@pytest.mark.parametrize("below", [".", "deeper"])
def test_a_file_in_the_place_of_the_results_is_named(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"--results .*/file is no folder"):
        RunFolder.create(tmp_path / "file" / below, RunConfig(seed=1))
