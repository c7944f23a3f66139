"""A client that waits behind a node of a server's tree. Its session lasts for a second without it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost.history import ClientEnd
from harness.checkers.explained import explain
from harness.checkers.watched_waits import Figures, check
from harness.explain.watched_nodes import WatchedNodes
from harness.verdict import Verdict
from tests.golden import Golden
from tests.judge.histories import History, ms


def waits(until: float = 9_000, since: float = 600, behind: str = "/k1/a-1", **config: Any) -> History:
    """c1's acquire made `/k1/a-1` and ended without the lock; c2 made `/k1/a-2` and watched what it is `behind`."""
    history = History(**({"ttl_ms": 400, "clients": 3} | config))
    history.timeline.healed_ns, history.timeline.stop_ns, history.timeline.end_ns = ms(90_000), ms(95_000), ms(99_000)
    history.op("c3", "acquire", "fail", 1, 1, 2)
    heard(asks(history, "c3", "CONNECT 0x0 400", 0, ["0x2a", 1000]), "c3", 3, "/elsewhere")
    history.op("c1", "acquire", "fail", 1, 100, 500).op("c2", "acquire", "ok", 1, since, until)
    made(history, "c1", "/k1/a-1", 110)
    return watched(made(history, "c2", "/k1/a-2", since + 1), "c2", behind, since + 10)


def asks(history: History, client: str, words: str, at: float, reply: Any) -> History:
    return history.request(client, "n1", words, at + 1, at + 2, reply=packed(reply), did=False)


def packed(reply: Any) -> str:
    return json.dumps(reply, separators=(",", ":"))


def made(history: History, client: str, path: str, at: float) -> History:
    return asks(history, client, f"CREATE {path[:-1]} me EPHEMERAL SEQUENTIAL", at, path)


def watched(history: History, client: str, path: str, at: float, reply: Any = "OK") -> History:
    return asks(history, client, f"EXISTS {path} WATCH", at, reply)


def deletes(history: History, client: str, path: str, at: float, reply: Any = "OK") -> History:
    return asks(history, client, f"DELETE {path} -1", at, reply)


def heard(history: History, client: str, at: float, path: str) -> History:
    told = packed({"event": "deleted", "path": path})
    return history.request(client, "n1", "", None, at, told=at, reply=told, did=False)


def found(history: History) -> tuple[float, float, Any] | None:
    """From when on and for how long the client waited, and the cause that is named."""
    run = history.recorded()
    answer: Any = check(run)
    if not answer.findings:
        assert answer.figures in (Figures(0, None), None)
        return None
    (finding,) = answer.findings
    assert (finding.kind, finding.blame, finding.breaks) == ("waits-behind-node", "lock", "liveness")
    example = finding.examples[-1]
    watches = WatchedNodes.of(run)
    assert watches is not None
    kept = watches.why_waiting(example["client"], run.at_ns(example["at_ms"] + example["for_ms"]))
    assert kept is not None
    return example["at_ms"], example["for_ms"], kept.reason.cause


def test_the_node_of_a_call_that_was_refused_keeps_a_client_out(golden: Golden) -> None:
    history = waits()
    (finding,) = check(history.recorded()).findings
    golden(finding.text)
    assert finding.examples == ({"client": "c2", "key": "k1", "at_ms": 2600, "for_ms": 6250, "waited_since_ms": 600},)
    assert found(history) == (2600, 6250, "entry of a refused call")


def test_what_kept_it_out_is_told(golden: Golden) -> None:
    watches = WatchedNodes.of(waits().recorded())
    assert watches is not None
    kept = watches.why_waiting("c2", ms(5_000))
    assert kept is not None
    golden(kept.reason.text)


def test_it_counts_after_two_sessions_and_for_a_second() -> None:
    assert found(waits(3_900)) == (2600, 1250, "entry of a refused call")
    assert found(waits(3_590)) is None


def test_a_node_that_is_deleted_or_was_to_be_keeps_no_client_out() -> None:
    assert found(heard(deletes(waits(), "c1", "/k1/a-1", 700), "c2", 703, "/k1/a-1")) is None
    assert found(deletes(waits(), "c1", "/k1/a-1", 520, {"error": "ConnectionLoss"})) is None


def test_a_client_that_is_told_of_the_node_waits_for_it_no_more() -> None:
    assert found(heard(waits(), "c2", 700, "/k1/a-1")) is None
    assert found(heard(waits(), "c2", 700, "/k1/a-9")) is not None


def test_a_client_that_is_not_told_of_it_was_not_notified() -> None:
    assert found(deletes(waits(), "c1", "/k1/a-1", 800)) == (2802, pytest.approx(6000, abs=250), "not notified")
    cut = deletes(waits(), "c1", "/k1/a-1", 800).fault("f1", 700, 8_900, cut_links=(("c2", "n1"),))
    assert found(cut) is None


def test_a_wait_behind_a_node_that_is_gone_says_so(golden: Golden) -> None:
    gone = deletes(waits(), "c1", "/k1/a-1", 800)
    (finding,) = check(gone.recorded()).findings
    golden(finding.text)


def test_a_node_that_was_gone_before_the_watch_is_waited_for_in_vain() -> None:
    history = deletes(waits(), "c1", "/k1/a-1", 550)
    watches = WatchedNodes.of(history.recorded())
    assert watches is not None
    kept = watches.why_waiting("c2", ms(5_000))
    assert kept is not None
    assert kept.reason.text.endswith("it was deleted at +552.0 ms, already")


def test_a_watch_that_the_server_refused_is_none() -> None:
    history = waits(behind="/k1/a-2")
    assert found(watched(history, "c2", "/k1/a-1", 700, {"error": "NoAuth"})) == found(history)


def test_a_node_that_does_not_end_with_a_session_is_no_clients() -> None:
    history = waits(behind="/k1")
    asks(history, "c1", "CREATE /k1 me", 105, "/k1")
    assert found(history) is None


def test_clients_that_watch_each_other() -> None:
    history = waits(behind="/k1/a-3").op("c3", "acquire", "fail", 2, 650, 8_990)
    watched(made(history, "c3", "/k1/a-3", 651), "c3", "/k1/a-2", 660)
    assert found(history) == (2662.1, pytest.approx(6000, abs=250), "waited for each other")


def test_the_reason_is_at_the_end_of_the_chain(golden: Golden) -> None:
    history = waits(behind="/k1/a-3").op("c3", "acquire", "fail", 2, 550, 9_500)
    watched(made(history, "c3", "/k1/a-3", 551), "c3", "/k1/a-1", 560)
    assert found(history) == (2600, 6250, "entry of a refused call")
    watches = WatchedNodes.of(history.recorded())
    assert watches is not None
    kept = watches.why_waiting("c2", ms(5_000))
    assert kept is not None
    golden(kept.reason.text)


def inside(left: float, until: float = 9_000) -> History:
    """c1 was granted what it made, and was inside until it `left`."""
    history = waits(until)
    history.ops["c1", 1].clear()
    return history.section("c1", 300, left, asked=100, deadline=99_000)


def test_a_client_that_is_inside_keeps_the_others_out_rightly() -> None:
    assert found(inside(8_990)) is None


def test_a_release_that_deletes_nothing_keeps_them_out() -> None:
    assert found(inside(1_000)) == (3001, pytest.approx(5750, abs=250), "unsent release")
    assert found(inside(1_000, until=3_900)) is None


def test_a_release_with_an_error_may_have_deleted_it() -> None:
    history = inside(1_000)
    history.ops["c1", 1][-1].outcome = "info"
    assert found(history) is None


def test_what_the_harness_deletes_is_not_asked_by_a_client() -> None:
    history = waits()
    asks(history, "c1", "DELETE /k1/a-1 -1", 520, {"error": "NoNode"})
    history.requests[-1]["by"] = "harness"
    assert found(history) == (2600, 6250, "entry of a refused call")


@pytest.mark.parametrize(
    ("listed", "at", "cause"),
    [(["a-1"], 2_699, "dead entry"), (["a-1"], 2_697, "not notified"), (["a-2"], 2_699, "not notified")],
    ids=["it is still listed", "it was listed before", "it is not listed"],
)
def test_the_node_of_a_client_that_is_gone_goes_with_its_session(
    listed: list[str], at: float, cause: str, golden: Golden
) -> None:
    """The server answers 2 ms later. A session lasts for a second without its client."""
    history = asks(waits(), "c3", "GETCHILDREN /k1", at, listed)
    history.ops["c1", 1].clear()
    history.ends.append(ClientEnd("c1", 1, "killed", ms(700), "acquiring"))
    assert found(history) == (2700, pytest.approx(6250, abs=250), cause)
    run = history.recorded()
    (told,) = explain(run, Verdict("violation", "lock", check(run).findings, (), {}), 1)
    golden(told.explanations[0].sentence)


def test_servers_that_were_not_in_service_excuse_the_lock() -> None:
    assert found(waits().fault("f1", 700, 8_500, nodes=("n2",))) is None
    assert found(waits().fault("f1", 700, 2_000, nodes=("n2",))) == (4000, 4750, "entry of a refused call")


def test_of_several_tasks_it_is_not_known_what_they_heard() -> None:
    history = waits()
    watches = WatchedNodes.of(history.recorded())
    assert watches is not None
    history.config = History(ttl_ms=400, clients=3, tasks=2).config
    assert found(history) is None


def test_a_record_without_watches_has_no_figures() -> None:
    history = waits()
    history.requests = [row for row in history.requests if row["command"]]
    assert WatchedNodes.of(history.recorded()) is None
    assert check(history.recorded()).figures is None


def semaphore(*, inside: int = 1, listed: str = "a-1", **config: Any) -> History:
    """Of two permits one is c3's. c1 made a node in the folder in an acquire that ended without a permit; c2 made its
    own and watched the folder, in which the others were `listed`, too."""
    history = waits(behind="/k1/a-2", workload="semaphore", permits=2, **config)
    history.requests = [row for row in history.requests if "WATCH" not in row["arguments"]]
    if inside:
        history.section("c3", 400, 9_500, number=2, asked=350, deadline=99_000)
        made(history, "c3", "/k1/a-3", 360)
    return asks(history, "c2", "GETCHILDREN /k1 WATCH", 620, [*listed.split(), "a-2", "a-3"][: 2 + inside])


def test_a_permit_is_lost_to_the_node_of_a_call_that_was_refused(golden: Golden) -> None:
    history = semaphore()
    assert found(history) == (2622.1, pytest.approx(6250, abs=250), "entry of a refused call")
    (finding,) = check(history.recorded()).findings
    golden(finding.text)
    watches = WatchedNodes.of(history.recorded())
    assert watches is not None
    kept = watches.why_waiting("c2", ms(5_000))
    assert kept is not None
    golden(kept.reason.text)


def test_as_many_such_nodes_as_permits_are_free_explain_it() -> None:
    assert found(semaphore(inside=0)) is None
    assert found(semaphore(listed="a-9")) is None
    assert found(deletes(semaphore(), "c1", "/k1/a-1", 700)) is None


def test_a_folder_that_changed_since_says_nothing() -> None:
    told = packed({"event": "children changed", "path": "/k1"})
    history = semaphore().request("c2", "n1", "", None, 700, told=700, reply=told, did=False)
    assert found(history) is None
