"""In a sandbox of its own: three members of a group, whose server the environment names (`GROUP`), with links of a
client. Says what was seen when a leader is lost."""

import json
import os
import sys
import tempfile
import time
from pathlib import Path

from cluster.lifetime import RunState
from cluster.namespaces import keep_capabilities
from cluster.polling import becomes_true
from cluster.process import ProcessCluster
from cluster.programs import find_server
from cluster.server import Group
from tests.specs import spec_of

MEMBERS = ("n1", "n2", "n3")


def main() -> dict[str, object]:
    if os.geteuid():
        keep_capabilities()
    said: dict[str, object] = {}
    spec = spec_of(MEMBERS, ("c1",), server=find_server(os.environ["GROUP"]))
    group = spec.group
    assert group is not None
    with tempfile.TemporaryDirectory() as folder, RunState.create(parent=Path(folder)) as state:
        cluster = ProcessCluster(spec, state, Path(folder) / "logs")
        began_s = time.monotonic()
        cluster.start()
        said["start_s"] = time.monotonic() - began_s
        try:
            play(cluster, group, said)
        finally:
            cluster.stop()
    return said


def play(cluster: ProcessCluster, group: Group, said: dict[str, object]) -> None:
    addresses = {name: node.address for name, node in cluster.nodes.items()}

    def another(than: str | None) -> str:
        names = {name: address for name, address in addresses.items() if name != than}
        assert becomes_true(lambda: group.leader(names, 300) not in (None, than), within_s=15), than
        return str(group.leader(names, 300))

    said["run as"] = sorted({Path(f"/proc/{node.pid}").stat().st_uid for node in cluster.nodes.values()})
    said["leader"] = first = another(None)
    said["probe"] = {
        f"{c}-{n}": r[:3] for (c, n), r in cluster.probe([("c1", name) for name in MEMBERS], 2_000).items()
    }
    network = cluster.members
    assert network is not None
    others = [name for name in MEMBERS if name != first]
    network.cut("f1", "hold", [*((first, name) for name in others), *((name, first) for name in others)])
    began_s = time.monotonic()
    second = another(first)
    said["elected_s"] = time.monotonic() - began_s
    said["elected another"] = second != first
    said["cut off, alive and serving"] = [cluster.nodes[first].is_up(), group.serves(addresses[first], 300)]
    said["cut off, its link"] = cluster.probe([("c1", first)], 300)["c1", first][:3]
    network.restore("f1")
    said["healed"] = becomes_true(lambda: group.serves(addresses[first], 1_000), within_s=15)
    cluster.nodes[second].kill()
    said["after a kill"] = another(second) != second
    cluster.nodes[second].start()
    said["back"] = becomes_true(lambda: group.serves(addresses[second], 1_000), within_s=15)


os.write(int(sys.argv[2]), json.dumps(main()).encode())
