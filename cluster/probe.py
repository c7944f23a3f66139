"""Probe links: send one command through each at the same time, and see whether it was answered and applied.

The command leaves a mark on the node, so that afterwards the node itself can be asked whether it was applied: a
reply that was lost on its way looks like a lost command to the client, but is not the same.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TypeVar

from cluster.address import Address, LinkKey, ProbeResult
from cluster.base import DIALLED_FROM, LOOPBACK
from cluster.resp import Exchange, encode, exchange_all

MARK_PREFIX = "fencepost:probe:"
"""Keys of probes begin with this; no lock key may."""

MARK_LIFE_MS = 5_000
"""When a node that was probed deletes the key by itself."""

_DIRECT_TIMEOUT_MS = 200.0

K = TypeVar("K")


def probe_links(
    targets: Mapping[LinkKey, Address], nodes: Mapping[str, Address], timeout_ms: float
) -> dict[LinkKey, ProbeResult]:
    """Send one harmless SET through each link (by (client, node), at its address) over fresh connections.

    `nodes` says where each node itself listens. Returns as soon as every link and every node has answered or failed, at
    the latest after about `timeout_ms`; asking the nodes takes at most another 200 ms, if one of them hangs.
    """
    run = f"{{{os.urandom(8).hex()}}}"  # in braces: a cluster keeps all of them in one place, that of our own write
    marks = {key: f"{MARK_PREFIX}{run}:{key[0]}" for key in targets}
    through = {
        key: _through(address, encode("SET", marks[key], 1, "PX", MARK_LIFE_MS)) for key, address in targets.items()
    }
    asked: dict[str, list[LinkKey]] = {}
    for key in targets:
        asked.setdefault(key[1], []).append(key)
    # A node that refuses every write says nothing about a link: a write of our own tells, now and afterwards.
    own = encode("SET", f"{MARK_PREFIX}{run}:direct", 1, "PX", MARK_LIFE_MS)
    meanwhile = {node: Exchange(nodes[node], own) for node in asked}
    _carry_out({**through, **meanwhile}, timeout_ms)

    direct = {
        node: Exchange(
            nodes[node],
            b"".join(encode("EXISTS", marks[key]) for key in keys) + own,
            len(keys) + 1,
        )
        for node, keys in asked.items()
    }
    _carry_out(direct, _DIRECT_TIMEOUT_MS)

    applied: dict[LinkKey, bool] = {}
    for node, keys in asked.items():
        if direct[node].is_answered and not any(map(_is_refused, (meanwhile[node], direct[node]))):
            replies = zip(keys, direct[node].replies, strict=False)
            applied.update((key, reply == 1) for key, reply in replies if not _is_refused(through[key]))
    return {key: _result(exchange, applied.get(key)) for key, exchange in through.items()}


def ping_links(
    targets: Mapping[LinkKey, Address], nodes: Mapping[str, Address], timeout_ms: float
) -> dict[LinkKey, ProbeResult]:
    """Like `probe_links`, for servers that keep no keys: whether they executed the command is seen by its reply
    alone."""
    through = {key: _through(address, encode("PING")) for key, address in targets.items()}
    _carry_out(through, timeout_ms)
    return {key: _result(exchange, None) for key, exchange in through.items()}


def _through(link: Address, request: bytes) -> Exchange:
    return Exchange(link, request, dialled_from=DIALLED_FROM if link.host == LOOPBACK else None)


def _result(exchange: Exchange, applied: bool | None) -> ProbeResult:
    return ProbeResult(
        answered=exchange.is_answered,
        applied=applied,
        refused=not exchange.is_answered and isinstance(exchange.failure, ConnectionError),
        elapsed_ms=exchange.elapsed_ms,
    )


def _is_refused(write: Exchange) -> bool:
    return write.is_answered and isinstance(write.replies[-1], Exception)


def _carry_out(exchanges: Mapping[K, Exchange], timeout_ms: float) -> None:
    try:
        exchange_all(exchanges.values(), timeout_ms)
    finally:
        for exchange in exchanges.values():
            exchange.close()
