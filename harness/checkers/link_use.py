"""Did the lock use the links that it was given? A fault of a link never reaches a lock that dials the nodes directly.

Each granted section takes at least one request, and so does each of its values on a node. A client that was granted
sections and sent less than half as many requests over its links reached the nodes in another way; likewise over its
link to one node, if that node held its values. Counted is what the proxy recorded (`harness.store.wire`), without the
harness's own requests. What a client sent before the load is its warm-up, and is taken off again for each later life.
With several tasks, the one with the most sections counts: tasks may share requests.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

import msgspec
import numpy as np

from fencepost.history import process_of
from fencepost.text import listed, plural
from harness.figures import CheckerFigures, Part, Row
from harness.history.groups import where
from harness.history.recorded import Recorded
from harness.verdict import Answer

_SHARE: Final = 0.5
_NAMES_SHOWN: Final = 4
_NOT_RECORDED: Final = "not recorded: whether the lock used its links"

Link = tuple[str, str]


class Around(msgspec.Struct, frozen=True):
    """Links of one client that its lock did without. `nodes`: where they lead. `sections`: that it was granted
    all the same. `requests`: what went over these links meanwhile."""

    client: str
    nodes: tuple[str, ...]
    sections: int
    requests: int


class Figures(CheckerFigures, frozen=True):
    """`requests`: how many went over the links of all clients to the nodes; None where that was not recorded.
    `around`: the clients whose lock reached nodes without its links. `links_hit`: how many links faults cut or slowed;
    `missed`: those of them that the lock did without."""

    requests: int | None
    around: tuple[Around, ...]
    links_hit: int
    missed: int

    def rows(self) -> Iterator[Row]:
        """`c1 and c2 reach the nodes without their links (812 sections granted, 0 requests over the links)`."""
        if self.requests is None and self.links_hit:
            yield Row("links", _NOT_RECORDED, order=12, is_input=True)
        if self.around:
            yield Row("links", f"{_who(self.around)}; faults of links would not reach them", order=12, is_input=True)

    def parts(self) -> Iterator[Part]:
        if self.requests is None and not self.links_hit:
            return
        text = _NOT_RECORDED if self.requests is None else f"{plural(self.requests, 'request')} over the clients' links"
        if self.around:
            text += f"; {_who(self.around)}"
        yield Part("What the faults hit", order=40, sentences=(f"{text[0].upper()}{text[1:]}.",))


def check(run: Recorded) -> Answer:
    hit = {
        (client, node)
        for event in run.faults
        if event.event == "injected" and not event.unplanned
        for client, node in event.links
        if client in run.config.client_names and node in run.config.node_names
    }
    if run.traffic is None:
        return Answer(Figures(requests=None, around=(), links_hit=len(hit), missed=0))
    sent = _sent(run)
    around = tuple(_around(run, sent))
    missed = hit & {(each.client, node) for each in around for node in each.nodes}
    figures = Figures(requests=sum(sent.values()), around=around, links_hit=len(hit), missed=len(missed))
    if not missed:
        return Answer(figures)
    untested = tuple(each for each in around if any((each.client, node) in missed for node in each.nodes))
    reason = (
        f"faults of links did not reach the lock: {_who(untested)}; a lock must dial the addresses that it is opened "
        "with (docs/lock-protocol.md)"
    )
    return Answer(figures, unknown=(reason,))


def _sent(run: Recorded) -> dict[Link, int]:
    """How many requests the lock of each client sent to each node during the load."""
    lives = _latest_lives(run)
    return {
        (link.client, link.node): max(link.named, link.load - max(0, lives.get(link.client, 1) - 1) * link.warm_up)
        for link in run.traffic or ()
        if link.node in run.config.node_names
    }


def _latest_lives(run: Recorded) -> dict[str, int]:
    latest: dict[str, int] = {}
    for end in run.ends:
        client = process_of(end.client)
        latest[client] = max(latest.get(client, 1), end.life)
    return latest


def _around(run: Recorded, sent: Mapping[Link, int]) -> Iterator[Around]:
    granted = _of_the_busiest_task(run.sections["client"].astype(str))
    on_nodes = _sections_on_nodes(run)
    for client in run.config.client_names:
        nodes = tuple(node for node in run.config.node_names if (client, node) in sent)
        requests = sum(sent[client, node] for node in nodes)
        sections = granted[client]
        # What went over a link that is not here is not known.
        if len(nodes) == len(run.config.node_names) and requests < _SHARE * sections:
            yield Around(client, nodes, sections, requests)
            continue
        some = tuple(node for node in nodes if sent[client, node] < _SHARE * on_nodes[client, node])
        if some:
            yield Around(
                client,
                some,
                max(on_nodes[client, node] for node in some),
                sum(sent[client, node] for node in some),
            )


def _sections_on_nodes(run: Recorded) -> Counter[Link]:
    """How many sections of each client's busiest task each node held a value of, as far as the nodes were watched."""
    found: Counter[Link] = Counter()
    if run.owners is None or run.owners.copies:
        return found
    holdings = run.owners.holdings[["node", "section"]]
    owned = where(holdings, holdings["section"] >= 0).drop_duplicates()
    clients = run.sections["client"].astype(str).to_numpy()
    for node, rows in owned.groupby(owned["node"].astype(str)):
        for client, number in _of_the_busiest_task(clients[rows["section"].to_numpy(np.int64)]).items():
            found[client, str(node)] = number
    return found


def _of_the_busiest_task(users: Iterable[str]) -> Counter[str]:
    """By client process, the most that one of its tasks has."""
    busiest: Counter[str] = Counter()
    for user, number in Counter(users).items():
        busiest[process_of(user)] = max(busiest[process_of(user)], number)
    return busiest


def _who(around: tuple[Around, ...]) -> str:
    """`c1 and c2 reach the nodes without their links (812 sections granted, 0 requests over the links)`."""
    names = [each.client for each in around]
    shown = names if len(names) <= _NAMES_SHOWN else [*names[: _NAMES_SHOWN - 1], f"{len(names) - 3} more clients"]
    nodes = sorted({node for each in around for node in each.nodes})
    whole = all(each.nodes == around[0].nodes for each in around)
    where = listed(nodes) if whole and len(nodes) == 1 else "nodes" if not whole else f"{len(nodes)} nodes"
    verb, their = ("reaches", "its") if len(names) == 1 else ("reach", "their")
    sections = plural(sum(each.sections for each in around), "section")
    requests = plural(sum(each.requests for each in around), "request")
    return f"{listed(shown)} {verb} {where} without {their} links ({sections} granted, {requests} over these links)"
