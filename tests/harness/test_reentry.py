"""Acquiring a lock again while holding it: the client is inside until its last release."""

from __future__ import annotations

from pathlib import Path

from harness.checkers.reentry import Figures, check
from tests.harness import runs
from tests.harness.second_tries import caught, spared
from tests.judge.histories import History

NESTED = ["--reenter", "2", "--hold", "10ms", "--clients", "3", "--nemesis", "none"]

FIRST_RELEASE_FREES = '''
from workloads.locks.redlock_reentrant import ReentrantRedlock


class Forgets(ReentrantRedlock):
    """The first release frees the keys, however often it was acquired."""

    def stays_held(self, left):
        return False
'''

NEVER_LOOKS = '''
from workloads.locks.redlock_reentrant import ReentrantRedlock


class NeverLooks(ReentrantRedlock):
    """It only counts, also when the lease is over."""

    def acquire(self, key, ttl_ms):
        lease, count = self._counts.held.get(key, (None, 0))
        if lease is None:
            return super().acquire(key, ttl_ms)
        self._counts.held[key] = lease, count + 1
        return lease
'''
BEYOND_THE_LEASE = ["--reenter", "1", "--ttl", "300ms", "--hold", "450ms", "--clients", "3", "--nemesis", "none"]


def test_a_re_entrant_lock_keeps_its_holder_inside_until_the_last_release(tmp_path: Path) -> None:
    arguments = runs.short_run(*NESTED, "--lock", "redlock-reentrant", "--require", "exclusion")
    code, said, run = spared(tmp_path, arguments)
    assert code == 0, said
    assert len(run.sections) > 10
    steps = run.ops[run.ops["outcome"] == "ok"].groupby("f", observed=True).size()
    assert abs(steps["reenter"] - 4 * steps["acquire"]) <= 12, "before the work, and after it"
    assert abs(steps["leave"] - steps["reenter"]) <= 6
    assert "acquires by the holder granted, 0 refused" in said


def test_a_lock_whose_first_release_lets_everybody_in_is_caught(tmp_path: Path) -> None:
    code, said, run = caught(tmp_path, runs.short_run(*NESTED, "--lock", "my_lock:Forgets"), FIRST_RELEASE_FREES)
    assert code == 1, said
    assert ("overlap", "lock") in {(finding.kind, finding.blame) for finding in run.verdict.findings}


def test_a_lock_that_only_counts_when_the_lease_is_over_is_caught(tmp_path: Path) -> None:
    code, said, run = caught(tmp_path, runs.short_run(*BEYOND_THE_LEASE, "--lock", "my_lock:NeverLooks"), NEVER_LOOKS)
    assert code == 1, said
    assert ("nested-acquire-without-majority", "lock") in {(found.kind, found.blame) for found in run.verdict.findings}


def test_a_lock_that_refuses_its_holder_when_the_lease_is_over_is_not_blamed(tmp_path: Path) -> None:
    code, said, run = spared(tmp_path, runs.short_run(*BEYOND_THE_LEASE, "--lock", "redlock-reentrant"))
    assert code == 0, said
    refused = (run.ops["f"] == "reenter") & (run.ops["outcome"] == "fail")
    assert refused.sum() > 0, "the lease was over"


def test_a_lock_that_is_not_re_entrant_may_grant_anew_what_is_over(tmp_path: Path) -> None:
    code, said, run = spared(tmp_path, runs.short_run(*BEYOND_THE_LEASE, "--clients", "1"))
    assert code == 0, said
    assert not [found for found in run.verdict.findings if found.blame == "lock"]
    assert ((run.ops["f"] == "reenter") & (run.ops["outcome"] == "ok")).sum() > 0, "the lease was over"


def test_a_lock_that_is_not_re_entrant_refuses_its_holder_and_harms_nobody(tmp_path: Path) -> None:
    """Each refusal takes all rounds of an acquire, so that a short run has too few sections to be judged."""
    code, said, _ = spared(tmp_path, runs.short_run(*NESTED, "--duration", "4s"))
    assert code == 0, said
    assert "0 acquires by the holder granted" in said


def test_a_section_lasts_until_the_last_release_and_each_new_grant_may_be_a_new_lease() -> None:
    history = History(ttl_ms=100).section("c1", 0, 90, deadline=100)
    history.op("c1", "reenter", "ok", 1, 50, 51, validity_ms=99.0).op("c1", "leave", "ok", 1, 60, 61)
    (section,) = history.sections()
    assert (section["end"], section["ended"]) == (90, "release")
    assert (section["deadline_min"], section["deadline_max"]) == (100, 150)


def test_what_the_holder_was_told_is_counted() -> None:
    history = History().section("c1", 0, 90)
    for outcome in ("ok", "fail", "fail", "info"):
        history.op("c1", "reenter", outcome, 1, 10, 11)
    assert check(history.recorded()).figures == Figures(granted=1, refused=2, unknown=1)
    assert check(History().section("c1", 0, 90).recorded()).figures is None
