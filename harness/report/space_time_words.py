"""What a space-time diagram says of an arrow, a key or a section when the pointer is on it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencepost.text import cut, milliseconds, printable
from harness.explain.lanes import KeyBar, Outage, Section
from harness.explain.space_time import Arrow, Picture
from harness.history.fault_windows import FOREVER_NS

_LONGEST: Final = 300


def of_arrow(picture: Picture, arrow: Arrow) -> list[str]:
    """Its lines: who asked what, when, and what came of it."""
    one = arrow.request
    return [
        f"{arrow.client} to {arrow.node}: {arrow.label}",
        ", ".join(_way(picture, arrow)),
        *([f"reply {cut(one.reply, _LONGEST)}"] if one.reply is not None else []),
        *([arrow.did] if arrow.did else []),
        cut(" ".join(one.words), _LONGEST),
    ]


def _way(picture: Picture, arrow: Arrow) -> Iterator[str]:
    one = arrow.request
    if one.from_client_ns is not None:
        yield f"sent {at(picture, one.from_client_ns)}"
    if one.to_node_ns is None:
        yield f"lost on the way to {arrow.node}"
        return
    yield f"passed on to {arrow.node} {at(picture, one.to_node_ns)}"
    if one.from_node_ns is None:
        yield "never answered"
        return
    yield f"answered {at(picture, one.from_node_ns)}"
    yield (
        "reply lost"
        if one.to_client_ns is None
        else f"reply passed on to {arrow.client} {at(picture, one.to_client_ns)}"
    )


def of_bar(picture: Picture, bar: KeyBar) -> list[str]:
    whose = f"{bar.owner}'s" if bar.owner is not None else "an unknown client's"
    lines = [
        f"{bar.node} holds {whose} {printable(bar.key)} from {at(picture, bar.from_ns)} to {at(picture, bar.to_ns)}",
        f"value {'unread' if bar.value is None else cut(bar.value, _LONGEST)}",
    ]
    if bar.ended_by is not None:
        lines.append(f"{bar.ended} by {bar.ended_by.sender}: {bar.ended_by.label}")
    elif bar.ended:
        lines.append("then no longer observed" if bar.ended == "lost" else bar.ended)
    return lines


def of_section(picture: Picture, section: Section) -> list[str]:
    inside = f"inside from {at(picture, section.from_ns)} to {at(picture, section.to_ns)}"
    if section.valid_until_ns >= FOREVER_NS:
        lease = "no validity reported"
    else:
        until = "" if section.is_exact else "at least "
        lease = f"lease valid until {until}{at(picture, section.valid_until_ns)}"
    return [f"{section.who}, section {section.number:,}", inside, lease]


def of_outage(picture: Picture, outage: Outage) -> list[str]:
    until = "the end" if outage.to_ns >= FOREVER_NS else at(picture, outage.to_ns)
    return [f"{outage.lane} {outage.what} from {at(picture, outage.from_ns)} to {until}"]


def title(picture: Picture) -> str:
    """What the picture shows, for readers who cannot see it."""
    lasted = f", {both_inside(*picture.overlap)}" if picture.overlap else ""
    return f"Requests of {', '.join(picture.clients)} for {printable(picture.key)}{lasted}"


def at(picture: Picture, moment_ns: int) -> str:
    """`+2,310.42 ms`, since the start of the load."""
    return f"{(moment_ns - picture.zero_ns) / 1e6:+,.2f} ms"


def both_inside(from_ns: int, to_ns: int) -> str:
    return f"both inside for {milliseconds((to_ns - from_ns) / 1e6)}"
