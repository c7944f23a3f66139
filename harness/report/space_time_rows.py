"""What happens in a space-time diagram, row by row: the order of a picture that is drawn with characters.

A row holds what one client's requests did on several nodes, or what happened to several lanes alike. Rows are in an
order in which all of it can have happened: what two rows say of one lane is in the order of that lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

from fencepost.text import milliseconds
from harness.explain.lanes import KeyBar
from harness.explain.space_time import Arrow, Picture
from harness.explain.wire_requests import WireRequest

_LATE_NS: Final = 5_000_000
"""A request that was longer on its way has a row for where it begins, and one for where it ends."""
_LATE_REPLY_NS: Final = 20_000_000
"""A reply that came later after its request had reached the node has a row of its own."""
_TOGETHER_NS: Final = 10_000_000
"""What is further apart is no longer one row."""
LOST: Final = "×"
NO_REPLY: Final = "?"

Kind = Literal["request", "lost", "sent", "reply", "lane"]


@dataclass(frozen=True, slots=True)
class Event:
    """Something on some lanes. `beside`: what is written beside the lane of a node, its reply. `begins`, `ends`: by
    lane, whose section or key begins or ends there (None: of a client that is not known); `goes`, `returns`: lanes out
    of service. `did`: what a request did to another client's key. `is_over`: of what happens at the same time
    this comes first, because something that had begun before ends."""

    at_ns: int
    kind: Kind
    label: str
    client: str = ""
    beside: dict[str, str] = field(default_factory=dict)
    begins: dict[str, str | None] = field(default_factory=dict)
    ends: dict[str, str | None] = field(default_factory=dict)
    goes: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    did: str = ""
    is_over: bool = False

    @property
    def lanes(self) -> set[str]:
        return {self.client, *self.beside, *self.begins, *self.ends, *self.goes, *self.returns} - {""}


@dataclass(slots=True)
class Row:
    """Events of one kind and label. The first one says when."""

    events: list[Event]

    @property
    def first(self) -> Event:
        return self.events[0]

    def takes(self, event: Event) -> bool:
        one = self.first
        return (
            (one.kind, one.client, one.label) == (event.kind, event.client, event.label)
            and event.at_ns - one.at_ns <= _TOGETHER_NS
            and not any((event.lanes - {event.client}) & other.lanes for other in self.events)
        )


def rows(picture: Picture) -> list[Row]:
    """All that happens, from top to bottom."""
    found: list[Row] = []
    for event in sorted(_events(picture), key=lambda event: (event.at_ns, not event.is_over)):
        for row in reversed(found):
            if row.takes(event):
                row.events.append(event)
                break
            if any(event.lanes & other.lanes for other in row.events):
                found.append(Row([event]))
                break
        else:
            found.append(Row([event]))
    return found


def there_at_first(picture: Picture) -> Iterator[tuple[str, str | None]]:
    """The lanes on which a section or a key is there before the first row, and whose."""
    drawn = _drawn(picture)
    yield from ((s.client, s.client) for s in picture.sections if s.from_ns <= picture.from_ns)
    yield from ((bar.node, bar.owner) for bar in picture.bars if _begins_before(picture, bar, drawn))


def out_at_first(picture: Picture) -> set[str]:
    return {outage.lane for outage in picture.outages if outage.from_ns <= picture.from_ns}


def _events(picture: Picture) -> Iterator[Event]:
    for arrow in picture.arrows:
        yield from _of_arrow(picture, arrow)
    yield from _of_sections(picture)
    yield from _of_bars(picture)
    for outage in picture.outages:
        if picture.from_ns < outage.from_ns:
            yield Event(outage.from_ns, "lane", f"{outage.lane} {outage.what}", goes=(outage.lane,))
        if outage.to_ns <= picture.to_ns:
            back = "runs again" if outage.what in ("stopped", "not scheduled") else "back"
            yield Event(outage.to_ns, "lane", f"{outage.lane} {back}", returns=(outage.lane,))


def _of_arrow(picture: Picture, arrow: Arrow) -> Iterator[Event]:
    one, client, node = arrow.request, arrow.client, arrow.node
    if one.to_node_ns is None:
        yield Event(one.sent_ns, "lost", arrow.label, client, {node: LOST})
        return
    label, is_late = arrow.label, one.to_node_ns - one.sent_ns > _LATE_NS
    if is_late:
        yield Event(one.sent_ns, "sent", f"{label} to {node}", client)
        label = f"{label} after {milliseconds((one.to_node_ns - one.sent_ns) / 1e6)}"
    begins: dict[str, str | None] = {bar.node: bar.owner for bar in picture.bars if bar.set_by is one}
    ends: dict[str, str | None] = {bar.node: bar.owner for bar in picture.bars if bar.ended_by is one}
    said = one.reply_label or NO_REPLY
    if one.from_node_ns is not None and one.to_client_ns is None:
        said += LOST
    yield Event(one.to_node_ns, "request", label, client, {node: said}, begins, ends, did=arrow.did)
    if one.to_client_ns is not None and one.to_client_ns - one.to_node_ns > _LATE_REPLY_NS:
        late = milliseconds((one.to_client_ns - one.to_node_ns) / 1e6)
        yield Event(one.to_client_ns, "reply", f"{said} after {late}", client, {node: ""})


def _of_sections(picture: Picture) -> Iterator[Event]:
    for section in picture.sections:
        client, until_ns = section.client, min(section.to_ns, picture.to_ns)
        if picture.from_ns < section.from_ns:
            label = f"{section.who} enters (section {section.number:,})"
            yield Event(section.from_ns, "lane", label, begins={client: client})
        if max(section.from_ns, picture.from_ns) < section.valid_until_ns < until_ns:
            word = "ends" if section.is_exact else "may have ended"
            # On the client's lane, which looks as before.
            yield Event(section.valid_until_ns, "lane", f"{section.who}'s lease {word}", beside={client: ""})
        if section.to_ns <= picture.to_ns:
            yield Event(section.to_ns, "lane", f"{section.who} leaves", ends={client: client})


def _of_bars(picture: Picture) -> Iterator[Event]:
    """Changes of keys that no drawn request made."""
    drawn = _drawn(picture)
    for bar in picture.bars:
        whose = f"{bar.owner}'s key" if bar.owner is not None else "a key"
        if bar.set_by not in drawn and not _begins_before(picture, bar, drawn):
            yield Event(bar.from_ns, "lane", f"{whose} is set", begins={bar.node: bar.owner})
        if bar.ended_by not in drawn and bar.to_ns <= picture.until_ns:
            by = f" by {bar.ended_by.sender}" if bar.ended_by is not None else ""
            word = _ENDS.get(bar.ended, "is gone")
            is_over = bar.from_ns < bar.to_ns
            yield Event(bar.to_ns, "lane", f"{whose} {word}{by}", ends={bar.node: bar.owner}, is_over=is_over)


_ENDS: Final = {
    "deleted": "is deleted",
    "expired": "expires",
    "overwritten": "is overwritten",
    "set unread": "is overwritten",
    "lost": "is no longer observed",
}


def _begins_before(picture: Picture, bar: KeyBar, drawn: Sequence[WireRequest]) -> bool:
    return bar.from_ns <= picture.from_ns and bar.set_by not in drawn


def _drawn(picture: Picture) -> list[WireRequest]:
    return [arrow.request for arrow in picture.arrows]
