"""How long a cluster of processes takes to start with all its links, compared with the bare servers.

python benchmarks/cluster_up.py [--clients 10] [--nodes 5] [--rounds 5] [--server redis]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from cluster.address import Address
from cluster.base import RESOURCE
from cluster.credentials import Access
from cluster.lifetime import RunState
from cluster.ports import LOOPBACK, Ports
from cluster.process import ProcessCluster
from cluster.process_node import ProcessNode
from cluster.programs import ServerProgram, find_server, find_toxiproxy
from cluster.run_user import Owner
from cluster.spec import ClusterSpec


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--clients", type=int, default=10)
    parser.add_argument("--nodes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--server", default="redis")
    options = parser.parse_args()
    server = find_server(options.server)
    nodes = [f"n{i}" for i in range(1, options.nodes + 1)]
    clients = [f"c{i}" for i in range(1, options.clients + 1)]

    whole, bare, down = [], [], []
    for _ in range(options.rounds):  # alternating, so that a busy machine slows both
        up_s, down_s = cluster_s(server, nodes, clients)
        whole.append(up_s)
        down.append(down_s)
        bare.append(servers_s(server, [*nodes, RESOURCE]))
    links = len(clients) * (len(nodes) + 1)
    print(f"{server.name} {server.version}, {len(nodes)} nodes + resource, {links} links, {options.rounds} rounds")
    for what, seconds in (("cluster up", whole), ("bare servers up", bare), ("cluster down", down)):
        print(f"{what:16} median {statistics.median(seconds) * 1000:6.1f} ms   max {max(seconds) * 1000:6.1f} ms")
    print(f"{'ratio':16} {statistics.median(whole) / statistics.median(bare):.2f} (cluster up / bare servers up)")


def cluster_s(server: ServerProgram, nodes: list[str], clients: list[str]) -> tuple[float, float]:
    """Seconds from nothing to all links standing, and from there to nothing; each link is then seen to answer."""
    with tempfile.TemporaryDirectory() as logs, RunState.create() as state:
        spec = ClusterSpec(server, server, find_toxiproxy(), tuple(nodes), tuple(clients))
        cluster = ProcessCluster(spec, state, Path(logs))
        began = time.perf_counter()
        cluster.start()
        up_s = time.perf_counter() - began
        silent = [key for key, seen in cluster.probe(list(cluster.links), 1000).items() if not seen.answered]
        if silent:
            raise SystemExit(f"these links do not answer: {silent}")
        began = time.perf_counter()
        cluster.stop()
        return up_s, time.perf_counter() - began


def servers_s(server: ServerProgram, names: list[str]) -> float:
    """Seconds until as many servers answer, started together, with nothing around them."""
    with tempfile.TemporaryDirectory() as logs, RunState.create() as state:
        access, owner = Access.fresh(closed=False), Owner.of_run()
        servers = [
            ProcessNode(
                name, server, state.path / name, Path(logs) / f"{name}.log", "none", access, owner, state.environment
            )
            for name in names
        ]
        ports = Ports()
        began = time.perf_counter()
        for node, port in zip(servers, ports.take(len(servers)), strict=True):
            node.claim(Address(LOOPBACK, port))
        with ThreadPoolExecutor(len(servers)) as pool:
            list(pool.map(ProcessNode.start, servers))
        took_s = time.perf_counter() - began
        for node in servers:
            node.kill()
        ports.close()
        return took_s


if __name__ == "__main__":
    main()
