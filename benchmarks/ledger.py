"""How fast the proxy's record becomes requests, and requests and key events become ledgers: requests a CPU second.

Five clients ask five nodes for one key, which one of them gets; all of them release it. So a fifth of the requests
changes a key, and the others change nothing.

    python benchmarks/ledger.py [requests]
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from pathlib import Path
from time import process_time

import hiredis
import numpy as np

from cluster.key_causes import digest_of
from cluster.redis_requests import decode
from fencepost.history import KeyEvent, Op, Timeline
from fencepost.memory import spare_memory
from harness.config import RunConfig
from harness.history.change_causes import WireRecord
from harness.history.key_holdings import derive_holdings
from harness.history.ledger import Ledger
from harness.history.recorded import Recorded
from harness.history.sections import derive_sections
from harness.store import wire_files as wire
from harness.store.columns import ops_frame, writes_frame
from harness.store.wire_reading import read_wire
from workloads.locks.redlock import RELEASE_SCRIPT

CLIENTS = NODES = 5
SCRIPT_NAME = hashlib.sha1(RELEASE_SCRIPT, usedforsecurity=False).hexdigest()
STEP_NS = 20_000


def record(folder: Path, rounds: int) -> tuple[list[KeyEvent], list[tuple[str, int, list[Op]]]]:
    """Write the proxy's two files. Returns what the witness saw, and the clients' operations."""
    moments: list[tuple[int, int, int, bytes | int]] = []
    links = [(client, node) for client in range(1, CLIENTS + 1) for node in range(1, NODES + 1)]
    for number, (client, node) in enumerate(links, 1):
        moments.append((number, number, wire.OPENED, f"c{client}-n{node} 127.0.0.1 {number}".encode()))
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
                begin = at + number * 100
                for after, kind, told in (
                    (0, wire.FROM_CLIENT, request),
                    (10, wire.TO_NODE, len(request)),
                    (20, wire.FROM_NODE, reply),
                    (30, wire.TO_CLIENT, len(reply)),
                ):
                    moments.append((begin + after, number, kind, told))
                if wins:
                    name, shown, command = ("set", value, "SET") if step == 0 else ("deleted", None, "DEL")
                    event = KeyEvent(f"n{node}", at + STEP_NS, name, "k1", shown, 1_000, since)
                    event.port, event.command, event.place = number, command, 2 * turn + step
                    event.digest = digest_of([SCRIPT_NAME if word is RELEASE_SCRIPT else str(word) for word in words])
                    events.append(event)
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


def main(requests: int) -> None:
    spare_memory()  # as the end of a run and the judge do
    with tempfile.TemporaryDirectory() as place:
        events, lives = record(Path(place), requests // (2 * CLIENTS * NODES))
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
        watched=derive_holdings(events),
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
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 400_000)
