"""Keys that stay on healthy nodes when a lock is released, or refused. They may stay for 250 ms."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.undeleted_keys import Figures, check
from harness.history.cancelled_calls import CancelledCall
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

HITS: list[dict[str, Any]] = [
    {"nodes": ("n1",)},
    {"cut_links": (("c1", "n1"),)},
    {"slow_links": (("c1", "n1"),)},
    {"paused_clients": ("c1",)},
    {"killed_clients": ("c1",)},
]

OF_C2: list[dict[str, Any]] = [{"paused_clients": ("c2",)}, {"killed_clients": ("c2",)}, {"cut_links": (("c2", "n1"),)}]


def released(
    *stay: float,
    deleted: bool = True,
    outcome: str = "ok",
    set_at: float = -2,
    ttl: int = 900,
    asked: str = "EVAL free 1 k1",
) -> History:
    """Every 1,000 ms c1 is let in at 10; its release is answered at 60 and had `asked` the node. n1 holds the key until
    `stay`, section by section."""
    history = History(ttl_ms=ttl).watch("n1")
    for number, until in enumerate(stay, 1):
        at = 1_000 * (number - 1) + 10
        history.section("c1", at, None, number=number, asked=at - 5).sets("c1", f"v{number}", number=number)
        history.op("c1", "release", outcome, number, at + 40, at + 50)
        if asked:
            history.request("c1", "n1", f"{asked} v{number}", at + 41, at + 42, reply="0", did=False)
        history.seen("n1", "set", at + set_at, f"v{number}", ttl=ttl)
        history.seen("n1", "deleted" if deleted else "expired", at - 10 + until)
    return history.wanted()


def refused(*stay: float, set_at: float = 40, since: float | None = None) -> History:
    """Every 1,000 ms c1 tries from 10 to 60 and is refused. n1 holds a key until `stay`, try by try. Before that, c2
    shows what it sets."""
    history = History(ttl_ms=900).watch("n1").section("c2", -500, -450).sets("c2", "its own")
    history.seen("n1", "set", -502, "its own", ttl=900).seen("n1", "deleted", -450)
    for number, until in enumerate(stay, 1):
        at = 1_000 * (number - 1)
        history.op("c1", "acquire", "fail", number, at + 10, at + 60)
        history.seen("n1", "set", at + set_at, f"v{number}", ttl=900, since=None if since is None else at + since)
        history.seen("n1", "deleted", at + until)
    return history


def counted(history: History) -> tuple[int, int, int, int]:
    figures: Any = check(history.seen("n1", "blind", 9_000).recorded()).figures
    return figures.after_releases, figures.left_by_releases, figures.after_attempts, figures.left_by_attempts


def test_a_run_that_nobody_watched_or_that_shows_no_values_gives_no_answer() -> None:
    assert check(History().section("c1", 10, 50).recorded()) == Answer()
    hidden = History().watch("n1").section("c1", 10, 50).seen("n1", "set", 9, "v", ttl=900).seen("n1", "deleted", 800)
    assert check(hidden.recorded()) == Answer()


def test_keys_that_stay_after_releases(golden: Golden) -> None:
    answer = check(released(310.1, 800, 500, 400, 55).recorded())
    assert answer.figures == Figures(5, 4, 0, 0)
    golden(next(answer.figures.rows()).text)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("keys-left-behind", "lock", "liveness", 4)
    golden(finding.text)
    assert [example["at_ms"] for example in finding.examples] == [1060, 60, 2060]
    assert finding.examples[0] == {
        "after": "release",
        "node": "n1",
        "key": "k1",
        "by": "c1",
        "outcome": "ok",
        "asked": "EVAL",
        "reply": "0",
        "at_ms": 1060,
        "for_ms": 740,
    }


def test_keys_that_stay_after_refused_attempts(golden: Golden) -> None:
    answer = check(refused(310.1, 800, 500, 55).recorded())
    assert answer.figures == Figures(1, 0, 4, 3)
    (finding,) = answer.findings
    golden(finding.text)
    assert "by" not in finding.examples[0]


@pytest.mark.parametrize("history", [released, refused])
def test_what_is_under_way_may_take_a_while(history: Any) -> None:
    left = slice(0, 2) if history is released else slice(2, 4)
    assert counted(history(310))[left] == (1, 0)
    assert counted(history(310.1))[left] == (1, 1)


def test_a_release_that_asks_no_node_for_anything_need_not_be_one_of_ten() -> None:
    stay = (800, 800, 800, *[55] * 28)
    assert not check(released(*stay).recorded()).findings
    run = released(*stay, asked="").recorded()
    (finding,) = check(run).findings
    assert (finding.kind, finding.blame, finding.count) == ("keys-left-behind", "lock", 3)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "unsent release"
    assert not check(released(*stay[1:], asked="").recorded()).findings


def test_that_nothing_was_asked_is_not_known_where_the_record_is_not_whole() -> None:
    history = released(800, 800, 800, *[55] * 28, asked="")
    history.not_recorded = {"n2"}
    assert not check(history.recorded()).findings


def test_a_release_that_names_what_a_renewal_replaced() -> None:
    history = released(800, 800, 800)
    for number, at in enumerate((10, 1_010, 2_010), 1):
        history.seen("n1", "set", at + 20, f"new{number}", ttl=900, since=at + 19)
        history.request("c1", "n1", f"EVAL renew 1 k1 v{number} new{number}", at + 19, at + 20)
    run = history.recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "old value"


@pytest.mark.parametrize("history", [released, refused])
def test_it_is_a_habit_from_three_keys_and_a_tenth_on(history: Any) -> None:
    def found(left: int, of: int) -> bool:
        return bool(check(history(*[800] * left, *[55] * (of - left)).recorded()).findings)

    assert not found(2, 2)
    assert found(3, 3)
    assert found(3, 30)
    assert not found(3, 31)


def test_the_share_counts_on_the_nodes_that_kept_keys(golden: Golden) -> None:
    history = released(*[55] * 30)
    for node, stay in (("n2", 800), ("n3", 55)):
        history.watch(node)
        for number in range(1, 31 if node == "n3" else 4):
            at = 1_000 * (number - 1)
            history.seen(node, "set", at + 8, f"v{number}", ttl=900).seen(node, "deleted", at + stay)
    answer = check(history.recorded())
    assert answer.figures == Figures(63, 3, 0, 0)
    golden(answer.findings[0].text)


@pytest.mark.parametrize(
    ("left_on_n2", "left_on_n1", "words"),
    [
        (3, 1, "3 of 3 keys on n2 stayed there"),  # with n1, 4 of 43 would have
        (4, 1, "5 of 44 keys on n1 and n2 stayed there"),
        (2, 1, None),  # 3 of 42 together, and 2 of 2
    ],
)
def test_a_habit_on_some_nodes_is_not_hidden_by_a_key_on_others(
    left_on_n2: int, left_on_n1: int, words: str | None
) -> None:
    history = released(*[800] * left_on_n1, *[55] * (40 - left_on_n1)).watch("n2")
    for number in range(1, left_on_n2 + 1):
        at = 1_000 * (number - 1)
        history.seen("n2", "set", at + 8, f"v{number}", ttl=900).seen("n2", "deleted", at + 800)
    findings = check(history.recorded()).findings
    assert [finding.text.startswith(words or "") for finding in findings] == ([True] if words else [])
    assert sum(finding.count for finding in findings) == (int(words.split()[0]) if words else 0)


@pytest.mark.parametrize(
    ("releases", "nodes", "of_one", "count"), [(2, 2, True, 4), (2, 3, True, 6), (1, 3, True, 0), (2, 2, False, 0)]
)
def test_releases_that_leave_several_nodes_at_once_are_no_chance(
    releases: int, nodes: int, of_one: bool, count: int
) -> None:
    """Otherwise forty keys went with their releases. `of_one`: whether those that stayed on both nodes are of the same
    releases."""
    history = released(*[800] * releases, *[55] * 40)
    for node in [f"n{number}" for number in range(2, nodes + 1)]:
        history.watch(node)
        first = 0 if of_one else releases
        for number in range(40):
            at, stays = 1_000 * number, first <= number < first + releases
            history.seen(node, "set", at + 8, f"v{number + 1}", ttl=900)
            history.seen(node, "deleted", at + (800 if stays else 55))
    assert sum(finding.count for finding in check(history.recorded()).findings) == count


@pytest.mark.parametrize("outcome", ["fail", "info"])
def test_a_release_that_failed_should_have_freed_the_healthy_nodes_as_well(outcome: str) -> None:
    assert counted(released(800, 55, outcome=outcome)) == (2, 1, 0, 0)


def test_a_call_that_its_user_cancelled_need_not_have_freed_anything() -> None:
    for history in (released(*[800] * 4, outcome="info"), refused(*[800] * 4)):
        assert any(counted(history))
        for ops in history.ops.values():
            for op in ops:
                op.cancelled = op.f == "release" or op.outcome == "fail"
        after_releases, left_by_releases, after_attempts, left_by_attempts = counted(history)
        assert (left_by_releases, left_by_attempts) == (0, 0)
        assert after_attempts == 0
        assert after_releases <= 1, "c2's, which nothing cancelled, is looked at"


def test_a_cancelled_call_is_not_over_before_all_that_it_had_asked_for_is_done() -> None:
    run = refused(*[800] * 4).seen("n1", "blind", 9_000).recorded()
    vars(run)["cancelled"] = (CancelledCall("c1", "k1", ms(-20), ms(2_500), ms(3_600)),)
    figures: Any = check(run).figures
    assert (figures.after_attempts, figures.left_by_attempts) == (1, 1)


def test_a_set_that_came_when_the_client_was_inside_may_have_overtaken_nothing_or_everything() -> None:
    assert counted(released(800, set_at=0)) == (1, 1, 0, 0)
    assert counted(released(800, set_at=0.1)) == (0, 0, 0, 0)


def test_a_set_that_came_when_its_attempt_was_over_was_overtaken() -> None:
    assert counted(refused(800, set_at=60))[2:] == (1, 1)
    assert counted(refused(800, set_at=60.1))[2:] == (0, 0)


def test_a_key_that_expired_meanwhile_tells_nothing() -> None:
    assert counted(released(310, deleted=False)) == (0, 0, 0, 0)
    assert counted(released(800, deleted=False)) == (1, 1, 0, 0)
    assert counted(released(800, ttl=302)) == (1, 0, 0, 0), "deleted, when it may have been gone"


def test_a_key_that_was_there_when_the_node_came_into_sight_was_set_who_knows_when() -> None:
    history = History().watch("n1", at=-900).section("c1", 10, 50).sets("c1", "v1")
    history.seen("n1", "seen", 9, "v1", ttl=900).seen("n1", "deleted", 800)
    history.section("c1", 910, 950, number=2).sets("c1", "v2", number=2)
    history.seen("n1", "set", 909, "v2", ttl=900).seen("n1", "deleted", 951)
    assert counted(history) == (1, 0, 0, 0)


def test_a_value_that_nobody_could_read_may_be_anybodys() -> None:
    history = refused().op("c1", "acquire", "fail", 1, 10, 60).seen("n1", "set", 40, None, ttl=900)
    assert counted(history.seen("n1", "deleted", 800))[2:] == (0, 0)


@pytest.mark.parametrize("hit", HITS)
def test_nothing_is_known_while_a_fault_may_have_been_in_the_way_of_a_release(hit: dict[str, Any]) -> None:
    assert counted(released(800).fault("f", -300, -200.1, **hit)) == (1, 1, 0, 0), "what was under way has arrived"
    assert counted(released(800).fault("f", -300, -200, **hit)) == (0, 0, 0, 0)
    assert counted(released(800).fault("f", 310, 320, **hit)) == (0, 0, 0, 0)
    assert counted(released(800).fault("f", 310.1, 320, **hit)) == (1, 1, 0, 0)


@pytest.mark.parametrize("hit", HITS)
def test_nothing_is_known_while_a_fault_may_have_been_in_the_way_of_any_attempt(hit: dict[str, Any]) -> None:
    assert counted(refused(800, since=39).fault("f", -400, -211.1, **hit))[2:] == (1, 1)
    assert counted(refused(800, since=39).fault("f", -400, -211, **hit))[2:] == (0, 0)
    assert counted(refused(800).fault("f", 310, 320, **hit))[2:] == (0, 0)
    assert counted(refused(800).fault("f", 310.1, 320, **hit))[2:] == (1, 1)


@pytest.mark.parametrize("elsewhere", [{"nodes": ("n2",)}, {"cut_links": (("c1", "n2"),)}])
def test_a_fault_elsewhere_is_in_nobodys_way(elsewhere: dict[str, Any]) -> None:
    assert counted(released(800).fault("f", 20, 100, **elsewhere)) == (1, 1, 0, 0)
    assert counted(refused(800).fault("f", 20, 100, **elsewhere))[2:] == (1, 1)


def test_a_fault_of_another_client_is_not_in_the_way_of_a_release() -> None:
    for hit in OF_C2:
        assert counted(released(800).fault("f", 20, 100, **hit)) == (1, 1, 0, 0)


def test_a_client_without_a_processor_cannot_do_what_it_should() -> None:
    def left(history: History, client: str, from_ms: float, to_ms: float) -> int:
        history.kept_waiting = {client: [(ms(from_ms), ms(to_ms))]}
        return sum(counted(history)[1::2])

    assert left(released(800), "c1", -300, -200.1) == 1
    assert left(released(800), "c1", -300, -200) == 0
    assert left(released(800), "c1", 310, 320) == 0
    assert left(released(800), "c1", 310.1, 320) == 1
    assert left(released(800), "c2", 20, 40) == 1
    assert left(refused(800), "c1", 20, 40) == 0
    assert left(refused(800), "c2", 20, 40) == 1


def test_a_proxy_without_a_processor_takes_what_it_is_sent_late() -> None:
    for history in (released(800), refused(800)):
        history.kept_waiting = {"proxy": [(ms(20), ms(40))]}
        assert sum(counted(history)[1::2]) == 0


def test_a_node_that_is_asked_in_time_may_delete_the_key_late() -> None:
    """The release is answered at 60, and so is the refused acquire."""

    def left(history: History, sent: float) -> tuple[int, ...]:
        return counted(history.request("c1", "n1", "DEL k1", 799, 800, sent=sent))[1::2]

    assert left(released(800), 310) == left(refused(800), 310) == (0, 0)
    assert left(released(800), 310.1) == (1, 0)
    assert left(refused(800), 310.1) == (0, 1)


def test_a_client_that_ends_takes_what_it_has_not_sent_with_it() -> None:
    def left(history: History, client: str, at: float) -> int:
        return sum(counted(history.end(client, "finished", at))[1::2])

    assert left(released(800), "c1", -200.1) == 1
    assert left(released(800), "c1", -200) == 0
    assert left(released(800), "c1", 310) == 0
    assert left(released(800), "c1", 310.1) == 1
    assert left(released(800), "c2", 100) == 1
    assert left(refused(800), "c2", 100) == 1


def test_the_key_of_an_attempt_whose_client_may_have_died_is_not_looked_at() -> None:
    assert counted(refused(800).end("c1", "killed", 900))[2:] == (1, 1)
    assert counted(refused(800, set_at=65).end("c1", "killed", 320))[2:] == (0, 0)


def late(
    times: int = 3,
    *,
    undo: str = "",
    undo_at: float = 65,
    outcome: str = "fail",
    user: str = "c1",
    set_at: float = 100,
    **more: Any,
) -> History:
    """Every 1,000 ms c1 tries from 10 to 60 and is refused: its request came to the proxy at 20, to n1 at `set_at`,
    and set the key, which expired at 955. `undo`: what c1 sent on its way after it, in which `V` stands for the value.
    `user`: the task of c1 that tries."""
    history = History(ttl_ms=900, tasks=2 if "@" in user else 1).watch("n1").section("c2", 5, 7, asked=1)
    history.request("c2", "n1", "SET k1 its-own NX PX 900", 2, 3).seen("n1", "set", 3, "its-own", since=1.5, ttl=900)
    history.request("c2", "n1", "DEL k1", 7.5, 7.6).seen("n1", "deleted", 7.6, since=7.4)
    for number in range(1, times + 1):
        at, value = 1_000 * (number - 1), f"a-value-{number}"
        history.op(user, "acquire", outcome, number, at + 10, at + 60)
        words = more.get("take", "SET k1 V NX PX 850").replace(" V", f" {value}")
        history.request("c1", "n1", words, at + set_at, at + set_at + 1, sent=at + 20, told=at + 300)
        history.seen("n1", "set", at + set_at + 1, value, since=at + set_at - 1, ttl=850)
        if undo:
            words = words if undo == "again" else undo.replace(" V", f" {value}")
            history.request("c1", "n1", words, None, sent=at + undo_at, did=False)
        if more.get("ended") == "deleted":
            history.request("c2", "n1", "DEL k1", at + 951, at + 954)
        history.seen("n1", more.get("ended", "expired"), at + 955, since=at + 950)
    return history


def not_undone(history: History) -> int:
    return check(history.seen("n1", "blind", 9_000).recorded()).figures.not_undone  # type: ignore[union-attr]


def test_keys_of_refused_attempts_that_were_never_undone() -> None:
    run = late().fault("f1", -900, 8_000, slow_links=(("c1", "n1"),)).seen("n1", "blind", 9_000).recorded()
    answer = check(run)
    assert answer.figures == Figures(1, 0, 0, 0, 3)
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("keys-left-behind", "lock", "liveness", 3)
    assert (finding.examples[0]["after"], finding.examples[0]["at_ms"]) == ("attempt not undone", 101)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "not undone"


@pytest.mark.parametrize(("undo", "cause"), [("", "not undone"), ("DEL k1", None)])
def test_what_another_client_deleted_in_the_end_was_not_undone_if_its_own_never_asked(
    undo: str, cause: str | None
) -> None:
    """No fault was in the way."""
    history = late(ended="deleted", set_at=30, undo=undo, undo_at=40).seen("n1", "blind", 9_000)
    run = history.recorded()
    (finding,) = check(run).findings
    assert finding.examples[0]["after"] == "attempt"
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == cause


def test_two_of_them_are_no_habit() -> None:
    assert not check(late(2).seen("n1", "blind", 9_000).recorded()).findings


@pytest.mark.parametrize(
    ("undo", "number"),
    [
        ("EVAL script 1 k1 V", 0),
        ("DEL k1", 0),
        ("UNLINK k1", 0),
        ("again", 0),
        ("GET k1", 3),
        ("DEL k2", 3),
        ("EVAL script 1 k1 another-value", 3),
    ],
)
def test_a_request_that_names_the_value_or_deletes_the_key_may_undo_it(undo: str, number: int) -> None:
    assert not_undone(late(undo=undo)) == number


@pytest.mark.parametrize(
    ("undo", "number"),
    [
        ("EVAL take 1 k2 V 850", 3),
        ("EVAL take 2 k1 k2 V 850", 0),
        ("EVAL free 1 k2 V 850", 0),
        ("EVAL take 1 k2 V 0", 0),
    ],
)
def test_the_same_request_for_another_key_undoes_nothing(undo: str, number: int) -> None:
    """A lock of several keys, whose attempt asks for each of them with one value. Another script
    may know the name of the first key."""
    assert not_undone(late(take="EVAL take 1 k1 V 850", undo=undo, undo_at=20.1)) == number


@pytest.mark.parametrize(("at", "number"), [(65, 0), (940, 0), (960, 3)])
def test_it_may_be_sent_until_the_key_is_gone(at: float, number: int) -> None:
    assert not_undone(late(undo="EVAL script 1 k1 V", undo_at=at)) == number


@pytest.mark.parametrize("more", [{"outcome": "info"}, {"outcome": "ok"}, {"ended": "deleted"}])
def test_only_what_a_refused_attempt_left_until_it_expired_counts(more: dict[str, Any]) -> None:
    assert not_undone(late(**more)) == 0


@pytest.mark.parametrize(
    ("hit", "began", "number"),
    [
        ({"cut_links": (("c1", "n1"),)}, -900, 3),  # it took what the attempt sent
        ({"cut_links": (("c1", "n1"),)}, 19.5, 2),  # it is in force from 20.5 on
        ({"cut_links": (("c1", "n1"),)}, 61, 3),
        ({"cut_links": (("c1", "n2"),)}, 30, 3),
        ({"cut_links": (("c2", "n1"),)}, 30, 3),
        ({"slow_links": (("c1", "n1"),)}, 30, 3),
        ({"nodes": ("n1",)}, 30, 3),
        ({"nodes": ("n1",), "how_down": "kill"}, 30, 2),
        ({"nodes": ("n2",), "how_down": "kill"}, 30, 3),
    ],
)
def test_a_link_that_began_to_refuse_meanwhile_may_have_kept_the_request_away(
    hit: dict[str, Any], began: float, number: int
) -> None:
    for user in ("c1", "c1@1"):
        assert not_undone(late(user=user).fault("f1", began, 500, **hit)) == number, user


@pytest.mark.parametrize(("asked", "answered", "number"), [(40, 41, 3), (40, None, 2), (25, 26, 3), (20.4, 21, 2)])
def test_a_link_that_let_the_attempt_ask_again_refused_nothing(
    asked: float, answered: float | None, number: int
) -> None:
    """The reply was lost with its connection, from 19.5 to 25; the client library sent the request again."""
    history = late().fault("f1", 19.5, 25, cut_links=(("c1", "n1"),))
    words = "SET k1 a-value-1 NX PX 850"
    history.request("c1", "n1", words, None if answered is None else asked + 0.1, answered, sent=asked, did=False)
    assert not_undone(history) == number


def test_another_try_of_the_same_call_tells_nothing_of_what_the_link_refused_before() -> None:
    history = late().fault("f1", 19.5, 25, cut_links=(("c1", "n1"),))
    history.request("c1", "n1", "SET k1 another-value NX PX 850", 40.1, 41, sent=40, did=False)
    assert not_undone(history) == 2


@pytest.mark.parametrize(
    ("opened", "words", "number"), [(30, "HELLO 3", 2), (30, "GET k1", 3), (61, "HELLO 3", 3), (19, "HELLO 3", 3)]
)
def test_a_connection_that_carried_nothing_else_may_have_been_made_for_it(
    opened: float, words: str, number: int
) -> None:
    history = late().request("c1", "n1", words, None, sent=opened + 1, connection=777, did=False)
    history.opened[777] = opened
    assert not_undone(history) == number


def test_a_lock_that_took_back_what_was_not_answered_undoes_its_attempts() -> None:
    def undone(told: float) -> History:
        history = late().op("c1", "acquire", "fail", 9, 5_000, 5_100)
        history.request("c1", "n1", "SET k1 a-value-9 NX PX 850", 5_010, 5_011, told=told)
        history.seen("n1", "set", 5_011, "a-value-9", since=5_009, ttl=850)
        history.request("c1", "n1", "DEL k1", 5_060, 5_061, sent=5_050)
        return history.seen("n1", "deleted", 5_061, since=5_059)

    assert not_undone(undone(5_051)) == 0
    assert not_undone(undone(5_049)) == 3, "it knew that it had set the key"


def test_a_value_that_is_too_short_tells_nothing() -> None:
    history = late(0)
    for at in (0, 1_000, 2_000):
        history.op("c1", "acquire", "fail", at, at + 10, at + 60)
        history.request("c1", "n1", f"SET k1 v{at} NX PX 850", at + 100, at + 101, sent=at + 20)
        history.seen("n1", "set", at + 101, f"v{at}", since=at + 99, ttl=850).seen("n1", "expired", at + 955)
    assert not_undone(history) == 0


def test_a_later_call_that_asks_with_the_same_value_may_use_the_key() -> None:
    assert not_undone(late(undo="again", undo_at=59)) == 3
    assert not_undone(late(undo="again", undo_at=61)) == 0


@pytest.mark.parametrize(
    ("outcome", "cause"), [("ok", None), ("info", None), ("fail", "denied")]
)  # fmt: skip
@pytest.mark.parametrize("words", ["GET k1", ""])
def test_a_release_that_said_that_the_lock_was_not_held(outcome: str, cause: str | None, words: str) -> None:
    history = History(ttl_ms=900).watch("n1")
    for number in range(3):
        at = 1_000 * number
        history.section("c1", at + 10, None, number=number, asked=at + 5)
        history.request("c1", "n1", f"SET k1 v{number} NX PX 900", at + 7, at + 8)
        history.seen("n1", "set", at + 8, f"v{number}", since=at + 6, ttl=900)
        history.op("c1", "release", outcome, number, at + 50, at + 60)
        if words:
            history.request("c1", "n1", words, at + 52, at + 53, reply='"b"', did=False)
        history.seen("n1", "expired", at + 910, since=at + 905)
    run = history.wanted().seen("n1", "blind", 9_000).recorded()
    (finding,) = check(run).findings
    asked = {"asked": "GET", "reply": '"b"'} if words else {}
    assert finding.examples[0].items() >= {"outcome": outcome, **asked}.items()
    assert ("asked" in finding.examples[0]) == bool(words)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == (cause if words else cause or "unsent release")


def test_a_release_that_asked_other_nodes_alone_may_know_by_them_that_the_lock_was_not_held() -> None:
    history = History(ttl_ms=900, nodes=3).watch("n1", "n2", "n3")
    for number in range(3):
        at, value = 1_000 * number, f"v{number}"
        history.section("c1", at + 10, None, number=number, asked=at + 5)
        for node in ("n1", "n2", "n3"):
            history.request("c1", node, f"SET k1 {value} NX PX 900", at + 7, at + 8)
            history.seen(node, "set", at + 8, value, since=at + 6, ttl=900)
        for node in ("n1", "n2"):
            history.request("c1", node, "DEL k1", at + 52, at + 53, reply="1")
            history.seen(node, "deleted", at + 54, since=at + 51)
        history.op("c1", "release", "fail", number, at + 50, at + 60).seen("n3", "expired", at + 910, since=at + 905)
    for node in ("n1", "n2", "n3"):
        history.seen(node, "blind", 9_000)
    run = history.recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert (finding.count, told.explanations[0].cause) == (3, None)


def called_lost(
    *asked: tuple[str, str | None], deadline: float = 100, outcome: str = "fail", nodes: int = 1, times: int = 3
) -> History:
    """A link is cut all the while. Every 1,000 ms, c1 is let in at 10; its release is answered at 60. What it asked n1
    meanwhile, and the replies. Each key expires."""
    history = History(ttl_ms=900, nodes=nodes).watch(*[f"n{number + 1}" for number in range(nodes)])
    for number in range(1, times + 1):
        at, value = 1_000 * (number - 1) + 10, f"value-of-{number}"
        history.section("c1", at, None, number=number, asked=at - 5, deadline=at + deadline)
        history.op("c1", "release", outcome, number, at + 40, at + 50)
        for node in history.config.node_names:
            history.request("c1", node, f"SET k1 {value} NX PX 900", at - 3, at - 2)
            history.seen(node, "set", at - 2, value, ttl=900, since=at - 3).seen(node, "expired", at + 898)
        for words, reply in asked:
            words = words.replace("$", value)
            history.request("c1", "n1", words, at + 42, at + 43, reply=reply, did=False)
    return history.fault("f", 1, 8_000, cut_links=(("c1", "n1"), ("c1", "n2")))


def test_a_release_says_that_the_lock_was_lost_which_no_node_had_said(golden: Golden) -> None:
    run = (history := called_lost(("EVAL free k1 $", '{"error":"NOREPLICAS"}'))).recorded()
    (finding,) = check(run).findings
    assert (finding.kind, finding.blame, finding.count) == ("keys-left-behind", "lock", 3)
    golden(finding.text)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "denied"
    golden(told.explanations[0].sentence)
    assert lost(history) == 3


def lost(history: History) -> int:
    answer = check(history.recorded())
    figures: Any = answer.figures
    assert bool(answer.findings) == (figures.denied >= 3)
    assert ("as not held" in "".join(row.text for row in figures.rows())) == (figures.denied > 0)
    return int(figures.denied)


@pytest.mark.parametrize(
    ("words", "reply", "number"),
    [
        ("EVAL free k1 $", '{"error":"NOREPLICAS"}', 3),
        ("EVAL free k1 $", None, 0),
        ("EVAL free k1 $", "0", 0),
        ("GET k1", "null", 0),
        ("GET k2", "null", 3),
        ("PING", '"PONG"', 3),
        ("EVALSHA 899b 1 k1 $", '{"error":"ERR NOT_MINE"}', 0),  # the script says so
        ("EVALSHA 777a 1 k1 $", '{"error":"ERR NOT_MINE"}', 0),  # one whose text is not on record may
        ("EVALSHA 899b 1 k1 $", '{"error":"NOSCRIPT No matching script."}', 3),
        ("EVALSHA 899b 1 k1 $", '{"error":"ERR wrong number of arguments for \'evalsha\' command"}', 3),
    ],
)
def test_what_a_node_said_of_the_key_a_release_may_believe(words: str, reply: str, number: int) -> None:
    history = called_lost((words, reply))
    history.scripts = {"899b": "if redis.call('get', KEYS[1]) ~= ARGV[1] then return redis.error_reply('NOT_MINE') end"}
    assert lost(history) == number


@pytest.mark.parametrize(
    ("f", "outcome", "number"), [("extend", "fail", 0), ("held", "fail", 0), ("extend", "info", 3)]
)
def test_a_lock_that_was_told_lost_before_need_not_be_asked_for(f: str, outcome: str, number: int) -> None:
    history = called_lost()
    for section in (1, 2, 3):
        at = 1_000 * (section - 1) + 10
        history.op("c1", f, outcome, section, at + 10, at + 20)
    assert lost(history) == number


def test_a_release_whose_lease_may_be_over_need_not_ask() -> None:
    assert (lost(called_lost(deadline=50.1)), lost(called_lost(deadline=50))) == (3, 0)
    fast = called_lost().fault("g", 2, 8_000, wrong_client_clocks=("c1",))
    assert lost(fast) == 0


def test_a_release_that_says_something_else_denies_nothing() -> None:
    assert lost(called_lost(outcome="info")) == lost(called_lost(outcome="ok")) == 0


def test_other_nodes_may_have_said_that_the_lock_was_lost() -> None:
    assert lost(called_lost(nodes=3)) == 6
    few: Any = check(called_lost(nodes=5).recorded()).figures
    assert few.denied == 0


@pytest.mark.parametrize(("left", "number"), [(300, 0), (900, 3)])
def test_a_release_may_let_the_key_expire_a_little_later(left: int, number: int) -> None:
    """A lock that is held at least for some time. Each key would live until 900 ms after it was set."""
    history = released(990, 990, 990, deleted=False)
    for at in (0, 1_000, 2_000):
        history.request("c1", "n1", "EVAL leave 1 k1 v", at + 55, at + 56)
        history.seen("n1", "prolonged", at + 56, f"v{1 + at // 1_000}", since=at + 54, ttl=left, read=at + 56)
        history.by(history.key_events[-1], len(history.requests) - 1)
    history.key_events.sort(key=lambda event: event.at_ns)
    assert counted(history)[1] == number


def test_what_a_release_sets_is_no_attempts_key() -> None:
    """A mark of each client that says who had the lock last."""
    history = History(ttl_ms=900).watch("n1")
    for number, client in enumerate(("c1", "c2", "c1", "c2")):
        at = 1_000 * number
        history.section(client, at + 10, at + 50, number=number + 1, asked=at + 5)
        for sent, value in ((at + 8, f"v{number}"), (at + 50.2, f"after:{client}")):
            history.request(client, "n1", f"EVAL step 1 k1 {value}", sent, sent + 0.3)
            history.seen("n1", "set", sent + 0.3, value, since=sent - 0.1, ttl=900)
            history.by(history.key_events[-1], len(history.requests) - 1)
        history.seen("n1", "expired", at + 960)
    assert counted(history) == (0, 0, 0, 0)
