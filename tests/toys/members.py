"""In a sandbox of its own: three members without servers, cut from each other in every way. Says what probes saw."""

import json
import os
import sys
import tempfile
from pathlib import Path

from cluster.member_network import MemberNetwork
from cluster.namespaces import keep_capabilities

PAIRS = [("n1", "n2"), ("n2", "n1"), ("n1", "n3")]


def seen(network: MemberNetwork) -> list[str]:
    return list(network.probe(PAIRS).values())


def main() -> dict[str, object]:
    if os.geteuid():
        keep_capabilities()
    said: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        network = MemberNetwork(["n1", "n2", "n3"], Path(folder))
        network.open()
        try:
            said["whole"] = seen(network)
            network.cut("f1", "hold", [("n1", "n2")])
            said["held"] = seen(network)
            network.cut("f2", "refuse", [("n2", "n1"), ("n1", "n2")])
            said["refused back"] = seen(network)
            network.restore("f1")
            said["refused"] = seen(network)
            said["owners"] = sorted(network.owners(("n1", "n2")))
            network.heal()
            said["healed"] = seen(network)
            with network.inside("n2"):
                said["inside"] = os.popen("cat /proc/net/dev /proc/self/status").read().split()
        finally:
            network.close()
            network.close()
    said["left"] = os.popen("cat /proc/net/dev").read().count(":")
    return said


os.write(int(sys.argv[2]), json.dumps(main()).encode())
