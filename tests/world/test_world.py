"""The small world: the same seed leaves the same history, faults take effect in it, and the judge judges it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from fencepost import history as words
from harness.checkers.judge import judge
from harness.options import parse_run
from tests.correct_locks import WaitsInLine
from tests.judge import histories
from tests.world import fuzz, shrink
from tests.world.play import Play, Played, lock_of

BRIEF = (
    *("--ttl", "300ms", "--clients", "3", "--tasks", "1"),
    *("--recovery", "1s", "--duration", "3s", "--nemesis", "standard"),
)


def play(lock: str, seed: int, *words: str) -> Played:
    config = parse_run([*BRIEF, "--lock", lock, "--seed", str(seed), *words])
    return Play(config, lock_of(lock)).play()


def left(history: Played) -> bytes:
    rows = [{name: each for name, each in row.items() if name != "words"} for row in history.rows]
    whole = [[*history.ops.items()], history.key_events, history.faults, history.ends, history.writes, rows]
    return msgspec.json.encode([[(list(name), ops) for name, ops in whole[0]], *whole[1:]])


def test_the_same_seed_leaves_the_same_history() -> None:
    first, again, another = (play("redlock", seed) for seed in (7, 7, 8))
    assert left(first) == left(again)
    assert left(first) != left(another)


def test_the_standard_faults_take_effect_and_every_change_of_a_key_has_its_request() -> None:
    history = play("redlock", 3, "--duration", "9s")
    injected = [fault for fault in history.faults if fault.event == "injected"]
    assert sum(fault.holds for fault in injected) >= 0.9 * len(injected) > 10
    assert {end.how for end in history.ends} >= {"finished"}
    assert any(event.event == "blind" for event in history.key_events)
    assert any("to_node_ns" not in row for row in history.rows), "no request was lost"
    changes = history.recorded().ledger
    assert changes is not None
    asked = changes.rows[changes.rows["what"].isin(["set", "prolonged", "deleted"]) & changes.rows["is_seen"]]
    assert len(asked) > 100
    assert (asked["client"].notna()).all()


@pytest.mark.parametrize("seed", range(1, 1 + len(fuzz.LOCKS)))
def test_no_correct_lock_is_blamed(seed: int) -> None:
    outcome = fuzz.right(seed)
    assert outcome.problems == ()
    assert outcome.sections > 0


@pytest.mark.parametrize(
    ("lock", "kind"),
    [
        ("workloads.mutants:HalfIsEnough", "overlap"),
        ("workloads.mutants:FreesWithoutComparing", "changed-another-clients-key"),
        ("workloads.mutants:LeavesRefusedAttempts", "keys-left-behind"),
        ("workloads.mutants:TakesForGood", "taken-for-good"),
    ],
)
def test_a_broken_lock_is_found(lock: str, kind: str) -> None:
    found: Counter[str] = Counter()
    for seed in range(1, 7):
        nodes = "4" if lock.endswith("HalfIsEnough") else "5"
        history = play(lock, seed, "--nodes", nodes, "--duration", "6s", "--recovery", "3s", "--habits", "none")
        found.update(each.kind for each in judge(history.recorded()).findings if each.blame == "lock")
        if found[kind]:
            return
    pytest.fail(f"not found: {dict(found)}")


@pytest.mark.parametrize(
    ("lock", "kind"),
    [
        ("tests.careless_locks:HearsWhatWasCancelled", "overlap"),
        ("tests.careless_locks:ExpiresInASecondRequest", "no-recovery"),
        ("tests.careless_locks:KeepsItsPlace", "waits-for-free-lock"),
        ("tests.correct_locks:GivesUpWaiting", None),
        ("tests.correct_locks:WaitsInLine", None),
    ],
)
def test_what_a_lock_does_wrong_with_cancelled_calls_is_found_only_if_calls_are_cancelled(
    lock: str, kind: str | None
) -> None:
    def blamed(habits: str) -> set[str]:
        words = ["--duration", "6s", "--nemesis", "none", "--recovery", "2s", "--habits", habits]
        words += ["--nodes", "1", "--wait", "2s"] if issubclass(lock_of(lock), WaitsInLine) else []
        history = play(lock, 2, *words)
        assert any(op.cancelled for ops in history.ops.values() for op in ops) == (habits == "cancel")
        return {each.kind for each in judge(history.recorded()).findings if each.blame == "lock"} - {"starved-client"}

    assert blamed("none") == set()
    assert kind in blamed("cancel") if kind else blamed("cancel") == set()


@pytest.mark.parametrize(
    ("lock", "kind", "words"),
    [
        ("tests.careless_locks:FreesAllThatItHolds", "overlap", []),
        ("tests.careless_locks:LetsOneIn", "acquire-never-ended", []),
        ("tests.careless_locks:LetsOneInForEachKey", None, []),
        ("tests.careless_locks:RenewsOneKey", "overlap", ["--renewal", "60ms", "--hold", "uniform:300ms-900ms"]),
        ("redlock-renewing", None, ["--renewal", "60ms", "--hold", "uniform:300ms-900ms"]),
    ],
)
def test_what_a_lock_mixes_up_between_keys_is_found_only_if_clients_hold_two(
    lock: str, kind: str | None, words: list[str]
) -> None:
    def played(share: str) -> tuple[Played, set[str]]:
        more = ["--duration", "5s", "--nemesis", "none", "--recovery", "1s", "--habits", "none", "--keys", "2"]
        history = play(lock, 1, *more, "--two-keys", share, *words)
        return history, {each.kind for each in judge(history.recorded()).findings if each.blame == "lock"}

    assert played("0")[1] == set()
    history, blamed = played("0.5")
    assert kind in blamed if kind else blamed == set()
    sections = history.recorded().sections.sort_values("start_ns").assign(process=lambda each: each["client"].str[:2])
    orders = set()
    for _, own in sections.groupby("process"):
        for first, second in pairwise(own.itertuples()):
            if second.start_ns < first.end_ns:
                orders.add((first.key, second.key))
    assert kind == "acquire-never-ended" or orders == {("k1", "k2"), ("k2", "k1")}


def test_clients_that_wait_for_each_other_give_back_what_they_hold_and_the_lock_is_not_blamed() -> None:
    history = play("redlock", 1, "--nemesis", "none", "--habits", "none", "--keys", "2", "--two-keys", "1")
    tried = {(user, op.section) for user, ops in history.ops.items() for op in ops if op.f == "acquire"}
    granted = {(user, op.section) for user, ops in history.ops.items() for op in ops if op.f == "release"}
    assert len(tried - granted) > len(history.ops), "no client gave up"
    assert not any(each.blame == "lock" for each in judge(history.recorded()).findings)


@pytest.mark.parametrize("at", ["acquiring", "extending", "releasing"])
def test_a_lock_that_takes_silence_for_a_lost_key_is_found_when_the_reply_to_an_extension_is_lost(at: str) -> None:
    words = ["--habits", "none", "--keys", "2", "--hold", "uniform:200ms-600ms", "--extend", "9", "--extend-at", "0.3"]
    faults = f"lost-reply:at={at},nodes=all,interval=500ms"
    history = play("tests.careless_locks:TakesSilenceForLoss", 1, *words, "--nemesis", faults, "--duration", "6s")
    found = {each.kind for each in judge(history.recorded()).findings if each.blame == "lock"}
    assert found == ({"keys-left-behind"} if at == "extending" else set())


def test_a_history_as_literal_python_is_judged_as_the_run_was() -> None:
    history = play("workloads.mutants:HalfIsEnough", 4, "--nodes", "4", "--habits", "none")
    assert shrink.shows(history, "overlap")
    names: dict[str, Any] = {}
    exec("\n".join(shrink.literal(history)), {**vars(words), **vars(histories)}, names)
    ours, told = (judge(one.recorded()) for one in (history, names["history"]))
    assert {(each.kind, each.count) for each in told.findings} == {(each.kind, each.count) for each in ours.findings}


def test_what_a_finding_does_not_need_is_taken_away() -> None:
    history = play("workloads.mutants:HalfIsEnough", 4, "--nodes", "4", "--habits", "none")
    overlap = next(each for each in judge(history.recorded()).findings if each.kind == "overlap").examples[0]
    needed = {(overlap[name]["client"], overlap[name]["section"]) for name in ("earlier", "later")}
    gone = {part for part in shrink.parts_of(history)[0] if (part[1][0][0], part[1][1]) not in needed}
    left = shrink.without(history, gone)
    assert sum(map(len, left.ops.values())) < 20 < sum(map(len, history.ops.values()))
    assert shrink.shows(left, "overlap")


def test_wrong_judges_are_exposed() -> None:
    _, _, *others = fuzz.WRONG  # of faults and of leases
    assert set(others) <= fuzz.exposed(1).keys(), "the other two need other runs"
    assert len(fuzz.WRONG) == 5
