"""Were clients kept out for long although the lock could have been granted?

A client that tries without success is no finding while another client is inside or may be, and while it may not
reach a majority of the nodes. But a lock is there to be acquired:

- `unavailable-while-free`: a client tried all the time, and for `LEAST_TIMES` lease times, as many times the longest
  that the lock allows an acquire beyond the time that it is told to wait, and `LEAST_MS`, no client was inside and none
  got in. Any key that a former holder left had expired by then, and there was time for several rounds. An acquire may
  be allowed many rounds; where each client that tried had answers for `LEAST_ROUNDS` or more, and the votes were split,
  its limit does not matter.
- `starved-client`: a client tried in vain for one section, with a majority of the nodes in reach for `STARVED_TTLS`
  lease times in all, and meanwhile others got in so often that chance does not explain it. A grant counts as much as
  the client was likely to ask a node while the lock was free before it: one that asks seldom meets few such moments.

A gap is the lock's fault if the record says what kept all clients out: a node was out of reach for most of it (the lock
fails because one node does), keys were stuck on too many nodes, or votes were split. Otherwise it is not known whether
the requests arrived, and the gap is undecided. So it is if a clock was wrong, because keys may live longer then, and if
more than `CROWD` clients run: then slow answers and split votes can keep all clients out for long. This costs time and
no safety.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
from msgspec.structs import replace

from fencepost.text import listed, milliseconds, plural, printable
from harness.explain.causes import KEEP_CLIENTS_OUT, Cause
from harness.explain.kept_permits import kept_in_words, kept_permits
from harness.explain.kinds import Case, Evidence, FindingKind, Told
from harness.explain.refused_by_own import refused_by_own
from harness.explain.refused_majority import refused_majority
from harness.explain.stuck_keys import why_stuck
from harness.figures import CheckerFigures, Row
from harness.history.fault_windows import FOREVER_NS, between, merged, reach
from harness.history.groups import columns_of, where
from harness.history.permits_out import permits_out
from harness.history.recorded import Recorded
from harness.history.stall_causes import Obstacle, find_obstacle, in_words
from harness.history.stretches import Stretch, longest, longest_ms
from harness.history.waits import Wait, recorded_waits
from harness.verdict import Answer, Blame, Finding

LEAST_TIMES: Final = 3
LEAST_MS: Final = 2_000
LEAST_ROUNDS: Final = 8
CROWD: Final = 16
"""A correct lock was kept busy for 16 s by 64 clients on two processors; up to 16 clients it got by."""
STARVED_TTLS: Final = 10
STARVED_GRANTS: Final = 50
"""For each client that competes: with fair chances, no client loses so often in the age of the universe."""


class Figures(CheckerFigures, frozen=True):
    """`gaps`: times in which no client acquired the lock although one could have; `longest_gap_ms`: 0 without any.
    `starved`: the clients that others kept out."""

    gaps: int
    longest_gap_ms: float
    starved: tuple[str, ...] = ()

    def rows(self) -> Iterator[Row]:
        if self.gaps:
            times = "once" if self.gaps == 1 else f"{self.gaps} times"
            text = f"unavailable {times} for up to {milliseconds(self.longest_gap_ms)} while the lock was free"
            yield Row("blocked", text, order=61)


@dataclass(frozen=True, slots=True)
class _Gap(Stretch):
    """A time in which no client was inside and none got in. `clients`: they tried all the time."""

    key: str
    clients: tuple[str, ...]
    obstacle: Obstacle


def check(run: Recorded) -> Answer:
    tries = list(_tries(run))
    gaps = list(_gaps(run, list(chain.from_iterable(tries))))
    # Readers that keep coming may keep a writer out.
    starved = [_whole(parts) for parts in tries if run.is_exclusive and _is_starved(run, parts)]
    figures = Figures(
        gaps=len(gaps),
        longest_gap_ms=longest_ms(gaps) or 0.0,
        starved=tuple(dict.fromkeys(wait.client for wait in starved)),
    )
    blames: dict[Blame, list[_Gap]] = {"lock": [], "undecided": []}
    for gap in gaps:
        blames["lock" if gap.obstacle.is_the_locks and run.config.rivals <= CROWD else "undecided"].append(gap)
    findings = [_no_way_in(run, own, blame) for blame, own in blames.items() if own]
    if starved:
        findings.append(_starved(run, starved))
    return Answer(figures, tuple(findings))


def least_gap_ms(run: Recorded) -> float:
    """A gap that is shorter is not worth a word."""
    return max(LEAST_TIMES * run.lease_ms, LEAST_TIMES * _rounds_ms(run), LEAST_MS)


def _rounds_ms(run: Recorded) -> float:
    """How long the lock goes on trying by itself, whatever it is told to wait."""
    return max((run.acquire_limit_ms or 0) - run.config.wait_ms, 0)


def _shortest_ns(run: Recorded) -> int:
    """How long a gap must be, however many rounds fit into it."""
    return round(max(LEAST_TIMES * run.lease_ms, LEAST_MS) * 1e6)


def _tries(run: Recorded) -> Iterator[list[Wait]]:
    """The tries for one section, in the order of their beginnings: the parts of each in which the client certainly
    could reach a majority of the nodes, and that lasted long enough to matter."""
    each = sorted(recorded_waits(run, _shortest_ns(run)), key=lambda wait: wait.since_ns)
    if not each:
        return
    config, begin = run.config, run.timeline.start_ns
    last, keys = max(wait.until_ns for wait in each), dict.fromkeys(wait.key for wait in each)
    stretches = {
        nodes: list(reach(config.user_names, nodes, run.faults, run.ends, begin, last, group=run.group))
        for nodes in dict.fromkeys(map(run.nodes_of, keys))
    }
    for client, key, since, until, _ in each:
        able = ((a, b) for a, b, some in stretches[run.nodes_of(key)] if client in some)
        long = ((a, b) for a, b in merged(able, since, until) if b - a >= _shortest_ns(run))
        if parts := [Wait(client, key, a, b) for a, b in long]:
            yield parts


def _gaps(run: Recorded, waits: Sequence[Wait]) -> Iterator[_Gap]:
    """The gaps of all keys, each once, however many clients waited in it."""
    for key in dict.fromkeys(wait.key for wait in waits):
        own = [wait for wait in waits if wait.key == key]
        taken = _taken(run, key, _deaf(run, key))
        free = [gap for wait in own for gap in between(taken, wait.since_ns, wait.until_ns)]
        free = [gap for gap in free if gap[1] - gap[0] >= _shortest_ns(run)]
        first, last = min(wait.since_ns for wait in own), max(wait.until_ns for wait in own)
        for since, until in merged(free, first, last):
            there = [wait for wait in own if wait.since_ns < until and wait.until_ns > since]
            clients = tuple(dict.fromkeys(wait.client for wait in there))
            gap = _Gap(since, until, key, clients, find_obstacle(run, key, clients, since, until))
            if gap.length_ns >= least_gap_ms(run) * 1e6 or _had_rounds(run, gap):
                yield gap


def _had_rounds(run: Recorded, gap: _Gap) -> bool:
    """Whether each of its clients was answered as often as in `LEAST_ROUNDS` rounds, and the votes were split."""
    ledger = run.whole_ledger
    if ledger is None or gap.obstacle.kind != "split votes":
        return False
    least = LEAST_ROUNDS * len(run.nodes_of(gap.key)) * run.config.users_per_client
    return all(ledger.links.of(client).answered(gap.since_ns, gap.until_ns) >= least for client in gap.clients)


def _deaf(run: Recorded, key: str) -> Iterator[tuple[int, int]]:
    """When a client tried for the key that could not reach a majority of the nodes. Its requests may arrive where its
    replies are lost: then it takes the nodes' keys again and again, and can know nothing of it."""
    tries = run.calls("acquire", key=key)
    invoke, complete = columns_of(tries, "invoke_ns", "complete_ns")
    config = run.config
    links = [replace(event, paused_clients=(), killed_clients=()) for event in run.faults]
    names, last = (config.user_names, run.nodes_of(key)), int(complete.max())
    stretches = reach(*names, links, (), run.timeline.start_ns, last, group=run.group)
    own = {client: (tries["client"] == client).to_numpy(np.bool_) for client in config.user_names}
    for began, done, able in stretches:
        for client in own.keys() - able.keys():
            meanwhile = own[client] & (invoke < done) & (complete > began)
            yield from zip(
                np.maximum(invoke[meanwhile], began).tolist(),
                np.minimum(complete[meanwhile], done).tolist(),
                strict=True,
            )


def _taken(run: Recorded, key: str, deaf: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """When a client was inside or may have held the lock, or took the keys without knowing, or had cancelled a call
    that may have left some."""
    start, end, deadline = columns_of(where(run.sections, key=key), "start_ns", "end_ns", "deadline_max_ns")
    until = np.minimum(end, deadline)
    busy = [*zip(start.tolist(), np.maximum(until, start).tolist(), strict=True), *deaf]
    busy += [(call.since_ns, call.gone_ns) for call in run.cancelled if call.key == key]
    return merged(busy, 0, FOREVER_NS)


def _whole(parts: Sequence[Wait]) -> Wait:
    return parts[0]._replace(until_ns=parts[-1].until_ns)


def _is_starved(run: Recorded, parts: Sequence[Wait]) -> bool:
    # A lock that tries seldom, for long, loses its few tries by chance.
    if sum(part.length_ns for part in parts) < max(STARVED_TTLS * run.lease_ms, _rounds_ms(run)) * 1e6:
        return False
    return _expected_grants(run, parts) >= STARVED_GRANTS * run.config.rivals


def _expected_grants(run: Recorded, parts: Sequence[Wait]) -> float:
    """How many of the others' grants the client was likely to ask for in time. Without a record of all links: all."""
    start, end = columns_of(where(run.sections, key=parts[0].key).sort_values("start_ns"), "start_ns", "end_ns")
    likely = np.ones(len(start))
    if ledger := run.whole_ledger:
        since, free_ns = np.append(0, start[:-1]), np.maximum(np.append(start[:1], start[1:] - end[:-1]), 1)
        asked = ledger.links.of(parts[0].client).asked(since, start)
        likely = np.minimum(1, asked * free_ns / np.maximum(start - since, 1))
    return sum(float(likely[(start > part.since_ns) & (start < part.until_ns)].sum()) for part in parts)


def _no_way_in(run: Recorded, gaps: Sequence[_Gap], blame: Blame) -> Finding:
    worst = longest(gaps)
    times = "once" if len(gaps) == 1 else f"{len(gaps)} times"
    text = (
        f"no client acquired the lock for up to {milliseconds(worst.length_ns / 1e6)} while it was free and a client "
        f"that tried could reach a majority of the nodes ({times}, TTL {run.lease_ms:.0f} ms): "
        f"{in_words(worst.obstacle)}{_crowd_in_words(run)}"
    )

    def example(gap: _Gap) -> dict[str, object]:
        return {
            "key": gap.key,
            **run.lasted(gap),
            "clients": gap.clients,
            "obstacle": gap.obstacle.kind,
            "nodes": gap.obstacle.nodes,
            "absent": gap.obstacle.absent,
            **({"error": gap.obstacle.error} if gap.obstacle.error else {}),
            **({"is_unloaded": True} if gap.obstacle.is_unloaded else {}),
        }

    first_ms = run.at_ms(min(gap.since_ns for gap in gaps))
    return NO_WAY_IN.of(gaps, text, example, worst, blame=blame, at_ms=first_ms)


def _crowd_in_words(run: Recorded) -> str:
    clients = run.config.rivals
    return f"; {clients} clients ran, so that slow answers or split votes may explain it" if clients > CROWD else ""


def _starved(run: Recorded, waits: Sequence[Wait]) -> Finding:
    clients = plural(len({wait.client for wait in waits}), "client")
    text = (
        f"{clients} tried in vain for up to {milliseconds(longest_ms(waits))}, at least {STARVED_TTLS} TTLs of it with "
        "a majority of the nodes in reach, while other clients acquired the lock again and again "
        f"(TTL {run.lease_ms:.0f} ms)"
    )

    def example(wait: Wait) -> dict[str, object]:
        return {"client": wait.client, "key": wait.key, **run.lasted(wait)}

    first_ms = run.at_ms(min(wait.since_ns for wait in waits))
    return STARVED.of(waits, text, example, longest(waits), at_ms=first_ms)


def _told(run: Recorded, evidence: Evidence, case: Case) -> Told:
    example = case.example
    nodes, absent = (tuple(printable(str(node)) for node in example.get(name, ())) for name in ("nodes", "absent"))
    error, is_unloaded = str(example.get("error", "")), bool(example.get("is_unloaded"))
    is_only_node = len(run.nodes_of(str(example["key"]))) == 1
    obstacle = Obstacle(example["obstacle"], nodes, absent, error, is_unloaded, is_only_node)
    clients = [printable(str(client)) for client in example["clients"]]
    since_ns = run.at_ns(example["at_ms"])
    until_ns = since_ns + round(float(example["for_ms"]) * 1e6)
    why, cause = in_words(obstacle), _CAUSES.get(obstacle.kind, "unknown")
    if obstacle.kind == "split votes" and (obstacle.nodes or is_only_node):
        cause = "stuck keys" if obstacle.nodes else "unknown"
    if out := permits_out(run, since_ns, until_ns, str(example["key"])):
        why, cause = kept_in_words(kept_permits(run, out)).removesuffix("."), "never given back"
    elif obstacle.kind == "stuck keys":
        if stuck := why_stuck(run, str(example["key"]), nodes, since_ns, until_ns):
            why, cause = f"{why}; {stuck.text}", stuck.cause
    elif cause == "absent node" and (refused := refused_majority(run, str(example["key"]), since_ns, until_ns)):
        why, cause = f"{why}; {refused.in_words(run)}", "majority refused"
    elif obstacle.kind == "split votes" and (own := refused_by_own(run, clients, since_ns, until_ns)):
        why, cause = f"{why}; {own}", "not undone"
    return Told(
        f"For {case.lasting()} from {case.at()} on, no client was inside {case.text('key')} and none acquired it, "
        f"although {listed(clients)} tried and could reach a majority of the nodes: {why}.",
        cause=cause,
    )


_CAUSES: Final[dict[str, Cause]] = {
    "down": "absent node",
    "hung": "absent node",
    "answering errors": "absent node",
    "out of reach": "absent node",
    "absent in turn": "absent node",
    "stuck keys": "stuck keys",
    "kept permits": "never given back",
    "nothing set": "nothing set",
    "nothing asked": "nothing asked",
    "rejected": "rejected",
    "split votes": "split votes",
    "wrong clock": "wrong clock",
}
NO_WAY_IN: Final = FindingKind(
    "unavailable-while-free",
    "liveness",
    _told,
    comes_of=KEEP_CLIENTS_OUT,
    noun="gap(s) without a grant while the lock was free",
    surveyed="way in",
)
STARVED: Final = FindingKind("starved-client", "liveness")
