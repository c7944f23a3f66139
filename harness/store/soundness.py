"""Do the parts of a run's folder agree with each other? What cannot have been recorded so is damage, and no verdict.

This is for folders without a manifest: runs that broke off, and older ones. That a client does one thing at a time is
known of older runs only; what it does inside its section is its workload's business today.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from fencepost.errors import UsageError
from fencepost.history import HARNESS, task_names
from harness.history.groups import Bools, Groups, codes_of
from harness.history.key_holdings import held_frame
from harness.history.key_owners import rows_of
from harness.history.recorded import Recorded
from harness.history.sections import positions_of
from harness.store.manifest import FIRST_SCHEMA
from harness.store.run_folder import RunFolder, client_logs
from workloads.kinds import find_workload


def check_soundness(folder: RunFolder, run: Recorded) -> None:
    """Raises UsageError, naming the file. The run must be over: while it is on, its files are of different times."""
    _names(folder, run)
    _times(folder, run)
    _lives(folder, run)
    _holds(folder, run)
    _unfinished(folder, run)
    _writes(folder, run)
    _nodes(folder, run)
    if folder.schema() < FIRST_SCHEMA:
        _steps(folder, run)
    else:
        _held(folder, run)


def _names(folder: RunFolder, run: Recorded) -> None:
    """Logs, ends, values and replies belong to the same lives of the clients of this run."""
    known = set(run.config.user_names)
    lives = {(client, life) for client, life, _ in client_logs(folder.clients)}
    from_parquet = not lives
    if from_parquet:
        seen = run.ops[["client", "life"]].drop_duplicates()
        lives = {(str(client), int(life)) for client, life in zip(seen["client"], seen["life"], strict=True)}
    for client, life in sorted(lives):
        if client not in known:
            raise _damaged(folder, f"clients/{client}.{life}.jsonl", "the run had no such client")
    ended = set()
    for end in run.ends:
        named = f"{end.client}, life {end.life}"
        if (end.client, end.life) in ended:
            raise _damaged(folder, "client-ends.jsonl", f"it says twice how {named} ended")
        ended.add((end.client, end.life))
        # A client that was killed as it started left no log.
        has_log = (end.client, end.life) in lives or from_parquet or end.under_way == "starting"
        if end.client not in known or not has_log:
            raise _damaged(
                folder, "client-ends.jsonl", f"it names {named}, but clients/{end.client}.{end.life}.jsonl is not there"
            )
    if run.timeline.end_ns is not None:
        for client, life in sorted(lives - ended):
            what = f"it does not say how {client}, life {life} ended, whose log is there"
            raise _damaged(folder, "client-ends.jsonl", what)
    for of in (folder.held, folder.answers):
        for client, life, log in client_logs(of):
            if (client, life) not in lives and not from_parquet:
                raise _damaged(folder, f"{of.name}/{log.name}", f"clients/{log.name} is not there")

    for client, life, log in client_logs(folder.gaps):
        if not any((task, life) in lives for task in task_names(client, run.config.tasks)) and not from_parquet:
            raise _damaged(folder, f"gaps/{log.name}", f"the run had no such life of {client}")
    for process, _, log in client_logs(folder.beats):
        # A client may wake up and be killed before it does anything else.
        if process not in (HARNESS, *run.config.client_names):
            raise _damaged(folder, f"beats/{log.name}", f"the run had no {process}")


def _times(folder: RunFolder, run: Recorded) -> None:
    """Operations are within the run, and end after they start."""
    ops, timeline = run.ops, run.timeline
    invoke, complete = ops["invoke_ns"].to_numpy(np.int64), ops["complete_ns"].to_numpy(np.int64)
    _no_row(folder, ops, complete < invoke, "an operation completes before it is invoked")
    _no_row(folder, ops, invoke < timeline.start_ns, "an operation is earlier than the run")
    if timeline.end_ns is not None:
        _no_row(folder, ops, complete > timeline.end_ns, "an operation is later than the run")
    for client, life, gaps in folder.read_gaps():
        if any(gap.to_ns < gap.from_ns for gap in gaps):
            raise _damaged(folder, f"gaps/{client}.{life}.jsonl", "a gap ends before it begins")
    for event in run.faults:
        if event.done_ns < event.began_ns:
            raise _damaged(folder, "nemesis.jsonl", f"{event.fault} was {event.event} before that began")


def _lives(folder: RunFolder, run: Recorded) -> None:
    """A client lives one life after the other, and does nothing after the end of one."""
    spans = run.ops.groupby(["client", "life"], observed=True).agg(
        first=("invoke_ns", "min"), last=("complete_ns", "max")
    )
    ended = {(end.client, end.life): end.at_ns for end in run.ends}
    before: tuple[str, int, int] | None = None
    for client, life, first, last in rows_of(spans.sort_index().reset_index(), "client", "life", "first", "last"):
        log = f"clients/{client}.{life}.jsonl"
        if before is not None and before[0] == client and first < before[2]:
            raise _damaged(folder, log, f"it begins before life {before[1]} of {client} is over")
        if last > ended.get((client, life), last):
            raise _damaged(folder, log, "an operation is later than the end of its client")
        before = client, life, last


def _holds(folder: RunFolder, run: Recorded) -> None:
    """A client acquires and releases one lock after the other."""
    ops = run.ops[run.ops["f"].isin(["acquire", "release"])]
    if not len(ops):
        return
    clients = Groups.of(codes_of(ops["client"]))
    invoke, complete = (clients.take(ops[name].to_numpy(np.int64)) for name in ("invoke_ns", "complete_ns"))
    flags = np.zeros(len(ops), np.bool_)
    flags[clients.order[1:]] = clients.within(invoke[1:] < complete[:-1])
    _no_row(folder, ops, flags, "it begins before what is written above it is over")


def _held(folder: RunFolder, run: Recorded) -> None:
    """Every value of a lease belongs to a granted section of its key."""
    held = run.watched.held if run.watched else held_frame(folder.read_held())
    wrong = _ungranted(held, run)
    if wrong.any():
        lease = held.iloc[int(np.flatnonzero(wrong)[0])]
        log = f"{lease.client}.{lease.life}.jsonl"
        what = f"it has a lease of section {lease.section}, but clients/{log} has no such section of {lease.key}"
        raise _damaged(folder, f"held/{log}", what)


def _ungranted(rows: pd.DataFrame, run: Recorded) -> Bools:
    """Which of the rows name a section that was not granted on their key."""
    position = positions_of(rows, run.sections)
    wrong = position < 0
    known = ~wrong
    keys = run.sections["key"].astype(str).to_numpy()
    wrong[known] = keys[position[known]] != rows["key"].astype(str).to_numpy()[known]
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
        raise _damaged(folder, "resource.jsonl", what)
    index = by_key.take(writes["index"].to_numpy(np.int64))
    expected = np.arange(1, len(index) + 1) - np.repeat(by_key.edges[:-1], np.diff(by_key.edges))
    if not np.array_equal(index, expected):
        raise _damaged(folder, "resource.jsonl", "the numbers of a key's writes do not count 1, 2, 3, …")


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
    """Clients that work in the usual loop release before they finish. (A script's need not.)"""
    if not find_workload(run.config.workload).is_loop or folder.read_experiment() is not None:
        return
    finished = {(end.client, end.life) for end in run.ends if end.how == "finished"}
    inside = run.sections[run.sections["ended"] == "open"]
    for client, life, section in rows_of(inside, "client", "life", "section"):
        if (client, life) in finished:
            name = f"clients/{client}.{life}.jsonl"
            raise _damaged(folder, name, f"section {section} has no release, but the client finished")


def _nodes(folder: RunFolder, run: Recorded) -> None:
    """A node's events are in the node's order. (The end of watching may be dated back.)"""
    last: dict[str, int] = {}
    for event in folder.read_nodes():
        if event.node not in run.config.node_names:
            raise _damaged(folder, "nodes.jsonl", f"the run had no node {event.node}")
        if event.event == "blind":
            continue
        if event.at_ns < last.get(event.node, 0) or (event.since_ns or 0) > event.at_ns:
            raise _damaged(folder, "nodes.jsonl", f"the events of {event.node} are not in its order")
        last[event.node] = event.at_ns


def _no_row(folder: RunFolder, ops: pd.DataFrame, wrong: Bools, what: str) -> None:
    if wrong.any():
        op = ops.iloc[int(np.flatnonzero(wrong)[0])]
        raise _damaged(folder, f"clients/{op.client}.{op.life}.jsonl", f"{what} ({op.f}, section {op.section})")


def _damaged(folder: RunFolder, name: str, what: str) -> UsageError:
    return UsageError(f"{folder.path / name} is damaged: {what}")
