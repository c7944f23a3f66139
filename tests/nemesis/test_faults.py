"""Each fault does what its data says, its probe cannot be fooled, and healing undoes also the half of it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random
from time import monotonic
from types import SimpleNamespace

import pytest

from cluster.address import ProbeResult
from cluster.base import CutKind, Direction
from fencepost.errors import BrokenEnvironmentError
from fencepost.history import HowDown, Impact
from nemesis import crash, links, node_down, pause
from nemesis import partition as partition_module
from nemesis.base import HasClass, Step, Topology
from nemesis.corrupt import Corrupt
from nemesis.crash import Crash
from nemesis.errors import Errors
from nemesis.latency import Latency
from nemesis.node_down import NodeDown
from nemesis.partition import Partition
from nemesis.pause import Pause
from nemesis.power import PowerCut
from nemesis.shutdown import Shutdown
from nemesis.slice import Slice
from tests.golden import Golden
from tests.nemesis.fakes import FakeWorld, topology

LINKS = (("c1", "n1"), ("c2", "n1"), ("c2", "n2"))


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeWorld:
    for module in (links, partition_module):  # a fake that does not answer at once never does
        monkeypatch.setattr(module, "RETRY_FOR_S", 0.01)
    return FakeWorld(topology(clients=3, nodes=3))


def partition(kind: CutKind = "drop", direction: Direction = "both") -> Partition:
    return Partition("some-links", kind, direction, LINKS)


def looks(*answers: bool) -> Iterator[bool]:
    """These answers in their order, and the last one for ever."""
    yield from answers
    while True:
        yield answers[-1]


@pytest.mark.parametrize("kind", ["refuse", "drop", "hold"])
@pytest.mark.parametrize("direction", ["to-node", "from-node", "both"])
def test_a_partition_cuts_its_links_and_no_other_and_heals_them(
    fake: FakeWorld, kind: CutKind, direction: Direction
) -> None:
    fault = partition(kind, direction)
    impact = fault.inject(fake.world, "f1")
    assert impact.cut_links == LINKS
    assert fake.calls == [f"{c}-{n}.cut f1 {kind} {direction}" for c, n in LINKS]
    evidence = fault.probe(fake.world, impact)
    assert evidence.holds
    assert "3 of 3 links cut" in evidence.seen
    assert "3 of 3 untouched links answer" in evidence.seen
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    assert "3 of 3 links answer again" in healed.seen
    assert not any(link.owners() for link in fake.cluster.links.values())


def test_a_partition_that_did_not_take_on_one_link_is_a_miss(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    half_ms = count(0, 0.0005)  # how long each try takes, however busy the machine is
    monkeypatch.setattr(links, "time", SimpleNamespace(monotonic=lambda: next(half_ms)))
    fake.cluster.links["c2", "n1"].deaf = True
    fault = partition()
    evidence = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert not evidence.holds
    assert "c2-n1 (answered" in evidence.seen
    assert len(fake.cluster.waited_ms) > 10
    assert max(fake.cluster.waited_ms) == links.PROBE_TIMEOUT_MS, "a link that answers at once is not waited for longer"


@pytest.mark.parametrize(
    ("planned", "made"),
    [
        (("drop", "to-node"), ("drop", "from-node")),
        (("drop", "from-node"), ("drop", "both")),
        (("refuse", "both"), ("drop", "both")),
    ],
)
def test_silence_of_another_kind_or_direction_than_planned_is_a_miss(fake: FakeWorld, planned, made) -> None:
    fault = partition(*planned)
    impact = fault.inject(fake.world, "f1")
    fake.cluster.links["c1", "n1"].cut("f1", *made)
    evidence = fault.probe(fake.world, impact)
    assert not evidence.holds
    assert "not as planned: c1-n1" in evidence.seen


def test_of_many_links_that_are_not_as_planned_the_first_are_named(golden: Golden) -> None:
    fake = FakeWorld(topology(clients=12, nodes=1))
    links = tuple((f"c{number}", "n1") for number in range(1, 13))
    brief = Partition("some-links", "drop", "both", links, probe_ms=5)
    for link in fake.cluster.links.values():
        link.deaf = True
    evidence = brief.probe(fake.world, brief.inject(fake.world, "f1"))
    golden(evidence.seen)


def test_a_cut_to_a_node_that_is_down_is_believed_for_its_silence_and_says_so(fake: FakeWorld, golden: Golden) -> None:
    fake.cluster.nodes["n1"].kill()
    fault = partition("drop", "from-node")
    evidence = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert evidence.holds
    golden(evidence.seen)


def test_a_cut_under_another_faults_delay_is_believed_for_its_silence_and_says_so(
    fake: FakeWorld, golden: Golden
) -> None:
    fake.cluster.links["c1", "n1"].delay("f2", 5_000, 0, "to-node")
    fault = partition("drop", "from-node")
    evidence = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert evidence.holds
    golden(evidence.seen)


def test_an_outage_of_some_ms_is_probed_once_and_nothing_else_with_it(fake: FakeWorld, golden: Golden) -> None:
    fake.cluster.links["c2", "n1"].deaf = True
    brief = Partition("some-links", "drop", "both", LINKS, probe_ms=5)
    evidence = brief.probe(fake.world, brief.inject(fake.world, "f1"))
    assert not evidence.holds
    golden(evidence.seen)
    assert fake.cluster.probes == [LINKS]


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        (Partition("", "drop", "from-node", LINKS), "replies lost"),
        (Partition("", "hold", "to-node", LINKS), "requests held"),
        (Partition("", "refuse", "from-node", LINKS), "connections refused"),
        (Latency("delay", "", "from-node", LINKS, delay_ms=50, jitter_ms=24), "replies slow"),
        (Latency("delay", "", "from-node", LINKS, delay_ms=50, jitter_ms=25), "jitter"),
        (Latency("throttle", "", "both", LINKS, rate_kb_per_s=1), "narrow link"),
        (Slice("", "both", LINKS, gap_ms=5), "in pieces"),
        (Crash(nodes=("n1",)), "node killed"),
        (Crash(clients=("c1",)), "client killed"),
        (Pause(nodes=("n1",)), "node hung"),
        (Pause(inside=True, clients=("c1",)), "client stopped"),
        (Shutdown(("n1",)), "node shut down"),
        (PowerCut(("n1",)), "node without power"),
        (Corrupt(("n1",)), "node damaged"),
        (Errors(("n1",), "no replicas"), "node answers errors"),
    ],
)
def test_a_fault_says_of_which_class_it_is(fault: HasClass, named: str) -> None:
    assert fault.fault_class == named


def test_a_fault_that_comes_while_a_cut_is_probed_may_hide_it_too(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    fault, probe = partition("drop", "from-node"), fake.cluster.probe

    def interrupted(links, timeout_ms=100):
        fake.cluster.links["c1", "n1"].cut("f2", "drop", "both")
        return probe(links, timeout_ms)

    impact = fault.inject(fake.world, "f1")
    monkeypatch.setattr(fake.cluster, "probe", interrupted)
    evidence = fault.probe(fake.world, impact)
    assert evidence.holds, evidence.seen
    golden(evidence.seen)


def test_healing_leaves_the_impairments_of_other_faults_and_says_so(fake: FakeWorld, golden: Golden) -> None:
    other = fake.cluster.links["c1", "n1"]
    fault = partition()
    impact = fault.inject(fake.world, "f1")
    other.cut("f2", "hold", "both")
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    assert other.owners() == {"f2"}
    golden(healed.seen)


def test_healing_while_a_node_is_down_tells_that_it_is(fake: FakeWorld, golden: Golden) -> None:
    fault = partition()
    impact = fault.inject(fake.world, "f1")
    fake.cluster.nodes["n2"].kill()
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    golden(healed.seen)


def test_a_link_that_resists_does_not_keep_the_others_cut(fake: FakeWorld) -> None:
    fault = partition()
    fault.inject(fake.world, "f1")
    fake.cluster.links["c1", "n1"].stuck = True
    with pytest.raises(BrokenEnvironmentError, match="c1-n1 is stuck"):
        fault.heal(fake.world, "f1", Impact())
    assert [link for link in LINKS if fake.cluster.links[link].owners()] == [("c1", "n1")]


def test_a_partition_half_injected_is_healed_whole_without_an_impact(fake: FakeWorld) -> None:
    fake.cluster.links["c1", "n1"].cut("f1", "drop", "both")
    assert partition().heal(fake.world, "f1", Impact()).holds
    assert not fake.cluster.links["c1", "n1"].owners()


def slow(direction: Direction = "to-node", delay_ms: int = 80, jitter_ms: int = 10) -> Latency:
    return Latency("delay", "one-node", direction, LINKS, delay_ms=delay_ms, jitter_ms=jitter_ms)


@pytest.mark.parametrize("direction", ["to-node", "from-node", "both"])
def test_latency_is_measured_and_gone_after_the_heal(fake: FakeWorld, direction: Direction) -> None:
    fault = slow(direction)
    impact = fault.inject(fake.world, "f1")
    assert impact.slow_links == LINKS
    assert fake.calls[0] == f"c1-n1.delay f1 80 10 {direction}"
    evidence = fault.probe(fake.world, impact)
    assert evidence.holds
    assert f"replies after {161 if direction == 'both' else 81}" in evidence.seen
    assert fault.heal(fake.world, "f1", impact).holds


def test_a_link_that_is_faster_than_planned_is_a_miss(fake: FakeWorld, golden: Golden) -> None:
    fake.cluster.links["c2", "n2"].deaf = True
    fault = slow()
    evidence = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert not evidence.holds
    assert "2 of 3 links slow" in evidence.seen
    golden(evidence.seen)


@pytest.mark.parametrize(("delay_ms", "quick_replies", "holds"), [(80, 1, True), (80, 2, False), (400, 1, True)])
def test_a_reply_that_another_fault_lets_go_early_is_no_miss_if_the_next_ones_are_late(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch, delay_ms: int, quick_replies: int, holds: bool
) -> None:
    probe, looks = fake.cluster.probe, list[int]()
    quick = ProbeResult(answered=True, applied=True, refused=False, elapsed_ms=1.0)

    def let_go(links, timeout_ms=100):
        looks.append(len(links))
        every = 3 if delay_ms < 200 else 1
        is_early = len(looks) % every == 1 % every and len(looks) <= every * quick_replies
        return probe(links, timeout_ms) | ({links[0]: quick} if is_early else {})

    fault = slow(delay_ms=delay_ms)
    impact = fault.inject(fake.world, "f1")
    monkeypatch.setattr(fake.cluster, "probe", let_go)
    assert fault.probe(fake.world, impact).holds == holds
    assert looks[-1] == 1, "only the quick link is looked at again"


def test_a_delay_one_way_where_both_ways_were_planned_is_a_miss(fake: FakeWorld) -> None:
    fault = slow("both")
    impact = fault.inject(fake.world, "f1")
    fake.cluster.links["c1", "n1"].delay("f1", 80, 10, "to-node")
    assert not fault.probe(fake.world, impact).holds


def test_a_narrow_pipe_is_felt_and_gone_after_the_heal(fake: FakeWorld) -> None:
    fault = Latency("throttle", "one-node", "to-node", LINKS, rate_kb_per_s=1)
    impact = fault.inject(fake.world, "f1")
    assert fake.calls[0] == "c1-n1.throttle f1 1 to-node"
    assert fault.probe(fake.world, impact).holds
    assert fault.heal(fake.world, "f1", impact).holds


def test_bytes_in_pieces_are_felt_and_gone_after_the_heal(fake: FakeWorld) -> None:
    fault = Slice("one-node", "to-node", LINKS, gap_ms=10)
    impact = fault.inject(fake.world, "f1")
    assert fake.calls[0] == "c1-n1.slice f1 10 to-node"
    assert fault.probe(fake.world, impact).holds
    assert fault.heal(fake.world, "f1", impact).holds
    seen = fault.probe(fake.world, impact)
    assert not seen.holds
    assert "expected at least 38 ms" in seen.seen


def test_a_slow_link_that_another_fault_refuses_is_not_a_miss_but_told(fake: FakeWorld, golden: Golden) -> None:
    fake.cluster.links["c1", "n1"].cut("f2", "refuse", "both")
    fault = slow()
    evidence = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert evidence.holds
    golden(evidence.seen)


INSIDE = Pause(inside=True, first=1, clients=("c1", "c2", "c3"))


def test_a_pause_aimed_inside_hits_the_first_client_inside_from_the_preferred_one_on(fake: FakeWorld) -> None:
    fake.clients["c1"].inside = fake.clients["c3"].inside = lambda: True
    impact = INSIDE.inject(fake.world, "f1")
    assert impact == Impact(paused_clients=("c3",))
    assert fake.calls == ["c3.pause"]
    evidence = INSIDE.probe(fake.world, impact)
    assert evidence.holds
    assert evidence.seen == "c3 stopped, c3 inside"
    healed = INSIDE.heal(fake.world, "f1", impact)
    assert healed.holds
    assert healed.seen == "c3 running"
    assert not fake.clients["c3"].paused


def test_a_pause_aimed_at_those_who_acquire_hits_none_that_is_inside(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch, golden: Golden
) -> None:
    fault = Pause(acquiring=True, first=1, clients=("c1", "c2", "c3"))
    fake.clients["c2"].inside = lambda: True
    fake.clients["c1"].acquiring = lambda: True
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(paused_clients=("c1",))
    evidence = fault.probe(fake.world, impact)
    assert evidence.holds
    golden(evidence.seen)
    assert fault.heal(fake.world, "f1", impact).seen == "c1 running"
    fake.clients["c1"].acquiring = lambda: False
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.02)
    assert "no client was caught acquiring" in fault.probe(fake.world, fault.inject(fake.world, "f2")).seen


def test_a_client_that_slipped_out_before_the_signal_runs_on_and_another_is_caught(fake: FakeWorld) -> None:
    slipping = looks(True, False)
    fake.clients["c2"].inside = lambda: next(slipping)
    fake.clients["c3"].inside = lambda: True
    impact = INSIDE.inject(fake.world, "f1")
    assert impact.paused_clients == ("c3",)
    assert fake.calls == ["c2.pause", "c2.resume", "c3.pause"]


@pytest.mark.parametrize(("most", "caught"), [(1, ("c2",)), (2, ("c2", "c3")), (3, ("c2", "c3", "c1"))])
def test_several_clients_are_caught_each_at_its_own_moment(fake: FakeWorld, most: int, caught: tuple[str, ...]) -> None:
    later = looks(*[False] * 5, True)
    fake.clients["c1"].extending = lambda: next(later)
    fake.clients["c2"].extending = fake.clients["c3"].extending = lambda: True
    fault = Pause(at="extending", first=1, most=most, clients=("c1", "c2", "c3"))
    impact = fault.inject(fake.world, "f1")
    assert impact.paused_clients == caught
    assert fault.probe(fake.world, impact).holds
    assert fault.heal(fake.world, "f1", impact).holds
    assert not any(client.paused for client in fake.clients.values())


def test_a_second_client_that_does_not_come_is_not_waited_for_as_long_as_the_first(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 60)
    monkeypatch.setattr(pause, "MORE_WITHIN_S", 0.02)
    fake.clients["c2"].extending = lambda: True
    fault = Pause(at="extending", most=2, clients=("c1", "c2", "c3"))
    assert fault.inject(fake.world, "f1").paused_clients == ("c2",)


def test_when_one_cannot_be_stopped_those_that_were_caught_run_on(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resist() -> None:
        raise OSError("no such process")

    for name in ("c1", "c2"):
        fake.clients[name].extending = lambda: True
    monkeypatch.setattr(fake.clients["c2"], "pause", resist)
    with pytest.raises(OSError, match="no such process"):
        Pause(at="extending", most=2, clients=("c1", "c2", "c3")).inject(fake.world, "f1")
    assert not fake.clients["c1"].paused


def test_somebody_who_gets_inside_later_is_waited_for(fake: FakeWorld) -> None:
    later = looks(*[False] * 5, True)
    fake.clients["c1"].inside = lambda: next(later)
    assert INSIDE.inject(fake.world, "f1").paused_clients == ("c1",)


def test_a_pause_aimed_at_those_who_extend_hits_none_that_is_only_inside(fake: FakeWorld) -> None:
    for name in ("c1", "c2"):
        fake.clients[name].inside = lambda: True
    fake.clients["c2"].extending = lambda: True
    fault = Pause(at="extending", clients=("c1", "c2", "c3"))
    impact = fault.inject(fake.world, "f1")
    assert impact.paused_clients == ("c2",)
    assert fault.probe(fake.world, impact).seen == "c2 stopped, c2 extending"
    assert fault.heal(fake.world, "f1", impact).holds


def test_when_nobody_is_inside_in_time_the_pause_missed(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.02)
    impact = INSIDE.inject(fake.world, "f1")
    assert impact == Impact()
    evidence = INSIDE.probe(fake.world, impact)
    assert not evidence.holds
    assert "no client was caught inside" in evidence.seen
    assert INSIDE.heal(fake.world, "f1", impact).seen == "nothing had been paused"
    assert fake.calls == []


def test_a_client_that_another_fault_paused_is_neither_caught_nor_woken(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.02)
    fake.clients["c2"].inside = lambda: True
    fake.clients["c2"].paused = True
    impact = INSIDE.inject(fake.world, "f1")
    assert impact == Impact()
    assert INSIDE.heal(fake.world, "f1", impact).seen == "nothing had been paused"
    assert fake.clients["c2"].paused


def test_a_pause_finds_its_client_stopped_there_by_an_earlier_one(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.02)
    fake.clients["c2"].paused = True
    impact = INSIDE.inject(fake.world, "f1")
    assert not INSIDE.probe(fake.world, impact).holds  # stopped, but not inside
    fake.clients["c2"].inside = lambda: True
    evidence = INSIDE.probe(fake.world, impact)
    assert (evidence.holds, evidence.seen) == (True, "c2 stopped already, inside")


def test_a_client_that_runs_although_it_should_be_stopped_is_a_miss(fake: FakeWorld) -> None:
    fake.clients["c2"].inside = lambda: True
    impact = INSIDE.inject(fake.world, "f1")
    fake.clients["c2"].paused = False
    assert not INSIDE.probe(fake.world, impact).holds


def test_clients_and_nodes_are_paused_and_resumed(fake: FakeWorld) -> None:
    fault = Pause(clients=("c1",), nodes=("n1", "n2"))
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(paused_clients=("c1",), nodes=("n1", "n2"))
    evidence = fault.probe(fake.world, impact)
    assert evidence.holds
    assert evidence.seen == "c1 stopped, none inside; n1,n2 silent"
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    assert healed.seen == "c1 running; n1,n2 answering"


def test_a_node_that_is_down_cannot_be_paused_and_that_is_a_miss(fake: FakeWorld) -> None:
    fake.cluster.nodes["n1"].kill()
    fault = Pause(nodes=("n1", "n2"))
    impact = fault.inject(fake.world, "f1")
    assert impact.nodes == ("n2",)
    evidence = fault.probe(fake.world, impact)
    assert not evidence.holds
    assert "n1 not paused" in evidence.seen
    assert fault.heal(fake.world, "f1", impact).seen == "n2 answering"


def test_who_was_stopped_by_another_pause_is_not_woken(fake: FakeWorld) -> None:
    first, second = Pause(clients=("c1",), nodes=("n1",)), Pause(clients=("c1", "c2"), nodes=("n1", "n2"))
    impact = first.inject(fake.world, "f1")
    later = second.inject(fake.world, "f2")
    assert (later.paused_clients, later.nodes) == (("c2",), ("n2",))
    assert second.heal(fake.world, "f2", later).seen == "c2 running; n2 answering"
    assert fake.clients["c1"].paused
    assert not fake.cluster.nodes["n1"].is_up()
    assert first.heal(fake.world, "f1", impact).seen == "c1 running; n1 answering"


def test_a_node_that_answers_although_it_should_be_paused_is_a_miss(fake: FakeWorld) -> None:
    fake.cluster.nodes["n1"].immortal = True
    fault = Pause(nodes=("n1",))
    assert not fault.probe(fake.world, fault.inject(fake.world, "f1")).holds


def test_a_paused_client_that_is_killed_meanwhile_is_no_error(fake: FakeWorld, golden: Golden) -> None:
    fault = Pause(clients=("c1", "c2"))
    impact = fault.inject(fake.world, "f1")
    fake.clients["c1"].kill()
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    golden(healed.seen)


@pytest.mark.parametrize("fault", [Crash(("n1", "n2")), Shutdown(("n1", "n2")), PowerCut(("n1", "n2"))])
def test_a_node_that_went_down_by_no_fault_is_neither_claimed_nor_restarted(
    fake: FakeWorld, fault: NodeDown, golden: Golden
) -> None:
    fake.cluster.nodes["n1"].dies_unasked()
    impact = fault.inject(fake.world, "f1")
    assert impact.nodes == ("n2",)
    evidence = fault.probe(fake.world, impact)
    assert not evidence.holds
    golden(evidence.seen)
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    golden(healed.seen)
    assert not any(call.startswith("n1.") for call in fake.calls)


def test_a_fault_whose_only_node_went_down_by_no_fault_hits_nothing(fake: FakeWorld) -> None:
    fake.cluster.nodes["n1"].dies_unasked()
    fault = Crash(("n1",))
    assert fault.inject(fake.world, "f1") == Impact()


def test_nodes_are_killed_cut_short_and_come_back_with_what_is_left(fake: FakeWorld, golden: Golden) -> None:
    fault = Corrupt(nodes=("n1", "n3"), place=250_000)
    golden(fault.describe())
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(nodes=("n1", "n3"), keys_at_stake=(), how_down="damage")
    assert [call for call in fake.calls if "truncate" in call] == ["n1.truncate 250000", "n3.truncate 250000"]
    seen = fault.probe(fake.world, impact)
    assert seen.holds
    golden(seen.seen)
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    golden(healed.seen)


def test_a_node_that_refuses_what_is_left_of_its_files_comes_back_empty(fake: FakeWorld, golden: Golden) -> None:
    fake.cluster.nodes["n3"].is_picky = True
    fault = Corrupt(nodes=("n1", "n3"), place=250_000)
    healed = fault.heal(fake.world, "f1", fault.inject(fake.world, "f1"))
    golden(healed.seen)
    assert [call for call in fake.calls if call.startswith("n3")][-3:] == ["n3.start", "n3.forget", "n3.start"]


def test_a_node_that_keeps_nothing_yet_is_a_miss(fake: FakeWorld) -> None:
    fake.cluster.nodes["n1"].keeps_nothing = True
    fault = Corrupt(nodes=("n1",), place=1)
    seen = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert (seen.holds, seen.seen) == (False, "n1 dead; n1: nothing cut")


def test_nodes_answer_writes_with_errors_until_that_is_healed(fake: FakeWorld, golden: Golden) -> None:
    fault = Errors(("n1", "n3"), "out of memory")
    assert fault.describe() == "n1,n3 refuse writes: out of memory"
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(nodes=("n1", "n3"), answers_errors=True)
    seen = fault.probe(fake.world, impact)
    assert seen.holds
    golden(seen.seen)
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    golden(healed.seen)


def test_a_node_that_takes_writes_all_the_same_is_a_miss(fake: FakeWorld) -> None:
    fault = Errors(("n1", "n2"), "no replicas")
    impact = fault.inject(fake.world, "f1")
    fake.cluster.nodes["n2"].refuses = None
    seen = fault.probe(fake.world, impact)
    assert (seen.holds, seen.seen) == (False, "n1: NOREPLICAS; n2: it is done")


def test_a_node_that_still_refuses_is_told(fake: FakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = Errors(("n1", "n2"), "no replicas")
    impact = fault.inject(fake.world, "f1")
    monkeypatch.setattr(fake.cluster.nodes["n2"], "refuse_writes", lambda why: None)
    healed = fault.heal(fake.world, "f1", impact)
    assert (healed.holds, healed.seen) == (False, "n1 takes writes again; n2: NOREPLICAS")


def test_a_node_that_is_down_takes_writes_again_when_it_is_back(fake: FakeWorld, golden: Golden) -> None:
    fault = Errors(("n1", "n2"), "no replicas")
    impact = fault.inject(fake.world, "f1")
    fake.cluster.nodes["n2"].kill()
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    golden(healed.seen)


WAYS_DOWN: list[tuple[type[NodeDown], HowDown, str]] = [
    (Crash, "kill", "kill"),
    (Shutdown, "shutdown", "stop"),
    (PowerCut, "power cut", "cut_power"),
]


@pytest.mark.parametrize(("kind", "how", "verb"), WAYS_DOWN)
def test_nodes_go_down_in_the_way_that_was_planned_and_come_back(
    fake: FakeWorld, kind: type[NodeDown], how: HowDown, verb: str
) -> None:
    fault = kind(nodes=("n1", "n3"))
    assert fault.describe() == f"{how} n1,n3"
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(nodes=("n1", "n3"), keys_at_stake=(), how_down=how)
    assert fault.probe(fake.world, impact).seen == "n1,n3 dead"
    assert fake.cluster.nodes["n2"].running
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    assert healed.seen == "n1,n3 answering"
    assert sorted(fake.calls[:2]) == [f"n1.{verb}", f"n3.{verb}"]
    assert sorted(fake.calls[2:]) == ["n1.start", "n3.start"]


@pytest.mark.parametrize(("kind", "how", "verb"), WAYS_DOWN)
def test_a_node_that_another_fault_keeps_down_as_well_stays_down(
    fake: FakeWorld, kind: type[NodeDown], how: HowDown, verb: str, golden: Golden
) -> None:
    first, second = kind(nodes=("n1", "n2")), Crash(nodes=("n2", "n3"))
    impact, later = first.inject(fake.world, "f1"), second.inject(fake.world, "f2")
    healed = first.heal(fake.world, "f1", impact)
    assert healed.holds
    golden(healed.seen)
    healed = second.heal(fake.world, "f2", later)
    assert healed.holds
    golden(healed.seen)


@pytest.mark.parametrize(("kind", "words", "verb"), WAYS_DOWN)
def test_a_node_that_survives_its_end_is_a_miss(
    fake: FakeWorld, kind: type[NodeDown], words: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fake.cluster.nodes["n1"], verb, lambda: None)
    fault = kind(nodes=("n1", "n2"))
    evidence = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert not evidence.holds
    assert evidence.seen == "n2 dead; n1 still there"


def test_a_node_that_does_not_come_back_is_told_and_the_others_are(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(node_down, "BACK_WITHIN_S", 0.02)
    fault = PowerCut(nodes=("n1", "n2"))
    impact = fault.inject(fake.world, "f1")
    fake.cluster.nodes["n1"].paused = True
    healed = fault.heal(fake.world, "f1", impact)
    assert not healed.holds
    assert healed.seen == "n2 answering; n1 not back"


def test_a_node_without_a_disk_breaks_the_run_and_the_others_have_lost_their_power(fake: FakeWorld) -> None:
    fake.cluster.nodes["n1"].has_disk = False
    with pytest.raises(BrokenEnvironmentError, match="n1 has no separate disk"):
        PowerCut(nodes=("n1", "n2")).inject(fake.world, "f1")
    assert fake.cluster.nodes["n1"].running, "it was not killed instead"
    assert not fake.cluster.nodes["n2"].running


def crash_of_one_that_is(step: Step, of: Topology) -> Crash:
    drawn, _ = crash.NEMESIS.draw(Random(1), of, crash.CrashOptions(targets=step))
    return drawn


def test_a_crash_of_nodes_and_clients_tells_of_both(fake: FakeWorld) -> None:
    fault = Crash(nodes=("n1",), clients=("c1", "c2"))
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(nodes=("n1",), killed_clients=("c1", "c2"), keys_at_stake=(), how_down="kill")
    assert fault.probe(fake.world, impact).seen == "n1 dead; c1,c2 dead"
    healed = fault.heal(fake.world, "f1", impact)
    assert healed.holds
    assert healed.seen == "n1 answering; c1,c2 running"


def test_a_crash_of_clients_restarts_them_in_their_slots(fake: FakeWorld) -> None:
    fault = Crash(clients=("c1", "c3"))
    impact = fault.inject(fake.world, "f1")
    assert impact == Impact(killed_clients=("c1", "c3"))
    assert fault.probe(fake.world, impact).holds
    assert fault.heal(fake.world, "f1", impact).seen == "c1,c3 running"
    assert all(client.alive for client in fake.clients.values())


@pytest.mark.parametrize("step", ["acquiring", "extending"])
def test_a_client_is_stopped_at_the_step_at_which_it_is_to_die(fake: FakeWorld, step: Step) -> None:
    setattr(fake.clients["c2"], step, lambda: True)
    fault = crash_of_one_that_is(step, fake.of)
    impact = fault.inject(fake.world, "f1")
    assert impact.killed_clients == ("c2",)
    assert not impact.paused_clients
    assert [call for call in fake.calls if call.startswith("c2.")] == ["c2.pause", "c2.kill"]
    evidence = fault.probe(fake.world, impact)
    assert evidence.holds
    assert evidence.seen == "c2 dead"
    assert fault.heal(fake.world, "f1", impact).seen == "c2 running"


def test_a_kill_that_catches_no_client_at_the_step_is_a_miss_and_kills_none(
    fake: FakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pause, "CATCH_WITHIN_S", 0.02)
    fault = crash_of_one_that_is("acquiring", fake.of)
    impact = fault.inject(fake.world, "f1")
    assert not fault.probe(fake.world, impact).holds
    assert fault.heal(fake.world, "f1", impact).holds
    assert not [call for call in fake.calls if call.endswith(("kill", "restart"))]


@pytest.mark.parametrize(("key", "woken_after"), [(1, 3), (2, 0)])
def test_a_client_stopped_while_it_acquires_wakes_up_when_another_is_inside_with_its_key(
    fake: FakeWorld, key: int, woken_after: int
) -> None:
    fake.clients["c1"].acquiring = lambda: True
    fault = Pause(acquiring=True, clients=("c1",))
    impact = fault.inject(fake.world, "f1")
    assert impact.paused_clients == ("c1",)
    looks, rival = count(1), fake.clients["c2"]
    rival.key, rival.inside = key, lambda: next(looks) >= 3
    assert fault.heal(fake.world, "f1", impact).holds
    assert not fake.clients["c1"].paused
    if woken_after:
        assert next(looks) == woken_after + 1, "it was woken at once"
    else:
        assert next(looks) > 10, "another key is no reason, so it slept on"


@pytest.mark.parametrize(
    ("is_wanted", "is_stopped", "sleeps_on"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_a_client_stopped_inside_sleeps_until_its_lease_is_over_if_another_asks_for_its_key(
    fake: FakeWorld, is_wanted: bool, is_stopped: bool, sleeps_on: bool
) -> None:
    """The other one is let in after 1.2 s, which is within two TTLs."""
    began, rival = monotonic(), fake.clients["c2"]
    fake.clients["c1"].inside = lambda: True
    fault = Pause(inside=True, clients=("c1",))
    impact = fault.inject(fake.world, "f1")
    rival.acquiring, rival.paused = lambda: is_wanted, is_stopped
    rival.inside = lambda: monotonic() > began + 1.2
    assert fault.heal(fake.world, "f1", impact).holds
    assert not fake.clients["c1"].paused
    assert (monotonic() - began > 1.2) == sleeps_on


def test_a_client_that_had_ended_before_its_kill_is_a_miss(fake: FakeWorld) -> None:
    fake.clients["c1"].alive = False
    fault = Crash(clients=("c1", "c3"))
    evidence = fault.probe(fake.world, fault.inject(fake.world, "f1"))
    assert not evidence.holds
    assert "c1 had ended before" in evidence.seen


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("c1",), "c1"),
        (("c1", "c2"), "c1,c2"),
        (("c1", "c3", "c4", "c5", "c9", "c10", "c11"), "c1,c3-c5,c9-c11"),
        (("c5", "c4", "c3"), "c5,c4,c3"),
        (("c1@1", "c1@2", "c1@3"), "c1@1,c1@2,c1@3"),
    ],
)
def test_many_clients_in_a_row_are_named_as_a_range(names: tuple[str, ...], words: str) -> None:
    assert links.names_in_words(names) == words
