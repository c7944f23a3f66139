"""Single keys that were lost while their owner held them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import quorum_backing
from harness.checkers.key_losses import Figures, check
from harness.verdict import Answer, Finding
from tests.golden import Golden
from tests.judge.histories import History

NODES = ("n1", "n2", "n3")


def held() -> History:
    """c1 is inside from 10 to 50, may believe so until 105, and all nodes hold what it showed."""
    history = History().watch(*NODES).section("c1", 10, 50, asked=5, deadline=105).sets("c1", "v1")
    for node in NODES:
        history.seen(node, "set", 8, "v1", since=6, ttl=100)
    return history


def only(history: History) -> Finding:
    (finding,) = check(history.recorded()).findings
    return finding


def test_a_key_that_is_overwritten_is_the_locks_fault() -> None:
    finding = only(held().seen("n1", "set", 20, "v2"))
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "overwritten-while-held",
        "lock",
        "lease",
        1,
    )
    assert finding.examples == ({"node": "n1", "key": "k1", "client": "c1", "section": 1, "at_ms": 20},)
    assert finding.text.startswith("1 key was")


@pytest.mark.parametrize("value", ["v1", None])
def test_a_key_that_was_set_to_its_own_value_is_not_overwritten(value: str | None) -> None:
    """Some locks extend so. A value that could not be read may have been its own."""
    assert check(held().seen("n1", "set", 20, value, ttl=100).recorded()) == Answer(Figures(0, 0, 0))


def test_a_key_that_is_deleted_may_have_been_deleted_by_its_owner() -> None:
    finding = only(held().seen("n1", "deleted", 20).seen("n2", "deleted", 21))
    assert (finding.kind, finding.blame, finding.breaks) == ("deleted-while-held", "undecided", None)
    assert finding.text.startswith("2 keys were")


@pytest.mark.parametrize(("since", "at", "counted"), [(10, 20, 1), (9.9, 20, 0), (20, 49.9, 1), (20, 50, 0)])
def test_a_loss_counts_if_it_surely_lay_between_the_grant_and_the_release(
    since: float, at: float, counted: int
) -> None:
    figures: Any = check(held().seen("n1", "deleted", at, since=since).recorded()).figures
    assert figures == Figures(deleted=counted, overwritten=0, shared_values=0)
    figures = check(held().seen("n1", "set", at, "v2", since=since).recorded()).figures
    assert figures == Figures(deleted=0, overwritten=counted, shared_values=0)


def test_after_its_validity_nobody_holds_anything() -> None:
    history = History().watch("n1").section("c1", 10, 90, deadline=(50, 80)).sets("c1", "v1")
    history.seen("n1", "set", 8, "v1").seen("n1", "deleted", 50)
    assert check(history.recorded()).findings == ()


def test_other_peoples_keys_and_expired_ones_are_no_losses() -> None:
    history = held().seen("n1", "expired", 20).seen("n1", "set", 21, "v9").seen("n1", "deleted", 22)
    assert check(history.recorded()).findings == ()


def test_a_value_that_stands_for_two_sections_is_named(golden: Golden) -> None:
    history = held().section("c2", 60, 90).sets("c2", "v1").seen("n1", "deleted", 52).seen("n1", "set", 59, "v1")
    finding = only(history)
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("shared-value", "lock", None, 1)
    golden(finding.text)
    assert finding.examples == (
        {"value": "v1", "sections": 2, "at_ms": 60.0, "of": ("c1 in section 1", "c2 in section 1")},
    )


@pytest.mark.parametrize(("are_readers", "number"), [((True, True), 0), ((True, False), 1), ((False, False), 1)])
def test_a_value_of_readers_only_is_not_shared_by_accident(are_readers: tuple[bool, bool], number: int) -> None:
    """They share the lock."""
    history = History(workload="rw-lock").watch("n1")
    for client, at, shared in zip(("c1", "c2"), (10, 60), are_readers, strict=True):
        history.section(client, at, at + 30, shared=shared).sets(client, "v1")
        history.seen("n1", "set", at - 0.5, "v1", ttl=100).seen("n1", "deleted", at + 30.5)
    figures: Any = check(history.recorded()).figures
    assert figures.shared_values == number


@pytest.mark.parametrize(("key", "number"), [("k1", 1), ("k2", 0)])
def test_equal_values_on_different_keys_are_not_shared(key: str, number: int) -> None:
    """They tell the time, say."""
    history = History().watch("n1").section("c1", 10, 50).section("c2", 60, 90, key=key)
    history.sets("c1", "1795939679546").seen("n1", "set", 9.5, "1795939679546", ttl=100).seen("n1", "deleted", 50.5)
    history.sets("c2", "1795939679546").seen("n1", "set", 59.5, "1795939679546", ttl=100, key=key)
    figures: Any = check(history.recorded()).figures
    assert figures.shared_values == number


def test_so_it_is_under_any_name_on_the_nodes(golden: Golden) -> None:
    history = History().watch("n1").section("c1", 10, 50).sets("c1", "locked").section("c2", 60, 90)
    history.sets("c2", "locked").seen("n1", "set", 8, "locked", key="prefix:k1").seen(
        "n1", "deleted", 52, key="prefix:k1"
    )
    history.seen("n1", "set", 59, "locked", key="prefix:k1")
    golden(only(history).text)


def test_a_run_that_nobody_watched_gives_no_answer() -> None:
    assert check(History().section("c1", 10, 50).sets("c1", "v1").recorded()) == Answer()
    assert check(History().seen("n1", "blind", 5).recorded()) == Answer()


# Keys that are hashes: their field names the client, and all its sections show the same value.


def hashes(*, second_client: str = "c1", fields: str = "client:1") -> History:
    """c1 is inside from 10 to 50 and from 210 to 250; the nodes hold its field both times."""
    history = History().watch(*NODES)
    for number, begin, client in ((1, 0, "c1"), (2, 200, second_client)):
        number = 1 if client == "c2" else number
        history.section(client, begin + 10, begin + 50, asked=begin + 5, number=number)
        history.sets(client, fields, number=number)
        for node in NODES:
            history.seen(node, "set", begin + 8, fields, since=begin + 6, ttl=100, is_hash=True)
            history.seen(node, "deleted", begin + 52, since=begin + 50)
    return history


def test_the_time_says_for_which_section_of_its_client_a_hash_was_set() -> None:
    run = hashes().recorded()
    assert run.owners is not None
    owners = run.owners
    assert owners.holdings.sort_values("from_max_ns")["section"].tolist() == [0, 0, 0, 1, 1, 1]
    assert (owners.shared, owners.values) == ({}, {0: {"client:1"}, 1: {"client:1"}})
    assert check(run).findings == ()


def test_a_hash_that_is_deleted_while_its_owner_is_inside_is_found() -> None:
    history = hashes().section("c1", 310, 350, asked=305, number=3).sets("c1", "client:1", number=3)
    history.seen("n1", "set", 308, "client:1", since=306, ttl=100, is_hash=True)
    finding = only(history.seen("n1", "deleted", 320, since=319))
    assert (finding.kind, finding.examples[0]["section"]) == ("deleted-while-held", 3)


@pytest.mark.parametrize(("shown", "kinds"), [(True, []), (False, ["overwritten-while-held"])])
def test_an_extension_may_set_a_new_value_if_it_shows_it(shown: bool, kinds: list[str]) -> None:
    history = History().watch(*NODES).section("c1", 10, 90, asked=5).sets("c1", "first")
    if shown:
        history.sets("c1", "second")
    for node in NODES:
        history.seen(node, "set", 8, "first", since=6, ttl=100).seen(node, "set", 40, "second", since=39, ttl=100)
    assert [finding.kind for finding in check(history.recorded()).findings] == kinds


def test_a_value_that_a_section_shows_twice_is_not_shared() -> None:
    history = History().watch(*NODES).section("c1", 10, 90, asked=5).sets("c1", "first").sets("c1", "first")
    assert check(history.seen("n1", "set", 8, "first", since=6, ttl=100).recorded()).findings == ()


def test_a_field_that_two_clients_use_names_no_owner() -> None:
    finding = only(hashes(second_client="c2"))
    assert finding.kind == "shared-value"


def test_several_fields_are_no_value_of_one_owner() -> None:
    assert check(hashes(second_client="c2", fields="0, 1").recorded()).findings == ()


def test_a_lock_may_set_another_field_on_each_node() -> None:
    history = History().watch(*NODES)
    for number, begin in ((1, 0), (2, 200)):
        history.section("c1", begin + 10, begin + 50, asked=begin + 5, number=number)
        for node in NODES:
            history.sets("c1", f"{node}:7", number=number)
            history.seen(node, "set", begin + 8, f"{node}:7", since=begin + 6, ttl=100, is_hash=True)
            history.seen(node, "deleted", begin + (52 if node == "n1" or number == 1 else 20), since=begin + 19)
    for node in NODES:
        history.seen(node, "blind", 400)
    run = history.recorded()
    assert run.owners is not None
    owners = run.owners
    assert owners.values == {row: {f"{node}:7" for node in NODES} for row in (0, 1)}
    assert sorted(owners.holdings["section"]) == [0, 0, 0, 1, 1, 1]
    figures: Any = check(run).figures
    assert figures == Figures(deleted=2, overwritten=0, shared_values=0)
    backing: Any = quorum_backing.check(run).figures
    assert (backing.sections, backing.unfounded, backing.by_cause["deleted"]) == (2, 1, 1)


def with_fields(*values: str) -> Any:
    """What the nodes held for a lock that keeps a hash, with these fields at 8, 20, 22, …, and whose findings there
    are. c1 showed `a1` and, for the same section, `a2`; c2, which came later, `b`."""
    history = History().watch(*NODES).section("c1", 10, 50, asked=5, deadline=105).sets("c1", "a1").sets("c1", "a2")
    history.section("c2", 200, 290, asked=195).sets("c2", "b")
    for node in NODES:
        for number, value in enumerate(values):
            at = 8 if number == 0 else 18 + 2 * number
            history.seen(node, "set", at, value, since=at - 1, ttl=100, is_hash=True)
        history.seen(node, "deleted", 55).seen(node, "set", 198, "b", ttl=100, is_hash=True)
        history.seen(node, "blind", 900)
    return history.recorded()


def test_a_hash_may_have_a_field_for_each_acquire_of_its_owner() -> None:
    run = with_fields("a1", "a1, a2", "a0, a1, a2", "a1")
    assert check(run).findings == quorum_backing.check(run).findings == ()
    assert run.owners is not None
    assert run.owners.holdings["value"].tolist()[:3] == ["a1", "a1, a2", "a0, a1, a2"]


@pytest.mark.parametrize(
    ("by", "calls", "counted"),
    [
        ("c1", {"leave": "c1@1"}, 0),
        ("c1", {"leave": "c1@1", "acquire": "c1@2"}, 0),
        ("c2", {"leave": "c1@1"}, 1),
    ],
    ids=["its own task", "either task", "another client"],
)
def test_a_holder_may_change_the_value_of_its_key(by: str, calls: dict[str, str], counted: int) -> None:
    """c1@1 counts in the value how often it has acquired the lock."""
    history = History(nodes=1, tasks=2).watch("n1").section("c1@1", 10, 50, asked=5, deadline=105)
    history.request("c1", "n1", "SET k1 c1:1 NX PX 100", 6, 8).seen("n1", "set", 8, "c1:1", since=6, ttl=100)
    history.op("c1@2", "acquire", "info", 8, 4, 9).op("c2@1", "acquire", "fail", 9, 80, 90).op(
        "c1@1", "reenter", "ok", 1, 12, 14
    )
    history.request("c1", "n1", "PSETEX k1 100 c1:2", 12.5, 13).seen("n1", "set", 13, "c1:2", since=12.5, ttl=100)
    for f, task in calls.items():
        history.op(task, f, "fail" if f == "acquire" else "ok", 1 if f == "leave" else 9, 18, 22)
    history.request(by, "n1", "EVAL step 1 k1 c1", 19, 20, reply="1")
    history.seen("n1", "set", 20, f"{by}:1", since=19, ttl=100)
    history.by(history.key_events[-1], len(history.requests) - 1)
    run = history.seen("n1", "blind", 900).recorded()
    assert run.ledger is not None
    assert run.ledger.handed_over == {}
    figures = check(run).figures
    assert isinstance(figures, Figures)
    assert figures.overwritten == counted


@pytest.mark.parametrize(("entered", "number"), [(70, 0), (45, 1)])
def test_a_process_may_have_one_value_for_tasks_that_it_lets_in_one_after_the_other(
    entered: float, number: int
) -> None:
    history = (
        History(tasks=2, nodes=1).watch("n1").section("c1@1", 10, 50, asked=5).section("c1@2", entered, 90, asked=44)
    )
    for task, at in (("c1@1", 6), ("c1@2", 44.5)):
        history.request(task, "n1", f"EVAL take 1 k1 of-c1 {at}", at, at + 0.2, reply="1")
        history.seen("n1", "set", at + 0.3, "of-c1", since=at - 0.2, ttl=100)
        history.request(task, "n1", "EVAL free 1 k1 of-c1", 44.1, 44.2, reply="1") if at == 6 else None
        history.seen("n1", "deleted", 44.3, since=44) if at == 6 else None
    figures = check(history.recorded()).figures
    assert isinstance(figures, Figures)
    assert figures.shared_values == number


def test_a_holder_may_take_a_field_out_of_its_hash() -> None:
    """What is left is not known to be its own, for c2 leaves it as it is when it acquires."""
    history = History(nodes=1).watch("n1").section("c1", 10, 50, asked=5, deadline=105)
    history.request("c1", "n1", "EVAL take 1 k1 c1-hold", 6, 8, reply="1")
    history.seen("n1", "set", 8, "c1-hold, owner", since=6, ttl=100, is_hash=True)
    history.request("c1", "n1", "EVAL leave 1 k1 c1-hold", 19, 20, reply="1")
    history.seen("n1", "set", 20, "owner", since=19, ttl=100, is_hash=True)
    history.by(history.key_events[-1], len(history.requests) - 1)
    history.section("c2", 65, 90, asked=60).request("c2", "n1", "EVAL take 1 k1 c2-hold", 61, 62, reply="1")
    history.seen("n1", "prolonged", 62, since=61, ttl=100)
    history.by(history.key_events[-1], len(history.requests) - 1)
    figures: Any = check(history.seen("n1", "blind", 900).recorded()).figures
    assert figures.overwritten == 0
