"""Probe links by marks: write one through each link at the same time, and ask each node itself which of them it has.

A reply that was lost on its way looks like a lost write to the client, but is not the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from functools import partial
from time import monotonic
from typing import Literal, NamedTuple

from cluster.address import Address, LinkKey, ProbeResult
from cluster.parallel import at_once
from cluster.probe import MARK_PREFIX
from cluster.server import ProbeLinks

Leave = Callable[[Address, str, float], object]
"""Writes the mark of this name through a link, within so many milliseconds. Raises OSError if that is not answered."""
Find = Callable[[Address, str], Collection[str]]
"""The marks whose names begin like this, as the node itself has them, and perhaps others. Raises OSError if it does not
say."""


class _Ended(NamedTuple):
    """How a write through a link ended. `refused`: it was not even dialled."""

    how: Literal["answered", "refused", "closed", "silent"]
    took_ms: float


def by_marks(leave: Leave, find: Find) -> ProbeLinks:
    """A node that does not say which marks it has, such as a member without a majority behind it, tells nothing of what
    was written; it may close connections itself, so that a closed one tells nothing of its link."""

    def probe_links(
        targets: Mapping[LinkKey, Address], nodes: Mapping[str, Address], timeout_ms: float
    ) -> dict[LinkKey, ProbeResult]:
        run = f"{MARK_PREFIX}{os.urandom(4).hex()}:"
        marks = {link: f"{run}{link[1]}:{link[0]}" for link in targets}
        through = at_once(partial(_through, leave, targets[link], marks[link], timeout_ms) for link in targets)
        asked = list(dict.fromkeys(node for _, node in targets))
        seen = at_once(partial(_found, find, nodes[node], f"{run}{node}:") for node in asked)
        there = dict(zip(asked, seen, strict=True))
        return {link: _result(ended, marks[link], there[link[1]]) for link, ended in zip(targets, through, strict=True)}

    return probe_links


def _through(leave: Leave, link: Address, mark: str, timeout_ms: float) -> _Ended:
    began_s = monotonic()
    how: Literal["answered", "refused", "closed", "silent"] = "answered"
    try:
        leave(link, mark, timeout_ms)
    except ConnectionRefusedError:
        how = "refused"
    except ConnectionError:
        how = "closed"
    except OSError:
        how = "silent"
    return _Ended(how, (monotonic() - began_s) * 1e3)


def _found(find: Find, node: Address, prefix: str) -> Collection[str] | None:
    try:
        return find(node, prefix)
    except OSError:
        return None


def _result(ended: _Ended, mark: str, there: Collection[str] | None) -> ProbeResult:
    """`there`: the marks that the node has; None if it does not say."""
    refused = ended.how == "refused" or (ended.how == "closed" and there is not None)
    return ProbeResult(ended.how == "answered", None if there is None else mark in there, refused, ended.took_ms)
