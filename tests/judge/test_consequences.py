"""Which findings of a run follow from another one, so that a cause is told once."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from harness.checkers.consequences import OneCause, one_by_one
from harness.checkers.kinds import kinds
from harness.explain.causes import Cause
from harness.explain.examples import Case
from harness.explain.explanation import Explained, Explanation
from harness.verdict import Blame, Finding, Verdict


def found(kind: str, at_ms: float | None, blame: Blame = "lock") -> Finding:
    return kinds()[kind].found(blame, kind, 1, (), at_ms)


def listed(*some: tuple[Finding, Cause | None]) -> tuple[OneCause, ...]:
    """Given the causes that explanations name."""
    findings = tuple(finding for finding, _ in some)
    explained = tuple(Explained(f, (Explanation(Case(f, {}, {}), "So.", cause=cause),)) for f, cause in some)
    return one_by_one(Verdict("violation", "lock", findings, (), {}), explained)


def told(*some: tuple[Finding, Cause | None]) -> dict[str, list[str]]:
    """The kinds that follow from each kind that follows from none."""
    causes = listed(*some)
    return {cause.finding.kind: [each.kind for each in cause.consequences] for cause in causes}


def test_what_a_deleted_key_led_to_is_told_with_it() -> None:
    overlap, lost = found("overlap", 30), found("lost-update", 40)
    deleted, belief = found("changed-another-clients-key", 10), found("lease-without-majority", 20)
    assert told((overlap, "deleted"), (lost, None), (belief, "deleted"), (deleted, "deleted")) == {
        "changed-another-clients-key": ["lease-without-majority", "overlap", "lost-update"]
    }


def test_a_finding_that_began_earlier_follows_from_nothing_later() -> None:
    overlap, deleted = found("overlap", 30), found("changed-another-clients-key", 31)
    assert told((overlap, "deleted"), (deleted, "deleted")) == {"overlap": [], "changed-another-clients-key": []}


def test_findings_with_different_causes_are_told_apart() -> None:
    overlap, belief = found("overlap", 30), found("lease-without-majority", 10)
    assert told((overlap, "expired"), (belief, "deleted")) == {"overlap": [], "lease-without-majority": []}
    assert told((overlap, "unknown"), (belief, "unknown")) == {"overlap": [], "lease-without-majority": []}


def test_lost_data_follow_only_from_overlaps_with_their_own_blame() -> None:
    by_client, lost = found("overlap", 10, "client"), found("lost-update", 20)
    assert told((by_client, None), (lost, None)) == {"lost-update": [], "overlap": []}
    assert told((by_client, None), (found("lost-update", 20, "client"), None)) == {"overlap": ["lost-update"]}


def test_no_finding_of_the_harness_follows_from_another() -> None:
    overlap, wrong = found("overlap", 10, "undecided"), found("lost-update", 20, "harness")
    assert told((overlap, None), (wrong, None)) == {"lost-update": [], "overlap": []}


def test_a_kind_may_say_which_causes_it_comes_of() -> None:
    shared, deleted, overlap = found("shared-value", 9), found("changed-another-clients-key", 10), found("overlap", 9)
    assert told((shared, None), (deleted, "deleted by itself"), (overlap, "shared value")) == {
        "shared-value": ["overlap", "changed-another-clients-key"]
    }
    prolonged, stuck, never = (
        found("prolonged-another-clients-key", 1),
        found("unavailable-while-free", 20),
        found("no-recovery", 50),
    )
    assert told((never, None), (stuck, "stuck keys"), (prolonged, "prolonged")) == {
        "prolonged-another-clients-key": ["unavailable-while-free", "no-recovery"]
    }


@pytest.mark.parametrize(
    ("keys", "own", "count", "follows"),
    [
        (("k1", "k2"), ("k2", "k3"), 2, True),
        (("k1", "k2"), ("k3", "k4"), 2, False),
        (("k1", "k2"), ("k3", "k4"), 3, True),
        (("k1", None), ("k3", "k4"), 2, True),
        (("k1", "k2"), ("k3", None), 2, True),
    ],
    ids=["shared", "apart", "a case is not shown", "one names no key", "another names no key"],
)
def test_nothing_comes_of_what_happened_to_other_keys(
    keys: tuple[str | None, ...], own: tuple[str | None, ...], count: int, follows: bool
) -> None:
    stayed = kinds()["release-without-effect"].found("lock", "stayed", count, [{"key": key} for key in keys], 10)
    gap = kinds()["unavailable-while-free"].found("lock", "gap", 9, [{"key": key} for key in own], 20)
    assert (len(told((stayed, "stayed"), (gap, None))) == 1) is follows


def test_what_only_stands_for_a_cause_may_be_noticed_later_than_what_it_led_to() -> None:
    again, changed, orphan = (
        found("renewal-after-release", 30),
        found("changed-another-clients-key", 10),
        found("orphan-outlasts-ttl", 20),
    )
    assert told((again, "set again"), (changed, "overwritten"), (orphan, None)) == {
        "renewal-after-release": ["changed-another-clients-key", "orphan-outlasts-ttl"]
    }
    assert [one.link for one in listed((again, "set again"), (changed, "overwritten"))] == ["related"]
    assert [one.link for one in listed((changed, "overwritten"), (orphan, "overwritten"))] == ["led to"]
    denied, alone = found("keys-left-behind", 30), found("refused-without-rival", 20)
    assert told((denied, "denied"), (alone, None)) == {"keys-left-behind": [], "refused-without-rival": []}


def test_what_nodes_may_have_lost_themselves_is_not_what_the_lock_did() -> None:
    stopped, weak = found("lease-outlasts-keys", 10), found("lease-without-majority", 20)
    assert told((stopped, "not prolonged"), (weak, "expired")) == {"lease-outlasts-keys": ["lease-without-majority"]}
    weak = found("lease-without-majority", 20, "undecided")
    assert len(told((stopped, "not prolonged"), (weak, "expired"))) == 2


def test_keys_that_the_lock_left_do_not_follow_from_the_clients_that_they_kept_out() -> None:
    stuck, left = found("unavailable-while-free", 10), found("keys-left-behind", 20)
    assert told((stuck, "stuck keys"), (left, None)) == {"unavailable-while-free": [], "keys-left-behind": []}
    assert told((found("unavailable-while-free", 30), "stuck keys"), (left, None)) == {
        "keys-left-behind": ["unavailable-while-free"]
    }


def test_keys_without_an_expiry_do_not_follow_from_a_key_that_was_prolonged() -> None:
    """They are nearer to the clients that were kept out."""
    prolonged, orphan, gap, alone, never = (
        found("prolonged-another-clients-key", 1),
        found("orphan-outlasts-ttl", 10),
        found("unavailable-while-free", 20),
        found("refused-without-rival", 21),
        found("no-recovery", 50),
    )
    kept_out = (gap, "stuck keys"), (alone, None), (never, None)
    assert told((prolonged, "prolonged"), (orphan, "no expiry"), *kept_out) == {
        "prolonged-another-clients-key": [],
        "orphan-outlasts-ttl": ["unavailable-while-free", "refused-without-rival", "no-recovery"],
    }
    assert told((prolonged, "prolonged"), (orphan, None), *kept_out) == {
        "prolonged-another-clients-key": [
            "orphan-outlasts-ttl",
            "unavailable-while-free",
            "refused-without-rival",
            "no-recovery",
        ]
    }


def test_an_outage_behind_an_entry_that_stays_comes_of_what_left_it() -> None:
    waits, never = found("waits-for-free-lock", 5), found("no-recovery", 50)
    assert told((waits, "dead entry"), (never, "no expiry")) == {"waits-for-free-lock": ["no-recovery"]}


def test_a_release_of_another_task_takes_the_key_of_a_holder() -> None:
    changed, lost, weak = (
        found("changed-another-clients-key", 10),
        found("deleted-while-held", 10),
        found("lease-without-majority", 11),
    )
    assert told((changed, "another task's release"), (lost, None), (weak, "deleted")) == {
        "changed-another-clients-key": ["deleted-while-held", "lease-without-majority"]
    }


def test_what_kept_clients_out_comes_before_what_happened_more_often() -> None:
    prolonged = kinds()["prolonged-another-clients-key"].found("lock", "text", 21, (), 1)
    orphan, gap = found("orphan-outlasts-ttl", 10), found("unavailable-while-free", 20)
    causes = listed((prolonged, "prolonged"), (orphan, "no expiry"), (gap, "no expiry"))
    assert [one.finding for one in causes] == [orphan, prolonged]


def test_clients_that_a_release_of_another_key_kept_out_are_told_with_it() -> None:
    stayed, gap, never = (
        found("release-without-effect", 10),
        found("unavailable-while-free", 20),
        found("no-recovery", 50),
    )
    assert told((never, None), (gap, "stuck keys"), (stayed, "another key")) == {
        "release-without-effect": ["unavailable-while-free", "no-recovery"]
    }
    left, alone = found("keys-left-behind", 11), found("refused-without-rival", 20)
    assert told((alone, None), (left, "another key"), (stayed, "another key")) == {
        "release-without-effect": ["keys-left-behind", "refused-without-rival"]
    }


def test_a_lock_that_refuses_a_majority_lets_no_client_in_later_either() -> None:
    gap, never = found("unavailable-while-free", 20), found("no-recovery", 50)
    assert told((never, None), (gap, "majority refused")) == {"unavailable-while-free": ["no-recovery"]}


@pytest.mark.parametrize("how", ["deleted", "overwritten", "prolonged"])
def test_what_was_done_without_comparing_does_not_come_of_the_value(how: Cause) -> None:
    shared, changed, overlap = found("shared-value", 1), found("changed-another-clients-key", 10), found("overlap", 20)
    assert told((shared, None), (changed, how), (overlap, how)) == {
        "changed-another-clients-key": ["overlap"],
        "shared-value": [],
    }


def test_of_what_keeps_clients_out_a_cause_that_is_known_comes_first() -> None:
    slow, slept = found("acquire-overrun", 1), found("waits-for-free-lock", 20)
    many = replace(slow, count=100)
    assert list(told((many, None), (slept, "not woken"))) == ["waits-for-free-lock", "acquire-overrun"]
    assert list(told((many, None), (slept, None))) == ["acquire-overrun", "waits-for-free-lock"]


def test_a_finding_without_a_moment_stands_alone() -> None:
    final, overlap = found("wrong-final-value", None, "resource"), found("overlap", 10)
    assert set(told((final, None), (overlap, "deleted"))) == {"wrong-final-value", "overlap"}


def test_what_led_to_the_violation_comes_first() -> None:
    waits, deleted = found("keys-left-behind", 1), found("changed-another-clients-key", 10)
    overlap = found("overlap", 20)
    assert next(iter(told((waits, None), (overlap, "deleted"), (deleted, "deleted")))) == "changed-another-clients-key"


def test_a_refusal_beside_an_entry_that_stays_follows_from_what_left_it() -> None:
    gap, refused = found("unavailable-while-free", 6), found("refused-without-rival", 44)
    assert told((gap, "dead entry"), (refused, None)) == {"unavailable-while-free": ["refused-without-rival"]}


def test_what_clients_met_follows_from_what_began_while_they_met_it() -> None:
    def beside(at_ms: float, for_ms: float = 3) -> dict[str, list[str]]:
        gap = ({"at_ms": 10, "for_ms": for_ms},)
        gap_found = kinds()["unavailable-while-free"].found("undecided", "gap", 1, gap)
        return told((gap_found, "unknown"), (found("waits-for-free-lock", at_ms), "dead entry"))

    assert beside(13) == {"waits-for-free-lock": ["unavailable-while-free"]}
    assert len(beside(13.1)) == len(beside(13, for_ms=2)) == 2


def test_calls_that_never_ended_follow_from_clients_that_slept() -> None:
    never, asleep = found("acquire-never-ended", 60), found("waits-for-free-lock", 6)
    assert told((never, None), (asleep, "not woken")) == {"waits-for-free-lock": ["acquire-never-ended"]}


def test_what_the_lock_did_comes_before_what_its_clients_met() -> None:
    gap, left, overlap = found("unavailable-while-free", 5), found("keys-left-behind", 10), found("overlap", 20)
    assert list(told((gap, "absent node"), (left, None))) == ["keys-left-behind", "unavailable-while-free"]
    assert next(iter(told((gap, "absent node"), (overlap, None), (left, None)))) == "overlap"
