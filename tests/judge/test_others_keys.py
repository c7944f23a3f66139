"""Extensions that change keys of other clients. What they asked for may arrive 250 ms after they had returned."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.others_keys import Figures, check
from harness.verdict import Answer
from tests.judge.histories import History, ms


def two(*, extend: tuple[float, float] = (600, 650), outcome: str = "ok", **config: Any) -> History:
    """c1 is inside from 10 to 900 and extends; n1 has had c2's key since 490, who is inside from 500 to 1,000."""
    history = History(ttl_ms=400, **config).watch("n1", "n2").section("c1", 10, 900).shows("c1", "v1")
    history.section("c2", 500, 1_000).shows("c2", "v2").op("c1", "extend", outcome, 1, *extend)
    history.seen("n1", "set", 9, "v1", ttl=400).seen("n1", "expired", 409).seen("n2", "set", 9, "v1", ttl=2_000)
    return history.seen("n1", "set", 490, "v2", ttl=400)


def touched(history: History) -> tuple[int, int]:
    figures: Any = check(history.seen("n1", "blind", 1_100).recorded()).figures
    return figures.overwritten, figures.prolonged


def overwritten(at: float, since: float | None = None, value: str = "v1", **more: Any) -> tuple[int, int]:
    return touched(two(**more).seen("n1", "set", at, value, since=since, ttl=400))


def prolonged(at: float, **more: Any) -> tuple[int, int]:
    return touched(two(**more).seen("n1", "prolonged", at, "v2", ttl=400))


def test_a_run_that_nobody_watched_or_that_shows_no_values_gives_no_answer() -> None:
    assert check(History().section("c1", 10, 50).recorded()) == Answer()
    assert check(History().watch("n1").section("c1", 10, 50).seen("n1", "set", 9, "v").recorded()) == Answer()


def test_another_clients_key_that_is_overwritten_or_prolonged_breaks_the_lease() -> None:
    history = two().seen("n1", "prolonged", 610, "v2", ttl=400).seen("n1", "set", 620, "v1", ttl=400)
    answer = check(history.recorded())
    assert answer.figures == Figures(extensions=1, overwritten=1, prolonged=1)
    assert next(answer.figures.rows()).text == "extensions overwrote 1 key and prolonged 1 key of other clients"
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("anothers-key", "lock", ("lease",), 2)
    assert finding.text == (
        "extensions changed 2 keys of other clients, on n1: an extension may prolong only what still has its own value"
    )
    assert finding.examples == (
        {"how": "prolonged", "node": "n1", "key": "k1", "by": "c1", "of": "c2", "at_ms": 610},
        {"how": "overwritten", "node": "n1", "key": "k1", "by": "c1", "of": "c2", "at_ms": 620},
    )


@pytest.mark.parametrize("outcome", ["ok", "fail", "info"])
def test_what_came_of_the_extension_does_not_matter(outcome: str) -> None:
    assert overwritten(620, outcome=outcome) == (1, 0)
    assert prolonged(620, outcome=outcome) == (0, 1)


def test_a_lock_that_prolongs_when_nobody_has_asked_renews_by_itself() -> None:
    history = two().seen("n1", "prolonged", 610, "v2", ttl=400).seen("n1", "prolonged", 950, "v2", ttl=400)
    assert touched(history) == (0, 0)
    history = two().fault("f", 940, 960, nodes=("n1",)).seen("n1", "prolonged", 610, "v2", ttl=400)
    assert touched(history.seen("n1", "prolonged", 950, "v2", ttl=400)) == (0, 1), "a fault may have held that one up"


@pytest.mark.parametrize(("since", "found"), [(499.9, (0, 1)), (500, (0, 0))])
def test_an_acquire_that_ends_with_more_time_for_its_key_does_not_renew_by_itself(
    since: float, found: tuple[int, int]
) -> None:
    """c2 was inside from 500 on."""
    history = two().seen("n1", "prolonged", 505, "v2", since=since, ttl=400)
    assert touched(history.seen("n1", "prolonged", 610, "v2", since=609, ttl=400)) == found


@pytest.mark.parametrize(("at", "found"), [(599.9, 0), (600, 1), (900, 1), (900.1, 0)])
def test_it_must_have_happened_while_the_extension_was_under_way(at: float, found: int) -> None:
    assert overwritten(at) == (found, 0)
    assert prolonged(at) == (0, found)


@pytest.mark.parametrize(("since", "found"), [(10, 1), (9.9, 0)])
def test_once_it_is_inside_only_an_extension_sets_a_value_anew(since: float, found: int) -> None:
    """When the node set it is known no better than that."""
    assert overwritten(620, since=since) == (found, 0)


@pytest.mark.parametrize(("since", "at", "found"), [(900, 950, 1), (900.1, 950, 0)])
def test_the_request_may_have_arrived_at_the_beginning_of_that_time(since: float, at: float, found: int) -> None:
    assert overwritten(at, since=since) == (found, 0)


@pytest.mark.parametrize(
    ("began", "healed", "at", "found"),
    [
        (640, 1_000, 1_250, 1),
        (640, 1_000, 1_250.1, 0),
        (640, None, 5_000, 1),
        (900, 1_000, 1_250, 1),
        (900.1, 1_000, 1_250, 0),
        (500, 600, 901, 0),
        (500, 660, 910, 1),
    ],
)
def test_a_fault_may_hold_up_the_request_of_an_extension(
    began: float, healed: float | None, at: float, found: int
) -> None:
    def after(**hit: Any) -> tuple[int, int]:
        history = two().fault("f", began, healed, **hit).seen("n1", "set", at, "v1", ttl=400)
        return touched(history.seen("n2", "blind", 6_000))

    assert after(slow_links=(("c1", "n1"),)) == after(nodes=("n1",)) == (found, 0)
    assert after(slow_links=(("c2", "n1"), ("c1", "n2"))) == (0, 0)


def test_one_fault_after_another_may_hold_it_up() -> None:
    history = two().fault("a", 640, 1_000, slow_links=(("c1", "n1"),)).fault("b", 1_200, 1_400, nodes=("n1",))
    assert touched(history.seen("n1", "set", 1_600, "v1", ttl=400)) == (1, 0)


def test_a_client_may_overwrite_what_it_had_set_itself() -> None:
    history = two().section("c1", 455, 590, number=2).shows("c1", "v3", number=2)
    history.seen("n1", "deleted", 495).seen("n1", "set", 500, "v3", ttl=400)
    assert touched(history.seen("n1", "set", 620, "v1", ttl=400)) == (0, 0)


def of_attempt(history: History) -> History:
    """On n1 the key of an attempt takes the place of c2's."""
    return history.seen("n1", "deleted", 495).seen("n1", "set", 500, "of an attempt", ttl=400)


@pytest.mark.parametrize(("first", "at", "found"), [("pending", 599.9, 0), (None, 599.9, 0), ("pending", 600, 1)])
def test_a_lock_whose_acquires_replace_values_may_have_left_one_halfway(
    first: str | None, at: float, found: int
) -> None:
    """On n3, c1's value takes the place of another: by an acquire, if c1 had not asked for an extension by then."""
    for since in (9, None):
        history = two().seen("n3", "watching", 0, "n3-first").seen("n3", "set", 5, first)
        history.seen("n3", "set", at, "v1", since=since)
        both = found if since is None else 0
        assert touched(of_attempt(history).seen("n1", "set", 620, "v1", ttl=400)) == (found + both, 0)


@pytest.mark.parametrize(("how", "found"), [("killed", 1), ("finished", 0)])
def test_a_client_that_was_killed_may_have_asked_for_an_extension(how: Any, found: int) -> None:
    """c3 was inside from 200 on, and its value takes the place of another on n3 at 500."""
    history = two().op("c3", "acquire", "ok", 1, 190, 200, deadline_ns=ms(600), validity_ms=399.0).shows("c3", "v3")
    history.end("c3", how, 450).seen("n3", "watching", 0, "n3-first").seen("n3", "set", 490, "v2")
    history.seen("n3", "set", 500, "v3")
    assert touched(of_attempt(history).seen("n1", "set", 620, "v1", ttl=400)) == (found, 0)


@pytest.mark.parametrize(("exchanged", "set_at", "found"), [("n2", 600, 0), ("n2", 599.9, 1), ("n3", 600, 1)])
def test_an_extension_that_failed_halfway_may_have_set_its_new_value_on_a_free_node(
    exchanged: str, set_at: float, found: int
) -> None:
    """On n2, which has had c1's value, another one of c1 takes its place; n3 has had none."""
    history = two().shows("c1", "v1 again").seen("n3", "watching", 0, "n3-first")
    history.seen("n1", "deleted", 495).seen("n1", "set", set_at, "unshown", ttl=400)
    history.seen(exchanged, "set", 700, "v1 again").seen("n1", "set", 620, "v1", ttl=400)
    assert touched(history) == (found, 0)


@pytest.mark.parametrize(("since", "found"), [(260, 0), (260.1, 1)])
def test_what_such_an_acquire_has_asked_for_may_arrive_late(since: float, found: int) -> None:
    """c1 was let in at 10."""

    def taken_over(**hit: Any) -> tuple[int, int]:
        history = two().seen("n3", "watching", 0, "n3-first").seen("n3", "set", 5, "v2").seen("n3", "set", 9, "v1")
        history.fault("f", 200, 300, **hit).seen("n3", "blind", 900)
        return touched(history.seen("n1", "set", 620, "v1", since=since))

    assert taken_over(nodes=("n2",)) == (found, 0)
    assert taken_over(nodes=("n1",)) == (0, 0)


@pytest.mark.parametrize(
    ("before", "event", "found"),
    [("deleted", "set", 1), ("expired", "set", 1), ("set", "set", 0), ("blind", "set", 0), ("blind", "seen", 0)],
)
def test_what_was_set_in_place_of_a_value_may_be_left_of_an_extension_of_its_own(
    before: str, event: str, found: int
) -> None:
    history = two().seen("n1", before, 495).seen("n1", event, 500, "unshown", ttl=400)
    assert touched(history.seen("n1", "set", 620, "v1", ttl=400)) == (found, 0)


@pytest.mark.parametrize("left", [None, "of an attempt"])
def test_the_first_section_of_a_run_may_be_the_one_whose_key_was_overwritten(left: str | None) -> None:
    """However it got that key."""
    history = History(ttl_ms=400).watch("n1").section("c1", 10, 900).shows("c1", "v1")
    history.section("c2", 500, 1_000).shows("c2", "v2").op("c2", "extend", "ok", 1, 800, 850)
    history.seen("n1", "set", 9, left).seen("n1", "set", 20, "v1", since=9).seen("n1", "set", 820, "v2")
    assert touched(history) == (1, 0)


def test_one_lock_may_have_several_keys_on_a_node() -> None:
    """c2 has slot 1 and c1 slot 2, and both exchange their values."""
    history = History(ttl_ms=400).watch("n1").section("c1", 10, 900).shows("c1", "v1").shows("c1", "v1 again")
    history.section("c2", 8, 1_000).shows("c2", "v2").shows("c2", "v2 again")
    history.op("c2", "extend", "ok", 1, 600, 650).op("c1", "extend", "ok", 1, 700, 750)
    history.seen("n1", "set", 7, "v2", key="slot1").seen("n1", "set", 9, "v1", key="slot2")
    history.seen("n1", "set", 620, "v2 again", key="slot1").seen("n1", "set", 720, "v1 again", key="slot2")
    assert touched(history) == (0, 0)


@pytest.mark.parametrize(
    ("field", "since", "refused", "again", "slow", "found"),
    [
        pytest.param("client:3", 449, 460, 700, "c5", 1, id="of a client without sections"),
        pytest.param("client:2", 450, 460, 700, "c5", 1, id="surely set by the attempt"),
        pytest.param("client:2", 450, 460, 700, "c2", 0, id="a fault may have held up what it had asked for"),
        pytest.param("client:2", 449.9, 460, 700, "c5", 0, id="it may have been there before the attempt"),
        pytest.param("client:2", 450, 610.1, 700, "c5", 0, id="the attempt was going on"),
        pytest.param("client:2", 450, 460, 610, "c5", 0, id="its client had called again"),
    ],
)
def test_the_field_of_a_client_that_has_sections_may_be_a_sections(
    field: str, since: float, refused: float, again: float, slow: str, found: int
) -> None:
    """c1 extends from 600 to 650, and c2 calls again at 450 and is refused, and once more."""
    history = History(ttl_ms=400).watch("n1", "n2").section("c1", 10, 900).shows("c1", "client:1")
    history.section("c2", 300, 400).shows("c2", "client:2").op("c2", "acquire", "fail", 2, 450, refused)
    history.op("c1", "extend", "ok", 1, 600, 650).seen("n2", "set", 9, "client:1", ttl=2_000, is_hash=True)
    history.seen("n3", "watching", 0, "n3-first").seen("n3", "set", 299, "client:2", ttl=100, is_hash=True)
    history.op("c2", "acquire", "fail", 3, again, again + 10).fault("f", 440, 690, slow_links=((slow, "n1"),))
    history.seen("n1", "set", 455, field, since=since, ttl=400, is_hash=True, read=456)
    assert touched(history.seen("n1", "prolonged", 610, field, ttl=400, read=610)) == (0, found)


@pytest.mark.parametrize(("value", "found"), [("of an attempt", 1), (None, 0)])
def test_the_key_of_an_attempt_is_anothers_too_if_its_value_was_read(value: str | None, found: int) -> None:
    history = two().seen("n1", "deleted", 500).seen("n1", "set", 501, value).seen("n1", "set", 620, "v1")
    (*examples,) = (example for finding in check(history.recorded()).findings for example in finding.examples)
    assert examples == [{"how": "overwritten", "node": "n1", "key": "k1", "by": "c1", "at_ms": 620}] * found


def test_a_key_that_was_free_may_be_set() -> None:
    assert touched(two().seen("n1", "deleted", 610).seen("n1", "set", 620, "v1")) == (0, 0)


def test_one_of_several_extensions_is_enough() -> None:
    history = two().op("c2", "extend", "ok", 1, 700, 710).op("c1", "extend", "ok", 1, 30, 40)
    assert touched(history.seen("n1", "set", 620, "v1", ttl=400)) == (1, 0)


@pytest.mark.parametrize(("at", "found"), [(620, 1), (899.9, 1), (900, 0)])
def test_the_first_section_of_a_run_may_be_the_one_whose_key_was_prolonged(at: float, found: int) -> None:
    history = History(ttl_ms=400).watch("n1", "n2").section("c1", 10, 900).shows("c1", "v1")
    history.section("c2", 500, 1_000).shows("c2", "v2").op("c2", "extend", "ok", 1, 600, 700)
    history.seen("n1", "set", 9, "v1", ttl=2_000).seen("n2", "set", 490, "v2", ttl=2_000)
    findings = check(history.seen("n1", "prolonged", at, "v1", ttl=400).recorded()).findings
    assert [example["of"] for finding in findings for example in finding.examples] == ["c1"] * found


def test_a_key_that_came_into_sight_was_set_who_knows_when() -> None:
    history = two().seen("n1", "prolonged", 590, "v2", ttl=1_000).seen("n1", "seen", 620, "v1", ttl=400)
    assert touched(history) == (0, 0)


def test_a_client_may_prolong_its_own_key() -> None:
    history = two().seen("n2", "prolonged", 620, "v1", ttl=400)
    assert touched(history.seen("n2", "blind", 900)) == (0, 0)


@pytest.mark.parametrize("f", ["extend", "held", "reenter"])
def test_a_client_that_had_asked_may_have_prolonged_its_key_itself(f: str) -> None:
    for asked, found in ((620, 0), (620.1, 1)):
        history = two().op("c2", f, "info", 1, asked, asked + 50)
        assert touched(history.seen("n1", "prolonged", 620, "v2", ttl=400)) == (0, found)


def test_a_lock_may_prolong_its_key_while_it_acquires_or_when_it_is_released() -> None:
    for at, found in ((499.9, 0), (500, 1), (749.9, 1)):
        assert prolonged(at, extend=(450, 500)) == (0, found)
    for at, found in ((999.9, 1), (1_000, 0)):
        assert prolonged(at, extend=(980, 990)) == (0, found)


def attempted(at: float, *, value: str | None = "of an attempt", ttl: int | None = 400, **fault: Any) -> History:
    """n1 holds the key of an attempt from 510 on, which is given more time then."""
    history = two().seen("n1", "deleted", 500).seen("n1", "set", 510, value, ttl=ttl, read=511)
    if fault:
        history.fault("f", **fault)
    return history.seen("n1", "prolonged", at, value, ttl=400, read=at)


IN_FORCE: dict[str, Any] = {"began": 480, "healed": 700, "slow_links": (("c5", "n1"),)}


def test_the_key_of_an_attempt_is_prolonged_by_nobody() -> None:
    assert touched(attempted(620)) == (0, 1)
    assert touched(attempted(620, value=None)) == (0, 0), "it may be c1's own"
    assert touched(attempted(599)) == (0, 0), "nobody was extending: this lock renews by itself"
    assert touched(attempted(620).seen("n1", "prolonged", 901, "of an attempt", ttl=400)) == (0, 0), "so does this one"


def test_no_fault_can_have_held_up_what_nobody_asks_for() -> None:
    assert touched(attempted(620, **IN_FORCE)) == (0, 1)
    assert touched(attempted(599, **IN_FORCE)) == (0, 0), "an earlier extension of c1 may have come late"
    assert touched(attempted(599, **IN_FORCE).seen("n1", "prolonged", 620, "of an attempt", ttl=400)) == (0, 1)


def test_a_lock_may_set_a_key_first_and_its_time_to_live_later() -> None:
    for fault in ({}, IN_FORCE):
        assert touched(attempted(620, ttl=None, **fault)) == (0, 0)
        again = attempted(620, ttl=None, **fault).seen("n1", "prolonged", 630, "of an attempt", ttl=400)
        assert touched(again) == (0, 1), "it had a time to live by then"


@pytest.mark.parametrize(("value", "event", "found"), [("x", "set", 0), ("x", "seen", 1), (None, "set", 1)])
def test_an_attempt_may_prolong_what_an_earlier_one_left_if_both_have_one_value(
    value: str | None, event: str, found: int
) -> None:
    def twice(**fault: Any) -> History:
        history = attempted(620, **fault).seen("n2", "deleted", 700)
        return history.seen("n2", event, 710, value).seen("n2", "deleted", 720).seen("n2", "set", 730, value)

    assert touched(twice(**IN_FORCE)) == (0, found)
    assert touched(twice()) == (0, 1), "nothing held it up"


@pytest.mark.parametrize(("gone", "found"), [(609.9, 0), (610, 1)])
def test_a_lock_may_have_another_value_when_its_own_is_nowhere_any_more(gone: float, found: int) -> None:
    history = two().seen("n2", "deleted", gone).seen("n1", "prolonged", 610, "v2", ttl=400)
    assert touched(history) == (0, found)


@pytest.mark.parametrize(("set_at", "found"), [(610, 1), (610.1, 0)])
def test_so_it_may_before_its_own_is_anywhere(set_at: float, found: int) -> None:
    history = two().seen("n2", "deleted", 420).seen("n1", "prolonged", 610, "v2", ttl=400)
    assert touched(history.seen("n2", "set", set_at, "v1", ttl=400)) == (0, found)


def test_who_renews_in_a_thread_asks_nobody_when_it_does() -> None:
    assert prolonged(620, renewal_ms=100) == (0, 0)


@pytest.mark.parametrize("hit", [{"nodes": ("n1",)}, {"cut_links": (("c2", "n1"),)}, {"slow_links": (("c2", "n1"),)}])
def test_a_request_of_its_owner_may_have_been_held_up_by_a_fault(hit: dict[str, Any]) -> None:
    def found(began: float, healed: float) -> int:
        history = two().fault("f", began, healed, **hit).seen("n1", "prolonged", 620, "v2", ttl=400)
        return touched(history)[1]

    assert found(480, 498.9) == 1
    assert found(480, 499) == 0
    assert found(620, 700) == 0
    assert found(620.1, 700) == 1


def test_a_fault_elsewhere_holds_up_nothing_of_the_owner() -> None:
    for hit in ({"nodes": ("n2",)}, {"cut_links": (("c1", "n1"), ("c2", "n2"))}):
        history = two().fault("f", 480, 700, **hit).seen("n1", "prolonged", 620, "v2", ttl=400)
        assert touched(history) == (0, 1)


def test_an_extension_of_another_key_touches_nothing_of_this_one() -> None:
    history = two(extend=(60, 70)).section("c1", 550, 800, number=2, key="k2")
    history.op("c1", "extend", "ok", 2, 600, 650, key="k2").seen("n1", "prolonged", 620, "v2", ttl=400)
    assert touched(history) == (0, 0)


def test_an_extension_of_a_section_that_nobody_granted_is_left_out() -> None:
    history = two(extend=(60, 70)).op("c1", "extend", "ok", 7, 600, 650).seen("n1", "prolonged", 620, "v2", ttl=400)
    assert touched(history) == (0, 0)


# Keys that somebody else deleted.


def deleted(
    at: float = 760,
    since: float | None = None,
    *,
    f: str = "extend",
    asked: tuple[float, float] = (700, 765),
    **more: Any,
) -> History:
    """n1 has had c2's key since 490; c2 is inside from 500 to 1,000 and asks for nothing. c1 asks meanwhile."""
    history = two(extend=(60, 70), clients=3, **more)
    history.op("c1", f, "fail", 1 if f == "extend" else 2, *asked)
    return history.seen("n1", "deleted", at, since=since)


def by(history: History) -> list[Any]:
    found = check(history.seen("n1", "blind", 1_300).recorded()).findings
    return [example["asked"] for one in found for example in one.examples if example["how"] == "deleted"]


def test_a_key_that_another_client_deletes_breaks_the_lease() -> None:
    answer = check(deleted().seen("n1", "blind", 1_300).recorded())
    assert answer.figures == Figures(extensions=2, overwritten=0, prolonged=0, deleted=1)
    assert [row.text for row in answer.figures.rows()] == ["requests deleted 1 key of other clients"]
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("anothers-key", "lock", ("lease",), 1)
    assert finding.text == (
        "requests deleted 1 key of other clients, on n1: a request may delete only what still has its own value"
    )
    asked = ("c1's extension",)
    assert finding.examples == (
        {"how": "deleted", "node": "n1", "key": "k1", "by": "c1", "of": "c2", "asked": asked, "at_ms": 760},
    )


@pytest.mark.parametrize(("f", "what"), [("extend", "extension"), ("release", "release"), ("acquire", "attempt")])
def test_whatever_the_other_client_asked_for(f: str, what: str) -> None:
    assert by(deleted(f=f)) == [(f"c1's {what}",)]
    assert by(deleted(f="read")) == []


def test_the_first_section_of_a_run_may_be_the_one_whose_key_was_deleted() -> None:
    history = (
        History(ttl_ms=400).watch("n1").section("c1", 10, 900).shows("c1", "v1").seen("n1", "set", 9, "v1", ttl=2_000)
    )
    assert by(history.op("c2", "acquire", "fail", 1, 600, 610).seen("n1", "deleted", 605)) == [("c2's attempt",)]


def test_several_that_asked_meanwhile_are_all_told() -> None:
    history = deleted().op("c3", "acquire", "fail", 1, 700, 800).op("c3", "acquire", "fail", 1, 650, 660)
    (finding,) = check(history.seen("n1", "blind", 1_300).recorded()).findings
    assert finding.examples[0]["asked"] == ("c1's extension", "c3's attempt")
    assert "by" not in finding.examples[0]


@pytest.mark.parametrize(("asked", "found"), [((760, 765), 1), ((760.1, 765), 0), ((500, 510), 1), ((500, 509.9), 0)])
def test_the_request_must_have_been_able_to_arrive_then(asked: tuple[float, float], found: int) -> None:
    assert len(by(deleted(asked=asked))) == found


def test_a_request_that_may_have_come_after_it_did_not_delete_it() -> None:
    assert by(deleted(since=759, asked=(759.5, 765))) == []
    assert by(deleted(since=759.5, asked=(759.5, 765))) == [("c1's extension",)]


def test_a_request_for_another_key_deletes_nothing_of_this_one() -> None:
    history = two(extend=(60, 70)).op("c1", "acquire", "fail", 2, 700, 765, key="k2").seen("n1", "deleted", 760)
    assert by(history) == []


@pytest.mark.parametrize(("at", "found"), [(749.9, 0), (750, 1), (999.9, 1), (1_000, 0)])
def test_what_its_owner_asked_for_before_or_after_may_have_deleted_it(at: float, found: int) -> None:
    assert len(by(deleted(at, asked=(700, 1_200)))) == found


@pytest.mark.parametrize("f", ["extend", "held", "reenter"])
def test_its_owner_may_give_up_as_soon_as_it_has_asked(f: str) -> None:
    assert by(deleted().op("c2", f, "fail", 1, 760, 770)) == []
    assert len(by(deleted().op("c2", f, "fail", 1, 760.1, 770))) == 1


def test_the_key_must_have_been_there_for_all_that_time() -> None:
    history = two(extend=(60, 1_200)).seen("n1", "deleted", 510).seen("n1", "set", 770, "v2").seen("n1", "deleted", 780)
    assert by(history.seen("n2", "blind", 1_300)) == [("c1's extension",)]
    assert by(deleted(760, since=749.9)) == []


@pytest.mark.parametrize("value", [None, "of an attempt"])
def test_only_the_key_of_a_section_has_an_owner_that_asks_for_nothing(value: str | None) -> None:
    history = two(extend=(60, 1_200)).seen("n1", "deleted", 500).seen("n1", "set", 510, value)
    assert by(history.seen("n1", "deleted", 800)) == []


def test_a_key_that_expires_or_is_overwritten_was_not_deleted() -> None:
    history = two(extend=(60, 70), clients=3).op("c3", "acquire", "fail", 1, 700, 765)
    assert by(history.seen("n1", "expired", 760)) == []


@pytest.mark.parametrize(("healed", "found"), [(248.9, 1), (249, 0)])
def test_a_request_that_its_owner_had_made_before_may_have_been_held_up(healed: float, found: int) -> None:
    for hit in ({"nodes": ("n1",)}, {"cut_links": (("c2", "n1"),)}):
        assert len(by(deleted().fault("f", 100, healed, **hit))) == found
    assert len(by(deleted().fault("f", 100, healed, cut_links=(("c1", "n1"), ("c2", "n2"))))) == 1
    assert len(by(deleted().fault("f", 760, 900, nodes=("n1",)))) == 0
    assert len(by(deleted().fault("f", 760.1, 900, nodes=("n1",)))) == 1


def test_locks_that_renew_by_themselves_may_give_up_by_themselves() -> None:
    assert by(deleted(renewal_ms=100)) == []


def test_holders_of_permits_may_share_a_key() -> None:
    assert by(deleted(workload="semaphore", permits=2)) == []
