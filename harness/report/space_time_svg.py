"""A space-time diagram as SVG: for the page of a run, and as a file of its own for reports in Markdown.

Clients are on both sides of the nodes, the first one on the left and the second on the right, so that arrows of two
clients come from two directions. A pointer that rests on something shows what it is (`<title>`), without a script.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from markupsafe import Markup, escape

from fencepost.text import cut, milliseconds, printable
from harness.explain.lanes import KeyBar
from harness.explain.space_time import Arrow, Picture
from harness.report import space_time_words as words
from harness.report.html import asset
from harness.report.space_time_axis import Axis
from harness.report.space_time_text import left_out
from harness.report.svg_labels import Anchor, Labels, LabelSpot, pixels

_AXIS_AT: Final = 84
_OUTSIDE: Final = 84
"""For labels on the far side of the outer clients."""
_CLIENT_APART: Final = 44
_FOR_LABELS: Final = 180
_LONGEST_LABEL: Final = 29
_NODES_WIDE: Final = 380
_NODE_APART: Final = (64, 104)
_TOP: Final = 48
_LINE: Final = 15
_SAID: Final = {"expired": "expires", "lost": "unobserved"}
"""How the time of a key ended, where no request did it."""
_TOGETHER_NS: Final = 10_000_000
_LOST_AT: Final = 24
"""How long before its end an arrow ends that was lost, in pixels."""
_LOST_SLANT: Final = 10


def svg_picture(picture: Picture) -> Markup:
    """The picture for a page, whose style sheet has the colours."""
    return _SvgDrawing(picture).svg(style="")


def svg_file(picture: Picture) -> str:
    """The picture as a file that needs nothing else, in both colour themes."""
    colours = asset("page.css").partition("* {")[0]
    return f"{_SvgDrawing(picture).svg(style=colours + asset('space_time.css'))}\n"


class _SvgDrawing:
    def __init__(self, picture: Picture) -> None:
        self._picture = picture
        self._x, self._width = _columns(picture)
        self._labelled = _labelled(picture)
        room = {arrow.request.sent_ns: _LINE * len(texts) + 4.0 for arrow, texts in self._labelled}
        self._axis = Axis(_moments(picture), _TOP + 30, room)
        self._labels = Labels()
        self._times: list[int] = []

    def svg(self, style: str) -> Markup:
        picture, labels = self._picture, self._labels
        for name, x in self._x.items():
            labels.add(name, f"name {self._colour(name)}", [LabelSpot(x, _TOP - 14, "middle")])
        labels.add("ms", "soft", [LabelSpot(_AXIS_AT - 8, _TOP - 14, "end")])
        breaks = list(self._breaks())
        arrows = list(self._arrows())
        drawn = [*self._overlap(), *self._lanes(), *self._bars(), *self._sections(), *self._outages(), *arrows, *breaks]
        self._tell_times()
        bottom = self._axis.bottom + 10
        for line in ("time runs downwards, not to scale", *left_out(picture)):
            bottom += _LINE
            labels.add(line, "soft", [LabelSpot(_AXIS_AT, bottom)])
        height = round(bottom + 12)
        inside = f"<style>{style}</style>" if style else ""
        return Markup(  # noqa: S704  (all foreign text in it was escaped)
            f'<svg xmlns="http://www.w3.org/2000/svg" class="space-time" role="img" '
            f'aria-label="{escape(words.title(picture))}" width="{self._width}" height="{height}" '
            f'viewBox="0 0 {self._width} {height}">{inside}<rect class="back" width="100%" height="100%"/>'
            f"{''.join(drawn)}{''.join(labels.drawn)}</svg>"
        )

    # -- lanes and bars ----------------------------------------------------------------------------------------------

    def _lanes(self) -> Iterator[str]:
        bottom, until = self._axis.bottom, self._axis.y(self._picture.until_ns)
        for name, x in self._x.items():
            end = until if name in self._picture.nodes else bottom
            yield f'<path class="lane" d="M{pixels(x)} {_TOP - 4}V{pixels(end)}"/>'
            if end < bottom:
                yield f'<path class="lane after" d="M{pixels(x)} {pixels(end)}V{pixels(bottom)}"/>'

    def _overlap(self) -> Iterator[str]:
        overlap = self._picture.overlap
        if overlap is None:
            return
        top, bottom = (self._axis.y(at_ns) for at_ns in overlap)
        left, right = min(self._x.values()), max(self._x.values())
        yield (
            f'<rect class="both" x="{pixels(left - 14)}" y="{pixels(top)}" width="{pixels(right - left + 28)}" '
            f'height="{pixels(max(bottom - top, 1))}"/>'
        )
        says = words.both_inside(*overlap)
        y = (top + bottom) / 2 + 4
        shifts = (0, 14, -14, 28, -28)
        self._labels.add(says, "both-says", [LabelSpot((left + right) / 2, y + shift, "middle") for shift in shifts])

    def _bars(self) -> Iterator[str]:
        picture, axis = self._picture, self._axis
        for bar, track in _with_tracks(picture.bars):
            top, bottom = axis.y(max(bar.from_ns, picture.from_ns)), axis.y(min(bar.to_ns, picture.until_ns))
            x, is_over = self._x[bar.node] - 5 + 7 * track, bar.to_ns <= picture.until_ns
            inside = _box("bar", x, top, 10, bottom)
            if is_over and bar.ended_by is not None and bar.ended_by.sender != bar.owner:
                inside += f'<path class="cut" d="M{pixels(x - 3)} {pixels(bottom)}h16"/>'
            yield _group(f"key {self._colour(bar.owner)}", words.of_bar(picture, bar), inside)
            if is_over and bar.ended in _SAID:
                self._times.append(bar.to_ns)
                self._labels.add(_SAID[bar.ended], "soft", [LabelSpot(x + 14, bottom + 4)])

    def _sections(self) -> Iterator[str]:
        picture, axis = self._picture, self._axis
        for section in picture.sections:
            x = self._x[section.client] - 7
            from_ns, to_ns = max(section.from_ns, picture.from_ns), min(section.to_ns, picture.to_ns)
            top, bottom = axis.y(from_ns), axis.y(to_ns)
            self._labels.add(f"section {section.number:,}", "soft", self._outside(section.client, top + 11))
            over = axis.y(min(max(section.valid_until_ns, from_ns), to_ns))
            inside = _box("bar", x, top, 14, over) if section.valid_until_ns > from_ns else ""
            if over < bottom:
                inside += _box("bar past", x, over, 14, bottom)
                says = "lease over" if section.is_exact else "lease over?"
                self._labels.add(says, "soft", self._outside(section.client, over + 11))
            yield _group(f"section {self._colour(section.client)}", words.of_section(picture, section), inside)
            self._times += [section.from_ns, section.to_ns]

    def _outages(self) -> Iterator[str]:
        picture = self._picture
        for outage in picture.outages:
            top = self._axis.y(max(outage.from_ns, picture.from_ns))
            bottom = self._axis.y(min(outage.to_ns, picture.to_ns))
            inside = _box("out", self._x[outage.lane] - 3, top, 6, bottom)
            yield _group("outage", words.of_outage(picture, outage), inside)
            self._labels.add(outage.what, "soft", self._outside(outage.lane, top + 11))

    # -- arrows ------------------------------------------------------------------------------------------------------

    def _arrows(self) -> Iterator[str]:
        for arrow, texts in self._labelled:
            y = self._axis.y(max(arrow.request.sent_ns, self._picture.from_ns)) - 4
            self._times.append(arrow.request.sent_ns)
            for place, (text, kind) in enumerate(reversed(texts)):
                self._labels.add(text, kind, self._beside(arrow.client, y - _LINE * place))
        for arrow in self._picture.arrows:
            kind = f"request{' culprit' if arrow.did else ''} {self._colour(arrow.client)}"
            yield _group(kind, words.of_arrow(self._picture, arrow), "".join(self._there_and_back(arrow)))

    def _there_and_back(self, arrow: Arrow) -> Iterator[str]:
        one, axis, picture = arrow.request, self._axis, self._picture
        client, node = self._x[arrow.client], self._x[arrow.node]
        way = 1 if client < node else -1
        beside_client, beside_node = client + 8 * way, node - 6 * way
        if one.from_client_ns is not None:
            sent = beside_client, axis.y(one.from_client_ns)
            yield from self._stroke("there", sent, beside_node, one.to_node_ns)
        if one.from_node_ns is not None and one.from_node_ns <= picture.until_ns:
            answered = beside_node, axis.y(one.from_node_ns)
            yield from self._stroke("reply", answered, beside_client, one.to_client_ns)
            anchor: Anchor = "start" if way > 0 else "end"
            places = [LabelSpot(node + 9 * way, answered[1] + 4 + shift, anchor) for shift in (0, -9, 9, 18)]
            self._labels.add(one.reply_label, "soft", places)

    def _stroke(self, kind: str, begin: tuple[float, float], x: float, at_ns: int | None) -> Iterator[str]:
        """A line to `x`, where it ends then: with a head; with a cross if it was lost; with neither if it was still on
        its way when the nodes are no longer shown."""
        is_lost, is_late = at_ns is None, at_ns is not None and at_ns > self._picture.until_ns
        end_x = x - math.copysign(_LOST_AT, x - begin[0]) if is_lost or is_late else x
        end_y = begin[1] + _LOST_SLANT if at_ns is None else self._axis.y(min(at_ns, self._picture.until_ns))
        line = f"M{pixels(begin[0])} {pixels(begin[1])}L{pixels(end_x)} {pixels(end_y)}"
        yield f'<path class="{kind}" d="{line}"/><path class="touch" d="{line}"/>'
        if is_lost:
            yield f'<path class="cross" d="M{pixels(end_x - 4)} {pixels(end_y - 4)}l8 8m0 -8l-8 8"/>'
        elif not is_late:
            angle = math.degrees(math.atan2(end_y - begin[1], end_x - begin[0]))
            at = f"{pixels(end_x)} {pixels(end_y)}"
            yield f'<path class="head" d="M{at}l-8 -3.4v6.8z" transform="rotate({pixels(angle)} {at})"/>'

    # -- texts -------------------------------------------------------------------------------------------------------

    def _breaks(self) -> Iterator[str]:
        wide = self._width - _AXIS_AT - 8
        for y, length_ns in self._axis.breaks:
            at, until = pixels(y - 3), pixels(y + 3)
            yield f'<rect class="gap" x="{_AXIS_AT}" y="{at}" width="{wide}" height="6"/>'
            yield f'<path class="gap-edge" d="M{_AXIS_AT} {at}h{wide}M{_AXIS_AT} {until}h{wide}"/>'
            self._labels.add(f"⋮ {milliseconds(length_ns / 1e6)}", "soft", [LabelSpot(_AXIS_AT - 8, y + 4, "end")])

    def _tell_times(self) -> None:
        picture = self._picture
        for at_ns in self._times:
            if picture.from_ns <= at_ns <= picture.to_ns:
                text = words.at(picture, at_ns).removesuffix(" ms")
                self._labels.add(text, "time", [LabelSpot(_AXIS_AT - 8, self._axis.y(at_ns) + 4, "end")])

    def _beside(self, lane: str, y: float) -> list[LabelSpot]:
        """Places for a label: those of a client are on the side of the nodes."""
        is_right = lane in self._picture.clients and self._x[lane] > self._x[self._picture.nodes[0]]
        return _stacked(self._x[lane], y, before=is_right)

    def _outside(self, lane: str, y: float) -> list[LabelSpot]:
        """Places for what happens on a lane itself: those of an outer client are on the side where no arrow is."""
        outer = self._picture.clients[:2]
        return _stacked(self._x[lane], y, before=lane == outer[0]) if lane in outer else self._beside(lane, y)

    def _colour(self, client: str | None) -> str:
        clients = self._picture.clients
        return f"s{clients.index(client)}" if client in clients else "s4"


def _stacked(x: float, y: float, *, before: bool) -> list[LabelSpot]:
    """Places before or behind `x`, one below the other."""
    anchor: Anchor = "end" if before else "start"
    return [LabelSpot(x + (-12 if before else 12), y + shift, anchor) for shift in (0, 13, 26, 39, -13)]


def _labelled(picture: Picture) -> list[tuple[Arrow, list[tuple[str, str]]]]:
    """The arrows with a label, and its lines with their classes. One label is for all that a client sends together;
    what that did to the key of another client is said once."""
    found: list[tuple[Arrow, list[tuple[str, str]]]] = []
    said: dict[str, tuple[str, int, set[str]]] = {}
    for arrow in picture.arrows:
        label, sent_ns = arrow.label, arrow.request.sent_ns
        before, at_ns, did = said.get(arrow.client, ("", 0, set()))
        texts = []
        if before != label or sent_ns - at_ns > _TOGETHER_NS:
            did = set()
            said[arrow.client] = label, sent_ns, did
            texts.append((cut(label, _LONGEST_LABEL), ""))
        if arrow.did and arrow.did not in did:
            did.add(arrow.did)
            texts.append((arrow.did, "did"))
        if texts:
            found.append((arrow, texts))
    return found


def _columns(picture: Picture) -> tuple[Mapping[str, float], int]:
    """Where each lane is, and how wide all of it."""
    clients, nodes = picture.clients, picture.nodes
    x: dict[str, float] = {name: _AXIS_AT + _OUTSIDE + _CLIENT_APART * place for place, name in enumerate(clients[::2])}
    least, most = _NODE_APART
    apart = max(least, min(most, _NODES_WIDE / max(1, len(nodes) - 1)))
    first = max(x.values()) + _FOR_LABELS
    x |= {name: first + apart * place for place, name in enumerate(nodes)}
    last = max(x.values())
    x |= {name: last + _FOR_LABELS + _CLIENT_APART * place for place, name in enumerate(reversed(clients[1::2]))}
    return x, round(max(x.values()) + _OUTSIDE)


def _moments(picture: Picture) -> Iterator[int]:
    """All that happens within the picture's time."""
    every = [picture.from_ns, picture.until_ns, picture.to_ns]
    for arrow in picture.arrows:
        one = arrow.request
        times = (one.from_client_ns, one.to_node_ns, one.from_node_ns, one.to_client_ns)
        every += [at_ns for at_ns in times if at_ns is not None and at_ns <= picture.until_ns]
    every += [at_ns for bar in picture.bars for at_ns in (bar.from_ns, bar.to_ns) if at_ns <= picture.until_ns]
    for section in picture.sections:
        every += [section.from_ns, section.to_ns, section.valid_until_ns]
    every += [at_ns for outage in picture.outages for at_ns in (outage.from_ns, outage.to_ns)]
    return (at_ns for at_ns in every if picture.from_ns <= at_ns <= picture.to_ns)


def _with_tracks(bars: Sequence[KeyBar]) -> Iterator[tuple[KeyBar, int]]:
    """Bars of one node next to each other where several keys are there at once."""
    ends: dict[str, list[int]] = {}
    for bar in sorted(bars, key=lambda bar: bar.from_ns):
        tracks = ends.setdefault(bar.node, [])
        track = next((place for place, end_ns in enumerate(tracks) if end_ns <= bar.from_ns), len(tracks))
        tracks[track : track + 1] = [bar.to_ns]
        yield bar, track


def _box(kind: str, x: float, top: float, wide: int, bottom: float) -> str:
    high = pixels(max(bottom - top, 2))
    return f'<rect class="{kind}" x="{pixels(x)}" y="{pixels(top)}" width="{wide}" height="{high}"/>'


def _group(kind: str, title: Sequence[str], inside: str) -> str:
    return f'<g class="{kind}"><title>{escape(_lines(title))}</title>{inside}</g>'


def _lines(lines: Sequence[str]) -> str:
    return "\n".join(map(printable, lines))
