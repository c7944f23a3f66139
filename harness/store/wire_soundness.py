"""Does the record of the links agree with itself and with the rest of the run's folder?

The table of connections has a digest of both tables and of what tells the run from others, so neither was changed alone
or is another run's. Beyond that only facts are asked: what passed the proxy did so in an order, within the life of its
connection; and a write that the resource acknowledged was a request over its client's link, between the call and the
answer.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cluster.base import RESOURCE
from fencepost.errors import UsageError
from fencepost.files import kind_of
from fencepost.history import process_of
from harness.history.recorded import Recorded
from harness.store.run_folder import RunFolder
from harness.store.wire import CONNECTIONS, FITS, REQUESTS, Wire
from harness.store.wire_folder import decoders_of, digest_of, load_wire
from workloads.kinds import find_workload, workload_names

_NEVER_NS: Final = 2**62
BESIDE_NS: Final = 3_600_000_000_000
"""So long before the load, or after the end of the run, nothing is recorded."""


def check_wire(folder: RunFolder, run: Recorded) -> None:
    """Raises UsageError, naming the file. Nothing to check while the proxy's own files are there, whose end is not
    known, or if the run did not record its links."""
    there = [kind_of(folder.path / name) is not None for name in (REQUESTS, CONNECTIONS)]
    if not any(there):
        return
    for name, is_there in zip((REQUESTS, CONNECTIONS), there, strict=True):
        if not is_there:
            raise UsageError(f"{folder.path / name} is missing although the other table of the links is there")
    wire = load_wire(folder)
    _belongs(folder, wire)
    _connections(folder, run, wire)
    _requests(folder, run, wire)
    _writes(folder, run, wire)


def _belongs(folder: RunFolder, wire: Wire) -> None:
    if (wire.connections.schema.metadata or {}).get(FITS) != digest_of(folder, wire.connections):
        raise folder.damaged(
            CONNECTIONS, f"it does not fit {REQUESTS} and the run: one of them was changed, or is another run's"
        )


def _connections(folder: RunFolder, run: Recorded, wire: Wire) -> None:
    """They are of links of this run, and nothing left the proxy that had not come."""
    table = wire.connections
    servers = decoders_of(folder).keys()
    links = {(client, node) for client in (*run.config.client_names, *servers) for node in servers}
    for link in sorted(set(zip(table["client"].to_pylist(), table["node"].to_pylist(), strict=True)) - links):
        raise folder.damaged(CONNECTIONS, f"the run had no link {'-'.join(link)}")
    numbers = table["connection"].to_numpy()
    opened = table["opened_ns"].to_numpy()
    came, went = (
        [table[f"{name}_bytes"].to_numpy() for name in names]
        for names in (("from_client", "from_node"), ("to_node", "to_client"))
    )
    wrong = {
        "two connections have one number": len(np.unique(numbers)) < len(numbers),
        "a connection was closed before it was opened": any(
            (_times(table, f"{who}_closed_ns") < opened).any() for who in ("client", "node", "proxy")
        ),
        "more bytes were sent on than had come": any((b > a).any() for a, b in zip(came, went, strict=True)),
        "a connection has fewer than no bytes": any((each < 0).any() for each in (*came, *went)),
        "a connection has more foreign bytes than bytes": (
            table["not_understood_bytes"].to_numpy() > came[0] + came[1]
        ).any(),
        "a connection was opened far from the run": (opened < run.timeline.start_ns - BESIDE_NS).any()
        or (run.timeline.end_ns is not None and (opened > run.timeline.end_ns + BESIDE_NS).any()),
    }
    _none(folder, CONNECTIONS, wrong)


def _requests(folder: RunFolder, run: Recorded, wire: Wire) -> None:
    """Each passed the proxy in order, after what came before it on its connection, while that was open."""
    table, numbers = wire.requests, wire.connections["connection"].to_numpy()
    if not len(table):
        return
    order = np.argsort(numbers)
    number = table["connection"].to_numpy()
    at = np.minimum(np.searchsorted(numbers, number, sorter=order), len(numbers) - 1)
    row = order[at] if len(order) else at
    if not len(numbers) or (numbers[row] != number).any():
        raise folder.damaged(REQUESTS, f"it has a connection that is not in {CONNECTIONS}")
    own = wire.connections.select(["client", "node", "by"]).take(pa.array(row))
    asked, sent_on, answered, seen = (
        _times(table, name) for name in ("from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns")
    )
    opened, client_closed, node_closed = (
        _times(wire.connections, name)[row] for name in ("opened_ns", "client_closed_ns", "node_closed_ns")
    )
    is_request = asked < _NEVER_NS
    wrong = {
        "a request is not of its connection's link": any(
            pc.any(pc.not_equal(_texts(own[name]), _texts(table[name]))).as_py() for name in own.column_names
        ),
        "its requests are not in the order in which they came": bool((np.diff(asked) < 0).any()),
        "a request was sent on before it had come": bool((sent_on[is_request] < asked[is_request]).any()),
        "a reply was sent on before it had come": bool((seen < answered).any()),
        "a request came before its connection was opened": bool((np.minimum(asked, answered) < opened).any()),
        "a request came after its client had closed": bool((is_request & (asked > client_closed)).any()),
        "a reply came after its node had closed": bool(((answered < _NEVER_NS) & (answered > node_closed)).any()),
        "a request has a reply that never came": bool(
            (table["reply"].is_valid().to_numpy() != (answered < _NEVER_NS)).any()
        ),
        "a request is of a task that its client did not have": any(
            process_of(task) != client or task not in run.config.user_names for client, task in _senders(table)
        ),
        "requests overtook each other": not _in_order(number[is_request], sent_on[is_request]),
    }
    _none(folder, REQUESTS, wrong)


def _senders(requests: pa.Table) -> set[tuple[str, str]]:
    """The clients, and which of their tasks are noted."""
    noted = requests.select(["client", "task"]).filter(requests["task"].is_valid())
    return set(zip(*(_texts(noted[name]).to_pylist() for name in noted.column_names), strict=True))


def _writes(folder: RunFolder, run: Recorded, wire: Wire) -> None:
    """Of each write that the resource acknowledged, the request is there. (Where else a workload that is not known here
    writes is not known.)"""
    name = run.config.workload
    if decoders_of(folder)[RESOURCE] is None or name not in workload_names():
        return
    workload = find_workload(name)
    if not workload.guards_data or workload.tables is not None:
        return
    until_ns = _NEVER_NS if wire.ended_ns is None else wire.ended_ns
    foreign = {each.client for each in run.wire_gaps.foreign if each.node == RESOURCE}
    ops = run.ops
    done = ops[((ops["f"] == "write") & (ops["outcome"] == "ok")).to_numpy(np.bool_)]
    client = done["client"].astype(str).str.split("@", n=1).str[0].to_numpy()
    invoke, complete = (done[name].to_numpy(np.int64) for name in ("invoke_ns", "complete_ns"))
    to_resource = wire.requests.filter(pc.equal(_texts(wire.requests["node"]), RESOURCE))
    by_client = _texts(to_resource["client"]).to_numpy(zero_copy_only=False)
    asked, seen = (_times(to_resource, name) for name in ("from_client_ns", "to_client_ns"))
    for name in sorted(set(client) - foreign):
        mine, calls = by_client == name, (client == name) & (complete <= until_ns)
        begun = asked[mine]
        earliest = np.append(np.minimum.accumulate(seen[mine][::-1])[::-1], _NEVER_NS)
        wrong = earliest[np.searchsorted(begun, invoke[calls])] > complete[calls]
        if wrong.any():
            section = int(done["section"].to_numpy()[calls][wrong][0])
            what = f"the write of {name} in section {section} was acknowledged, and no request of that time is there"
            raise folder.damaged(REQUESTS, what)


def _in_order(groups: Any, values: Any) -> bool:
    """Whether the values of each group never fall."""
    order = np.argsort(groups, kind="stable")
    return not ((np.diff(values[order]) < 0) & (np.diff(groups[order]) == 0)).any()


def _times(table: pa.Table, name: str) -> Any:
    return table[name].fill_null(_NEVER_NS).to_numpy()


def _texts(column: Any) -> Any:
    return column.cast(pa.string())


def _none(folder: RunFolder, name: str, wrong: dict[str, bool]) -> None:
    for what, is_so in wrong.items():
        if is_so:
            raise folder.damaged(name, what)
