"""One declaration an option: what the command line, a run and the command that repeats it make of it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from itertools import chain
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost.errors import UsageError
from fencepost.options import Declared, declared
from harness.cli.reference import render
from harness.config import RunConfig
from harness.habits import with_habits
from harness.limits import FIGURES, Limit, Operator
from harness.loads import with_loads
from harness.options import RunArguments, options_of, parse_run, replay_command
from workloads.hold import Hold
from workloads.kinds import find_workload, workload_names

OPTIONS = declared(RunConfig)

UNHURRIED = settings(suppress_health_check=[HealthCheck.too_slow])
"""The first example imports workloads and builds the tables of the regular expressions."""


def values(each: Declared) -> st.SearchStrategy[Any]:
    """Values of this option within its bounds, as a run may have them. A new option needs no edit here."""
    low, high = each.option.low, each.option.high
    if each.type is bool:
        return st.booleans()
    if each.choices:
        return st.sampled_from(each.choices)
    if each.field == "workload":
        return st.sampled_from(workload_names())
    if each.field == "nodes_at":
        return st.none() | st.sampled_from(["rediss://a:6380", "rediss://a:6380,redis://b:6379"])
    if each.type is int:
        return st.integers(int(low), int(high))
    if each.type is float:
        return st.none() | st.floats(low, high) if each.default is None else st.floats(low, high)
    if each.type == tuple[Limit, ...]:
        return st.lists(limits(), max_size=3).map(tuple)
    if each.type is Hold:
        return holds(low, high)
    assert each.type is str, f"{each.flag}: say here how a {each.type} is drawn"
    texts = (
        _TEXTS
        if each.option.pattern is None
        else st.from_regex(re.compile(each.option.pattern[0], re.ASCII), fullmatch=True)
    )
    return st.none() | texts if each.default is None else texts


_TEXTS = st.from_regex(r"-{0,2}[^\x00\ud800-\udfff]+", fullmatch=True)


@st.composite
def limits(draw: st.DrawFn) -> Limit:
    value = st.floats(0, 10**9, allow_subnormal=False)
    return Limit(draw(st.sampled_from(sorted(FIGURES))), draw(st.sampled_from(get_args(Operator))), draw(value))


@st.composite
def holds(draw: st.DrawFn, low: float, high: float) -> Hold:
    kind = draw(st.sampled_from(["fixed", "uniform", "exponential"]))
    ends = sorted(draw(st.tuples(st.floats(low, high), st.floats(low, high))))
    return Hold(kind, ends[0], ends[1] if kind == "uniform" else ends[0])


def checked(**chosen: Any) -> RunConfig:
    config = RunConfig(**chosen)
    config.check()
    return config


def fitting(chosen: dict[str, Any]) -> dict[str, Any]:
    """The same, without what the workload or replicas refuse, with one way to extend a lease at most, with one lock,
    and without habits that need leases that end, or a lock of one's own."""
    workload = find_workload(chosen["workload"])
    fencing = chosen["fencing"] if chosen["fencing"] in workload.fencings else workload.fencings[0]
    require = "lease" if "data" in chosen["require"] and not workload.guards_data else chosen["require"]
    extensions = chosen["extensions"] if chosen["renewal_ms"] is None else 0
    replicas = {} if chosen["replication"] == "none" else {"witness": "off", "nodes": max(2, chosen["nodes"])}
    lock = {} if chosen["lock_command"] is None else {"lock": RunConfig(seed=0).lock}
    ending = {} if chosen["renewal_ms"] is None else {"overstay": 0.0, "forget": 0.0}
    shared = {} if chosen["tasks"] == 1 else {"reopen_ms": None}
    nested = {"reentries": 0} if chosen["workload"] == "transaction-counter" else {}
    fitted = {"fencing": fencing, "require": require, "extensions": extensions}
    return {**chosen, **lock, **replicas, **ending, **shared, **nested, **fitted}


@UNHURRIED
@given(st.data())
def test_every_option_goes_from_the_command_line_to_a_run_and_back(data: st.DataObject) -> None:
    each = data.draw(st.sampled_from(OPTIONS))
    roomy = {
        "seed": 1,
        "node_timeout_ms": 1.0,
        "ttl_ms": 60_000,
        "clients": 1,
        "workload": "register",
        "witness": "off",
    }
    config = checked(**{**roomy, each.field: data.draw(values(each))})
    told = [option for option in OPTIONS if option.field != "lock" or config.lock_command is None]
    words = {option.field: list(option.words(getattr(config, option.field))) for option in told}
    given = [field for field, own in words.items() if own]
    assert parse_run(list(chain.from_iterable(words.values()))) == with_loads(with_habits(config, given), given)


@UNHURRIED
@given(st.fixed_dictionaries({each.field: values(each) for each in OPTIONS}))
def test_the_command_that_repeats_a_run_makes_an_equal_run(chosen: dict[str, Any]) -> None:
    config = checked(**{**fitting(chosen), "clients": 1, "node_timeout_ms": 10.0})
    words = shlex.split(replay_command(config, Path("saved.json")))
    assert words[:2] == ["fencepost", "test"]
    nemesis = RunConfig(seed=0).nemesis  # the schedule replaces it
    assert parse_run(words[2:]) == with_loads(
        with_habits(msgspec.structs.replace(config, schedule="saved.json", nemesis=nemesis))
    )


def test_a_value_may_be_two_dashes() -> None:
    assert parse_run(["--seed", "1", "--resource-server=--"]).resource_server == "--"


def test_a_default_is_not_repeated() -> None:
    assert replay_command(RunConfig(seed=7), Path("s.json")) == "fencepost test --seed 7 --schedule s.json"


def test_a_run_with_extensions_is_repeated_with_the_same_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen from elsewhere, in a shell that does not have the variable."""
    (tmp_path / "my locks").mkdir()
    (tmp_path / "faults").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FENCEPOST_PATH", f"my locks{os.pathsep}faults")
    words = shlex.split(replay_command(RunConfig(seed=7, lock="mine"), Path("s.json")))
    assert words[:4] == ["env", f"FENCEPOST_PATH={tmp_path}/my locks:{tmp_path}/faults", "fencepost", "test"]


@pytest.mark.parametrize(
    ("called", "words"),
    [
        ("env/bin/fencepost", ["env/bin/fencepost"]),
        ("env/lib/fencepost/__main__.py", [sys.executable, "-m", "fencepost"]),
        ("env/lib/pytest/__main__.py", ["fencepost"]),
    ],
)
def test_a_run_is_repeated_by_what_was_called(
    called: str, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(tmp_path / called)])
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shlex.split(replay_command(RunConfig(seed=7), Path("s.json")))[:-4] == [*words, "test"]


def test_a_script_is_repeated_with_what_differs_from_its_own_settings() -> None:
    described = {"target": "mine", "settings": {"lock": "redlock", "ttl_ms": 3000}}
    config = RunConfig(seed=0, lock="redlock-ng", ttl_ms=1000, clients=4)
    assert replay_command(config, Path("none"), described) == "fencepost script mine --lock redlock-ng --ttl 1s"
    same = RunConfig(seed=0, lock="redlock", ttl_ms=3000)
    assert replay_command(same, Path("none"), described) == "fencepost script mine"


@pytest.mark.parametrize("each", [each for each in declared(RunArguments) if each.option.low > float("-inf")])
def test_a_number_below_its_bound_is_refused_and_the_option_is_named(each: Declared) -> None:
    for number in (each.option.low - 1, each.option.high + max(1.0, each.option.high / 1e6)):
        value = Hold("fixed", number, number) if each.type is Hold else number
        with pytest.raises(UsageError, match=f"^{each.flag} is .*; it must be between"):
            each.check(value)


def test_the_options_of_each_command_are_those_that_are_declared_for_it() -> None:
    flags = {command: {each.flag for each in options_of(command)} for command in ("replay", "script", "shrink")}
    tested = {"--workload", "--lock", "--lock-command", "--name", "--fencing"}
    common = tested | {"--persistence", "--cluster", "--server", "--resource-server"}
    assert flags["replay"] == common | {
        "--require",
        "--limit",
        "--least-faults",
        "--least-reach",
        "--least-sections",
        "--most-empty",
        "--most-starved",
        "--nodes-at",
        "--nodes-ca",
        "--nodes-with-data",
    }
    assert flags["script"] == common | {"--ttl", "--disk-fs", "--replication"}
    assert flags["shrink"] == {"--cluster"}
    assert {"--seed", "--expect", "--results"} & {each.flag for each in options_of("compare")} == set()


def test_the_table_in_the_documentation_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "options.md"
    assert page.read_text() == render(), "write it anew: python -m harness.cli.reference > docs/options.md"


def test_a_configuration_of_another_version_is_read_with_defaults_and_without_what_is_unknown() -> None:
    recorded = (
        b'{"schema_version": 1, "seed": 7, "ttl_ms": 500, "x": 2, "hold": {"kind": "fixed", "low_ms": 1, "high_ms": 1}}'
    )
    config = msgspec.json.decode(recorded, type=RunConfig)
    assert config == RunConfig(seed=7, ttl_ms=500, hold=Hold("fixed", 1, 1))
