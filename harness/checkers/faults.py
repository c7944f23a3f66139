"""Did the faults work? A lock that survives faults which had no effect has survived nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from fencepost.history import FaultEvent
from fencepost.text import count, printable
from harness.explain.kinds import FindingKind
from harness.figures import CheckerFigures, Row, Tile
from harness.history.groups import grouped
from harness.history.recorded import Recorded
from harness.verdict import Answer


class OfNemesis(msgspec.Struct, frozen=True):
    injected: int
    observed: int
    healed: int


class Figures(CheckerFigures, frozen=True):
    """`planned`: faults in the schedule. `injected`: how many of them were; `observed`: a probe saw them in force;
    `healed`: a probe saw them gone. `by_nemesis`: the last three for each nemesis."""

    planned: int
    injected: int
    observed: int
    healed: int
    by_nemesis: dict[str, OfNemesis]

    def rows(self) -> Iterator[Row]:
        """`12 planned, 12 injected, 12 verified active, 12 verified healed (crash 6 of 6, partition 6 of 6)`."""
        each = ", ".join(
            f"{printable(name)} {count(own.observed)} of {count(own.injected)}" for name, own in self.by_nemesis.items()
        )
        detail = f" ({each})" if len(self.by_nemesis) > 1 else ""
        yield Row("faults", f"{self._totals()}{detail}", order=10, is_input=True)

    def _totals(self) -> str:
        seen = f"{count(self.observed)} verified active, {count(self.healed)} verified healed"
        if self.planned:
            return f"{count(self.planned)} planned, {count(self.injected)} injected, {seen}"
        return f"{count(self.injected)} by the script, {seen}" if self.injected else "none planned"

    def tiles(self) -> Iterator[Tile]:
        if self.planned:
            note = f"of {count(self.planned)} planned, {count(self.injected)} injected"
            missed = self.observed < self.planned
            yield Tile("Faults verified active", count(self.observed), note, "warn" if missed else "", order=90)


def check(run: Recorded) -> Answer:
    """Unplanned faults are not counted: they were not asked for (`harness.checkers.unplanned_failures`)."""
    planned = [event for event in run.faults if not event.unplanned]
    injected = {event.fault: event for event in planned if event.event == "injected"}
    healed = {event.fault: event for event in planned if event.event == "healed"}
    missed = [event for event in injected.values() if not event.holds]
    still = [event for name, event in injected.items() if name not in healed or not healed[name].holds]
    unhealed = {event.fault for event in still}
    by_nemesis = grouped((event.nemesis, event) for event in injected.values())
    findings = []
    if missed:
        text = f"{len(missed)} of {len(injected)} injected faults were not verified active: {_names(missed)}"
        examples = tuple(_example(run, event) for event in missed[:5])
        findings.append(MISSED.found("harness", text, len(missed), examples))
    if still:
        text = f"{len(still)} of {len(injected)} injected faults were not verified healed: {_names(still)}"
        examples = tuple(_example(run, healed.get(event.fault, event)) for event in still[:5])
        findings.append(NOT_HEALED.found("harness", text, len(still), examples))
    observed = len(injected) - len(missed)
    figures = Figures(
        planned=run.planned_faults,
        injected=len(injected),
        observed=observed,
        healed=len(injected) - len(still),
        by_nemesis={
            name: OfNemesis(
                injected=len(own),
                observed=sum(event.holds for event in own),
                healed=sum(event.fault not in unhealed for event in own),
            )
            for name, own in by_nemesis.items()
        },
    )
    return Answer(figures, tuple(findings))


def _names(events: list[FaultEvent]) -> str:
    more = f" and {len(events) - 5} more" if len(events) > 5 else ""
    return ", ".join(event.fault for event in events[:5]) + more


def _example(run: Recorded, event: FaultEvent) -> dict[str, object]:
    at_ms = run.at_ms(event.began_ns)
    return {"fault": event.fault, "what": event.what, "at_ms": at_ms, "seen": event.seen}


MISSED: Final = FindingKind("fault-missed", "none", noun="fault(s) not verified active")
NOT_HEALED: Final = FindingKind("fault-not-healed", "none", noun="fault(s) not verified healed")
