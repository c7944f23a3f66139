"""`make fuzz-judge`: many simulated runs of correct locks, of which none may be blamed, and wrong judges to expose.

Each seed draws a run: a lock of `tests/correct_locks.py`, the number of clients and nodes, the lease, the persistence,
the loads and the standard faults. The judge judges what it left, and the plain judge (`tests/peers/plain_judge`)
judges it too: they must agree. Then judges with one deliberate mistake each judge such runs, until one of them blames
a correct lock, or disagrees with the plain judge. Exits with 1 if a correct lock was blamed, if the judges disagree, or
if a wrong judge was not exposed; `python -m tests.world.shrink SEED` makes a literal history of what was found.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from multiprocessing import get_context
from random import Random
from typing import Any, Final, NamedTuple

import msgspec
import pyarrow as pa

from harness.checkers.judge import judge
from harness.config import RunConfig
from harness.history.key_holdings import derive_holdings
from harness.history.recorded import Recorded
from harness.history.sections import derive_sections
from harness.options import parse_run
from tests.correct_locks import CORRECT
from tests.peers.comparison import as_read, in_one_form, of_the_ledger, plainly
from tests.peers.plain_judge.verdict import judge_record
from tests.world.play import Play, Played, lock_of

_ELSEWHERE: Final = ("redlock-ng", "two threads", "in a transaction")
"""A foreign lock is a process of its own, a client of the world has one task, and its nodes have no transactions."""
LOCKS: Final = {name: options for name, options in CORRECT.items() if name not in _ELSEWHERE}
TRUE: Final = {("comes back", "starved-client"), ("comes back by its name", "starved-client")}
"""What is rightly said: after a release the same client takes the lock again at once, before another can."""
_BLAMED: Final = ("lock", "resource", "harness")
_TTLS_MS: Final = (300, 500, 1_000)
_NOT_COMPARED: Final = "orphans"
"""The plain judge takes a value that a client sets in a later, refused attempt for one that arrived too late."""
WRONG_SEEDS: Final = 60
"""So many runs a wrong judge may take to be exposed."""


class Drawn(NamedTuple):
    lock: str
    config: RunConfig


class Outcome(NamedTuple):
    drawn: str
    sections: int
    problems: tuple[str, ...]


def draw(seed: int) -> Drawn:
    rng = Random(f"{seed}:run")
    name = list(LOCKS)[seed % len(LOCKS)]
    ttl_ms, nodes, clients = rng.choice(_TTLS_MS), rng.choice((3, 5, 5)), rng.randint(2, 6)
    persistence = rng.choice(("none", "none", "aof-always"))
    words = [*LOCKS[name], "--seed", str(seed), "--ttl", f"{ttl_ms}ms", "--nodes", str(nodes), "--nemesis", "standard"]
    words += ["--tasks", "1", "--clients", str(clients), "--duration", f"{13 * ttl_ms}ms", "--recovery", "2s"]
    return Drawn(name, parse_run([*words, "--persistence", persistence]))


def played(seed: int) -> Played:
    config = draw(seed).config
    return Play(config, lock_of(config.lock)).play()


def problems(drawn: Drawn, history: Played, run: Recorded) -> Iterator[str]:
    """What a judge says of a run of a correct lock that it should not say."""
    for each in judge(run).findings:
        is_blamed = each.blame == "lock" or (each.blame in _BLAMED and each.breaks)
        if is_blamed and (drawn.lock, each.kind) not in TRUE:
            yield f"BLAMED {each.kind}: {each.text} {each.examples[:1]}"
    known = msgspec.structs.replace(history.config, require="lease")
    of = in_one_form if known.workload == "fenced-counter" else of_the_ledger
    ours = of(replace(run, config=known))
    plain = plainly(judge_record(replace(as_read(history), config=msgspec.to_builtins(known))))
    for name in sorted(ours.keys() & plain.keys()):
        if ours[name] != plain[name] and not name.startswith(_NOT_COMPARED):
            yield f"DISAGREE {name}: {ours[name]}, and the plain judge says {plain[name]}"


def _changed(run: Recorded, column: Callable[[Any], Any], name: str) -> Recorded:
    return replace(run, sections=run.sections.assign(**{name: column}))


def _leaves_late(run: Recorded) -> Recorded:
    ops = run.ops.assign(invoke_ns=run.ops["invoke_ns"].where(run.ops["f"] != "release", run.ops["complete_ns"]))
    return replace(run, sections=derive_sections(ops, run.ends, run.faults))


def _misses_replies(run: Recorded) -> Recorded:
    wire = run.wire()
    assert wire is not None
    place, none = wire.requests.schema.get_field_index("to_client_ns"), pa.nulls(len(wire.requests), pa.int64())
    return replace(run, wire=lambda: replace(wire, requests=wire.requests.set_column(place, "to_client_ns", none)))


def _witness_is_never_late(run: Recorded) -> Recorded:
    events = [msgspec.structs.replace(event, since_ns=event.since_ns and event.at_ns) for event in run.key_events()]
    return replace(run, watched=derive_holdings(events), key_events=lambda: events)


WRONG: Final[Mapping[str, Callable[[Recorded], Recorded]]] = {
    "knows of no fault": lambda run: replace(run, faults=()),
    "takes every lease for as long as it may last": partial(
        _changed, column=lambda sections: sections["deadline_max_ns"], name="deadline_min_ns"
    ),
    "takes a client for inside until its release returns": _leaves_late,
    "takes the witness's times for the node's": _witness_is_never_late,
    "does not see which replies reached the client": _misses_replies,
}
"""Judges with one deliberate mistake, by what it is: what each makes of the record."""


def right(seed: int) -> Outcome:
    """Of the judge as it is."""
    drawn = draw(seed)
    history = Play(drawn.config, lock_of(drawn.config.lock)).play()
    run = history.recorded()
    config = drawn.config
    words = f"seed {seed}: {drawn.lock}, {config.clients} clients, {config.nodes} nodes, TTL {config.ttl_ms} ms"
    return Outcome(words, len(run.sections), tuple(problems(drawn, history, run)))


def exposed(seed: int) -> dict[str, str]:
    """What each wrong judge says of this run that it should not say; those that say nothing wrong are left out."""
    drawn, history = draw(seed), played(seed)
    said = {wrong: problems(drawn, history, change(history.recorded())) for wrong, change in WRONG.items()}
    return {wrong: f"seed {seed}: {first}" for wrong, told in said.items() if (first := next(told, None))}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--runs", type=int, default=2_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--workers", type=int, default=2)
    asked = parser.parse_args()
    logging.disable()
    began, sections, found = time.monotonic(), 0, list[str]()
    seeds = range(asked.seed, asked.seed + asked.runs)
    with ProcessPoolExecutor(asked.workers, get_context("spawn")) as pool:
        for number, outcome in enumerate(pool.map(right, seeds, chunksize=4), 1):
            sections += outcome.sections
            for problem in outcome.problems:
                found.append(f"{outcome.drawn}: {problem}")
                say(found[-1])
            if number % 100 == 0:
                say(f"{number} runs, {sections:,} sections, {time.monotonic() - began:.0f} s")
        how = dict[str, str]()
        for some in pool.map(exposed, range(asked.seed, asked.seed + WRONG_SEEDS)):
            how = some | how
            if len(how) == len(WRONG):
                break
        pool.shutdown(wait=False, cancel_futures=True)
    for wrong in WRONG:
        say(f"a judge that {wrong}: {how.get(wrong, 'NOT EXPOSED')[:200]}")
    found += WRONG.keys() - how.keys()
    say(f"{asked.runs} runs, {sections:,} sections, {time.monotonic() - began:.0f} s, {len(found)} problems")
    return 1 if found else 0


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
