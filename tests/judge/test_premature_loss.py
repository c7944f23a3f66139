"""A lock that was gone before its time, found out by its holder."""

from __future__ import annotations

import pytest

from harness.checkers.explained import explain
from harness.checkers.premature_loss import check
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History


def lost(released: float = 50, outcome: str = "fail", **config: object) -> History:
    history = History(**config).op("c1", "acquire", "ok", 1, 9, 10, validity_ms=90.0, deadline_ns=10**15 + 100_000_000)
    return history.op("c1", "release", outcome, 1, released - 1, released)


def count(history: History) -> object:
    return check(history.recorded()).figures.lost_early


def test_a_failover_may_have_lost_it_where_one_server_is_the_primary_of_the_others() -> None:
    """A primary that was replaced while it was down is demoted long after it came back."""
    for replication, is_named in (("sentinel", True), ("none", False)):
        history = lost(replication=replication, witness="off").fault("f1", 1, 5, nodes=("n1",))
        (finding,) = check(history.recorded()).findings
        assert ("failover" in finding.text) is is_named


def test_a_release_that_is_refused_within_the_validity_means_that_the_lock_was_lost() -> None:
    finding = check(lost().recorded()).findings[0]
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("lease-lost-early", "lock", "lease", 1)
    assert finding.examples[0]["validity_left_ms"] == 50
    assert finding.examples[0]["at_ms"] == 50
    assert finding.text.startswith("1 lease was lost")


def test_every_lost_lease_counts() -> None:
    history = lost().section("c2", 20, None, deadline=100).op("c2", "release", "fail", 1, 60, 61)
    (finding,) = check(history.recorded()).findings
    assert (finding.count, finding.text.startswith("2 leases were lost")) == (2, True)


@pytest.mark.parametrize(("released", "times"), [(99.9, 1), (100, 0), (120, 0)])
def test_after_the_validity_it_is_as_it_should_be(released: float, times: int) -> None:
    assert count(lost(released)) == times


@pytest.mark.parametrize("outcome", ["ok", "info"])
def test_only_a_definite_no_counts(outcome: str) -> None:
    assert count(lost(outcome=outcome)) == 0


@pytest.mark.parametrize(
    ("began", "healed", "times"), [(0, 8, 1), (0, 9, 0), (0, 20, 0), (30, 40, 0), (50, 60, 0), (51, 60, 1)]
)
def test_a_fault_that_may_have_been_in_force_excuses_it(began: float, healed: float, times: int) -> None:
    assert count(lost().fault("f1", began, healed, nodes=("n1",))) == times


def test_a_section_of_another_life_is_another_one() -> None:
    assert count(lost().op("c1", "acquire", "fail", 1, 200, 201, life=2)) == 1


@pytest.mark.parametrize(("deleted", "times"), [(30, 1), (49.5, 0), (None, 0)])
@pytest.mark.parametrize("shown", [True, False])
def test_nothing_was_lost_where_a_majority_may_have_had_the_key_until_the_release(
    deleted: float | None, times: int, shown: bool
) -> None:
    """The release is asked for at 49 ms. A lock whose values are not known is taken at its word."""
    history = lost().watch("n1", "n2", "n3")
    for node in ("n1", "n2", "n3"):
        history.seen(node, "set", 5, "v1", ttl=100)
        if deleted is not None:
            history.seen(node, "deleted", deleted)
    if shown:
        history.sets("c1", "v1")
    for node in ("n1", "n2", "n3"):
        history.seen(node, "blind", 300)
    history.key_events.sort(key=lambda event: event.at_ns)
    assert count(history) == (times if shown else 1)


def test_one_node_that_keeps_the_key_is_no_majority() -> None:
    history = lost().watch("n1", "n2", "n3").sets("c1", "v1")
    for node in ("n1", "n2", "n3"):
        history.seen(node, "set", 5, "v1", ttl=100)
    for node in ("n1", "n2"):
        history.seen(node, "deleted", 30)
    for node in ("n1", "n2", "n3"):
        history.seen(node, "blind", 300)
    assert count(history) == 1


# What the client's own requests deleted.


def deleted(at: float, *, by: str = "c1", others: tuple[str, ...] = ()) -> History:
    """c1 is let in at 10, and extends from 18 to 25; its release from 40 to 50 says that the lock was not held. A
    script of `by` had deleted the key; at 45 the release asks once more. `others` use the same value later."""
    history = History(nodes=1, clients=3).watch("n1").section("c1", 10, None, asked=8, deadline=100)
    history.op("c1", "extend", "info", 1, 18, 25).op("c1", "release", "fail", 1, 40, 50)
    history.op("c3", "release", "ok", 7, 18, 25)
    history.request("c1", "n1", "SET k1 value NX PX 100", 9, 9.2).seen("n1", "set", 9.1, "value", since=9)
    history.request(by, "n1", "EVAL free 1 k1 value", at, at + 0.5, reply="1")
    history.seen("n1", "deleted", at + 0.3, since=at)
    history.request("c1", "n1", "EVAL free 1 k1 value", 45, 45.5, reply="0", did=False)
    for number, client in enumerate(others, 2):
        begin = 100 * number
        history.section(client, begin, begin + 20, number=number)
        history.request(client, "n1", "SET k1 value NX PX 100", begin - 0.5, begin - 0.3)
        history.seen("n1", "set", begin - 0.4, "value", since=begin - 0.5, ttl=100)
        history.request(client, "n1", "DEL k1", begin + 20.1, begin + 20.3, reply="1")
        history.seen("n1", "deleted", begin + 20.2, since=begin + 20.1)
    return history.seen("n1", "blind", 900)


@pytest.mark.parametrize(("by", "cause"), [("c1", "deleted by itself"), ("c3", "deleted")])
def test_a_lease_is_lost_by_who_deleted_its_key(by: str, cause: str, golden: Golden) -> None:
    run = deleted(20, by=by).recorded()
    (finding,) = check(run).findings
    golden(finding.text)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == cause
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(("by", "cause"), [("c1", "deleted by itself"), ("c1@1", "another task's release")])
def test_a_lease_that_was_taken_over_from_another_task_is_lost_by_that_ones_late_release(
    by: str, cause: str, golden: Golden
) -> None:
    """c1@1 sets the key, and its release is cancelled; c1@2 prolongs the key and is let in at 32. Then a request of the
    process, whose task may be on record, deletes it."""
    history = History(nodes=1, clients=2, tasks=2).watch("n1").section("c1@1", 2, None, asked=0, deadline=100)
    history.request("c1@1", "n1", "SET k1 value NX PX 100", 1, 1.2).seen("n1", "set", 1.1, "value", since=1)
    history.op("c1@1", "release", "info", 1, 20, 39 if by == "c1@1" else 30)
    history.section("c1@2", 32, None, number=2, asked=31, deadline=130).op("c1@2", "release", "fail", 2, 40, 50)
    history.request("c1@2", "n1", "PEXPIRE k1 100", 31.2, 31.4).seen("n1", "prolonged", 31.3, since=31.2, ttl=100)
    history.request(by, "n1", "DEL k1", 33, 33.2, reply="1").seen("n1", "deleted", 33.1, since=33)
    history.seen("n1", "blind", 900)
    run = history.recorded()
    (finding,) = check(run).findings
    golden(finding.text)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == cause
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize("others", [(), ("c2", "c3")], ids=["its value shows it", "its value does not show it"])
def test_a_release_that_deleted_the_key_and_then_asked_again_lost_nothing(others: tuple[str, ...]) -> None:
    assert count(deleted(42, others=others)) == 0
    assert count(deleted(20, others=others)) == 1
    assert count(deleted(42, by="c3", others=others)) == bool(others), "it was there when the release was asked for"


def partly_deleted(nodes: int, **by_node: tuple[str, float]) -> History:
    """c1 is let in at 10 by n1, n2 and n3, extends from 18 to 25, and is told at 50 that it did not hold the lock. Who
    deleted the key on which node, and when."""
    history = History(nodes=nodes, clients=3).watch(*(f"n{number}" for number in range(1, nodes + 1)))
    history.section("c1", 10, None, asked=8, deadline=100).op("c3", "release", "ok", 7, 18, 25)
    history.op("c1", "extend", "info", 1, 18, 25).op("c1", "release", "fail", 1, 40, 50)
    for node in ("n1", "n2", "n3"):
        history.request("c1", node, "SET k1 value NX PX 100", 9, 9.2).seen(node, "set", 9.1, "value", since=9)
    for node, (client, at) in sorted(by_node.items(), key=lambda item: item[1][1]):
        history.request(client, node, "EVAL free 1 k1 value", at, at + 0.5, reply="1")
        history.seen(node, "deleted", at + 0.3, since=at)
    for number in range(1, nodes + 1):
        history.request("c3", f"n{number}", "SET k1 later NX PX 100", 200, 200.2)
        history.seen(f"n{number}", "set", 200.1, "later", since=200).seen(f"n{number}", "blind", 900)
    return history


@pytest.mark.parametrize(
    ("history", "is_own"),
    [
        (partly_deleted(5, n1=("c1", 20)), True),
        (partly_deleted(3, n1=("c1", 20)), None),
        (partly_deleted(3, n1=("c1", 20), n2=("c1", 21)), True),
        (partly_deleted(3, n1=("c1", 20), n3=("c3", 21), n2=("c1", 42)), False),
    ],
    ids=["one of a bare majority", "one of all", "two of all", "one, and then one by the release"],
)
def test_the_client_s_own_requests_left_no_majority_before_its_release(history: History, is_own: bool | None) -> None:
    findings = check(history.recorded()).findings
    assert [("its own" in finding.text) for finding in findings] == ([] if is_own is None else [is_own])


def test_what_another_life_of_the_client_released_is_another_key() -> None:
    history = partly_deleted(3, n1=("c3", 20), n2=("c3", 21))
    history.section("c1", 310, 350, asked=308, deadline=400, life=2)
    for node in ("n1", "n2", "n3"):
        history.key_events = [one for one in history.key_events if (one.node, one.event) != (node, "blind")]
        history.request("c1", node, "SET k1 anew NX PX 100", 309, 309.2).seen(node, "set", 309.1, "anew", since=309)
        history.request("c1", node, "EVAL free 1 k1 anew", 350.2, 350.6, reply="1")
        history.seen(node, "deleted", 350.4, since=350.2).seen(node, "blind", 900)
    assert count(history) == 1
