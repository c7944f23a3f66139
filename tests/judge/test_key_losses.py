"""Single keys that were lost while their owner held them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers import quorum_backing
from harness.checkers.key_losses import Figures, check
from harness.history.key_owners import find_owners
from harness.verdict import Answer, Finding
from tests.judge.histories import History, ms

NODES = ("n1", "n2", "n3")


def held() -> History:
    """c1 is inside from 10 to 50, may believe so until 105, and all nodes hold what it showed."""
    history = History().watch(*NODES).section("c1", 10, 50, asked=5, deadline=105).shows("c1", "v1")
    for node in NODES:
        history.seen(node, "set", 8, "v1", since=6, ttl=100)
    return history


def only(history: History) -> Finding:
    (finding,) = check(history.recorded()).findings
    return finding


def test_a_key_that_is_overwritten_is_the_locks_fault() -> None:
    finding = only(held().seen("n1", "set", 20, "v2"))
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("overwritten-while-held", "lock", (), 1)
    assert finding.examples == ({"node": "n1", "key": "k1", "client": "c1", "section": 1, "at_ms": 20},)
    assert finding.text.startswith("1 key was")


@pytest.mark.parametrize("value", ["v1", None])
def test_a_key_that_was_set_to_its_own_value_is_not_overwritten(value: str | None) -> None:
    """Some locks extend so. A value that could not be read may have been its own."""
    assert check(held().seen("n1", "set", 20, value, ttl=100).recorded()) == Answer(Figures(0, 0, 0))


def test_a_key_that_is_deleted_may_have_been_deleted_by_its_owner() -> None:
    finding = only(held().seen("n1", "deleted", 20).seen("n2", "deleted", 21))
    assert (finding.kind, finding.blame, finding.breaks) == ("deleted-while-held", "undecided", ())
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
    history = History().watch("n1").section("c1", 10, 90, deadline=(50, 80)).shows("c1", "v1")
    history.seen("n1", "set", 8, "v1").seen("n1", "deleted", 50)
    assert check(history.recorded()).findings == ()


def test_other_peoples_keys_and_expired_ones_are_no_losses() -> None:
    history = held().seen("n1", "expired", 20).seen("n1", "set", 21, "v9").seen("n1", "deleted", 22)
    assert check(history.recorded()).findings == ()


def test_a_value_that_stands_for_two_sections_is_named() -> None:
    history = held().section("c2", 60, 90).shows("c2", "v1")
    finding = only(history)
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("shared-value", "lock", (), 1)
    assert finding.text == "1 value on the nodes was used by more than one section"
    assert finding.examples == (
        {"value": "v1", "sections": 2, "at_ms": 60.0, "of": ("c1 in section 1", "c2 in section 1")},
    )
    history.section("c2", 100, 110, number=2).shows("c2", "v3", number=2)
    history.section("c2", 120, 130, number=3).shows("c2", "v3", number=3).seen("n1", "set", 99, "v3")
    assert only(history).text == "2 values on the nodes were used by more than one section"


def test_so_it_is_under_any_name_on_the_nodes() -> None:
    history = History().watch("n1").section("c1", 10, 50).shows("c1", "locked").section("c2", 60, 90)
    history.shows("c2", "locked").seen("n1", "set", 8, "locked", key="prefix:k1")
    assert only(history).text == "1 value on the nodes was used by more than one section"


def test_what_was_never_seen_on_a_node_may_be_a_name_of_the_locks_own() -> None:
    history = History().watch("n1").section("c1", 10, 50).shows("c1", "1").section("c2", 60, 90).shows("c2", "1")
    assert check(history.seen("n1", "set", 8, "x").recorded()).findings == ()


def test_a_lock_that_shows_an_empty_value_shows_nothing() -> None:
    history = History().watch("n1").section("c1", 10, 50).shows("c1", "").section("c2", 60, 90).shows("c2", "")
    assert check(history.seen("n1", "set", 8, "").recorded()).findings == ()


def test_a_run_that_nobody_watched_gives_no_answer() -> None:
    assert check(History().section("c1", 10, 50).shows("c1", "v1").recorded()) == Answer()
    assert check(History().seen("n1", "blind", 5).recorded()) == Answer()


# Keys that are hashes: their field names the client, and all its sections show the same value.


def hashes(*, second_client: str = "c1") -> History:
    """c1 is inside from 10 to 50 and from 210 to 250; the nodes hold its field both times."""
    history = History().watch(*NODES)
    for number, begin, client in ((1, 0, "c1"), (2, 200, second_client)):
        number = 1 if client == "c2" else number
        history.section(client, begin + 10, begin + 50, asked=begin + 5, number=number)
        history.shows(client, "client:1", number=number)
        for node in NODES:
            history.seen(node, "set", begin + 8, "client:1", since=begin + 6, ttl=100, is_hash=True)
            history.seen(node, "deleted", begin + 52, since=begin + 50)
    return history


def test_the_time_says_for_which_section_of_its_client_a_hash_was_set() -> None:
    run = hashes().recorded()
    assert run.watched is not None
    owners = find_owners(run, run.watched)
    assert owners.holdings.sort_values("from_max_ns")["section"].tolist() == [0, 0, 0, 1, 1, 1]
    assert (owners.shared, owners.values) == ({}, {0: {"client:1"}, 1: {"client:1"}})
    assert check(run).findings == ()


def owner_of_a_hash(key: str, set_at: float) -> int:
    """c1 asked for k1 at 5 and, in a section of its own, for k2 at 105; which of them set this key, by its place?"""
    history = History().watch(*NODES)
    for number, lock_key, asked in ((1, "k1", 5), (2, "k2", 105)):
        history.section("c1", asked + 5, 250, asked=asked, number=number, key=lock_key)
        history.shows("c1", "client:1", number=number, key=lock_key)
    run = history.seen("n1", "set", set_at, "client:1", since=set_at - 1, key=key, is_hash=True).recorded()
    assert run.watched is not None
    (section,) = find_owners(run, run.watched).holdings["section"].tolist()
    return int(section)


def test_a_hash_belongs_to_a_section_of_its_key_or_of_any_if_its_name_is_the_locks_own() -> None:
    assert (owner_of_a_hash("k1", 120), owner_of_a_hash("k2", 120)) == (0, 1)
    assert (owner_of_a_hash("lock:of:mine", 100), owner_of_a_hash("lock:of:mine", 120)) == (0, 1)


@pytest.mark.parametrize(("set_at", "place"), [(104.999, 0), (105, 1)])
def test_who_asked_in_the_moment_in_which_a_hash_was_set_may_have_set_it(set_at: float, place: int) -> None:
    assert owner_of_a_hash("lock:of:mine", set_at) == place


@pytest.mark.parametrize(("since", "until", "place"), [(106, 108, -1), (56, 60, 0), (103, 108, -1), (206, 208, 1)])
def test_a_hash_that_a_refused_call_set_is_no_sections(since: float, until: float, place: int) -> None:
    """c1 called at 5, and was granted the lock from 10 to 50; at 105, and was refused; at 205, and was granted it."""
    history = History().watch(*NODES).section("c1", 10, 50, asked=5).section("c1", 210, 250, asked=205, number=2)
    history.op("c1", "acquire", "fail", 2, 105, 150)
    for number in (1, 2):
        history.shows("c1", "client:1", number=number)
    run = history.seen("n1", "set", until, "client:1", since=since, is_hash=True).recorded()
    assert run.watched is not None
    assert find_owners(run, run.watched).holdings["section"].tolist() == [place]


@pytest.mark.parametrize(("at", "place"), [(20, 0), (60, -1)])
def test_a_hash_that_a_client_may_have_set_as_it_died_is_no_sections(at: float, place: int) -> None:
    history = History().watch(*NODES).section("c1", 10, 50, asked=5).end("c1", "killed", 90).shows("c1", "client:1")
    run = history.seen("n1", "set", at, "client:1", since=at - 1, is_hash=True).recorded()
    assert run.watched is not None
    assert find_owners(run, run.watched).holdings["section"].tolist() == [place]


@pytest.mark.parametrize(("since", "place"), [(9.5, 0), (10, 0), (10.1, -1)])
def test_that_a_client_died_takes_no_key_that_may_have_been_there_before(since: float, place: int) -> None:
    history = History().watch(*NODES).section("c1", 10, None, asked=5).end("c1", "killed", 90).shows("c1", "client:1")
    run = history.seen("n1", "set", 10.2, "client:1", since=since, is_hash=True).recorded()
    assert run.watched is not None
    assert find_owners(run, run.watched).holdings["section"].tolist() == [place]


def test_that_a_client_died_twice_takes_no_such_key_either() -> None:
    history = History().watch(*NODES).section("c1", 10, None, asked=5).shows("c1", "client:1")
    history.end("c1", "killed", 10.05).end("c1", "killed", 10.1, life=2)
    run = history.seen("n1", "set", 10.2, "client:1", since=9.5, is_hash=True).recorded()
    assert run.watched is not None
    assert find_owners(run, run.watched).holdings["section"].tolist() == [0]


def test_a_hash_that_is_deleted_while_its_owner_is_inside_is_found() -> None:
    history = hashes().section("c1", 310, 350, asked=305, number=3).shows("c1", "client:1", number=3)
    history.seen("n1", "set", 308, "client:1", since=306, ttl=100, is_hash=True)
    finding = only(history.seen("n1", "deleted", 320, since=319))
    assert (finding.kind, finding.examples[0]["section"]) == ("deleted-while-held", 3)


@pytest.mark.parametrize(("shown", "kinds"), [(True, []), (False, ["overwritten-while-held"])])
def test_an_extension_may_set_a_new_value_if_it_shows_it(shown: bool, kinds: list[str]) -> None:
    history = History().watch(*NODES).section("c1", 10, 90, asked=5).shows("c1", "first")
    if shown:
        history.shows("c1", "second")
    for node in NODES:
        history.seen(node, "set", 8, "first", since=6, ttl=100).seen(node, "set", 40, "second", since=39, ttl=100)
    assert [finding.kind for finding in check(history.recorded()).findings] == kinds


def test_a_value_that_a_section_shows_twice_is_not_shared() -> None:
    history = History().watch(*NODES).section("c1", 10, 90, asked=5).shows("c1", "first").shows("c1", "first")
    assert check(history.seen("n1", "set", 8, "first", since=6, ttl=100).recorded()).findings == ()


def test_a_field_that_two_clients_use_names_no_owner() -> None:
    finding = only(hashes(second_client="c2"))
    assert finding.kind == "shared-value"


def test_a_lock_may_set_another_field_on_each_node() -> None:
    history = History().watch(*NODES)
    for number, begin in ((1, 0), (2, 200)):
        history.section("c1", begin + 10, begin + 50, asked=begin + 5, number=number)
        for node in NODES:
            history.shows("c1", f"{node}:7", number=number)
            history.seen(node, "set", begin + 8, f"{node}:7", since=begin + 6, ttl=100, is_hash=True)
            history.seen(node, "deleted", begin + (52 if node == "n1" or number == 1 else 20), since=begin + 19)
    for node in NODES:
        history.seen(node, "blind", 400)
    run = history.recorded()
    assert run.watched is not None
    owners = find_owners(run, run.watched)
    assert owners.values == {row: {f"{node}:7" for node in NODES} for row in (0, 1)}
    assert sorted(owners.holdings["section"]) == [0, 0, 0, 1, 1, 1]
    figures: Any = check(run).figures
    assert figures == Figures(deleted=2, overwritten=0, shared_values=0)
    backing: Any = quorum_backing.check(run).figures
    assert (backing.sections, backing.unfounded, backing.by_cause["deleted"]) == (2, 1, 1)


def swapping(*, asks_at: float | None = 25, seen_to_swap: bool = True) -> History:
    """Extensions of this lock set new values. One of c1's extensions failed after n1 had got `v2`, which nobody was
    told, and then `v3`."""
    history = held()
    if asks_at is not None:
        history.op("c1", "extend", "fail", 1, asks_at, asks_at + 5)
    history.section("c2", 200, 290).op("c2", "extend", "ok", 1, 240, 250, validity_ms=90, deadline_ns=ms(340))
    history.shows("c2", "w1").seen("n3", "set", 195, "w1", ttl=100)
    if seen_to_swap:
        history.shows("c2", "w2").seen("n3", "set", 245, "w2", ttl=100)
    return history.seen("n1", "set", 27, "v2", since=26, ttl=100).seen("n1", "set", 29, "v3", since=28, ttl=100)


def test_a_new_value_of_an_extension_that_failed_halfway_is_still_its_sections() -> None:
    assert check(swapping().recorded()).findings == ()
    owners = find_owners(swapping().recorded(), swapping().recorded().watched)  # type: ignore[arg-type]
    assert owners.values[0] == {"v1", "v2", "v3"}


@pytest.mark.parametrize(
    "history",
    [
        pytest.param(swapping(asks_at=None), id="nothing was extended"),
        pytest.param(swapping(asks_at=27.1), id="it was extended later"),
        pytest.param(swapping(seen_to_swap=False), id="this lock's extensions set no new values"),
        pytest.param(swapping().shows("c2", "v2", number=2).section("c2", 400, 410, number=2), id="another showed it"),
    ],
)
def test_a_value_that_no_extension_can_have_set_is_anothers(history: History) -> None:
    finding = only(history)
    assert (finding.kind, finding.blame) == ("overwritten-while-held", "lock")


def test_what_came_after_the_section_is_not_its_extensions() -> None:
    history = swapping().seen("n2", "set", 50, "v4", since=49, ttl=100).seen("n3", "set", 52, "v5", since=50.1, ttl=100)
    owners = find_owners(history.recorded(), history.recorded().watched)  # type: ignore[arg-type]
    assert owners.values[0] == {"v1", "v2", "v3", "v4"}


def with_fields(*values: str) -> Any:
    """What the nodes held for a lock that keeps a hash, with these fields at 8, 20, 22, …, and whose findings there
    are. c1 showed `a1` and, for the same section, `a2`; c2, which came later, `b`."""
    history = History().watch(*NODES).section("c1", 10, 50, asked=5, deadline=105).shows("c1", "a1").shows("c1", "a2")
    history.section("c2", 200, 290, asked=195).shows("c2", "b")
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
    assert run.owners.holdings["value"].tolist()[:3] == ["a1", "a2", "a2"]


def test_a_hash_with_the_fields_of_several_clients_may_be_anybodys() -> None:
    history = History().watch("n1").section("c1", 10, 50, asked=5).shows("c1", "a").section("c2", 12, 50, asked=6)
    history.shows("c2", "b").seen("n1", "set", 8, "a, b", ttl=100, is_hash=True)
    owners = history.recorded().owners
    assert owners is not None
    assert owners.holdings["value"].tolist() == [None]
    history.seen("n1", "set", 9, "a, c", ttl=100, is_hash=True)
    owners = history.section("c3", 100, 150, asked=95).shows("c3", "c").recorded().owners
    assert owners is not None
    assert owners.holdings["value"].tolist() == [None, "a"], "c was asked for later"


def test_fields_that_nobody_showed_are_a_value_of_their_own() -> None:
    run = with_fields("a1", "x, y")
    assert [finding.kind for finding in check(run).findings] == ["overwritten-while-held"]
