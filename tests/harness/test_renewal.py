"""Locks that renew their lease by themselves: a client stays inside for as long as the lock says that it holds it."""

from __future__ import annotations

from pathlib import Path

import pytest

import fencepost
from harness.checkers.exclusion import check
from tests.harness import runs
from tests.harness.second_tries import first_that_counts, was_held_up
from tests.judge.histories import History

RENEWED = ["--ttl", "300ms", "--node-timeout", "50ms", "--renewal", "50ms", "--hold", "700ms", "--clients", "2"]

GOES_ON_SAYING_YES = '''
from workloads.locks.redlock_renewing import RenewingRedlock


class Trusting(RenewingRedlock):
    """Renews nothing, and says yes for as long as nobody has released."""

    def renewed(self, lease, ttl_ms):
        return None

    def is_held(self, lease):
        return lease.value in self._leases
'''


def test_a_renewed_lease_keeps_its_holder_inside_for_several_ttls(tmp_path: Path) -> None:
    arguments = runs.short_run(*RENEWED, "--lock", "redlock-renewing", "--nemesis", "none", "--require", "exclusion")

    def play(folder: Path) -> tuple[tuple[int, str, str], fencepost.Run, set[str]]:
        ended = runs.fencepost(folder, *arguments)
        run = fencepost.load(runs.only_run(folder))
        return ended, run, set(run.ops.loc[run.ops["f"] == "held", "outcome"])

    # A machine that stands still for most of a lease ends it, and then the lock is right to say no.
    (code, out, err), run, answers = first_that_counts(
        tmp_path, play, lambda played: (played[0][0], played[2]) == (0, {"ok"}) or not was_held_up(played[1])
    )
    assert code == 0, out + err
    stayed_ms = (run.sections["end_ns"] - run.sections["start_ns"]) / 1e6
    assert len(stayed_ms) >= 2
    assert (stayed_ms > 600).all(), "twice the TTL"
    vouched_ms = (run.sections["deadline_min_ns"] - run.sections["start_ns"]) / 1e6
    assert (vouched_ms > 600).all(), "by its answers"
    assert answers == {"ok"}
    assert "extend" not in set(run.ops["f"])


def test_a_client_whose_lock_says_no_stops_its_work(tmp_path: Path) -> None:
    faults = ["--nemesis", "partition:interval=700ms,duration=600ms"]
    arguments = runs.short_run(*RENEWED, "--lock", "redlock-renewing", *faults)
    code, out, err = runs.fencepost(tmp_path, *arguments)
    assert code in (0, 2), out + err
    ops = fencepost.load(runs.only_run(tmp_path)).ops
    lost = ops[(ops["f"] == "held") & (ops["outcome"] == "fail")]
    wrote = ops[ops["f"] == "write"]
    for client, section in zip(lost["client"], lost["section"], strict=True):
        assert not ((wrote["client"] == client) & (wrote["section"] == section)).any()


def test_a_renewal_that_goes_on_saying_yes_after_the_key_is_gone_is_caught(tmp_path: Path) -> None:
    (tmp_path / "my_lock.py").write_text(GOES_ON_SAYING_YES)
    arguments = runs.short_run(*RENEWED, "--lock", "my_lock:Trusting", "--nemesis", "none")
    code, out, err = runs.fencepost(tmp_path, *arguments)
    assert code == 1, out + err
    found = {(finding.kind, finding.blame) for finding in fencepost.load(runs.only_run(tmp_path)).verdict.findings}
    assert ("overlap", "lock") in found
    assert ("unfounded-belief", "lock") in found, "no majority held its key"


def test_a_lock_that_cannot_say_whether_it_is_held_is_one_clear_line(tmp_path: Path) -> None:
    code, _, err = runs.fencepost(tmp_path, *runs.short_run(*RENEWED, "--nemesis", "none"))
    assert (code, err.count("\n")) == (254, 1)
    assert "redlock has no is_held" in err
    assert not (tmp_path / "results").exists(), "nothing was started"


# What a yes vouches for.


def asked(outcome: str, invoke: float, complete: float) -> History:
    history = History(ttl_ms=100).section("c1", 0, 500, deadline=100)
    granted_ms = 100.0 if outcome == "ok" else None
    return history.op("c1", "held", outcome, 1, invoke, complete, granted_ms=granted_ms)


def test_a_yes_vouches_for_the_section_until_it_was_asked_and_perhaps_for_one_lease_more() -> None:
    (section,) = asked("ok", 300, 310).sections()
    assert (section["deadline_min"], section["deadline_max"]) == (300, 410)


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_any_other_answer_vouches_for_nothing(outcome: str) -> None:
    (section,) = asked(outcome, 300, 310).sections()
    assert (section["deadline_min"], section["deadline_max"]) == (100, 100)


def test_an_early_yes_shortens_no_lease() -> None:
    (section,) = asked("ok", 20, 30).sections()
    assert (section["deadline_min"], section["deadline_max"]) == (100, 130)


@pytest.mark.parametrize(("enters", "blame"), [(250, "lock"), (299, "lock"), (305, "undecided"), (420, "client")])
def test_who_is_to_blame_depends_on_whether_the_lock_said_yes_after_somebody_else_was_inside(
    enters: float, blame: str
) -> None:
    history = asked("ok", 300, 310).section("c2", enters, 480, deadline=500)
    assert [finding.blame for finding in check(history.recorded()).findings] == [blame]
