"""Was somebody refused although nothing can have held the lock?

A try that is refused is nobody's fault while somebody else is inside or trying, or while a key of a former holder can
still be there. But a client that tries alone, that surely could reach as many nodes as the lock needs (a majority, with
which it was seen to be granted), and around which nothing has changed for a whole TTL, finds every key of a correct
lock gone: what was set before the last change has expired, and what was set after it was released on all nodes that
could be reached. If it is refused all the same, again and again for half a TTL, then keys were left behind that have no
owner, or that do not expire in time.

This costs time and no safety, so it breaks no requirement.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import Final

import numpy as np
import pandas as pd

from harness.checkers.base import Answer, Finding, Recorded
from harness.columns import codes_in
from harness.grouping import Ints
from harness.history import ClientEnd
from harness.windows import FOREVER_NS, longest_windows, reach

LEAST_TRIES: Final = 3
LEAST_TTLS: Final = 0.5
"""Three tries in vain over half a TTL: one late reply on a busy machine is no finding."""


def check(run: Recorded) -> Answer:
    """Figures: `refused_alone`: how often somebody was refused for so long; `longest_refused_alone_ms`."""
    ttl_ns = run.config.ttl_ms * 1_000_000
    spells = [spell for spell in _spells(run) if spell[2] - spell[1] >= LEAST_TTLS * ttl_ns]
    spells.sort(key=lambda spell: spell[1])
    longest_ns = max((until - since for _, since, until, _ in spells), default=0)
    figures: dict[str, object] = {"refused_alone": len(spells), "longest_refused_alone_ms": longest_ns / 1e6}
    if not spells:
        return Answer(figures=figures)
    worst = max(spells, key=lambda spell: spell[2] - spell[1])
    examples = []
    for row, since, until, tries in dict.fromkeys([*spells[:3], worst]):
        op = run.ops.iloc[row]
        examples.append(
            {
                "client": str(op.client),
                "life": int(op.life),
                "section": int(op.section),
                "key": str(op.key),
                "at_ms": (since - run.timeline.start_ns) / 1e6,
                "for_ms": (until - since) / 1e6,
                "tries": tries,
            }
        )
    times = "once" if len(spells) == 1 else f"{len(spells)} times"
    text = (
        f"{times} a client was refused for up to {longest_ns / 1e6:.0f} ms although it reached a majority and nobody "
        "else was inside or trying: keys without an owner were left behind, or it did not use nodes that it could "
        f"reach (TTL {run.config.ttl_ms} ms)"
    )
    return Answer((Finding("idle", "refused-alone", "lock", text, (), len(spells), tuple(examples)),), figures=figures)


def _spells(run: Recorded) -> Iterator[tuple[int, int, int, int]]:
    """Times in which a client was refused alone, three times or more without a break: the row of the first try in
    `ops`, from when, until when, how many tries."""
    ops = run.ops
    refused = np.flatnonzero(((ops["f"] == "acquire") & (ops["outcome"] == "fail")).to_numpy(np.bool_))
    refused = refused[_calm(run, refused)]
    refused = refused[_alone(run, refused)]
    if not len(refused):
        return
    names = ("client", "life", "section")
    numbers = np.stack([pd.factorize(ops[name])[0][refused] for name in names])
    invoke, complete = (ops[name].to_numpy(np.int64) for name in ("invoke_ns", "complete_ns"))
    order = np.lexsort((invoke[refused], *numbers[::-1]))
    rows, numbers = refused[order], numbers[:, order]
    place = _place_in_life(ops)[rows]
    # Tries of one section without any other operation, also a try that was not alone, in between.
    breaks = np.append(False, (numbers[:, 1:] != numbers[:, :-1]).any(axis=0) | (np.diff(place) != 1))
    for _, some in groupby(zip(np.cumsum(breaks).tolist(), rows.tolist(), strict=True), key=lambda pair: pair[0]):
        tries = [row for _, row in some]
        if len(tries) >= LEAST_TRIES:
            yield tries[0], int(invoke[tries[0]]), int(complete[tries[-1]]), len(tries)


def _place_in_life(ops: pd.DataFrame) -> Ints:
    """The number of each operation among those of its client's life."""
    client, life = (pd.factorize(ops[name])[0].astype(np.int64) for name in ("client", "life"))
    order = np.lexsort((ops["invoke_ns"].to_numpy(np.int64), life, client))
    group = client[order] * (int(life.max()) + 1) + life[order]
    first = np.append(True, group[1:] != group[:-1])
    number = np.arange(len(ops))
    places = np.empty(len(ops), np.int64)
    places[order] = number - np.maximum.accumulate(np.where(first, number, 0))
    return places


def _calm(run: Recorded, rows: Ints) -> np.ndarray:
    """Which tries were made while nothing had changed for a TTL and their client surely could reach nodes that are
    enough: a majority, with which, or with less, somebody was granted the lock in this run."""
    calm = np.zeros(len(rows), np.bool_)
    if not len(rows):
        return calm
    ops, config, ttl_ns = run.ops, run.config, run.config.ttl_ms * 1_000_000
    granted = np.flatnonzero(((ops["f"] == "acquire") & (ops["outcome"] == "ok")).to_numpy(np.bool_))
    invoke, complete = (ops[name].to_numpy(np.int64) for name in ("invoke_ns", "complete_ns"))
    client = codes_in(pd.Index(config.client_names), ops["client"])
    begin, end = run.timeline.start_ns, int(complete.max())
    ends = [*run.ends, *_still_alive(run)]
    stretches = list(reach(config.client_names, config.node_names, run.faults, ends, begin, end))
    granted = granted[_surely_as_recorded(run, invoke[granted], complete[granted])]
    enough: set[frozenset[str]] = set()
    for since, until, missing in stretches:
        inside = granted[(invoke[granted] >= since) & (complete[granted] <= until)]
        named = {config.client_names[code] for code in np.unique(client[inside]) if code >= 0}
        enough |= {missing[name] for name in named & missing.keys()}
    changes = {end.at_ns for end in run.ends}  # also those of former lives
    for began, done, missing in stretches:
        able = [
            place
            for place, name in enumerate(config.client_names)
            if name in missing and any(missing[name] <= lost for lost in enough)
        ]
        inner = sorted({began, done} | {at for at in changes if began < at < done})
        for since, until in pairwise(inner):
            fits = (invoke[rows] >= since + ttl_ns) & (complete[rows] <= until)
            calm |= fits & np.isin(client[rows], able)
    return calm


def _surely_as_recorded(run: Recorded, invoke: Ints, complete: Ints) -> np.ndarray:
    """Which times are ones in which every fault was as the record has it: none was being injected or healed, and none
    that was injected without being seen to work."""
    sure = np.ones(len(invoke), np.bool_)
    doubtful = [(event.began_ns, event.done_ns) for event in run.faults]
    doubtful += [(since, until) for event, since, until in longest_windows(run.faults) if not event.holds]
    for since, until in doubtful:
        sure &= (complete < since) | (invoke > until)
    return sure


def _still_alive(run: Recorded) -> Iterator[ClientEnd]:
    """An end after everything for each life without one: the run is still on, or its end is not on record."""
    ended = {(end.client, end.life) for end in run.ends}
    lives = run.ops[["client", "life"]].drop_duplicates()
    for client, life in zip(lives["client"].astype(str), lives["life"].astype(int), strict=True):
        if (client, life) not in ended:
            yield ClientEnd(client, life, "finished", FOREVER_NS)


def _alone(run: Recorded, rows: Ints) -> np.ndarray:
    """During which tries no other client was trying for, holding or giving back the same key."""
    alone = np.ones(len(rows), np.bool_)
    ops, sections = run.ops, run.sections
    if not len(rows):
        return alone
    invoke, complete = (ops[name].to_numpy(np.int64) for name in ("invoke_ns", "complete_ns"))
    touching = np.flatnonzero(ops["f"].isin(["acquire", "extend", "release"]).to_numpy(np.bool_))
    silent = _unrecorded(run)
    for key in ops["key"].iloc[rows].astype(str).unique():
        mine = np.flatnonzero((ops["key"].iloc[rows] == key).to_numpy(np.bool_))
        busy = touching[(ops["key"].iloc[touching] == key).to_numpy(np.bool_)]
        held = sections[(sections["key"] == key).to_numpy(np.bool_)]
        who = np.concatenate(
            [ops["client"].iloc[busy].astype(str), held["client"].astype(str), [c for c, _, _ in silent]]
        )
        since = np.concatenate([invoke[busy], held["start_ns"].to_numpy(np.int64), [at for _, at, _ in silent]])
        until = np.concatenate([complete[busy], held["end_ns"].to_numpy(np.int64), [at for _, _, at in silent]])
        asking = ops["client"].iloc[rows[mine]].astype(str).to_numpy()
        for client in np.unique(asking):
            others = who != client
            since_others, until_others = np.sort(since[others]), np.sort(until[others])
            tries = mine[asking == client]
            # As many have begun before a try's end as had ended before its begin: then none touches it.
            begun = np.searchsorted(since_others, complete[rows[tries]], "right")
            ended = np.searchsorted(until_others, invoke[rows[tries]], "left")
            alone[tries] = begun == ended
    return alone


def _unrecorded(run: Recorded) -> list[tuple[str, int, int]]:
    """When lives that did not end by themselves may have been doing something that is not on record."""
    last = run.ops.groupby(["client", "life"], observed=True, as_index=False)["complete_ns"].max()
    lives = zip(last["client"].astype(str), last["life"].astype(int), strict=True)
    by_life = dict(zip(lives, last["complete_ns"].astype(int).tolist(), strict=True))
    begin = run.timeline.start_ns
    return [
        (end.client, min(by_life.get((end.client, end.life), begin), end.at_ns), end.at_ns)
        for end in run.ends
        if end.how != "finished"
    ]
