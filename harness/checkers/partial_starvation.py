"""Did one client get the lock far less often than chance explains?

Whenever the lock passes from one client to another, the clients that have been waiting since before it came free
compete for it. Locks need not be fair: a client that polls at a bad moment, or backs off, may have a quarter of an
equal chance (`LEAST_SHARE`), but not less each time. A client that competed `n` times, with chances of `p` on average,
gets the lock `k` times or less with a probability of at most that of the binomial distribution: of all sums of
independent chances with one mean it has the heaviest tail (Hoeffding 1956). Below `CHANCE`, divided by the number of
clients and of keys that are looked at, it was no chance.

A handover counts for a client only if no fault was in force on the lock's nodes, the client or its links since a lease
before the lock came free; slow links do not count, either. Clients that poll in step may keep one of them out although
the lock does nothing wrong, so it is not decided who is to blame, and nothing is broken.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import exp, lgamma, log, log1p
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from fencepost.text import count
from harness.checkers.starvation import CROWD
from harness.explain.kinds import FindingKind
from harness.figures import CheckerFigures
from harness.history.fault_windows import meet, merged
from harness.history.groups import grouped, rows_of
from harness.history.recorded import Recorded
from harness.history.stretches import Stretch
from harness.history.waits import Wait, in_the_way, recorded_waits
from harness.verdict import Answer, Finding

LEAST_SHARE: Final = 0.25
CHANCE: Final = 1e-9

Windows = list[tuple[int, int]]


class Figures(CheckerFigures, frozen=True):
    """`handovers`: how often the lock passed to one of several clients that had waited for it. `least_probability`: of
    a client that got as few of them, or fewer; None without handovers."""

    handovers: int
    least_probability: float | None


@dataclass(frozen=True, slots=True)
class _Share(Stretch):
    """How many of the handovers for which a client competed it won, with which chances, and how probable as few are."""

    client: str
    key: str
    competed: int
    won: int
    expected: float
    probability: float


def check(run: Recorded) -> Answer:
    """No figures of semaphores, and of more clients than `CROWD`: the machine decides who gets in then."""
    if not run.is_exclusive or run.config.rivals > CROWD:
        return Answer()
    handovers = list(_handovers(run))
    shares = sorted(_shares(handovers), key=lambda share: share.probability)
    figures = Figures(len(handovers), shares[0].probability if shares else None)
    starved = [share for share in shares if share.probability * len(shares) < CHANCE]
    return Answer(figures, (_finding(run, starved),) if starved else ())


class _Handover(NamedTuple):
    """`rivals`: the clients that had waited since before the lock came free, the winner among them."""

    key: str
    at_ns: int
    winner: str
    rivals: tuple[str, ...]


def _handovers(run: Recorded) -> Iterator[_Handover]:
    waits = grouped(((one.key, one.client), (one.since_ns, one.until_ns)) for one in recorded_waits(run, 0))
    lease_ns = round(run.lease_ms * 1e6)
    faulty = {
        client: merged(
            [(a, b + lease_ns) for a, b in in_the_way(run, Wait(client, "", 0, 0), [])], 0, run.ops["complete_ns"].max()
        )
        for client in run.config.user_names
    }
    sections = run.sections.sort_values("start_ns", kind="stable")
    before: dict[str, tuple[str, int]] = {}
    for key, client, start, end in rows_of(sections, "key", "client", "start_ns", "end_ns"):
        holder, free_ns = before.get(key, (client, 0))
        if holder != client:
            rivals = tuple(
                other
                for other in run.config.user_names
                if other != holder
                and _covers(waits[key, other], free_ns, start)
                and not meet(faulty[other], free_ns, start)
            )
            if client in rivals and len(rivals) > 1:
                yield _Handover(key, start, client, rivals)
        before[key] = (client, max(end, start))


def _covers(windows: Windows, since_ns: int, until_ns: int) -> bool:
    place = int(np.searchsorted([since for since, _ in windows], since_ns, "right")) - 1
    return place >= 0 and windows[place][1] >= until_ns


def _shares(handovers: list[_Handover]) -> Iterator[_Share]:
    competed = grouped(((one.key, rival), one) for one in handovers for rival in one.rivals)
    for (key, client), own in competed.items():
        chances = [LEAST_SHARE / len(one.rivals) for one in own]
        won = sum(one.winner == client for one in own)
        probability = at_most(won, len(own), fmean(chances))
        yield _Share(own[0].at_ns, own[-1].at_ns, client, key, len(own), won, sum(chances) / LEAST_SHARE, probability)


def at_most(successes: int, trials: int, chance: float) -> float:
    """The probability of so few successes or fewer: scipy's `bdtr`, without the time that every judged run would take
    to import it."""

    def log_ways(k: int) -> float:
        return lgamma(trials + 1) - lgamma(k + 1) - lgamma(trials - k + 1)

    ways = (log_ways(k) + k * log(chance) + (trials - k) * log1p(-chance) for k in range(successes + 1))
    return min(1.0, sum(map(exp, ways)))


def _finding(run: Recorded, starved: list[_Share]) -> Finding:
    worst = starved[0]
    text = (
        f"{worst.client} got the lock {count(worst.won)} of the {count(worst.competed)} times that it competed for it "
        f"with no fault in its way; with equal chances it would have been {worst.expected:.0f} times"
    )
    at_ms = run.at_ms(min(share.since_ns for share in starved))
    return STARVATION.of(starved, text, partial(_example, run), blame="undecided", at_ms=at_ms)


def _example(run: Recorded, share: _Share) -> dict[str, object]:
    return {
        "client": share.client,
        "key": share.key,
        **run.lasted(share),
        "competed": share.competed,
        "won": share.won,
        "expected": share.expected,
        "probability": share.probability,
    }


STARVATION: Final = FindingKind("partial-starvation", "liveness", noun="client(s) starved by others")
