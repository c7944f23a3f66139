"""Loads drawn from the seed: the same again, complete, and around what the user decided."""

from __future__ import annotations

import shlex
from itertools import pairwise
from pathlib import Path

import msgspec
import pytest

from harness.config import RunConfig
from harness.loads import KINDS, LONGEST_TTLS, SHORTEST_TTLS, with_loads
from harness.options import parse_run, replay_command
from workloads.hold import Hold

DRAWN = ["--load", "drawn", "--ttl", "500ms", "--clients", "4", "--duration", "60s"]


def drawn(*more: str) -> RunConfig:
    return parse_run([*DRAWN, *(() if "--seed" in more else ("--seed", "7")), *more])


def test_the_command_that_replays_a_run_draws_the_same_loads() -> None:
    config = drawn("--think", "5ms")
    again = parse_run(shlex.split(replay_command(config, Path("schedule.json")))[2:])
    assert again.loads == config.loads
    assert again.loads != with_loads(msgspec.structs.replace(config, seed=8)).loads


def test_a_default_that_the_user_named_is_in_every_load_and_in_the_command_that_replays_the_run() -> None:
    usual = RunConfig(seed=0)
    config = drawn("--hold", str(usual.hold), "--keys", str(usual.keys))
    assert {(load.hold, load.keys) for load in config.loads} == {(usual.hold, usual.keys)}
    again = parse_run(shlex.split(replay_command(config, Path("schedule.json")))[2:])
    assert again.loads == config.loads


def test_what_was_drawn_is_in_the_configuration_that_is_recorded() -> None:
    config = drawn()
    assert msgspec.json.decode(msgspec.json.encode(config), type=RunConfig).loads == config.loads


def test_the_loads_cover_the_run_in_order_and_each_kind_comes_before_any_comes_again() -> None:
    loads = drawn().loads
    assert loads[0].from_ms == 0
    assert all(0 < later.from_ms - earlier.from_ms <= LONGEST_TTLS * 500 + 1 for earlier, later in pairwise(loads))
    holds = [load.hold for load in loads[: len(KINDS)]]
    assert len(set(holds)) == len(KINDS)
    assert any(len(load.clients) == 1 for load in loads)
    extended = {load.keys for load in loads if load.extensions}
    assert {1, 4} <= extended <= {1, 2, 3, 4}, "from one key for all four clients to one for each"
    assert any(load.extensions and load.extend_at > 0.6 for load in loads)
    assert any(load.think.high_ms > 500 for load in loads)
    assert (loads[-1].clients, loads[-1].think.high_ms) == ((), 0), "after the heal all of them work"


@pytest.mark.parametrize("seed", range(5))
def test_most_of_the_time_clients_extend_their_leases(seed: int) -> None:
    """So that a fault that waits for an extension meets one."""
    loads = drawn("--seed", str(seed)).loads
    lasts_ms = [later.from_ms - earlier.from_ms for earlier, later in pairwise(loads)]
    extend_ms = sum(ms for load, ms in zip(loads, lasts_ms, strict=False) if load.extensions)
    assert extend_ms > sum(lasts_ms) / 2


@pytest.mark.parametrize("seed", range(20))
def test_the_last_load_lasts_for_three_ttls_at_least(seed: int) -> None:
    """A section of the load before goes on into it: in less time nobody might compete as it says."""
    config = drawn("--seed", str(seed), "--duration", "15s")
    assert len(config.loads) > 1
    assert config.loads[-1].from_ms <= 15_000 - SHORTEST_TTLS * 500 + 1


@pytest.mark.parametrize("seed", range(5))
def test_a_semaphore_is_never_left_to_fewer_clients_than_it_lets_in(seed: int) -> None:
    loads = drawn("--seed", str(seed), "--clients", "10", "--permits", "3").loads
    assert {0} < {len(load.clients) for load in loads} <= {0, 3, 4}
    assert max(load.keys for load in loads) == 3, "more keys would leave nobody to compete"


def test_what_the_user_decided_holds_in_every_load() -> None:
    loads = drawn("--hold", "20ms", "--keys", "2", "--extend", "3", "--extend-at", "0.8").loads
    assert {(load.hold, load.keys, load.extensions, load.extend_at) for load in loads} == {
        (Hold("fixed", 20, 20), 2, 3, 0.8)
    }


def test_a_lock_that_renews_its_lease_is_not_extended_by_its_clients() -> None:
    assert {load.extensions for load in drawn("--renewal", "50ms").loads} == {0}


def test_a_very_long_run_has_a_thousand_loads_at_most() -> None:
    config = parse_run(["--load", "drawn", "--seed", "1", "--ttl", "50ms", "--duration", "24h"])
    assert 900 < len(config.loads) <= 1_001


@pytest.mark.parametrize(
    ("words", "load"),
    [
        (["--nemesis", "standard"], "drawn"),
        (["--nemesis", "standard+power"], "drawn"),
        (["--nemesis", "standard", "--load", "plain"], "plain"),
        (["--nemesis", "partition"], None),
        (["--nemesis", "standard", "--schedule", "schedule.json"], None),
    ],
)
def test_the_loads_are_drawn_with_a_mix_of_faults_unless_the_user_says_otherwise(
    words: list[str], load: str | None
) -> None:
    config = parse_run(["--seed", "1", *words])
    assert config.load == load
    assert bool(config.loads) == (load == "drawn")
