"""A space-time diagram with characters: clients on the left, nodes on the right, time downwards. Each character has an
ASCII form (`fencepost.ascii_forms`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from fencepost.text import cut, listed, milliseconds, plural
from harness.explain.space_time import Picture
from harness.report.space_time_rows import LOST, NO_REPLY, Event, Row, out_at_first, rows, there_at_first

COLUMNS: Final = 100
LINES: Final = 40
_BREAK_NS: Final = 20_000_000
"""A longer time in which nothing happens is shown as a gap."""
_TIME_WIDE: Final = 12
_CLIENT_WIDE: Final = (4, 8)
"""The least and the most columns of a client's lane: it has room for the client's name."""
_GUTTER, _WIDEST_GUTTER = 30, 40
"""For labels, between clients and nodes."""
_LEAST_COLUMNS: Final = 60
_LEAST_NODE: Final = 3
_NODE_WIDE: Final = (5, 8)
_FILLS: Final = "█▓▒"
_OTHER: Final = "░"
_OUT: Final = "╎"
_IDLE: Final = "│"


def text_picture(picture: Picture, columns: int = COLUMNS, lines: int = LINES) -> list[str]:
    """The picture in so many lines and columns, or fewer. Where it would take more, requests that say least are left
    out, and counted; gaps are, before that."""
    drawing = _TextDrawing(picture, columns).lines(with_gaps=True)
    while len(drawing) > lines:
        drawing = _TextDrawing(picture, columns).lines(with_gaps=False)
        if len(drawing) > lines:
            if not picture.arrows:
                return [*drawing[: lines - 1], "…"]
            picture = picture.without_others() if picture.is_crowded else picture.without_one()
    return drawing


def least_columns(picture: Picture) -> int:
    """A picture in fewer columns is not to be read."""
    lanes = _client_wide(picture) * len(picture.clients) + _LEAST_NODE * len(picture.nodes)
    return max(_LEAST_COLUMNS, _TIME_WIDE + lanes)


def _client_wide(picture: Picture) -> int:
    least, most = _CLIENT_WIDE
    return min(most, max([least, *(len(name) + 1 for name in picture.clients)]))


class _TextDrawing:
    """One picture, as characters on lanes. `_held`: by lane, whose keys or sections are on it."""

    def __init__(self, picture: Picture, columns: int) -> None:
        self._picture, self._columns = picture, columns
        least, most = _NODE_WIDE
        client_wide = _client_wide(picture)
        left = _TIME_WIDE + client_wide * len(picture.clients)
        wide = min(most, max(least, (columns - left - _GUTTER) // max(1, len(picture.nodes))))
        wide = max(_LEAST_NODE, min(wide, (columns - left) // max(1, len(picture.nodes))))
        nodes_at = min(max(left, columns - wide * len(picture.nodes)), left + _WIDEST_GUTTER)
        self._at = {name: _TIME_WIDE + client_wide * place for place, name in enumerate(picture.clients)}
        self._at |= {name: nodes_at + 1 + wide * place for place, name in enumerate(picture.nodes)}
        self._gutter = range(left, nodes_at)
        self._widths = dict.fromkeys(picture.clients, client_wide) | dict.fromkeys(picture.nodes, wide)
        self._held: defaultdict[str, list[str | None]] = defaultdict(list)
        for lane, whose in there_at_first(picture):
            self._held[lane].append(whose)
        self._out = out_at_first(picture)

    def lines(self, *, with_gaps: bool) -> list[str]:
        text = [self._heads()]
        before_ns: int | None = None
        for row in rows(self._picture):
            if with_gaps and before_ns is not None and row.first.at_ns - before_ns > _BREAK_NS:
                text.append(self._gap(row.first.at_ns - before_ns))
            before_ns = max(event.at_ns for event in row.events)
            text += self._row(row)
        return [line.rstrip() for line in (*text, *self._legend(text))]

    def _heads(self) -> str:
        cells = self._blank(with_lanes=False)
        self._write(cells, _TIME_WIDE - 4, "ms")
        for name, at in self._at.items():
            self._write(cells, at, cut(name, self._widths[name] - 1))
        return "".join(cells)

    def _gap(self, length_ns: int) -> str:
        cells = self._blank()
        told = f"⋮ {milliseconds(length_ns / 1e6)}"
        self._write(cells, max(0, _TIME_WIDE - 2 - len(told)), told)
        return "".join(cells)

    def _row(self, row: Row) -> Iterator[str]:
        for event in row.events:
            self._apply(event)
        first = row.first
        cells = self._blank()
        told = f"{(first.at_ns - self._picture.zero_ns) / 1e6:+,.2f}"
        self._write(cells, max(0, _TIME_WIDE - 2 - len(told)), told)
        beside = {lane: text for event in row.events for lane, text in event.beside.items()}
        if first.kind == "lane":
            self._write(cells, self._gutter.start, cut(first.label, len(self._gutter)))
        else:
            self._arrow(cells, first, beside)
        yield "".join(cells)
        for did in dict.fromkeys(event.did for event in row.events if event.did):
            nodes = [node for event in row.events if event.did == did for node in event.beside]
            text = did if len(nodes) == len(beside) else f"{did} on {listed(nodes)}"
            cells = self._blank()
            self._write(cells, self._gutter.start + 2, cut(text, len(self._gutter) - 2))
            yield "".join(cells)

    def _apply(self, event: Event) -> None:
        for lane, whose in event.ends.items():
            if whose in self._held[lane]:
                self._held[lane].remove(whose)
        for lane, whose in event.begins.items():
            self._held[lane].append(whose)
        self._out = (self._out | set(event.goes)) - set(event.returns)

    def _arrow(self, cells: list[str], event: Event, beside: dict[str, str]) -> None:
        begin = self._at[event.client]
        ends = [self._at[node] for node in beside]
        line = "╌" if event.kind == "sent" else "─"
        until = max(ends, default=self._gutter.stop - 1)
        for at in range(begin + 1, until):
            if cells[at] in (" ", _IDLE, _OUT):
                cells[at] = "┼" if cells[at] == _IDLE else line
        if cells[begin] == _IDLE:
            cells[begin] = "├"
        for node, said in beside.items():
            at = self._at[node]
            if event.kind == "lost":
                self._write(cells, at - 2, f"{LOST} ")
            elif event.kind == "request":
                cells[at - 1] = "▶"
                self._write(cells, at + 1, cut(said, self._widths[node] - 2))
        if event.kind == "reply":
            cells[begin + 1] = "◀"
        if event.kind == "lost":  # nothing goes on behind the last cross
            for at in range(until, self._columns):
                cells[at] = self._blank()[at]
        label = f" {cut(event.label, len(self._gutter) - 4)} "
        self._write(cells, self._gutter.start + 1, label)

    def _blank(self, *, with_lanes: bool = True) -> list[str]:
        cells = [" "] * self._columns
        for lane, at in self._at.items() if with_lanes else ():
            held = self._held[lane]
            cells[at] = self._fill(held[-1]) if held else _OUT if lane in self._out else _IDLE
        return cells

    def _fill(self, whose: str | None) -> str:
        clients = self._picture.clients
        return _FILLS[clients.index(whose)] if whose in clients[: len(_FILLS)] else _OTHER

    def _write(self, cells: list[str], at: int, text: str) -> None:
        for place, character in enumerate(text[: max(0, self._columns - at)], at):
            cells[place] = character

    def _legend(self, drawn: list[str]) -> Iterator[str]:
        used = "".join(drawn)
        fills = [f"{fill} {client}" for fill, client in zip(_FILLS, self._picture.clients, strict=False)]
        fills += [f"{_OTHER} others"] if _OTHER in used else []
        signs = {"▶": "reaches the node", LOST: "lost", NO_REPLY: "no reply", _OUT: "out of service"}
        shown = [f"{sign} {means}" for sign, means in signs.items() if sign in used]
        yield ""
        yield from _wrapped(["section, or key on a node:", *fills, *shown], self._columns)
        yield from left_out(self._picture)


def left_out(picture: Picture) -> list[str]:
    """`12 more requests of c3 are not drawn`; nothing if all are."""
    others = [f"{what} are not drawn" for what in picture.not_drawn]
    left = [(client, number) for client, number in picture.left_out if number]
    if not left:
        return others
    (client, number), *rest = left
    more = [f"{plural(number, 'more request')} of {client}", *(f"{number:,} of {client}" for client, number in rest)]
    return [f"{listed(more)} {'is' if not rest and number == 1 else 'are'} not drawn", *others]


def _wrapped(parts: Sequence[str], columns: int) -> Iterator[str]:
    """The parts on as few lines as they need."""
    line = ""
    for part in parts:
        if line and len(line) + 2 + len(part) > columns:
            yield line
            line = ""
        line = f"{line}  {part}" if line else part
    yield line
