"""Did the faults work? A lock that survives faults which never took has survived nothing."""

from __future__ import annotations

from fencepost.history import FaultEvent
from harness.history.recorded import Recorded
from harness.verdict import Answer, Finding


def check(run: Recorded) -> Answer:
    """Figures: `planned`, `injected`, `observed` (a probe saw it in force), `healed` (a probe saw it gone), and
    `by_nemesis`: the last three for each nemesis."""
    injected = {event.fault: event for event in run.faults if event.event == "injected"}
    healed = {event.fault: event for event in run.faults if event.event == "healed"}
    missed = [event for event in injected.values() if not event.holds]
    still = [event for name, event in injected.items() if name not in healed or not healed[name].holds]
    by_nemesis: dict[str, dict[str, int]] = {}
    for name, event in injected.items():
        counts = by_nemesis.setdefault(event.nemesis, {"injected": 0, "observed": 0, "healed": 0})
        counts["injected"] += 1
        counts["observed"] += event.holds
        counts["healed"] += name in healed and healed[name].holds
    findings = []
    if missed:
        text = f"{len(missed)} of {len(injected)} injected faults were not seen to take: {_names(missed)}"
        examples = tuple(_example(run, event) for event in missed[:5])
        findings.append(Finding("faults", "fault-missed", "harness", text, (), len(missed), examples))
    if still:
        text = f"{len(still)} of {len(injected)} injected faults were not seen to be healed: {_names(still)}"
        examples = tuple(_example(run, healed.get(event.fault, event)) for event in still[:5])
        findings.append(Finding("faults", "not-healed", "harness", text, (), len(still), examples))
    observed = len(injected) - len(missed)
    none_worked = run.planned_faults > 0 and observed == 0
    figures: dict[str, object] = {
        "planned": run.planned_faults,
        "injected": len(injected),
        "observed": observed,
        "healed": len(injected) - len(still),
        "by_nemesis": by_nemesis,
    }
    return Answer(tuple(findings), ("no planned fault was observed to work",) if none_worked else (), figures)


def _names(events: list[FaultEvent]) -> str:
    more = f" and {len(events) - 5} more" if len(events) > 5 else ""
    return ", ".join(event.fault for event in events[:5]) + more


def _example(run: Recorded, event: FaultEvent) -> dict[str, object]:
    at_ms = (event.began_ns - run.timeline.start_ns) / 1e6
    return {"fault": event.fault, "what": event.what, "at_ms": at_ms, "seen": event.seen}
