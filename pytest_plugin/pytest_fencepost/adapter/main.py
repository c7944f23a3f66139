"""Find what the author named, and answer requests with it until stdin ends."""

from __future__ import annotations

import sys
from functools import reduce
from importlib import import_module

from pytest_fencepost.adapter.author_lock import open_lock
from pytest_fencepost.adapter.fencepost_adapter import Adapter, Nodes, Settings, serve


def main() -> None:
    target = sys.argv[1]

    def open_named(nodes: Nodes, settings: Settings) -> Adapter:
        del settings  # the author's own timeouts and delays are part of what is tested
        module, _, name = target.partition(":")
        make = reduce(getattr, name.split("."), import_module(module))
        return open_lock(make, target, nodes)  # type: ignore[arg-type]

    serve(open_named)
