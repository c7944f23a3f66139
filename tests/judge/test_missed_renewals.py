"""Leases that a lock with automatic renewal let end. Literal records of the witness and of the links; TTL 400 ms."""

from __future__ import annotations

from typing import Any

import pytest

from harness.checkers.explained import explain
from harness.checkers.missed_renewals import Figures, check
from harness.verdict import Answer, Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms

STARTS = (2_000.0, 4_000.0)


def renewing(**config: Any) -> History:
    return History(ttl_ms=400, **{"nodes": 1, "renewal_ms": 100} | config).watch("n1")


def section(made: History, start: float, client: str = "c1", *, until: float = 500, asks: Any = ("ok",), **more: Any):
    """The client is granted the key at `start`, asks after 100 ms, and so on, whether it still holds it, and leaves
    after `until`. Nothing prolongs the key, which expires 401 ms after it was set, 2 ms before the grant."""
    number, value = round(start), f"{client}-{round(start):06}"
    made.op(client, "acquire", "ok", number, start - 10, start, granted_ms=400.0)
    made.request(client, "n1", f"SET k1 {value} NX PX 400", start - 4, start - 3)
    made.seen("n1", "set", start - 2, value, since=start - 4, ttl=400)
    for place, outcome in enumerate(asks, 1):
        at = start + 100 * place
        made.op(client, "held", outcome, number, at, at + 2)
        made.request(client, "n1", more.get("question", "GET k1"), at + 0.5, at + 1, did=False)
    made.op(client, "release", "fail", number, start + until, start + until + 2)
    return made.seen("n1", "expired", start + 399, value, since=start + 398)


def two(**more: Any) -> History:
    made = renewing()
    for start in STARTS:
        section(made, start, **more)
    return made.seen("n1", "blind", 9_000)


def missed(made: History) -> int:
    answer = check(made.recorded())
    assert isinstance(answer.figures, Figures)
    assert sum(finding.count for finding in answer.findings) == answer.figures.missed
    return answer.figures.missed


def test_a_lock_that_sends_no_renewal_broke_its_promise(golden: Golden) -> None:
    run = two().recorded()
    answer = check(run)
    assert answer.figures == Figures(2, 2)
    golden("\n".join(row.text for row in answer.figures.rows()))
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("renewal-missed", "lock", "lease", 2)
    golden(finding.text)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    assert told.explanations[0].cause == "not renewed"
    golden(told.explanations[0].sentence)


def elsewhere(key: str, f: str = "held", at: float = 200) -> str:
    """Two requests in each section keep another key. Which cause is told, and how."""
    made = renewing()
    for start in STARTS:
        section(made, start)
        if f != "held":
            made.op("c2", f, "fail", round(start), start + at - 2, start + at + 2)
        for sent in (at, at + 100):
            client = "c1" if f == "held" else "c2"
            made.request(client, "n1", f"SET {key} x PX 400", start + sent, start + sent + 1)
            made.seen("n1", "set" if sent == at else "overwritten", start + sent + 1, "x", key=key, ttl=400)
    run = made.seen("n1", "blind", 9_000).recorded()
    (finding,) = check(run).findings
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    explanation = told.explanations[0]
    return f"{explanation.cause}: {explanation.sentence}"


def test_a_lock_that_renews_another_key(golden: Golden) -> None:
    told = elsewhere("alive:k1")
    assert told.startswith("renewed another key")
    golden(told)


@pytest.mark.parametrize(
    ("key", "f", "at"),
    [("alive", "held", 200), ("alive:k1", "acquire", 200), ("alive:k1", "held", 450)],
    ids=["it does not have the lock's name", "another client's acquire does so, too", "too late"],
)
def test_not_every_key_that_a_client_keeps_was_meant_to_be_the_lock(key: str, f: str, at: float) -> None:
    assert elsewhere(key, f, at).startswith("not renewed")


@pytest.mark.parametrize(("until", "number"), [(393, 2), (300, 0)])
def test_a_lock_that_says_at_its_leases_end_that_it_is_lost_did_not_renew_it_either(until: float, number: int) -> None:
    made = renewing()
    for start in STARTS:
        value = f"c1-{start:06.0f}"
        made.op("c1", "acquire", "ok", round(start), start - 10, start, granted_ms=400.0)
        made.request("c1", "n1", f"SET k1 {value} NX PX 400", start - 4, start - 3)
        made.seen("n1", "set", start - 2, value, since=start - 4, ttl=400)
        made.op("c1", "held", "ok", round(start), start + 100, start + 101)
        made.op("c1", "held", "fail", round(start), start + until - 1, start + until)
        made.op("c1", "release", "ok", round(start), start + until, start + until + 2)
        made.request("c1", "n1", "DEL k1", start + until + 0.5, start + until + 1, reply="1")
        made.seen("n1", "deleted", start + until + 1, value, since=start + until)
    assert missed(made.seen("n1", "blind", 9_000)) == number


@pytest.mark.parametrize(("down", "cut", "number"), [("n1", "n1", 2), ("n1", "n2", 0), ("", "n1", 2)])
def test_a_fault_on_a_minority_of_the_nodes_keeps_no_lock_from_renewing(down: str, cut: str, number: int) -> None:
    made = renewing(nodes=3).watch("n2", "n3")
    for start in STARTS:
        section(made, start)
        value = f"c1-{start:06.0f}"
        for node in ("n2", "n3"):
            made.request("c1", node, f"SET k1 {value} NX PX 400", start - 4, start - 3)
            made.seen(node, "set", start - 2, value, since=start - 4, ttl=400)
            made.seen(node, "expired", start + 399, value, since=start + 398)
    made.fault("f1", 1_500, 4_800, nodes=tuple(down.split()), cut_links=(("c1", cut),))
    for node in ("n1", "n2", "n3"):
        made.seen(node, "blind", 9_000)
    assert missed(made) == number


@pytest.mark.parametrize(
    ("at", "reply", "hit", "asks", "number"),
    [
        (110, '{"error":"NOREPLICAS"}', (), ("ok", "ok", "ok"), 2),
        (110, None, (), ("ok", "ok", "ok"), 2),
        (110, '{"error":"NOREPLICAS"}', (2_000, 2_150), ("ok", "ok", "ok"), 2),
        (110, "1", (), ("ok", "ok", "ok"), 0),
        (110, '{"error":"NOREPLICAS"}', (2_000, 2_300), ("ok", "ok", "ok"), 0),
        (200, '{"error":"NOREPLICAS"}', (), ("ok", "ok", "ok"), 0),
        (110, '{"error":"NOREPLICAS"}', (), ("ok",), 0),
        (110, '{"error":"ERR LOST"}', (), ("ok", "ok", "ok"), 0),
        (110, '{"error":"NOSCRIPT No matching script."}', (), ("ok", "ok", "ok"), 2),
    ],
    ids=[
        *("an error", "no answer", "soon healed", "done", "healed late", "tried late", "was not answered"),
        *("the script says so", "no script"),
    ],
)
def test_a_lock_that_gives_up_after_one_renewal_that_failed(
    at: float, reply: str | None, hit: Any, asks: Any, number: int
) -> None:
    made = two(asks=asks)
    made.scripts = {"renew": "return {err = 'LOST'}"}
    for start in STARTS:
        answered = None if reply is None else start + at + 1
        more = {"did": False} if reply is None else {"did": False, "reply": reply}
        made.request("c1", "n1", "EVALSHA renew 1 k1 v", start + at, answered, connection=777, **more)
        made.closed[777] = (start + at + 20, None)
    if hit:
        made.fault("f1", *hit, nodes=("n1",))
    assert missed(made) == number


def test_one_of_them_may_be_a_delay_that_is_not_on_record() -> None:
    made = section(renewing(), 2_000).seen("n1", "blind", 9_000)
    answer = check(made.recorded())
    assert answer == Answer(Figures(1, 0))
    assert list(Figures(1, 0).rows()) == []


def test_without_a_promise_or_a_record_nothing_is_told() -> None:
    made = two()
    made.wire = False
    assert check(made.recorded()) == Answer()
    made = two()
    made.not_recorded = {"n1"}
    assert check(made.recorded()) == Answer()
    assert check(History(ttl_ms=400, nodes=1).section("c1", 10, 900).recorded()) == Answer()


@pytest.mark.parametrize(
    ("more", "number"),
    [
        ({"until": 399}, 0),
        ({"until": 399.1}, 2),
        ({"asks": ()}, 0),
        ({"asks": ("ok", "fail")}, 0),
        ({"asks": ("info",)}, 0),
        ({"asks": ("ok", "ok", "ok", "ok", "fail"), "until": 505}, 2),
        ({"question": "PTTL k1"}, 2),
        ({"question": "EVAL script 1 k1"}, 0),
        ({"question": "PING"}, 2),
    ],
    ids=[
        "it had left",
        "it was still inside",
        "it never asked",
        "it was told that it no longer held it",
        "the lock could not say",
        "it was told when the key had expired",
        "a question",
        "what may be a renewal",
        "what does not name the key",
    ],
)
def test_the_client_stayed_inside_because_the_lock_said_so(more: dict[str, Any], number: int) -> None:
    assert missed(two(**more)) == number


@pytest.mark.parametrize("at", [2_100.0, 2_450.0])
def test_a_renewal_that_was_late_or_refused_is_one(at: float) -> None:
    made = two().request("c1", "n1", "PEXPIRE k1 400", at, at + 1, reply="0", did=False)
    assert missed(made) == 0


def test_a_client_that_never_left_is_not_counted() -> None:
    made = two()
    made.ops["c1", 1].pop()
    assert missed(made.end("c1", "killed", 4_500)) == 0


def test_a_renewal_before_or_after_the_section_is_anothers() -> None:
    made = two().request("c1", "n1", "PEXPIRE k1 400", 1_990, 1_991, reply="0", did=False)
    made.request("c1", "n1", "PEXPIRE k1 400", 2_501, 2_502, reply="0", did=False)
    assert missed(made) == 2
    assert missed(two().request("c2", "n1", "PEXPIRE k1 400", 2_100, 2_101, reply="0", did=False)) == 2


@pytest.mark.parametrize(("f", "number"), [("reenter", 2), ("leave", 2), (None, 2)])
def test_what_was_prolonged_is_to_be_renewed_from_then_on(f: str | None, number: int) -> None:
    """By a nested acquire, by its release, or in the background: the key lives until 420 ms after the grant."""
    made = renewing()
    for start in STARTS:
        value = f"c1-{round(start):06}"
        section(made, start)
        made.key_events.pop()
        if f is not None:
            made.op("c1", f, "ok", round(start), start + 18, start + 22)
        made.request("c1", "n1", f"EVAL prolong 1 k1 {value}", start + 19, start + 21)
        made.seen("n1", "prolonged", start + 20, value, since=start + 19, ttl=400)
        made.seen("n1", "expired", start + 420, value, since=start + 419)
    assert missed(made.seen("n1", "blind", 9_000)) == number


def renewed(**config: Any) -> History:
    """Twice c1 is inside for 700 ms, and asks every 100 ms; its request prolongs its key after 100 ms, until 503 ms."""
    made = renewing(**config)
    for start in STARTS:
        value = f"c1-{round(start):06}"
        section(made, start, until=700, asks=["ok"] * 5)
        made.key_events.pop()
        made.request("c1", "n1", f"EVALSHA renew 1 k1 {value}", start + 101, start + 103)
        made.seen("n1", "prolonged", start + 102, value, since=start + 101, ttl=400)
        made.seen("n1", "expired", start + 503, value, since=start + 502)
    return made.seen("n1", "blind", 9_000)


def test_a_lock_that_renewed_a_lease_is_to_renew_it_again(golden: Golden) -> None:
    run = renewed().recorded()
    (finding,) = check(run).findings
    assert (finding.kind, finding.count) == ("renewal-missed", 2)
    golden(finding.text)
    (told,) = explain(run, Verdict("violation", "lock", (finding,), (), {}), 1)
    golden(told.explanations[0].sentence)


@pytest.mark.parametrize(
    ("at", "reply", "number"),
    [(200, '{"error":"NOREPLICAS"}', 2), (200, None, 2), (300, None, 0), (200, "0", 0), (90, None, 2)],
    ids=["failed", "no answer", "late", "refused", "before"],
)
def test_a_lock_that_gives_up_after_a_renewal_that_failed_although_others_were_done(
    at: float, reply: str | None, number: int
) -> None:
    made = renewed()
    for start in STARTS:
        answered = None if reply is None else start + at + 1
        more = {"did": False} if reply is None else {"did": False, "reply": reply}
        made.request("c1", "n1", "EVALSHA renew 1 k1 v", start + at, answered, connection=int(start), **more)
        made.closed[int(start)] = (start + at + 20, None)
    assert missed(made) == number


@pytest.mark.parametrize(
    ("healed", "at", "number"),
    [(1_100, 1_103, 2), (1_110, 1_103, 0), (1_110, 1_100, 2), (2_180, 1_100, 2), (2_190, 1_100, 0)],
)
def test_a_fault_before_the_last_renewal(healed: float, at: float, number: int) -> None:
    """The first lease begins at 2,102; a second before, or until a fifth of the lease, may matter."""
    made = renewed().fault("f1", 900, healed, nodes=("n1",))
    made.request("c1", "n1", "PING", at, at + 1, reply='{"error":"LOADING"}', did=False)
    assert missed(made) == number


@pytest.mark.parametrize(
    ("began", "healed", "number"), [(500, 999, 2), (500, 1_001, 0), (2_398, 2_600, 0), (2_400, 2_600, 2)]
)
@pytest.mark.parametrize("hit", [{"nodes": ("n1",)}, {"cut_links": (("c1", "n1"),)}, {"paused_clients": ("c1",)}])
def test_a_fault_that_may_have_kept_it_from_renewing(began: int, healed: int, number: int, hit: Any) -> None:
    """From a second before the first grant, at 2,000, until its key has expired, at 2,399."""
    assert missed(two().fault("f1", began, healed, **hit)) == number


@pytest.mark.parametrize("hit", [{"nodes": ("n1",)}, {"cut_links": (("c1", "n1"),)}])
@pytest.mark.parametrize(
    ("healed", "failed", "asks", "number"),
    [
        (2_070, None, 3, 2),
        (2_090, None, 3, 0),
        (2_070, None, 1, 0),
        (2_070, (1_010, 1_011, '{"error":"LOADING"}'), 3, 0),
        (2_070, (990, 1_010, '{"error":"LOADING"}'), 3, 0),
        (2_070, (2_350, 2_351, '{"error":"LOADING"}'), 3, 0),
        (2_070, (980, 990, '{"error":"LOADING"}'), 3, 2),
        (2_070, (2_410, 2_411, '{"error":"LOADING"}'), 3, 2),
        (2_070, (900, None, None), 3, 0),
    ],
    ids=[
        "soon over",
        "over too late",
        "not asked enough",
        "failed",
        "under way",
        "late",
        "long ago",
        "too late",
        "lost",
    ],
)
def test_a_fault_that_made_nothing_fail_and_was_soon_over(
    hit: Any, healed: float, failed: Any, asks: int, number: int
) -> None:
    """A fifth of the lease of 400 ms is over at 2,080."""
    made = two(asks=("ok",) * asks).fault("f1", 1_900, healed, **hit)
    if failed is not None:
        sent, answered, reply = failed
        more = {} if reply is None else {"reply": reply}
        made.request("c1", "n1", "PING", sent, answered, connection=901, did=False, **more)
    assert missed(made) == number


@pytest.mark.parametrize(
    ("closed", "number"),
    [((None, 1_500), 0), ((None, None, 1_500), 0), ((1_500, 1_501), 2), ((None, 999), 2), ((None, 2_400), 2)],
    ids=["by its node", "by the proxy", "by itself", "long ago", "too late"],
)
def test_a_lost_connection_may_be_made_anew_after_a_while(closed: Any, number: int) -> None:
    made = two(asks=("ok", "ok", "ok")).fault("f1", 1_400, 1_600, cut_links=(("c1", "n1"),))
    made.request("c1", "n1", "PING", 900, 901, connection=901, did=False)
    made.closed[901] = closed
    assert missed(made) == number


@pytest.mark.parametrize(("healed", "number"), [(2_040, 2), (2_060, 0)])
def test_a_client_that_was_stopped_until_soon_after_the_grant(healed: float, number: int) -> None:
    assert missed(two(asks=("ok", "ok", "ok")).fault("f1", 1_900, healed, paused_clients=("c1",))) == number


def test_a_fault_on_another_client_is_none() -> None:
    assert missed(two().fault("f1", 2_100, 2_200, cut_links=(("c2", "n1"),))) == 2


def test_a_clock_that_was_wrong() -> None:
    assert missed(two().fault("f1", 2_100, 2_200, nemesis="clock", wrong_clocks=("n1",))) == 0
    assert missed(two().fault("f1", 2_100, 2_200, nemesis="clock", wrong_client_clocks=("c1",))) == 0


@pytest.mark.parametrize(("waited", "number"), [(98.0, 2), (100.0, 0)])
def test_a_client_that_was_starved_of_cpu(waited: float, number: int) -> None:
    made = two()
    made.kept_waiting = {"c1": [(ms(2_050), ms(2_050 + waited))]}
    assert missed(made) == number


def test_a_request_that_nothing_has_answered_may_block_the_lock() -> None:
    made = two().request("c1", "n1", "PING", 1_500, None, did=False, connection=901)
    assert missed(made) == 0
    assert missed(two().request("c1", "n1", "PING", 900, None, did=False, connection=901)) == 2


def test_a_majority_of_the_keys_must_have_expired() -> None:
    def nodes(expire: int) -> History:
        made = History(ttl_ms=400, nodes=3, renewal_ms=100).watch("n1", "n2", "n3")
        for start in STARTS:
            number, value = round(start), f"c1-{round(start):06}"
            made.op("c1", "acquire", "ok", number, start - 10, start, granted_ms=400.0)
            made.op("c1", "held", "ok", number, start + 100, start + 102)
            made.op("c1", "release", "fail", number, start + 500, start + 502)
            for place, node in enumerate(made.config.node_names):
                made.request("c1", node, f"SET k1 {value} NX PX 400", start - 4, start - 3)
                made.seen(node, "set", start - 2, value, since=start - 4, ttl=400)
                how = "expired" if place < expire else "deleted"
                made.seen(node, how, start + 390 + place, value, since=start + 380)
        for node in made.config.node_names:
            made.seen(node, "blind", 9_000)
        return made

    assert missed(nodes(1)) == 0
    answer = check(nodes(2).recorded())
    assert [finding.count for finding in answer.findings] == [2]
    assert answer.findings[0].examples[0]["nodes"] == ("n1", "n2")
    assert answer.findings[0].examples[0]["at_ms"] == 2_391


@pytest.mark.parametrize(("cut", "number"), [("n1", 0), ("n2", 2)])
def test_a_key_that_is_kept_on_one_of_several_nodes_cannot_be_renewed_without_it(cut: str, number: int) -> None:
    made = renewing(nodes=3).watch("n2", "n3")
    for start in STARTS:
        section(made, start)
    for node in ("n1", "n2", "n3"):
        made.seen(node, "blind", 9_000)
    for client in made.config.client_names:
        made.sent(client, 9, 0, 0)
    assert missed(made.fault("f1", 2_100, 4_300, cut_links=(("c1", cut),))) == number
