"""Short phrases for the sentences: names, times, what took a node down, what stopped a client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fencepost.history import STARVATION, FaultEvent, HowDown, process_of
from fencepost.text import listed, milliseconds, plural, printable
from harness.explain.examples import Side, ops_of
from harness.history.fault_windows import Window, merged, windows
from harness.history.recorded import Recorded

_RESOURCE: Final = "resource"
_WORTH_TELLING: Final = 0.25
"""An operation that took at least this share of a section explains the section's length."""

_SHORTEST_PAUSE_NS: Final = 1_000_000
_AT_THE_DOOR: Final = ("acquire", "release")
"""The operations that are not inside the section."""
_IS_TOLD_ALONE: Final = {"hung": "down", "answering errors": "down", "not scheduled": "stopped"}
"""What need not be said of a part that was also in the state on the right."""
_OUTAGES: Final[dict[HowDown | None, str]] = {
    "power cut": "no power",
    "shutdown": "shut down",
    "kill": "killed",
    "damage": "damaged",
    None: "went down",
}
_FORGETFUL: Final = {
    "none": "with persistence none, a restarted node has forgotten its locks",
    "rdb": "rdb had not saved it",
    "aof-no": "aof-no had not synced it",
    "aof-everysec": "aof-everysec had not synced it",
}


def at(run: Recorded, moment_ns: int) -> str:
    """`+2,310.4 ms`, since the start of the load."""
    return f"{run.at_ms(moment_ns):+z,.1f} ms"


def lasting(span_ns: float) -> str:
    return milliseconds(span_ns / 1e6)


def was(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"


def keys_of(client: str, nodes: Sequence[str]) -> str:
    """`c3's key on n2`, `c3's keys on n2 and n4`."""
    return f"{client}'s {'key' if len(nodes) == 1 else 'keys'} on {listed(nodes)}"


def yes_to_another_request(client: str, nodes: Sequence[str]) -> str:
    """Of nodes whose late yes to an earlier request the client may have taken for a grant."""
    late = f"a late grant by {listed(nodes)}, sent in reply to an earlier request"
    return f"{client} may have read {late}, as the reply to this one"


def of_nodes(count: int, run: Recorded) -> str:
    return f"{count} of {plural(len(run.nodes), 'node')}"


def how_down(event: FaultEvent) -> HowDown | None:
    """How the fault took its nodes down; None if it did not, or if that is unknown."""
    return None if event.how_down == "unasked" else event.how_down


def brought_down(window: Window, nodes: Sequence[str]) -> str:
    """`were killed`, `lost its power`, `was shut down`."""
    its = "its" if len(nodes) == 1 else "their"
    match how_down(window.event):
        case "power cut":
            return f"lost {its} power"
        case "damage":
            return f"{was(nodes)} killed and lost a part of {its} files"
        case "shutdown" | "kill":
            return f"{was(nodes)} {outage(window)}"
        case None:
            return outage(window)


def outage(window: Window) -> str:
    """A short form for tables: `killed`, `no power`, `shut down`."""
    return _OUTAGES[how_down(window.event)]


def why_forgotten(run: Recorded, window: Window) -> str:
    """Why a restarted node no longer had a key, according to its persistence."""
    persistence = run.config.persistence
    if how_down(window.event) == "damage":
        return "a part of its files was lost"
    power = how_down(window.event) == "power cut"
    if persistence == "none" or (power and persistence in _FORGETFUL):
        return _FORGETFUL[persistence]
    if persistence == "rdb":
        return _FORGETFUL["rdb"]
    return f"although {persistence} keeps keys"


def standstill(run: Recorded, side: Side, from_ns: int, until_ns: int) -> str | None:
    """How long the side's client certainly did not run within this time: `was stopped for 1.4 s`; None if it ran."""
    stopped_ns, how = _stopped(run, side, from_ns, until_ns)
    return f"was {how} for {lasting(stopped_ns)}" if how else None


def _stopped(run: Recorded, side: Side, from_ns: int, until_ns: int) -> tuple[int, str]:
    """For how long, and how; empty if it ran."""
    times: list[tuple[int, int]] = []
    classes = set[str]()
    for window in windows(run.faults):
        until = window.to_ns if window.to_ns is not None else until_ns
        if side.client in window.event.paused_clients and window.from_ns < until_ns and until > from_ns:
            times.append((window.from_ns, until))
            classes.add(window.event.fault_class)
    stopped_ns = sum(done - began for began, done in merged(times, from_ns, until_ns))
    return stopped_ns, "" if not times else "not scheduled" if classes == {STARVATION} else "stopped"


def what_kept(run: Recorded, side: Side) -> str:
    """Why a client was inside for long, as far as the record shows: `was stopped for 1.4 s inside its section`."""
    inside_ns = side.end_ns - side.start_ns
    stopped_ns, how = _stopped(run, side, side.start_ns, side.end_ns)
    if how and stopped_ns >= _WORTH_TELLING * inside_ns:
        return f"was {how} for {lasting(stopped_ns)} inside its section"
    ops = ops_of(run, side.client, side.section)
    took = (ops["complete_ns"] - ops["invoke_ns"]).tolist()
    slow = [(span_ns, f) for span_ns, f in zip(took, ops["f"].astype(str), strict=True) if f not in _AT_THE_DOOR]
    longest_ns, name = max(slow, default=(0, ""))
    if longest_ns < _WORTH_TELLING * inside_ns:
        is_told = how and stopped_ns >= _SHORTEST_PAUSE_NS
        pause = f"and was {how} for at least {lasting(stopped_ns)} of that" if is_told else "without a recorded pause"
        return f"stayed inside for {lasting(inside_ns)} {pause}"
    text = f"was inside for {lasting(inside_ns)}, {lasting(longest_ns)} of it for one {name}"
    hit = [w for w in windows(run.faults) if _slows(w, side)] if name != "extend" else []
    return f"{text} (its link to the resource: {printable(hit[0].event.what)})" if hit else text


def kept_from_coming(run: Recorded, side: Side) -> str:
    """Why a client entered late: `was stopped for 1.4 s while it acquired`."""
    if stood := standstill(run, side, side.asked_from_ns, side.start_ns):
        return f"{stood} while it acquired"
    took = lasting(side.start_ns - side.asked_from_ns)
    return f"learned of its lease {took} after asking for it"


def _slows(window: Window, side: Side) -> bool:
    links = window.event.links
    until = window.to_ns
    overlaps = window.event.began_ns <= side.end_ns and (until is None or until >= side.start_ns)
    return (side.client, _RESOURCE) in links and overlaps


def out_of_order(run: Recorded, from_ns: int, until_ns: int) -> str:
    """What faults had hit at some time between the two: `n3 was hung and c1 was stopped`; empty if there were none."""
    states: dict[tuple[str, str], set[str]] = {}
    links: set[tuple[str, str]] = set()
    for window in windows(run.faults):
        if window.event.began_ns <= until_ns and (window.to_ns is None or window.to_ns >= from_ns):
            links.update((process_of(client), node) for client, node in window.event.links)
            for hit in window.event.hits():
                if hit.members:
                    states.setdefault((hit.effect.organ, hit.state), set()).update(name for _, name in hit.members)
                if hit.names:
                    states.setdefault((hit.effect.organ, hit.state), set()).update(map(process_of, hit.names))
    for milder, worse in _IS_TOLD_ALONE.items():
        states.get(("", milder), set()).difference_update(states.get(("", worse), ()))
    found = [_in_state(organ, state, sorted(names)) for (organ, state), names in sorted(states.items()) if names]
    if links:
        found.append(f"{plural(len(links), 'link')} {'was' if len(links) == 1 else 'were'} cut or slow")
    return listed(found) if found else ""


def _in_state(organ: str, state: str, names: Sequence[str]) -> str:
    """`n1 and n2 were down`, `the clock of n1 was wrong`."""
    those = f"the {organ if len(names) == 1 else f'{organ}s'} of {listed(names)}" if organ else listed(names)
    return f"{those} {was(names)} {state}"
