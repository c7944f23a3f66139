"""What the proxy recorded of the links, as tables: literal records, of which each byte is known."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import hiredis
import numpy as np
import pandas as pd
import pytest

from cluster.redis_requests import decode
from fencepost.errors import UsageError
from harness.config import RunConfig
from harness.history.run_tables import ForeignBytes, LinkTraffic, WireGaps
from harness.store import wire_files as wire
from harness.store.run_folder import RunFolder
from harness.store.wire import frame
from harness.store.wire_files import BYTES, EVENT, EVENTS
from harness.store.wire_folder import decoders_of, keep_wire, link_traffic, wire_gaps
from harness.store.wire_reading import read_wire

NODES = {"n1": decode, "n2": None}
PING, PONG = bytes(hiredis.pack_command(("PING",))), b"+PONG\r\n"
TIMES = ["from_client_ns", "to_node_ns", "from_node_ns", "to_client_ns"]


def recorded(folder: Path, *moments: tuple[int, int, int, bytes | int]) -> Path:
    """The two files. A moment: when, of which connection, its kind, and the bytes that it carries or how many."""
    rows = [(at, connection, size(told), kind) for at, connection, kind, told in moments]
    (folder / EVENTS).write_bytes(np.array(rows, EVENT).tobytes())
    (folder / BYTES).write_bytes(b"".join(told for _, _, _, told in moments if isinstance(told, bytes)))
    return folder


def size(told: bytes | int) -> int:
    return len(told) if isinstance(told, bytes) else told


def requests(folder: Path) -> pd.DataFrame:
    return frame(read_wire(folder, NODES).requests)


def connections(folder: Path) -> pd.DataFrame:
    return frame(read_wire(folder, NODES).connections)


def times(row: Any) -> list[int | None]:
    return [None if pd.isna(row[name]) else int(row[name]) for name in TIMES]


OPENED = (1, 1, wire.OPENED, b"c1-n1 127.0.0.1:4001")
ANSWERED = [
    OPENED,
    (10, 1, wire.FROM_CLIENT, PING),
    (20, 1, wire.TO_NODE, len(PING)),
    (30, 1, wire.FROM_NODE, PONG),
    (40, 1, wire.TO_CLIENT, len(PONG)),
]


def test_a_request_has_four_times(tmp_path: Path) -> None:
    found = requests(recorded(tmp_path, *ANSWERED, (50, 1, wire.CLIENT_CLOSED, 0)))
    assert [(row.client, row.node, row.command, row.reply) for row in found.itertuples()] == [
        ("c1", "n1", "PING", '"PONG"')
    ]
    assert times(found.iloc[0]) == [10, 20, 30, 40]


@pytest.mark.parametrize(
    ("kept", "expected"),
    [
        (2, [10, None, None, None]),
        (3, [10, 20, None, None]),
        (4, [10, 20, 30, None]),
    ],
    ids=["lost on the way to the node", "not answered", "reply lost on the way back"],
)
def test_a_moment_that_never_came_is_missing(tmp_path: Path, kept: int, expected: list[int | None]) -> None:
    assert times(requests(recorded(tmp_path, *ANSWERED[:kept])).iloc[0]) == expected


def test_bytes_that_could_not_be_sent_on_did_not_arrive(tmp_path: Path) -> None:
    folder = recorded(tmp_path, *ANSWERED[:3], (21, 1, wire.NOT_TO_NODE, 4))
    assert times(requests(folder).iloc[0]) == [10, None, None, None]
    assert connections(folder).to_node_bytes[0] == len(PING) - 4


def test_a_request_has_arrived_when_its_last_byte_has(tmp_path: Path) -> None:
    sent = [(10, 1, wire.FROM_CLIENT, PING[:5]), (12, 1, wire.FROM_CLIENT, PING[5:] + PING)]
    passed = [(20, 1, wire.TO_NODE, 9), (22, 1, wire.TO_NODE, len(PING) - 9), (24, 1, wire.TO_NODE, len(PING))]
    first, second = (row for _, row in requests(recorded(tmp_path, OPENED, *sent, *passed)).iterrows())
    assert times(first)[:2] == [12, 22]
    assert times(second)[:2] == [12, 24]


def test_connections_are_told_apart(tmp_path: Path) -> None:
    others = [
        (at + 1, 2, kind, b"c2-n1 127.0.0.1:4001" if kind == wire.OPENED else told) for at, _, kind, told in ANSWERED
    ]
    found = requests(recorded(tmp_path, *sorted([*ANSWERED, *others], key=lambda moment: moment[0])))
    assert [(row.client, int(row.connection)) for row in found.itertuples()] == [("c1", 1), ("c2", 2)]
    assert [times(row) for _, row in found.iterrows()] == [[10, 20, 30, 40], [11, 21, 31, 41]]


def test_a_connection_tells_which_side_closed_it(tmp_path: Path) -> None:
    (row,) = connections(recorded(tmp_path, *ANSWERED, (50, 1, wire.NODE_CLOSED, 0))).itertuples()
    assert (row.opened_ns, row.is_reached, row.node_closed_ns, row.client_closed_ns) == (1, True, 50, pd.NA)


def test_a_connection_tells_when_the_proxy_closed_it(tmp_path: Path) -> None:
    (row,) = connections(recorded(tmp_path, *ANSWERED, (50, 1, wire.CUT, 0), (60, 1, wire.NODE_CLOSED, 0))).itertuples()
    assert (row.proxy_closed_ns, row.node_closed_ns, row.client_closed_ns) == (50, 60, pd.NA)


def test_a_node_that_took_no_connection_was_not_reached(tmp_path: Path) -> None:
    (row,) = connections(recorded(tmp_path, (1, 1, wire.UNREACHED, b"c1-n1 127.0.0.1:4001"))).itertuples()
    assert not row.is_reached


def test_of_a_server_whose_protocol_is_not_known_bytes_are_counted(tmp_path: Path) -> None:
    folder = recorded(tmp_path, (1, 1, wire.OPENED, b"c1-n2 127.0.0.1:4001"), (10, 1, wire.FROM_CLIENT, b"\x00\x01"))
    assert len(requests(folder)) == 0
    assert connections(folder).from_client_bytes.tolist() == [2]


@pytest.mark.parametrize("lost", range(1, EVENT.itemsize + len(PONG)))
def test_what_was_under_way_at_a_kill_is_left_out(tmp_path: Path, lost: int) -> None:
    """The last record was cut, or its bytes were written and the record was not."""
    folder = recorded(tmp_path, *ANSWERED[:4])
    events = (folder / EVENTS).read_bytes()
    if lost < EVENT.itemsize:
        (folder / EVENTS).write_bytes(events[:-lost])
    else:
        (folder / EVENTS).write_bytes(events[: -EVENT.itemsize])
        (folder / BYTES).write_bytes((folder / BYTES).read_bytes()[: EVENT.itemsize - 1 - lost or None])
    assert times(requests(folder).iloc[0]) == [10, 20, None, None]


@pytest.mark.parametrize(
    "moments",
    [
        [OPENED, (20, 1, wire.FROM_CLIENT, PING), (10, 1, wire.TO_NODE, len(PING))],
        [(1, 1, wire.OPENED, b"c1-n9 127.0.0.1:4001")],
        [(1, 1, wire.FROM_CLIENT, PING)],
        [OPENED, (10, 1, 77, 0)],
    ],
    ids=["times go back", "no such node", "a connection without a beginning", "no such kind"],
)
def test_what_the_proxy_cannot_have_written_is_refused(tmp_path: Path, moments: list[Any]) -> None:
    with pytest.raises(UsageError, match="is damaged"):
        read_wire(recorded(tmp_path, *moments), NODES)


def with_tail(folder: Path, events: int, carried: int, *, moved: bool = False) -> Path:
    """As if so many bytes of the two streams were in the tail, and perhaps already in the files, too."""
    tail = bytearray(wire.TAIL_HEAD + wire.TAIL_EVENTS + (1 << 18))
    for number, (name, length, place) in enumerate(
        [(EVENTS, events, wire.TAIL_HEAD), (BYTES, carried, wire.TAIL_HEAD + wire.TAIL_EVENTS)]
    ):
        data = (folder / name).read_bytes()
        begin = len(data) - length
        tail[place : place + length] = data[begin:]
        struct.pack_into("<QQ", tail, 16 * number, begin, length)
        if not moved:
            (folder / name).write_bytes(data[:begin])
    (folder / wire.TAIL).write_bytes(tail)
    return folder


@pytest.mark.parametrize("moved", [False, True])
@pytest.mark.parametrize(("events", "carried"), [(0, 0), (20, 0), (40, len(PONG)), (100, 36)])
def test_the_tail_continues_the_files(tmp_path: Path, events: int, carried: int, moved: bool) -> None:
    folder = with_tail(recorded(tmp_path, *ANSWERED), events, carried, moved=moved)
    assert times(requests(folder).iloc[0]) == [10, 20, 30, 40]


@pytest.mark.parametrize("kept", [0, 5, EVENT.itemsize])
def test_a_kill_while_the_tail_was_moved_costs_nothing(tmp_path: Path, kept: int) -> None:
    folder = with_tail(recorded(tmp_path, *ANSWERED), 2 * EVENT.itemsize, 0, moved=True)
    (folder / EVENTS).write_bytes((folder / EVENTS).read_bytes()[: 3 * EVENT.itemsize + kept])
    assert times(requests(folder).iloc[0]) == [10, 20, 30, 40]


def short(folder: Path) -> None:
    (folder / wire.TAIL).write_bytes(b"\0" * 31)


def without_the_beginning(folder: Path) -> None:
    (folder / EVENTS).write_bytes(b"")


def too_long(folder: Path) -> None:
    tail = bytearray((folder / wire.TAIL).read_bytes())
    struct.pack_into("<Q", tail, 8, wire.TAIL_EVENTS + 1)
    (folder / wire.TAIL).write_bytes(tail)


@pytest.mark.parametrize("damage", [short, without_the_beginning, too_long])
def test_a_tail_that_does_not_continue_the_files_is_refused(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    folder = with_tail(recorded(tmp_path, *ANSWERED), 20, 0)
    damage(folder)
    with pytest.raises(UsageError, match=f"{wire.TAIL} is damaged"):
        read_wire(folder, NODES)


def test_missing_bytes_are_refused(tmp_path: Path) -> None:
    folder = recorded(tmp_path, *ANSWERED)
    (folder / BYTES).write_bytes((folder / BYTES).read_bytes()[:8])
    with pytest.raises(UsageError, match=BYTES):
        read_wire(folder, NODES)


def test_what_the_harness_asks_is_told_from_what_a_client_asks(tmp_path: Path) -> None:
    own = [
        (at + 1, 2, kind, b"c1-n1 127.0.0.2:4001" if kind == wire.OPENED else told) for at, _, kind, told in ANSWERED
    ]
    folder = recorded(tmp_path, *sorted([*ANSWERED, *own], key=lambda moment: moment[0]))
    assert requests(folder).by.tolist() == ["client", "harness"]
    assert connections(folder).by.tolist() == ["client", "harness"]


def test_a_record_that_became_too_large_says_so(tmp_path: Path) -> None:
    assert read_wire(recorded(tmp_path, *ANSWERED), NODES).ended_ns is None
    cut = read_wire(recorded(tmp_path, *ANSWERED, (50, 1, wire.LIMIT_REACHED, 0)), NODES)
    assert (cut.is_cut_short, cut.ended_ns) == (True, 50)


@pytest.mark.parametrize("is_whole", [True, False])
def test_what_went_over_the_links_is_counted_only_from_a_whole_record(tmp_path: Path, is_whole: bool) -> None:
    config = RunConfig(seed=1, nodes=1, clients=1)
    folder = RunFolder.create(tmp_path, config)
    folder.wire.mkdir()
    recorded(folder.wire, *ANSWERED, *([] if is_whole else [(50, 1, wire.LIMIT_REACHED, 0)]))
    keep_wire(folder)
    expected = (LinkTraffic("c1", "n1", warm_up=0, load=1, named=0),) if is_whole else None
    assert link_traffic(folder, config, start_ns=5) == expected
    assert wire_gaps(folder, config) == WireGaps(None if is_whole else 50)


def test_bytes_of_another_protocol_are_counted_and_what_else_went_over_their_link_is_not_known(tmp_path: Path) -> None:
    config = RunConfig(seed=1, nodes=1, clients=2)
    folder = RunFolder.create(tmp_path, config)
    folder.wire.mkdir()
    garbage = [(at, 2, wire.FROM_CLIENT, b"\x16\x03" * 8) for at in (60, 70)]
    recorded(folder.wire, *ANSWERED, (50, 2, wire.OPENED, b"c2-n1 127.0.0.1:4001"), *garbage)
    keep_wire(folder)
    assert wire_gaps(folder, config) == WireGaps(foreign=(ForeignBytes("c2", "n1", "Redis", 32),))
    assert link_traffic(folder, config, start_ns=5) == (LinkTraffic("c1", "n1", warm_up=0, load=1),)


def test_a_server_that_is_named_by_its_path_is_decoded_as_what_it_is(tmp_path: Path) -> None:
    config = RunConfig(seed=1, nodes=1, clients=1, server="/opt/my-server", resource_server="redis=/opt/redis")
    folder = RunFolder.create(tmp_path, config)
    assert (decoders_of(folder)["n1"], decoders_of(folder)["resource"]) == (None, decode), "it is not known yet"
    folder.write_environment({"cluster": {"server": {"name": "valkey"}}})
    assert decoders_of(folder)["n1"] is decode


def test_a_run_that_ended_before_its_proxy_recorded_has_no_requests(tmp_path: Path) -> None:
    assert requests(tmp_path).empty
    assert connections(tmp_path).empty
