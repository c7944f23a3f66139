"""The runs of the survey: every subject under every kind of fault, in every way in which a lock is used.

The faults are the same for all, and a correct lock survives each of them: a server that forgot its keys comes back when
they would have expired. The exception are servers whose clock is set wrong: no lock of this kind survives them, and
what they break is not held against a library.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final, Literal

from harness.campaign.grid import Cell, Grid, Part, check
from harness.survey.subjects import Subject

TTL_MS: Final = 1_000
_COMMON: Final = {"ttl": f"{TTL_MS}ms", "clients": "5", "duration": "10s", "recovery": "2s"}
_REQUIRED: Final = {"require": "lease"}
"""What a violation is matters only where a run shows too little otherwise: promises are broken by findings
(`harness.survey.promises`)."""
PARTS: Final[Mapping[int, str]] = {5: "Five servers", 1: "One server"}
"""By the number of nodes."""

Outage = Literal["down", "hung"]


@dataclass(frozen=True, slots=True)
class Fault:
    """`says`: what it is, for people. `options`: of `fencepost test`. `outage`: what it does to a minority of the nodes
    for longer than any key lives. `sets_clocks`: of servers, so that two may be inside through no fault of the library.
    `is_quick`: part of the quick form."""

    name: str
    says: str
    options: Mapping[str, str]
    outage: Outage | None = None
    sets_clocks: bool = False
    is_quick: bool = False


@dataclass(frozen=True, slots=True)
class Use:
    """A way to use a lock. `needs`: what the lock has to offer for it."""

    name: str
    says: str
    options: Mapping[str, str] = field(default_factory=dict)
    needs: Literal["extends", "renews"] | None = None
    is_quick: bool = False


def _by(nemesis: str) -> dict[str, str]:
    return {"nemesis": nemesis}


FAULTS: Final = (
    Fault("no fault", "nothing goes wrong", _by("none"), is_quick=True),
    Fault("partition", "links between clients and servers are cut, in every shape, direction and way",
          _by("partition:interval=2s,duration=1s"), is_quick=True),
    Fault("replies lost", "requests arrive and their replies are lost",
          _by("partition:interval=2s,duration=1s,kind=drop,direction=from-node")),
    Fault("slow answers", "requests or replies are late by 5 ms up to 1.3 TTL, so that an answer may come after the "
          "lease", _by("latency:interval=2s,duration=1s,kind=delay"), is_quick=True),
    Fault("jitter", "every message is late by 0 to 20 ms, each by a time of its own",
          _by("latency:kind=delay,duration=3ttl,delay=10ms,jitter=10ms,targets=all")),
    Fault("server hung", "one server is stopped for 3.5 TTLs or longer, and then goes on",
          _by("pause:targets=one-node,duration=7ttl"), outage="hung"),
    Fault("server killed, back empty", "one server is killed, and is back without its keys after four TTLs",
          _by("crash:targets=one,restart-delay=4ttl,interval=5s"), outage="down", is_quick=True),
    Fault("server killed, back with its keys", "one server is killed, and is back at once with what it had on disk",
          _by("crash:targets=one,restart-delay=0,interval=2s") | {"persistence": "aof-always"}),
    Fault("client paused", "client processes are stopped for 1.2 to 2.5 TTLs, and then go on",
          _by("pause:targets=clients,interval=2s"), is_quick=True),
    Fault("client killed", "client processes are killed, and started again after 1.2 TTLs",
          _by("crash:targets=clients,interval=2s")),
    Fault("clock set", "the wall clock of servers jumps, and jumps back",
          _by("clock:kind=step,interval=2s,duration=1s"), sets_clocks=True),
    Fault("client's clock set", "the wall clock of clients jumps, and jumps back",
          _by("clock:kind=step,interval=2s,duration=1s,targets=clients")),
    Fault("several at once", "faults of every class but clocks, up to three at a time",
          _by("standard") | {"load": "plain"}),
)  # fmt: skip

USES: Final = (
    Use("short holds", "2 to 20 ms inside", {"hold": "uniform:2ms-20ms"}, is_quick=True),
    Use("long holds", "up to 0.9 TTL inside", {"hold": "uniform:300ms-900ms"}),
    Use("extended", "up to 1.5 TTL inside; the client extends its lease every half of a TTL",
        {"hold": "uniform:500ms-1500ms", "extend": "3"}, needs="extends", is_quick=True),
    Use("renewed", "up to 1.5 TTL inside; the library renews the lease by itself",
        {"hold": "uniform:500ms-1500ms", "renewal": "100ms"}, needs="renews", is_quick=True),
)  # fmt: skip

FAULT_NAMED: Final[Mapping[str, Fault]] = {fault.name: fault for fault in FAULTS}


def uses_of(subject: Subject) -> tuple[Use, ...]:
    """The ways in which its users can use it."""
    return tuple(use for use in USES if use.needs is None or getattr(subject, use.needs))


def survey_grid(subjects: Sequence[Subject], seeds: int, cluster: str | None, *, quick: bool = False) -> Grid:
    """`cluster`: where all runs are made. Subjects take turns, so that all of them meet a fault at about the same time.
    The quick form leaves out faults and uses, and its runs are among those of the whole."""
    cells: dict[int, list[Cell]] = {nodes: [] for nodes in PARTS}
    for fault, use, subject in product(FAULTS, USES, subjects):
        if use in uses_of(subject) and (not quick or (fault.is_quick and use.is_quick)):
            cells[subject.nodes].append(_cell(subject, fault, use))
    where = {"cluster": cluster} if cluster else {}
    parts = tuple(
        Part(title=title, cells=tuple(cells[nodes]), seeds=seeds, options=_COMMON | {"nodes": str(nodes)} | where)
        for nodes, title in PARTS.items()
        if cells[nodes]
    )
    return check(
        Grid(
            name="survey",
            title="Lock libraries on Redis: which promises do they keep?",
            question="Which of the promises of a lock does each library keep when networks, servers and clients fail?",
            parts=parts,
        )
    )


def _cell(subject: Subject, fault: Fault, use: Use) -> Cell:
    at = {"subject": subject.name, "fault": fault.name, "use": use.name}
    options = {"lock": subject.lock, **_REQUIRED, **fault.options, **use.options}
    return Cell(" · ".join(at.values()), options, at)
