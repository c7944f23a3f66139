"""What the nodes are known to have done: from what they answered to clients, or from what a witness saw on them.

Both become one form, a `NodeEvent`: something that happened to a key on a node, between two moments. A client's answer
bounds it by the moment before the question and the moment at which the answer was read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from harness.history import NodeReply, Round
from harness.store import RunFolder

What = Literal["granted", "prolonged", "deleted", "expired"]

_DONE: Final[Mapping[str, tuple[What, str]]] = {
    "acquire": ("granted", "OK"),
    "extend": ("prolonged", "1"),
    "undo": ("deleted", "1"),
    "release": ("deleted", "1"),
}
"""What a round did on a node, and the answer that says so."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Something that happened to a key on a node, not before `after_ns` and not after `by_ns`.

    `client`, `section`: who did it (None: nobody knows; nobody did, if it expired). `value`: the key's, or the one that
    was to be deleted.
    """

    node: str
    key: str
    what: What
    after_ns: int
    by_ns: int
    client: str | None = None
    section: int | None = None
    value: str | None = None


class Span(NamedTuple):
    """A key and the time that matters for it."""

    key: str
    from_ns: int
    to_ns: int


@dataclass(frozen=True, slots=True)
class Evidence:
    """`events`: by key and node, in order. `rounds`: by client and section, those that acquired, in order."""

    events: Mapping[tuple[str, str], Sequence[NodeEvent]] = field(default_factory=dict)
    rounds: Mapping[tuple[str, int], Sequence[Round]] = field(default_factory=dict)

    def on(self, node: str, key: str) -> Sequence[NodeEvent]:
        return self.events.get((key, node), ())

    def granting(self, client: str, section: int, start_ns: int) -> Round | None:
        """The round after which the client entered; None if it is not on record."""
        before = [one for one in self.rounds.get((client, section), ()) if one.done_ns <= start_ns]
        return before[-1] if before else None


def gather(folder: RunFolder, spans: Sequence[Span]) -> Evidence:
    """The evidence for these spans that the run's folder holds. Raises UsageError for logs that were damaged."""
    wanted: dict[str, list[Span]] = {}
    for span in spans:
        wanted.setdefault(span.key, []).append(span)
    if not wanted:
        return Evidence()
    return assemble(
        (client, one)
        for client, rounds in folder.read_answers()
        for one in rounds
        if any(one.asked_ns <= span.to_ns and one.done_ns >= span.from_ns for span in wanted.get(one.key, ()))
    )


def assemble(rounds: Iterable[tuple[str, Round]]) -> Evidence:
    """The evidence in rounds, each given with its client."""
    events: dict[tuple[str, str], list[NodeEvent]] = {}
    acquiring: dict[tuple[str, int], list[Round]] = {}
    for client, one in rounds:
        if one.f == "acquire":
            acquiring.setdefault((client, one.section), []).append(one)
        for reply in one.replies:
            event = _event(client, one, reply)
            if event is not None:
                events.setdefault((one.key, reply.node), []).append(event)
    for of_node in events.values():
        of_node.sort(key=lambda event: (event.by_ns, event.after_ns))
    for of_section in acquiring.values():
        of_section.sort(key=lambda one: one.asked_ns)
    return Evidence(events, acquiring)


def _event(client: str, one: Round, reply: NodeReply) -> NodeEvent | None:
    what, yes = _DONE[one.f]
    if reply.said != yes or reply.at_ns is None:
        return None
    return NodeEvent(reply.node, one.key, what, one.asked_ns, reply.at_ns, client, one.section, one.value)
