"""Do the parts of a run's folder agree with each other? What cannot have been recorded so is damage, and no verdict.

A manifest that was written anew vouches for whatever is there, so this is asked of every folder. That a client does one
thing at a time is known of older runs only; what it does inside its section is its workload's business today.
"""

from __future__ import annotations

from itertools import count, pairwise
from typing import Final

import numpy as np
import pandas as pd

from fencepost.errors import UsageError
from fencepost.files import kind_of
from fencepost.history import HARNESS, PROXY, FaultEvent, process_of, task_names
from harness.history.groups import Bools, Groups, codes_of, placed, rows_of
from harness.history.recorded import Recorded
from harness.history.sections import positions_of
from harness.store.run_folder import RunFolder, client_logs, part_of
from harness.store.wire import CONNECTIONS, REQUESTS
from harness.store.wire_soundness import BESIDE_NS, check_wire
from workloads.kinds import find_workload, workload_names

_LEFT_BEHIND: Final = ("environment.json", "client-ends.jsonl", "nemesis.jsonl", "resource.jsonl", "final.json")


def check_soundness(folder: RunFolder, run: Recorded) -> None:
    """Raises UsageError, naming the file. The run must be over: while it is on, its files are of different times."""
    if is_whole := run.is_vouched_for and not run.doubts and run.timeline.end_ns is not None:
        _files(folder, run)
    _names(folder, run)
    _times(folder, run)
    _lives(folder, run)
    if is_whole:
        _every_life(folder, run)
    _holds(folder, run)
    _unfinished(folder, run)
    _writes(folder, run)
    _nodes(folder, run)
    check_wire(folder, run)
    if not run.is_vouched_for:
        _steps(folder, run)


def _files(folder: RunFolder, run: Recorded) -> None:
    """A run that ended as planned left these."""
    cluster = part_of(folder.read_environment(), "cluster")
    has_witness = run.config.witness == "on" and cluster.get("key_events") is True
    has_wire = cluster.get("wire") is True
    optional = [*(["nodes.jsonl"] if has_witness else []), *([REQUESTS, CONNECTIONS] if has_wire else [])]
    for name in (*_LEFT_BEHIND, *optional):
        if kind_of(folder.path / name) is None:
            raise UsageError(
                f"{folder.path / name} is missing although the run ended as planned: the record is damaged"
            )


def _names(folder: RunFolder, run: Recorded) -> None:
    """Logs and ends belong to the same lives of the clients of this run."""
    known = set(run.config.user_names)
    lives = {(client, life) for client, life, _ in client_logs(folder.clients)}
    for client, life in sorted(lives):
        if client not in known:
            raise folder.damaged(f"clients/{client}.{life}.jsonl", "the run had no such client")
    ended = set()
    for end in run.ends:
        named = f"{end.client}, life {end.life}"
        if (end.client, end.life) in ended:
            raise folder.damaged("client-ends.jsonl", f"it says twice how {named} ended")
        ended.add((end.client, end.life))
        # A client that was killed as it started left no log.
        has_log = (end.client, end.life) in lives or end.under_way == "starting"
        if end.client not in known or not has_log:
            raise folder.damaged(
                "client-ends.jsonl", f"it names {named}, but clients/{end.client}.{end.life}.jsonl is not there"
            )
    if run.timeline.end_ns is not None:
        for client, life in sorted(lives - ended):
            what = f"it does not say how {client}, life {life} ended, whose log is there"
            raise folder.damaged("client-ends.jsonl", what)
    for client, life, log in client_logs(folder.gaps):
        if client != PROXY and not any(
            (task, life) in lives for task in task_names(client, run.config.users_per_client)
        ):
            raise folder.damaged(f"gaps/{log.name}", f"the run had no such life of {client}")
    for process, _, log in client_logs(folder.beats):
        # A client may wake up and be killed before it does anything else.
        if process not in (HARNESS, *run.config.client_names):
            raise folder.damaged(f"beats/{log.name}", f"the run had no {process}")


def _times(folder: RunFolder, run: Recorded) -> None:
    """Operations are within the run, and end after they start; all else was recorded while the run was on, or a little
    before or after it."""
    ops, timeline = run.ops, run.timeline
    reached = [timeline.start_ns, timeline.healed_ns, timeline.stop_ns, timeline.end_ns]
    if any(later < earlier for earlier, later in pairwise(at for at in reached if at is not None)):
        raise folder.damaged("timeline.json", "its moments are not in their order")
    invoke, complete = ops["invoke_ns"].to_numpy(np.int64), ops["complete_ns"].to_numpy(np.int64)
    _no_row(folder, ops, complete < invoke, "an operation completes before it is invoked")
    _no_row(folder, ops, invoke < timeline.start_ns, "an operation is earlier than the run")
    if timeline.end_ns is not None:
        _no_row(folder, ops, complete > timeline.end_ns, "an operation is later than the run")
    for client, life, gaps in folder.read_gaps():
        for gap in gaps:
            if gap.to_ns < gap.from_ns:
                raise folder.damaged(f"gaps/{client}.{life}.jsonl", "a gap ends before it begins")
            _within(folder, f"gaps/{client}.{life}.jsonl", run, gap.from_ns, gap.to_ns)
    for process, life, lines in folder.read_beats():
        for line in lines:
            until_ns = line.from_ns + sum(line.after_us) * 1_000
            _within(folder, f"beats/{process}.{life}.jsonl", run, line.from_ns, until_ns)
    for event in folder.read_log("nemesis.jsonl", FaultEvent):
        if event.done_ns < event.began_ns:
            raise folder.damaged("nemesis.jsonl", f"{event.fault} was {event.event} before that began")
        _within(folder, "nemesis.jsonl", run, event.began_ns, event.done_ns)
    for end in run.ends:
        _within(folder, "client-ends.jsonl", run, end.at_ns)


def _within(folder: RunFolder, name: str, run: Recorded, *times_ns: int) -> None:
    start_ns, end_ns = run.timeline.start_ns, run.timeline.end_ns
    for at_ns in times_ns:
        if at_ns < start_ns - BESIDE_NS or at_ns > (at_ns if end_ns is None else end_ns + BESIDE_NS):
            raise folder.damaged(name, f"it has a time ({at_ns}) that is far from the run")


def _lives(folder: RunFolder, run: Recorded) -> None:
    """A client lives one life after the other, does nothing after the end of one, and recorded what it counted."""
    ops = run.ops
    lives = Groups.of_equal(placed(codes_of(ops["client"]), ops["life"].to_numpy()))
    rows = lives.rows(lives.edges[:-1]) if len(ops) else lives.edges[:0]
    first = lives.first_times(ops["invoke_ns"].to_numpy(np.int64), 0)
    last = lives.last_times(ops["complete_ns"].to_numpy(np.int64))
    spans = ops[["client", "life"]].iloc[rows].assign(first=first, last=last, ops=np.diff(lives.edges))
    spans = spans.astype({"client": str}).sort_values(["client", "life"])
    ended = {(end.client, end.life): end for end in run.ends}
    recorded = {}
    before: tuple[str, int, int] | None = None
    for client, life, first_ns, last_ns, done in rows_of(spans, "client", "life", "first", "last", "ops"):
        log, end = f"clients/{client}.{life}.jsonl", ended.get((client, life))
        if before is not None and before[0] == client and first_ns < before[2]:
            raise folder.damaged(log, f"it begins before life {before[1]} of {client} is over")
        if end is not None and last_ns > end.at_ns:
            raise folder.damaged(log, "an operation is later than the end of its client")
        before, recorded[client, life] = (client, life, last_ns), done
    for end in run.ends:
        if (done := recorded.get((end.client, end.life), 0)) < end.ops:
            log = f"clients/{end.client}.{end.life}.jsonl"
            raise folder.damaged(log, f"it has {done} operations, and its client had recorded {end.ops} or more")


def _every_life(folder: RunFolder, run: Recorded) -> None:
    """Every client of a run that ended as planned has an end for each of its lives, from the first one on; and where
    the nemesis killed it, the record of the faults says so."""
    lives: dict[str, list[int]] = {name: [] for name in run.config.user_names}
    for end in run.ends:
        lives[end.client].append(end.life)
    for client, own in lives.items():
        if sorted(own) != list(range(1, len(own) + 1)) or not own:
            named = f"life {next(life for life in count(1) if life not in own)} of {client}"
            raise folder.damaged("client-ends.jsonl", f"it does not say how {named} ended")
    killed = {client for event in run.faults for client in event.killed_clients}
    are_told = all(event.holds for event in run.faults)  # a fault that failed half-way says less than it did
    for end in run.ends:
        if end.how == "killed" and are_told and not killed & {end.client, process_of(end.client)}:
            raise folder.damaged("nemesis.jsonl", f"no fault killed {end.client}, which client-ends.jsonl says")


def _holds(folder: RunFolder, run: Recorded) -> None:
    """A client acquires and releases one lock after the other. (That its lives follow each other is known.)"""
    ops = run.ops
    rows = np.flatnonzero(ops["f"].isin(["acquire", "release"]).to_numpy(np.bool_))
    lives = placed(codes_of(ops["client"])[rows], ops["life"].to_numpy()[rows])
    groups = Groups.of_equal(lives)
    invoke, complete = (groups.take(ops[name].to_numpy(np.int64)[rows]) for name in ("invoke_ns", "complete_ns"))
    wrong = np.flatnonzero(groups.within(invoke[1:] < complete[:-1]))
    if len(wrong):
        flags = np.zeros(len(ops), np.bool_)
        flags[rows[groups.rows(wrong + 1)]] = True
        _no_row(folder, ops, flags, "it begins before what is written above it is over")


def _ungranted(rows: pd.DataFrame, run: Recorded) -> Bools:
    """Which of the rows name a section that was not granted on their key."""
    if not len(rows):
        return np.zeros(0, np.bool_)
    position = positions_of(rows, run.sections)
    wrong = position < 0
    known = ~wrong
    keys, named = (frame["key"].astype("category").cat for frame in (run.sections, rows))
    expected = keys.categories.get_indexer(named.categories)[named.codes.to_numpy()]
    wrong[known] = keys.codes.to_numpy()[position[known]] != expected[known]
    return wrong


def _writes(folder: RunFolder, run: Recorded) -> None:
    """Every accepted write belongs to a granted section of its key, and none is missing in between."""
    writes, by_key = run.writes, run.writes_by_key
    if not len(writes):
        return
    wrong = _ungranted(writes, run)
    if wrong.any():
        write = writes.iloc[int(np.flatnonzero(wrong)[0])]
        log = f"clients/{write.client}.….jsonl"
        what = f"a write of {write.client}, section {write.section}, but {log} has no such section of {write.key}"
        raise folder.damaged("resource.jsonl", what)
    index = by_key.take(writes["index"].to_numpy(np.int64))
    expected = np.arange(1, len(index) + 1) - np.repeat(by_key.edges[:-1], np.diff(by_key.edges))
    if not np.array_equal(index, expected):
        raise folder.damaged("resource.jsonl", "the numbers of a key's writes do not count 1, 2, 3, …")


def _steps(folder: RunFolder, run: Recorded) -> None:
    """A client does one thing at a time, and numbers its sections on from life to life."""
    ops = run.ops
    if not len(ops):
        return
    lives = Groups.of(codes_of(ops["client"]))
    life, section = (lives.take(ops[name].to_numpy(np.int64)) for name in ("life", "section"))
    invoke, complete = (lives.take(ops[name].to_numpy(np.int64)) for name in ("invoke_ns", "complete_ns"))
    same_life = life[1:] == life[:-1]
    wrong = np.zeros(len(life), np.bool_)
    wrong[1:] = lives.within((invoke[1:] < complete[:-1]) | (section[1:] < section[:-1]))
    wrong[1:] |= lives.within(~same_life & (section[1:] <= section[:-1]))
    flags = np.zeros(len(ops), np.bool_)
    flags[lives.order] = wrong
    _no_row(folder, ops, flags, "its operations are not in the order in which one client can have done them")


def _unfinished(folder: RunFolder, run: Recorded) -> None:
    """Clients that work in the usual loop release before they finish. (A script's need not, and what a workload that is
    not known here does is not known. One that forgets goes on without a release, with another section.)"""
    name = run.config.workload
    if name not in workload_names() or not find_workload(name).is_loop or folder.read_experiment() is not None:
        return
    finished = {(end.client, end.life) for end in run.ends if end.how == "finished"}
    inside = run.sections[run.sections["ended"] == "open"]
    tried = rows_of(run.ops, "client", "life", "section") if run.config.forget else ()
    last = {(client, life): section for client, life, section in tried}
    for client, life, section in rows_of(inside, "client", "life", "section"):
        if (client, life) in finished and section >= last.get((client, life), section):
            name = f"clients/{client}.{life}.jsonl"
            raise folder.damaged(name, f"section {section} has no release, but the client finished")


def _nodes(folder: RunFolder, run: Recorded) -> None:
    """A node's events are in the node's order. (The end of watching may be dated back.)"""
    last: dict[str, int] = {}
    for event in folder.read_nodes():
        _within(folder, "nodes.jsonl", run, event.at_ns)
        if event.node not in run.config.node_names:
            raise folder.damaged("nodes.jsonl", f"the run had no node {event.node}")
        if event.event == "blind":
            continue
        if event.at_ns < last.get(event.node, 0) or (event.since_ns or 0) > event.at_ns:
            raise folder.damaged("nodes.jsonl", f"the events of {event.node} are not in its order")
        last[event.node] = event.at_ns


def _no_row(folder: RunFolder, ops: pd.DataFrame, wrong: Bools, what: str) -> None:
    if wrong.any():
        op = ops.iloc[int(np.flatnonzero(wrong)[0])]
        raise folder.damaged(f"clients/{op.client}.{op.life}.jsonl", f"{what} ({op.f}, section {op.section})")
