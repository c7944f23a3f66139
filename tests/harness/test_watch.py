"""What the watch notices, and what becomes of it in the record."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event

from cluster.base import RESOURCE, Condition
from cluster.polling import becomes_true
from fencepost.errors import BrokenEnvironmentError
from fencepost.history import PROXY, STARVATION, FaultEvent
from harness.run.fault_log import FaultLog
from harness.run.watch import Failure, Sighting, Watch

LINKS = (("c1", "n1"), ("c1", "n2"), ("c1", RESOURCE), ("n2", "n1"))
CLIENTS = ("c1",)


class Scripted:
    """A part that is as the script says, and stays as it is at the end of it."""

    def __init__(self, *script: Condition | BrokenEnvironmentError, name: str = "n1") -> None:
        self.name = name
        self._script: Iterator[Condition | BrokenEnvironmentError] = iter(script)
        self._last = script[-1]
        self.is_over = Event()

    def condition(self, within_ms: float) -> Condition:
        now = next(self._script, None)
        if now is None:
            self.is_over.set()
            now = self._last
        if isinstance(now, BrokenEnvironmentError):
            raise now
        return now


def noticed(*script: Condition | BrokenEnvironmentError) -> list[Sighting]:
    part = Scripted(*script)
    with Watch([[part]]) as watch:
        assert part.is_over.wait(10)
    return watch.take()


def test_a_part_that_is_as_wanted_is_not_worth_a_word() -> None:
    assert noticed("as wanted", "changing", "as wanted") == []


def test_a_failure_is_noticed_with_its_end_each_between_two_times() -> None:
    began, ended = noticed("as wanted", "stopped", "stopped", "as wanted")
    assert (began.how, ended.how) == ("stopped", None)
    assert began.began_ns < began.done_ns < ended.began_ns < ended.done_ns


def test_a_failure_that_goes_over_into_another_is_noticed_twice() -> None:
    assert [seen.how for seen in noticed("silent", "down", "as wanted")] == ["silent", "down", None]


def test_while_a_verb_is_at_work_or_nothing_can_be_seen_nothing_is_noticed() -> None:
    assert [seen.how for seen in noticed("down", "changing", BrokenEnvironmentError("no engine"), "down")] == ["down"]


def test_a_part_that_answers_slowly_does_not_keep_the_watch_from_another_one() -> None:
    class Slow(Scripted):
        released = Event()

        def condition(self, within_ms: float) -> Condition:
            self.released.wait(10)
            return super().condition(within_ms)

    slow, quick = Slow("as wanted", name="n1"), Scripted("down", name="n2")
    try:
        with Watch([[slow], [quick]]) as watch:
            seen: list[Sighting] = []
            assert becomes_true(lambda: bool(seen.extend(watch.take()) or seen))
            slow.released.set()
    finally:
        slow.released.set()
    assert [one.part for one in seen] == ["n2"]


def recorded(*sightings: tuple[str, Failure | None, int], planned: tuple[FaultEvent, ...] = ()) -> list[FaultEvent]:
    """What is written of these sightings, each with its part, its kind and its time, after the planned events."""
    written: list[FaultEvent] = []
    log = FaultLog(written.append, LINKS, CLIENTS)
    for event in planned:
        log.observe(event)
    log.notice([Sighting(part, how, at - 1, at) for part, how, at in sightings])
    return written[len(planned) :]


def test_an_unplanned_fault_is_recorded_with_what_it_hit_and_with_its_end() -> None:
    began, ended = recorded(("n1", "down", 10), ("n1", None, 20))
    assert began.unplanned
    assert ended.unplanned
    assert (began.event, began.what, began.nodes, began.how_down) == ("injected", "n1 went down", ("n1",), "unasked")
    assert (began.began_ns, began.done_ns) == (9, 10)
    assert (ended.event, ended.fault, ended.began_ns, ended.done_ns) == ("healed", began.fault, 19, 20)


def test_a_stopped_node_keeps_its_memory() -> None:
    (began,) = recorded(("n1", "stopped", 10))
    assert began.nodes == ("n1",)
    assert not began.took_nodes_down


def test_the_proxy_is_every_link_and_the_resource_those_that_lead_to_it() -> None:
    proxy, resource = recorded((PROXY, "stopped", 10), (RESOURCE, "silent", 10))
    assert proxy.cut_links == LINKS
    assert proxy.what == "Toxiproxy was stopped"
    assert resource.cut_links == (("c1", RESOURCE),)
    assert resource.nodes == ()


def test_a_stopped_client_is_a_paused_client() -> None:
    (began,) = recorded(("c1", "stopped", 10))
    assert began.paused_clients == ("c1",)


def test_a_replica_that_dials_its_primary_is_a_node_and_no_client() -> None:
    (began,) = recorded(("n2", "stopped", 10))
    assert began.nodes == ("n2",)
    assert began.paused_clients == ()


def test_a_client_that_gets_no_processor_is_paused_and_was_not_stopped() -> None:
    (began,) = recorded(("c1", "starved", 10))
    assert (began.what, began.fault_class, began.paused_clients) == ("c1 was not scheduled", STARVATION, ("c1",))


def test_a_failure_that_goes_over_into_another_is_two_faults_the_first_of_which_is_over() -> None:
    events = recorded(("n1", "stopped", 10), ("n1", "down", 20))
    assert [(event.event, event.fault, event.done_ns) for event in events] == [
        ("injected", "unplanned-1", 10),
        ("healed", "unplanned-1", 20),
        ("injected", "unplanned-2", 20),
    ]


def planned(kind: str, fault: str, at: int, **hit: tuple[str, ...]) -> FaultEvent:
    return FaultEvent(kind, fault, "pause", "pause them", at, at, True, "seen", **hit)  # type: ignore[arg-type]


def test_a_pause_that_somebody_undid_is_recorded_for_that_fault_and_that_name() -> None:
    before = (
        planned("injected", "f1", 1, nodes=("n1", "n2")),
        planned("injected", "f2", 1, nodes=("n2",)),
        planned("injected", "f3", 1, nodes=("n1",)),
        planned("healed", "f3", 5, nodes=("n1",)),
    )
    (early,) = recorded(("n1", "up", 10), planned=before)
    assert (early.event, early.fault, early.nodes, early.done_ns) == ("undone", "f1", ("n1",), 10)
    assert early.unplanned


def test_what_is_failing_now_is_known() -> None:
    log = FaultLog(lambda _: None, LINKS, CLIENTS)
    log.notice([Sighting("n1", "down", 1, 2), Sighting("n2", "silent", 1, 2)])
    assert log.failing == ("unplanned: n1 went down", "unplanned: n2 fell silent")
    log.notice([Sighting("n2", None, 3, 4)])
    assert log.failing == ("unplanned: n1 went down",)
