"""Locks that renew their lease by themselves: a client stays inside for as long as the lock says that it holds it."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import fencepost
from harness.checkers.exclusion import check
from nemesis.schedule import Planned
from tests.harness import runs
from tests.harness.second_tries import caught, played, valid
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

    def answers(run: fencepost.Run) -> set[str]:
        return set(run.ops.loc[run.ops["f"] == "held", "outcome"])

    # A client or a server that stands still for most of a lease ends it, and then the lock is right to say no.
    code, said, run = valid(tmp_path, arguments, lambda run: answers(run) == {"ok"})
    assert code == 0, said
    stayed_ms = (run.sections["end_ns"] - run.sections["start_ns"]) / 1e6
    assert len(stayed_ms) >= 2
    assert (stayed_ms > 600).all(), "twice the TTL"
    vouched_ms = (run.sections["deadline_min_ns"] - run.sections["start_ns"]) / 1e6
    assert (vouched_ms > 600).all(), "by its answers"
    assert answers(run) == {"ok"}
    assert "extend" not in set(run.ops["f"])


def test_a_client_whose_lock_says_no_stops_its_work(tmp_path: Path) -> None:
    # Nobody reaches a majority for two leases, while somebody is inside for longer than that.
    links = [[client, node] for client in ("c1", "c2", "c3") for node in ("n1", "n2", "n3")]
    fault = {"shape": "some-links", "kind": "refuse", "direction": "both", "links": links}
    schedule = runs.schedule_of(tmp_path, Planned("f1", 400, 600, "partition", fault))
    load = (*RENEWED, "--clients", "3", "--hold", "1500ms", "--duration", "4s")
    arguments = runs.short_run(*load, "--lock", "redlock-renewing", "--schedule", str(schedule))

    def sections(ops: pd.DataFrame) -> set[tuple[str, int]]:
        return set(zip(ops["client"], ops["section"], strict=True))

    def told_no(run: fencepost.Run) -> set[tuple[str, int]]:
        return sections(run.ops[(run.ops["f"] == "held") & (run.ops["outcome"] == "fail")])

    def wrote(run: fencepost.Run) -> set[tuple[str, int]]:
        return sections(run.ops[run.ops["f"] == "write"])

    # On a busy machine nobody may be inside when the links are cut, or for long enough after that.
    code, said, run = played(
        tmp_path,
        arguments,
        lambda each: each.code == 1 or bool(told_no(each.run) and wrote(each.run)),
    )
    assert code in (0, 2), said
    assert told_no(run)
    assert wrote(run), "others went on to the end"
    assert told_no(run).isdisjoint(wrote(run))


def test_a_renewal_that_goes_on_saying_yes_after_the_key_is_gone_is_caught(tmp_path: Path) -> None:
    arguments = runs.short_run(*RENEWED, "--lock", "my_lock:Trusting", "--nemesis", "none")
    code, said, run = caught(tmp_path, arguments, GOES_ON_SAYING_YES)
    assert code == 1, said
    found = {(finding.kind, finding.blame) for finding in run.verdict.findings}
    assert ("overlap", "lock") in found
    assert ("lease-without-majority", "lock") in found, "no majority held its key"


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
