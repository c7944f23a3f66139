"""Habits drawn from the seed: the same again, around what the user decided, and none where nothing asks for them."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec
import pytest

from fencepost.errors import UsageError
from harness.config import HABITS, RunConfig
from harness.habits import with_habits
from harness.options import parse_run, replay_command
from workloads.registry import check_holds_two_keys

LONG = ["--duration", "60s"]


def run(*more: str, seed: int = 7, nemesis: str = "standard", lock: str = "redlock") -> RunConfig:
    return parse_run(["--nemesis", nemesis, "--seed", str(seed), "--lock", lock, *LONG, *more])


def had(config: RunConfig) -> set[str]:
    assert config.habits is not None
    return set(config.habits.split("+"))


def test_every_habit_comes_with_some_seeds_and_not_with_others() -> None:
    shares = {name: sum(name in had(run(seed=seed)) for seed in range(100)) for name in HABITS}
    assert 15 < shares.pop("reopen") < 35, "half of the half that has one task"
    assert shares.pop("cancel") == 0, "no call of this lock can be cancelled"
    shares["cancel"] = sum("cancel" in had(run(seed=seed, lock="redis-py-lock-async")) for seed in range(100))
    assert {name: share for name, share in shares.items() if not 30 < share < 70} == {}


@pytest.mark.parametrize(
    ("words", "habits"),
    [
        (["--nemesis", "partition"], None),
        (["--nemesis", "standard", "--load", "plain"], None),
        (["--nemesis", "standard", "--schedule", "schedule.json"], None),
        (["--nemesis", "standard", "--habits", "none"], "none"),
        (["--nemesis", "partition", "--habits", "odd-ttl"], "odd-ttl"),
    ],
)
def test_no_habit_is_drawn_unless_the_faults_are_a_mix_and_the_user_says_nothing(
    words: list[str], habits: str | None
) -> None:
    assert parse_run(["--seed", "1", *words]).habits == habits


def test_without_habits_the_options_are_those_that_were_given() -> None:
    for words in (["--habits", "none"], ["--load", "plain"]):
        config = run(*words)
        assert config == with_habits(config)
        assert (config.ttl_ms, config.persistence, config.key_names) == (1_000, "none", config.key_names)


@pytest.mark.parametrize("seed", range(12))
def test_the_commands_that_repeat_a_run_have_the_same_habits(seed: int) -> None:
    config = run(seed=seed)
    again = parse_run(shlex.split(replay_command(config, Path("schedule.json")))[2:])
    same = {"schedule": None, "nemesis": config.nemesis}
    assert msgspec.structs.replace(again, **same) == config
    assert with_habits(config) == config, "what was drawn is not drawn again"


def test_an_option_with_a_value_of_its_own_keeps_it() -> None:
    config = run("--habits", "odd-ttl+kept-data", "--ttl", "450ms", "--persistence", "aof-no")
    assert (config.ttl_ms, config.persistence) == (450, "aof-no")


def test_a_default_that_the_user_named_is_not_replaced() -> None:
    seeds = range(20)
    named = [run("--ttl", "1s", "--persistence", "none", "--key-names", "numbered", seed=seed) for seed in seeds]
    assert {(each.ttl_ms, each.persistence, each.key_names_are) for each in named} == {(1_000, "none", "numbered")}
    assert not any(had(each) & {"odd-ttl", "kept-data", "shared-prefix"} for each in named)
    assert {run(seed=seed).persistence for seed in seeds} == {"none", "aof-always"}


def test_a_ttl_that_is_drawn_is_no_whole_second_and_fits_into_the_run_and_over_the_timeouts() -> None:
    drawn = {run("--habits", "odd-ttl", "--duration", "20s", seed=seed).ttl_ms for seed in range(30)}
    assert drawn == {700, 1_300, 1_500}
    assert {run("--habits", "odd-ttl", seed=seed).ttl_ms for seed in range(30)} == {700, 1_300, 1_500, 2_300}
    patient = {run("--habits", "odd-ttl", "--node-timeout", "300ms", seed=seed).ttl_ms for seed in range(30)}
    assert patient == {1_300, 1_500, 2_300}
    assert run("--habits", "odd-ttl", "--duration", "3s").ttl_ms == 1_000


def test_data_are_kept_only_by_a_server_that_can() -> None:
    assert run("--habits", "kept-data").persistence == "aof-always"
    assert run("--habits", "kept-data", "--server", "redis=/opt/redis-server").persistence == "none"


def test_keys_that_share_a_prefix_are_told_apart_and_begin_with_each_other() -> None:
    names = run("--habits", "shared-prefix", "--keys", "40").key_names
    assert names[:5] == ("k1", "k1:1", "k11", "k1:2", "k12")
    assert len(set(names)) == 40
    assert all(name.startswith("k1") for name in names)


def test_several_tasks_come_with_fewer_clients_so_that_about_as_many_users_compete() -> None:
    drawn = {(config.tasks, config.clients) for config in (run("--habits", "tasks", seed=seed) for seed in range(30))}
    assert drawn == {(2, 5), (3, 4), (4, 3)}


@pytest.mark.parametrize(
    ("words", "most"),
    [(["--clients", "2"], 4), (["--clients", "8"], 3), (["--clients", "10"], 2), (["--clients", "12"], 2)],
)
def test_clients_that_the_user_counted_stay_and_have_no_more_tasks_than_two_cores_bear(
    words: list[str], most: int
) -> None:
    drawn = [run("--habits", "tasks", *words, seed=seed) for seed in range(30)]
    assert {config.clients for config in drawn} == {int(words[1])}
    assert {config.tasks for config in drawn} == set(range(2, most + 1))


def test_a_program_that_is_given_as_a_command_has_one_task_because_it_says_nothing_of_several() -> None:
    words = ["--nemesis", "standard", "--lock-command", "cat", "--habits", "drawn"]
    assert {parse_run([*words, "--seed", str(seed)]).tasks for seed in range(20)} == {1}


EVERY = "+".join(HABITS)


@pytest.mark.parametrize(
    ("lock", "words", "missing"),
    [
        ("redlock", ["--tasks", "1"], {"cancel"}),
        ("redlock", [], {"cancel", "reopen"}),
        ("tests.careless_locks:CountsInSeconds", [], {"cancel", "reopen"}),
        ("tests.correct_locks:GivesUpWaiting", [], {"tasks"}),
        ("postgres-row", ["--tasks", "1"], {"cancel", "tasks", "two-keys", "forget", "reopen"}),
        ("redlock-ng", [], {"cancel", "tasks", "forget", "reopen"}),
        ("redis-py-lock-async", [], {"tasks", "forget", "reopen"}),
        ("redlock-reentrant", [], {"cancel", "forget", "reopen"}),
        ("redlock", ["--reenter", "1"], {"cancel", "forget", "reopen"}),
        ("redlock-renewing", ["--renewal", "100ms"], {"cancel", "forget", "overstay", "reopen"}),
        ("redlock", ["--clients", "13"], {"cancel", "tasks"}),
        ("no-op", [], {"cancel", "tasks"}),
        ("tests.correct_locks:ComesBack", [], {"cancel", "tasks"}),
        ("postgres-advisory", ["--tasks", "1"], {"cancel", "tasks", "forget", "reopen"}),
    ],
)
def test_what_a_lock_or_the_load_cannot_do_is_not_had(lock: str, words: list[str], missing: set[str]) -> None:
    config = run("--habits", EVERY, *words, lock=lock)
    assert set(HABITS) - had(config) == missing
    config.check()


@pytest.mark.parametrize("share", ["--overstay", "--forget"])
def test_leases_that_never_end_cannot_be_overstayed(share: str) -> None:
    with pytest.raises(UsageError, match="--renewal"):
        run(share, "0.5", "--renewal", "100ms", lock="redlock-renewing")


def test_tasks_cannot_close_the_lock_that_they_share() -> None:
    with pytest.raises(UsageError, match="--tasks"):
        run("--reopen", "1s", "--tasks", "2")


def test_a_lock_that_holds_one_key_at_a_time_is_asked_for_no_second_one() -> None:
    assert run("--habits", "two-keys").two_keys == 0.3
    assert (parse_run(["--nemesis", "standard", "--lock-command", "cat", "--habits", "two-keys"])).two_keys == 0
    with pytest.raises(UsageError, match="--two-keys"):
        check_holds_two_keys("postgres-transaction", None)


def test_a_habit_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="odd-ttl, kept-data"):
        run("--habits", "odd")
