"""How long it takes to cut and heal many links: `python benchmarks/links.py [--links 400] [--rounds 3]`.

All of them together, as faults do it, compared with one after the other. Each kind of cut both ways, read back from
Toxiproxy; no client uses the links. Compare only the ratios within one run: a busy machine slows everything.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import get_args

from cluster.address import LinkKey
from cluster.base import Cut, CutKind
from cluster.lifetime import RunState
from cluster.process import ProcessCluster
from cluster.programs import find_server, find_toxiproxy
from cluster.spec import ClusterSpec

NODES = tuple(f"n{number}" for number in range(1, 6))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--links", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    clients = tuple(f"c{number}" for number in range(1, options.links // len(NODES) + 1))
    server = find_server("redis")
    with tempfile.TemporaryDirectory() as logs, RunState.create() as state:
        cluster = ProcessCluster(ClusterSpec(server, server, find_toxiproxy(), NODES, clients), state, Path(logs))
        cluster.start()
        try:
            links = [(client, node) for client in clients for node in NODES]
            print(f"{len(links)} links, median of {options.rounds} rounds")
            for kind in get_args(CutKind):
                compare(cluster, links, kind, options.rounds)
        finally:
            cluster.stop()


def compare(cluster: ProcessCluster, links: list[LinkKey], kind: CutKind, rounds: int) -> None:
    """Alternating, so that a busy machine slows both."""
    cut = Cut(kind, "both")
    took: dict[str, list[float]] = {"cut": [], "cut one by one": [], "heal": [], "heal one by one": []}
    for _ in range(rounds):
        took["cut"].append(seconds(lambda: cluster.impair(links, "f1", cut)))
        took["heal"].append(seconds(lambda: cluster.restore(links, "f1")))
        took["cut one by one"].append(seconds(lambda: [cluster.impair([link], "f1", cut) for link in links]))
        took["heal one by one"].append(seconds(lambda: [cluster.restore([link], "f1") for link in links]))
    middle = {name: statistics.median(values) for name, values in took.items()}
    for verb in ("cut", "heal"):
        alone = middle[f"{verb} one by one"]
        ratio = alone / middle[verb]
        print(f"  {verb:5} {kind:7} {middle[verb]:6.3f} s together   {alone:6.3f} s one by one   {ratio:5.1f} times")


def seconds(call: Callable[[], object]) -> float:
    began = time.perf_counter()
    call()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
