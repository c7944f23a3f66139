"""Clients that were kept out of a lock that they could have had. TTL 1 s: three of them are many."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from cluster.requests import LONGEST_REPLY
from fencepost.history import process_of, task_names
from harness.checkers.starvation import LEAST_ROUNDS, Figures, check
from harness.history.stall_causes import Obstacle, in_words
from harness.verdict import Finding
from tests.golden import Golden
from tests.judge.histories import History, ms


def tried(since: float, until: float, *, client: str = "c2", **config: Any) -> History:
    """c1 was inside from 10 to 100; then `client` tried in vain."""
    history = History(**({"ttl_ms": 1000} | config)).section("c1", 10, 100)
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    return more(history, since, until, client)


def more(history: History, since: float, until: float, client: str = "c2", section: int = 1) -> History:
    at = since
    while at < until:
        history.op(client, "acquire", "fail", section, at, min(at + 100, until))
        at += 110
    return history


def only(history: History) -> Finding:
    (finding,) = check(history.recorded()).findings
    return finding


def gaps(history: History) -> list[float]:
    """The length of the longest gap, in ms; empty without any."""
    figures: Any = check(history.recorded()).figures
    assert (figures.longest_gap_ms > 0) == (figures.gaps > 0)
    return [figures.longest_gap_ms] * figures.gaps


def test_a_run_without_long_waits_has_no_gap() -> None:
    assert check(History().recorded()).figures == Figures(0, 0)
    assert check(tried(200, 500).recorded()).figures == Figures(0, 0)


def test_who_is_refused_for_several_ttls_while_nobody_is_inside_found_no_way_in(golden: Golden) -> None:
    finding = only(tried(200, 4000).fault("f", 150, 3900, nodes=("n3",)))
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == (
        "unavailable-while-free",
        "lock",
        "liveness",
        1,
    )
    golden(finding.text)
    assert finding.examples == (
        {
            "key": "k1", "at_ms": 200, "for_ms": 3800, "clients": ("c2",),
            "obstacle": "hung", "nodes": ("n3",), "absent": (),
        },
    )  # fmt: skip


def test_a_life_with_negative_sections_is_another_life_all_the_same() -> None:
    history = History().op("c1", "acquire", "fail", 5, 1, 2)
    assert gaps(history.op("c1", "acquire", "fail", -1, 5000, 5001, life=2)) == []


@pytest.mark.parametrize(
    ("ttl_ms", "until", "gap"), [(1000, 3200, [3000]), (1000, 3199, []), (100, 2200, [2000]), (100, 2199, [])]
)
def test_several_ttls_are_three_and_two_seconds_at_least(ttl_ms: int, until: float, gap: list[float]) -> None:
    assert gaps(tried(200, until, ttl_ms=ttl_ms)) == gap


@pytest.mark.parametrize(
    ("limit_ms", "wait_ms", "gap"),
    [(1000, 0, [3000]), (1000.1, 0, []), (9000, 8000, [3000]), (9000.1, 8000, []), (100, 8000, [3000])],
)
def test_several_acquires_that_the_lock_allows_itself_count_too_without_the_time_that_it_is_told_to_wait(
    limit_ms: float, wait_ms: float, gap: list[float]
) -> None:
    history = tried(200, 3200, ttl_ms=100, wait_ms=wait_ms)
    history.acquire_limit_ms = limit_ms
    assert gaps(history) == gap


def test_a_longer_lease_that_the_lock_granted_counts() -> None:
    assert gaps(tried(200, 3500).op("c1", "extend", "ok", 1, 90, 95, granted_ms=1200.0, deadline_ns=ms(1000))) == []


def test_not_while_anybody_is_inside_or_may_be() -> None:
    assert gaps(tried(200, 4000).section("c1", 2000, 2010, number=2)) == []
    assert gaps(tried(200, 6000).section("c1", 2000, 2900, number=2, deadline=2900)) == [3100]
    assert gaps(tried(200, 5500).section("c1", 1500, 9000, number=2, deadline=(2400, 2500))) == [3000]
    assert gaps(tried(200, 5500).section("c1", 1500, 9000, number=2, deadline=(2400, 2500.1))) == []
    assert gaps(tried(200, 4000).section("c1", 2000, 2010, number=2, key="k2")) == [3800]


def test_a_gap_ends_when_the_client_is_let_in() -> None:
    history = tried(200, 3900).section("c2", 4000, 4010, asked=3950)
    assert gaps(history) == [3800]


def test_only_whom_certainly_a_majority_was_in_reach() -> None:
    cut = {"cut_links": (("c2", "n1"), ("c2", "n2"))}
    assert gaps(tried(200, 4000).fault("f", 2000, 2100, **cut)) == []
    assert gaps(tried(200, 5200).fault("f", 2000, 2200, **cut)) == [3000]
    assert gaps(tried(200, 6000).fault("f", 300, 5900, paused_clients=("c2",))) == []
    assert gaps(tried(200, 4000).fault("f", 2000, 2100, cut_links=(("c1", "n1"), ("c1", "n2")))) == [3800]


def deaf(began: float, healed: float, *, client: str = "c1", **hit: Any) -> list[float]:
    """The gaps if another client tries from 1000 to 3000 while it cannot reach a majority for a time."""
    hit = hit or {"cut_links": ((client, "n1"), (client, "n2"))}
    return gaps(more(tried(200, 5000, clients=3), 1000, 3000, "c1", section=2).fault("f", began, healed, **hit))


def test_not_while_somebody_tries_whose_replies_may_be_lost() -> None:
    assert deaf(900, 3100) == []
    assert deaf(900, 1800) == [3200]
    assert deaf(2500, 4500) == []
    assert deaf(1800, 1900) == [3100]
    assert deaf(3000, 5000) == deaf(300, 1000) == [4800]
    assert deaf(900, 3100, client="c3") == [4800]
    assert deaf(900, 3100, cut_links=(("c1", "n1"),)) == [4800]
    assert deaf(900, 3100, paused_clients=("c1",)) == [4800]
    assert gaps(tried(200, 4000).fault("f", 900, 3100, killed_clients=("c1",))) == [3800]


def test_a_long_try_takes_the_keys_only_while_its_client_is_deaf() -> None:
    history = tried(200, 5000, clients=3).op("c1", "acquire", "fail", 2, 1000, 4000)
    assert gaps(history.fault("f", 3300, 3400, cut_links=(("c1", "n1"), ("c1", "n2")))) == [3100]


def test_whose_replies_of_another_key_are_lost_takes_that_key_only() -> None:
    history = tried(200, 5000).fault("f", 900, 3100, cut_links=(("c1", "n1"), ("c1", "n2")))
    for at in range(1000, 3000, 110):
        history.op("c1", "acquire", "fail", 2, at, at + 100, key="k2")
    assert gaps(history) == [4800]


def test_several_clients_that_wait_in_one_gap_are_one_gap() -> None:
    history = more(tried(200, 4000), 500, 5000, "c1", section=2)
    assert gaps(history) == [4800]
    assert only(history).examples[0]["clients"] == ("c2", "c1")


def test_who_waited_only_before_or_after_a_gap_did_not_wait_in_it() -> None:
    """c1 is let in at 4000 for a second. c3 asks as it comes in, and c2 gives up as it goes."""
    history = tried(200, 5000, clients=3).section("c1", 4000, 5000, number=2, deadline=5000)
    first, second = only(more(history, 4000, 9000, "c3")).examples
    assert [(first["at_ms"], first["clients"]), (second["at_ms"], second["clients"])] == [
        (200, ("c2",)),
        (5000, ("c3",)),
    ]


def test_the_longest_of_several_gaps_is_told(golden: Golden) -> None:
    history = tried(200, 8000).section("c1", 4500, 4510, number=2, deadline=4510)
    assert gaps(history)[0] == 4300
    golden(only(history).text)
    assert [example["for_ms"] for example in only(history).examples] == [4300, 3490]


def test_gaps_of_several_keys_are_told_apart() -> None:
    history = tried(200, 4000)
    for at in range(300, 6000, 110):
        history.op("c1", "acquire", "fail", 2, at, at + 100, key="k2")
    figures: Any = check(history.recorded()).figures
    assert figures.gaps == 2
    assert [example["key"] for example in only(history).examples] == ["k1", "k2"]
    assert figures.longest_gap_ms > 5000


# Why no client got in.


def why(history: History) -> tuple[str, tuple[str, ...]]:
    finding = only(history)
    example = finding.examples[0]
    is_lively = example["obstacle"] == "split votes" and example["absent"]
    is_not_its_own = example["obstacle"] in ("unknown", "forgotten keys")
    assert finding.blame == ("undecided" if is_not_its_own or is_lively else "lock")
    assert finding.breaks == (None if finding.blame == "undecided" else "liveness")
    obstacle: Any = example["obstacle"]
    nodes: Any = example["nodes"]
    absent: Any = example["absent"]
    assert in_words(Obstacle(obstacle, nodes, absent)) in finding.text
    return obstacle, nodes


def test_nobody_knows_whether_requests_arrived() -> None:
    assert why(tried(200, 4000)) == ("unknown", ())


@pytest.mark.parametrize(
    ("error", "times", "kind"),
    [
        ("NOSCRIPT No matching script.", 36, "rejected"),
        ("ERR unknown command 'FOO'", 36, "rejected"),
        ("NOSCRIPT No matching script.", 26, "unknown"),  # the script is loaded then
        ("OOM command not allowed", 36, "unknown"),
        ("ERR max number of clients reached", 36, "unknown"),
    ],
)
def test_requests_that_no_node_would_carry_out_keep_clients_out(error: str, times: int, kind: str) -> None:
    history = tried(200, 4200)
    for number in range(36):
        at, said = 210 + 110 * number, json.dumps({"error": error}) if number < times else '"OK"'
        history.request("c2", "n1", "EVALSHA 899b 1 k1 v", at, at + 1, reply=said, did=False)
    (finding,) = check(history.recorded()).findings
    assert finding.examples[0]["obstacle"] == kind
    assert (finding.blame, finding.examples[0].get("error")) == (
        ("lock", error.partition(" ")[0]) if kind == "rejected" else ("undecided", None)
    )


_REFUSES = "if redis.call('get', KEYS[1]) then return redis.error_reply('TAKEN') end"


def answered(history: History, node: str, *said: str, times: int = 36) -> History:
    """c2 asks the node for a script again and again, which answers with these errors in turn."""
    for number in range(times):
        at, reply = 210 + 110 * number, json.dumps({"error": said[number % len(said)]})
        history.request("c2", node, "EVALSHA 899b 1 k1 v", at, at + 1, reply=reply, did=False)
    return history


@pytest.mark.parametrize(
    ("script", "error", "kind"),
    [
        (_REFUSES, "ERR TAKEN", "unknown"),
        ("return {err = 'ERR taken by ' .. redis.call('get', KEYS[1])}", "ERR taken by c1", "unknown"),
        ("local why = 'TAKEN'; return redis.error_reply(why)", "ERR TAKEN", "unknown"),
        (None, "ERR TAKEN", "unknown"),  # its text is not on record
        (_REFUSES, "ERR wrong number of arguments for 'get' command script: 899b, on @user_script:1.", "rejected"),
        ("return redis.call('hget', KEYS[1], 'x')", "WRONGTYPE Operation against a key", "rejected"),
        (_REFUSES, "NOSCRIPT No matching script.", "rejected"),
    ],
)
def test_what_a_script_says_itself_is_no_error_of_the_node(script: str | None, error: str, kind: str) -> None:
    history = answered(tried(200, 4200), "n1", error)
    history.scripts = {} if script is None else {"899b": script}
    (finding,) = check(history.recorded()).findings
    assert (finding.examples[0]["obstacle"], finding.blame) == (kind, "lock" if kind == "rejected" else "undecided")


def test_an_error_that_the_record_cut_off_is_one_all_the_same() -> None:
    history = tried(200, 4200)
    for number in range(36):
        at, reply = 210 + 110 * number, f'{{"error":"WRONGTYPE {2_000 * "x"}"}}'[:LONGEST_REPLY]
        history.request("c2", "n1", "GET k1", at, at + 1, reply=reply, did=False)
    assert only(history).examples[0]["error"] == "WRONGTYPE"


def without_script(history: History, *nodes: str, times: int = 36) -> History:
    """These nodes have forgotten the script, and say so this often; the others refuse."""
    history.scripts = {"899b": _REFUSES}
    for node in history.config.node_names:
        forgot = node in nodes
        answered(history, node, "NOSCRIPT No" if forgot else "ERR TAKEN", times=times if forgot else 36)
    return history


def test_nodes_that_forgot_a_script_keep_clients_out_if_they_leave_no_majority(golden: Golden) -> None:
    finding = only(without_script(tried(200, 4200), "n1", "n2"))
    assert finding.examples[0]["nodes"] == ("n1", "n2")
    golden(finding.text)
    finding = only(without_script(tried(200, 4200), "n2").fault("f", 150, 4100, nodes=("n3",)))
    assert [finding.examples[0][name] for name in ("obstacle", "nodes", "absent")] == ["rejected", ("n2",), ("n3",)]
    golden(finding.text)
    assert why(without_script(tried(200, 4200), "n1")) == ("unknown", ())
    assert only(without_script(tried(200, 4200), "n1", "n2", times=3)).examples[0]["nodes"] == ("n1", "n2")
    assert why(without_script(tried(200, 4200), "n1", "n2", times=2)) == ("unknown", ())


def test_a_script_that_is_loaded_again_is_not_said_to_be_never(golden: Golden) -> None:
    history = without_script(tried(200, 4200), "n1", "n2")
    golden(only(history.request("c1", "n2", "SCRIPT LOAD 899b", 4000, 4001, did=False)).text)
    other = without_script(tried(200, 4200), "n1", "n2").request("c1", "n2", "SCRIPT LOAD 777a", 4000, 4001, did=False)
    assert "never" in only(other.request("c1", "n3", "SCRIPT LOAD 899b", 4000, 4001, did=False)).text


def split(
    rounds: int, *, limit_ms: float = 10_000, clients: tuple[str, ...] = ("c2",), nodes: int = 2, **config: Any
) -> History:
    """Attempts set the key on so many of three nodes, and the clients are answered in so many rounds. The lock allows
    an acquire so long: a gap of 3,800 ms is short for it."""
    history = tried(200, 4000, client=clients[0], **config).watch("n1", "n2", "n3")
    history.acquire_limit_ms = limit_ms
    for client in clients[1:]:
        more(history, 200, 4000, client, section=2)
    for at in range(300, 3900, 400):
        for node in ("n1", "n2", "n3")[:nodes]:
            history.seen(node, "set", at, f"{node}{at}").seen(node, "deleted", at + 50)
    for number in range(rounds):
        at = 310 + 200 * number
        for client, node in product(clients, ("n1", "n2", "n3")):
            history.request(process_of(client), node, "SET k1 b NX PX 1000", at, at + 1, reply="null", did=False)
    for node in ("n1", "n2", "n3"):
        history.seen(node, "blind", 9000)
    return history


def test_split_votes_need_no_more_rounds_than_are_on_record() -> None:
    finding = only(split(LEAST_ROUNDS))
    assert (finding.blame, finding.breaks, finding.examples[0]["obstacle"]) == ("lock", "liveness", "split votes")
    assert gaps(split(LEAST_ROUNDS)) == [3800]
    assert gaps(split(LEAST_ROUNDS - 1)) == []
    assert gaps(split(LEAST_ROUNDS - 1, limit_ms=1_000)) == [3800], "the limit does not matter"


def test_one_answer_less_than_in_these_rounds_is_too_few() -> None:
    history = split(LEAST_ROUNDS)
    history.requests[-1]["reply"] = json.dumps({"error": "LOADING the data"})
    assert gaps(history) == []
    history.requests[-1] |= {"reply": None, "from_node_ns": None, "to_client_ns": None}
    assert gaps(history) == []


def test_each_client_that_tried_must_have_had_these_rounds() -> None:
    assert gaps(split(LEAST_ROUNDS, clients=("c2", "c1"))) == [3800]
    history = split(LEAST_ROUNDS, clients=("c2", "c1"))
    del history.requests[-1]
    assert gaps(history) == []


def test_these_rounds_explain_nothing_but_split_votes() -> None:
    assert gaps(split(LEAST_ROUNDS, nodes=0)) == []
    history = split(LEAST_ROUNDS, nodes=1)
    assert gaps(history) == []
    history.acquire_limit_ms = 1_000
    assert only(history).examples[0]["obstacle"] != "split votes"


def test_without_a_record_of_all_links_the_limit_counts() -> None:
    history = split(LEAST_ROUNDS)
    history.not_recorded.add("n3")
    assert gaps(history) == []


def test_the_tasks_of_a_process_have_as_many_rounds_each() -> None:
    first, _ = task_names("c2", 2)
    assert gaps(split(2 * LEAST_ROUNDS, clients=(first,), tasks=2)) == [3800]
    assert gaps(split(2 * LEAST_ROUNDS - 1, clients=(first,), tasks=2)) == []


@pytest.mark.parametrize(
    ("hit", "kind"),
    [
        ({"nodes": ("n3",)}, "hung"),
        ({"nodes": ("n3",), "how_down": "kill", "keys_at_stake": ()}, "down"),
        ({"cut_links": (("c2", "n3"),)}, "out of reach"),
        ({"slow_links": (("c2", "n3"),)}, "out of reach"),
    ],
)
def test_a_lock_that_fails_because_one_node_does(hit: dict[str, Any], kind: str) -> None:
    assert why(tried(200, 4000).fault("f", 150, 3900, **hit)) == (kind, ("n3",))


def test_a_node_that_one_of_two_clients_could_reach_was_not_out_of_reach() -> None:
    history = more(tried(200, 4000), 200, 4000, "c1", section=2)
    assert why(history.fault("f", 150, 3900, cut_links=(("c2", "n3"),))) == ("unknown", ())


@pytest.mark.parametrize(("healed", "kind"), [(2200, "hung"), (2199, "unknown")])
def test_a_fault_explains_what_it_lasted_for(healed: float, kind: str) -> None:
    assert why(tried(200, 4200).fault("f", 150, healed + 1, nodes=("n3",)))[0] == kind


def test_several_faults_of_a_node_count_together() -> None:
    history = tried(200, 4200).fault("f", 150, 1300, nodes=("n3",)).fault("g", 3000, 4300, nodes=("n3",))
    assert why(history) == ("hung", ("n3",))


def test_certain_and_uncertain_gaps_are_told_apart() -> None:
    history = tried(200, 4000).fault("f", 150, 3900, cut_links=(("c2", "n3"),))
    for at in range(300, 6000, 110):
        history.op("c1", "acquire", "fail", 2, at, at + 100, key="k2")
    assert [finding.blame for finding in check(history.recorded()).findings] == ["lock", "undecided"]


@pytest.mark.parametrize(("crowd", "blame"), [(16, "lock"), (17, "undecided")])
def test_a_crowd_may_keep_itself_out(crowd: int, blame: str) -> None:
    """Whatever key they try for: all of them slow each other down."""
    finding = only(tried(200, 4000, clients=crowd).fault("f", 150, 3900, nodes=("n3",)))
    assert (finding.blame, finding.breaks) == (blame, "liveness" if blame == "lock" else None)
    excuse = f"; {crowd} clients ran, so that slow answers or split votes may explain it"
    assert finding.text.endswith(excuse) == (crowd > 16)


def test_obstacles_in_words(golden: Golden) -> None:
    assert in_words(Obstacle("hung", ("n3",))) == "n3 was hung"
    assert in_words(Obstacle("down", ("n1", "n2"))) == "n1 and n2 were down"
    golden(in_words(Obstacle("absent in turn", ("n1", "n3"))))
    golden(in_words(Obstacle("stuck keys", ("n1", "n2"))))
    free = in_words(Obstacle("nothing set", ("n1", "n2"), ("n3",)))
    golden(free)
    split = in_words(Obstacle("split votes", (), ("n3",)))
    assert "majority" not in in_words(Obstacle("split votes", ("n1",), is_only_node=True))
    golden(split)
    golden(in_words(Obstacle("stuck keys", ("n1",), ("n2", "n3"))))


# Clients that starve.


def starving(grants: int, until: float = 10_200, **config: Any) -> History:
    """c2 tries in vain while c1 is let in so often."""
    history = tried(200, until, ttl_ms=1000, **config)
    for number in range(grants):
        at = 300 + number * 95
        history.section("c1", at, at + 5, number=number + 2)
    return history


def test_who_loses_against_others_a_hundred_times_starves(golden: Golden) -> None:
    finding = only(starving(100))
    assert (finding.kind, finding.blame, finding.breaks, finding.count) == ("starved-client", "lock", "liveness", 1)
    golden(finding.text)
    assert finding.examples == ({"client": "c2", "key": "k1", "at_ms": 200, "for_ms": 10_000},)
    figures: Any = check(starving(100).recorded()).figures
    assert (figures.starved, figures.gaps) == (("c2",), 0)


@pytest.mark.parametrize(("limit_ms", "number"), [(10_000, 1), (10_001, 0)])
def test_a_client_does_not_starve_within_the_time_that_the_lock_allows_one_acquire(
    limit_ms: float, number: int
) -> None:
    history = starving(100)
    history.acquire_limit_ms = limit_ms
    figures: Any = check(history.recorded()).figures
    assert len(figures.starved) == number


def test_that_it_was_told_to_wait_does_not_let_a_client_starve() -> None:
    history = starving(100, wait_ms=20_000)
    history.acquire_limit_ms = 20_100
    figures: Any = check(history.recorded()).figures
    assert figures.starved == ("c2",)


@pytest.mark.parametrize(("grants", "until", "starved"), [(101, 10_250, 1), (100, 10_250, 0), (101, 10_249, 0)])
def test_a_fault_does_not_let_a_client_begin_anew(grants: int, until: float, starved: int) -> None:
    """For 50 ms, in which c1 is let in once, c2 cannot reach the nodes."""
    history = starving(grants, until).fault("f1", 5_000, 5_050, cut_links=[("c2", node) for node in ("n1", "n2", "n3")])
    figures: Any = check(history.recorded()).figures
    assert len(figures.starved) == starved


def test_a_writer_that_readers_keep_out_does_not_starve() -> None:
    history = starving(100).section("c1", 10_500, 10_501, number=600, key="k2", shared=True)
    assert check(history.recorded()).findings == ()


def test_who_loses_less_often_or_for_a_shorter_time_may_have_had_bad_luck() -> None:
    assert check(starving(99).recorded()).findings == ()
    assert check(starving(100, until=10_199).recorded()).findings == ()


def asking(asks: int, *, held_ms: float = 5, **request: Any) -> History:
    """c2 starves, and asks a node so often between two sections of c1, each of which begins 10 ms after the other."""
    history = tried(200, 10_200, ttl_ms=1000).watch("n1", "n2", "n3")
    for number in range(900):
        at = 300 + number * 10
        history.section("c1", at, at + held_ms, number=number + 2)
        for ask in range(asks):
            when = at + 1 + ask
            history.request("c2", "n1", "SET k1 b NX PX 1000", when, when + 0.5, reply="null", did=False, **request)
    for node in ("n1", "n2", "n3"):
        history.seen(node, "blind", 99_000)
    return history


def starves(history: History) -> bool:
    figures: Any = check(history.recorded()).figures
    return bool(figures.starved)


def test_a_client_that_seldom_asks_may_never_find_a_free_moment_by_chance() -> None:
    """100 grants are beyond chance: each counts as a ninth."""
    assert starves(asking(1, held_ms=9)) is False
    assert starves(asking(1, held_ms=8.5))
    assert starves(asking(2, held_ms=9))
    assert starves(asking(0, held_ms=1)) is False
    without = asking(0, held_ms=1)
    without.not_recorded.add("n3")
    assert starves(without)


@pytest.mark.parametrize(("command", "starved"), [("BLPOP", True), ("GET", False)])
def test_a_client_that_a_server_lets_wait_asks_all_the_time(command: str, starved: bool) -> None:
    history = asking(0).request("c2", "n1", f"{command} k1 0", 250, 251, reply="null", did=False)
    history.requests[-1] |= {"reply": None, "from_node_ns": None, "to_client_ns": None}
    assert starves(history) is starved


def test_grants_of_another_key_or_of_another_time_keep_nobody_out() -> None:
    history = starving(99)
    history.section("c1", 10_201, 10_202, number=500).section("c1", 9_950, 9_960, number=501, key="k2")
    history.section("c1", 10_200, 10_200.5, number=502).section("c1", 200, 200.5, number=503)
    assert check(history.recorded()).findings == ()


def test_the_longest_of_several_that_starve_is_told() -> None:
    history = starving(99).section("c1", 10_000, 10_001, number=500).section("c1", 9_990, 9_995, number=501)
    finding = only(more(history, 250, 12_000, section=400))
    assert (finding.count, "1 client" in finding.text, "for up to 11.8 s" in finding.text) == (2, True, True)


def test_a_lock_that_promises_no_time_is_not_said_to_have_been_free() -> None:
    def history(**told: float) -> History:
        held = History().op("c1", "acquire", "ok", 1, 5, 10, **told).op("c1", "release", "info", 1, 90, 91)
        for at in range(200, 4200, 100):
            held.op("c2", "acquire", "fail", 1, at, at + 50)
        return held

    assert gaps(history(granted_ms=100.0)) != []
    assert gaps(history()) == []


@pytest.mark.parametrize(("asked", "gap"), [("n1", []), ("n1 n2", []), ("n1 n2 n3", [3800])])
def test_a_key_needs_a_majority_of_the_nodes_that_are_asked_for_it(asked: str, gap: list[float]) -> None:
    """A lock may spread its keys over the nodes. n1 is down."""
    history = tried(200, 4000).fault("f", 150, 3900, nodes=("n1",)).watch("n1", "n2", "n3")
    for node in ("n1", "n2", "n3"):
        key = "k1" if node in asked else "k2"
        history.request("c1", node, f"SET {key} a NX", 5, 6, did=False)
    history.section("c1", 5000, 5010, number=2, key="k2")
    assert gaps(history) == gap
