"""How fast the proxy's record becomes requests, and requests and key events become ledgers: requests a CPU second.

Five clients ask five nodes for one key, which one of them gets; all of them release it. So a fifth of the requests
changes a key twice, and the others change nothing. `--busy`: the witness read no value, and all clients' requests were
under way at the same time.

    python benchmarks/ledger.py [requests] [--busy]
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from time import process_time

import hiredis
import numpy as np

from cluster.redis_requests import decode
from fencepost.history import KeyEvent, Op, Timeline
from fencepost.memory import spare_memory
from harness.config import RunConfig
from harness.history.change_causes import WireRecord
from harness.history.key_holdings import Watched, derive_holdings, held_frame
from harness.history.ledger import Ledger
from harness.history.recorded import Recorded
from harness.history.sections import derive_sections
from harness.store import wire_files as wire
from harness.store.columns import ops_frame, writes_frame
from harness.store.wire_reading import read_wire
from workloads.locks.redlock import RELEASE_SCRIPT

CLIENTS = NODES = 5
STEP_NS = 20_000


def record(folder: Path, rounds: int, *, busy: bool) -> tuple[list[KeyEvent], list[tuple[str, int, list[Op]]]]:
    """Write the proxy's two files. Returns what the witness saw, and the clients' operations."""
    moments: list[tuple[int, int, int, bytes | int]] = []
    links = [(client, node) for client in range(1, CLIENTS + 1) for node in range(1, NODES + 1)]
    for number, (client, node) in enumerate(links, 1):
        moments.append((number, number, wire.OPENED, f"c{client}-n{node} 127.0.0.1".encode()))
    events = [KeyEvent(f"n{node}", 1, "watching", value="id") for node in range(1, NODES + 1)]
    ops: dict[int, list[Op]] = {client: [] for client in range(1, CLIENTS + 1)}
    at = 1_000
    for turn in range(rounds):
        winner = turn % CLIENTS + 1
        since = at
        for step in range(2):
            for number, (client, node) in enumerate(links, 1):
                value = f"{turn:030x}{client:02x}"
                wins = client == winner
                words = (
                    ("SET", "k1", value, "NX", "PX", "1000")
                    if step == 0
                    else ("EVAL", RELEASE_SCRIPT, "1", "k1", value)
                )
                reply = (b"+OK\r\n" if wins else b"$-1\r\n") if step == 0 else (b":1\r\n" if wins else b":0\r\n")
                request = bytes(hiredis.pack_command(words))
                begin = at if busy else at + number * 100
                for after, kind, told in (
                    (0, wire.FROM_CLIENT, request),
                    (10, wire.TO_NODE, len(request)),
                    (20 if not busy else STEP_NS - 20, wire.FROM_NODE, reply),
                    (30 if not busy else STEP_NS - 10, wire.TO_CLIENT, len(reply)),
                ):
                    moments.append((begin + after, number, kind, told))
                if wins:
                    name = "set" if step == 0 else "deleted"
                    shown = value if step == 0 and not busy else None
                    events.append(KeyEvent(f"n{node}", at + STEP_NS, name, "k1", shown, 1_000, since))
            at += STEP_NS
            if step == 0:
                done = Op("acquire", "ok", "k1", turn + 1, since, at)
                ops[winner].append(done)
            else:
                ops[winner].append(Op("release", "ok", "k1", turn + 1, at - STEP_NS, at))
    moments.sort(key=lambda moment: moment[0])
    rows = [
        (when, number, len(told) if isinstance(told, bytes) else told, kind) for when, number, kind, told in moments
    ]
    (folder / wire.EVENTS).write_bytes(np.array(rows, wire.EVENT).tobytes())
    (folder / wire.BYTES).write_bytes(b"".join(told for *_, told in moments if isinstance(told, bytes)))
    return events, [(f"c{client}", 1, own) for client, own in ops.items()]


def main(requests: int, *, busy: bool) -> None:
    spare_memory()  # as the end of a run and the judge do
    with tempfile.TemporaryDirectory() as place:
        events, lives = record(Path(place), requests // (2 * CLIENTS * NODES), busy=busy)
        began = process_time()
        read = read_wire(Path(place), {f"n{node}": decode for node in range(1, NODES + 1)})
        decoded = process_time()
    config = RunConfig(seed=1, clients=CLIENTS, nodes=NODES)
    ops = ops_frame(lives)
    run = Recorded(
        config=config,
        timeline=Timeline(start_ns=0),
        ops=ops,
        sections=derive_sections(ops, (), ()),
        writes=writes_frame(()),
        faults=(),
        ends=(),
        planned_faults=0,
        final_values=None,
        watched=Watched(*derive_holdings(events), held_frame(())),
    )
    told = WireRecord(read.requests, read.connections, frozenset(config.node_names))
    derived = process_time()
    ledger = Ledger.of(run, events, told)
    done = process_time()
    count = len(read.requests)
    causes = ledger.rows["cause"].value_counts().to_dict()
    print(f"{count:,} requests, {len(ledger.rows):,} key changes ({causes})")
    for name, seconds in (
        ("decode", decoded - began),
        ("ledger", done - derived),
        ("both", decoded - began + done - derived),
    ):
        print(f"{name:8} {seconds:6.2f} CPU s  {count / seconds:12,.0f} requests a CPU second")


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
    main(numbers[0] if numbers else 400_000, busy="--busy" in sys.argv)
