"""An explanation as text: the sentence, the sections on a timeline, what each node replied, and the faults.

The terminal and the page show the same lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import Final

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table

from fencepost.text import listed, plural, printable
from harness.checkers.remarks import remarks
from harness.explain.examples import Side
from harness.explain.explanation import Explained, Explanation
from harness.explain.node_replies import NodeReply
from harness.explain.nodes import NodePart
from harness.explain.requests import client_of
from harness.explain.space_time import Album, Picture
from harness.explain.wire_requests import WireRequest
from harness.explain.words import at, lasting, outage
from harness.history.fault_windows import FOREVER_NS, Window
from harness.history.recorded import Recorded
from harness.report.space_time_text import COLUMNS, least_columns, text_picture
from harness.report.terminal import Text
from harness.report.wording import blame
from harness.verdict import Finding, Verdict, breaking

_WIDTH: Final = 56
_MOST_FAULTS: Final = 6
_MOST_OTHERS: Final = 3
_INDENT: Final = 3
NO_PICTURES: Final = "no space-time diagrams: what clients asked the nodes is not on record"
_LEGEND: Final = "· acquiring  █ within its lease  ▒ lease may have expired  ░ lease expired"


def render_explained(
    run: Recorded, verdict: Verdict, explained: Sequence[Explained], album: Album | None = None
) -> RenderableType:
    """The explanations for a terminal, and what the figures show beside the findings. One line if there is nothing.
    `album`: draws the first example of each finding; without it none is drawn."""
    said = list(remarks(run, verdict))
    if not explained and not said:
        return Text(f"{verdict.verdict}: nothing to explain, because nothing was found")
    deciding = breaking(verdict)
    told: dict[tuple[tuple[str, int], ...], str] = {}
    numbers = count(1)
    parts: list[RenderableType] = []
    for one in explained:
        finding = one.finding
        decides = "" if finding in deciding else f"; does not decide under --require {verdict.require}"
        head = f"{printable(finding.text).rstrip('.')} ({blame(finding.blame)}{decides})"
        parts += [Text(head, style="bold"), Text("")]
        for place, explanation in enumerate(one.explanations):
            before = told.get(explanation.names, "")
            number = "" if before else str(next(numbers))
            if explanation.names:
                told.setdefault(explanation.names, number)
            picture = album.picture(explanation) if album is not None and number and not place else None
            parts += _one(run, explanation, number, before, picture)
        if one.explanations and (left := finding.count - len(one.explanations)) > 0:
            parts += [Text(f"{left:,} more of this kind; --limit shows more", style="dim"), Text("")]
    if said:
        parts += [Text("Also seen" if explained else "Seen", style="bold"), Text(""), *map(_indented, said), Text("")]
    if album is not None and explained and not album.has_requests:
        parts += [Text(NO_PICTURES, style="dim"), Text("")]
    return Group(*parts[:-1])


def title(run: Recorded, explanation: Explanation) -> str:
    """`c3 and c7 were inside k1 at the same time for 41 ms, from +2,310.4 ms`."""
    sides, kind = explanation.sides, explanation.case.finding.kind
    is_meeting = explanation.case.finding.promise == "exclusion"
    if len(sides) == 2 and is_meeting:
        first, second = sides
        until_ns = min(side.end_ns for side in sides)
        return (
            f"{first.client} and {second.client} were inside {printable(first.key)} at the same time for "
            f"{lasting(until_ns - second.start_ns)}, from {at(run, second.start_ns)}"
        )
    names = listed([side.client for side in sides]) if sides else ""
    if len(sides) > 1 and is_meeting:
        start_ns = sides[-1].start_ns
        lasted = lasting(min(side.end_ns for side in sides) - start_ns)
        return f"{names} were inside {printable(sides[0].key)} at the same time for {lasted}, from {at(run, start_ns)}"
    where = f", key {printable(sides[0].key)}" if sides else ""
    return f"{kind.replace('-', ' ')}{': ' if names else ''}{names}{where}"


def explanations_of(finding: Finding, explained: Sequence[Explained]) -> tuple[Explanation, ...]:
    """The explanations of a finding's examples, in order; empty if it was not explained."""
    return next((one.explanations for one in explained if one.finding is finding), ())


def lines(run: Recorded, explanation: Explanation) -> list[str]:
    """Everything but the title and the sentence, for a monospaced font and long lines; empty if the finding is not
    about sections."""
    if not explanation.sides:
        return []
    text = [*(side_line(run, side) for side in explanation.sides), "", *bar(run, explanation)]
    if explanation.parts:
        rows = node_rows(run, explanation)
        widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
        text += ["", *("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)]
    return [*text, "", *fault_lines(run, explanation)]


def side_line(run: Recorded, side: Side) -> str:
    """`c3, section 12: inside from +2,103.4 ms to +2,351.6 ms (released); validity 976 ms, until +3,079.2 ms`."""
    ended = {"release": "released", "killed": "was killed", "open": "the run, or its process, ended"}.get(
        side.ended, side.ended
    )
    life = f", life {side.life}" if side.life > 1 else ""
    token = f"; token {side.token}" if side.token is not None else ""
    inside = f"inside from {at(run, side.start_ns)} to {at(run, side.end_ns)} ({ended})"
    return f"{side.client}, section {side.section:,}{life}: {inside}; {_told(run, side)}{token}"


def bar(run: Recorded, explanation: Explanation) -> list[str]:
    """The sections and the faults on one timeline, drawn with characters."""
    sides = explanation.sides
    from_ns = min(side.asked_from_ns for side in sides)
    to_ns = max(side.end_ns for side in sides)
    span_ns = max(to_ns - from_ns, 1)

    def place(moment_ns: int) -> int:
        return min(max((moment_ns - from_ns) * _WIDTH // span_ns, 0), _WIDTH - 1)

    rows = [(side.client, _section_cells(side, place)) for side in sides]
    for number, window in enumerate(explanation.faults[:_MOST_FAULTS], 1):
        until_ns = to_ns if window.to_ns is None else window.to_ns
        first, last = place(window.event.began_ns), place(until_ns)
        rows.append((f"fault {number}", " " * first + "═" * (last - first + 1)))
    wide = max(len(name) for name, _ in rows)
    left, right = at(run, from_ns), at(run, to_ns)
    scale = left + right.rjust(_WIDTH - len(left))
    return [f"{'':{wide}}  {scale}", *(f"{name:{wide}}  {cells}" for name, cells in rows), f"{'':{wide}}  {_LEGEND}"]


def node_rows(run: Recorded, explanation: Explanation) -> list[tuple[str, ...]]:
    """A heading, and one row per node: its replies to the two clients and what happened to it in between."""
    first, second = explanation.pair
    rows: list[tuple[str, ...]] = [("node", f"to {first.client}", "in between (ms)", f"to {second.client}")]
    rows += [(p.node, _said(run, p.earlier), _between(run, p), _said(run, p.later)) for p in explanation.parts]
    return rows


def fault_lines(run: Recorded, explanation: Explanation) -> list[str]:
    """The active faults, one per line, numbered as in the bar."""
    texts = []
    for number, window in enumerate(explanation.faults, 1):
        until = "never healed" if window.to_ns is None else f"to {at(run, window.to_ns)}"
        took = "" if window.took else ", NO EFFECT OBSERVED"
        hit = f" ({', '.join(window.event.paused_clients)})" if window.event.paused_clients else ""
        what = printable(window.event.what)
        texts.append(f"fault {number}: {what}{hit}, from {at(run, window.event.began_ns)} {until}{took}")
    if explanation.others:
        none = "neither of the two" if len(explanation.sides) == 2 else "none of them"
        texts.append(f"and {plural(explanation.others, 'more active fault')}, which hit {none}")
    return texts or ["no fault was active"]


def _one(
    run: Recorded, explanation: Explanation, number: str, before: str, picture: Picture | None
) -> list[RenderableType]:
    """`number`: its own number, empty if its sections were already shown under the number `before`."""
    if not number:
        same = "two sections" if len(explanation.sides) == 2 else "sections"
        told = f"– {title(run, explanation)}", f"{explanation.sentence} The {same} are those of number {before}."
        return [Text(told[0], style="bold"), _indented(told[1]), Text("")]
    said = [_indented(text) for text in (explanation.sentence, explanation.because) if text]
    head = Text(f"{number}. {title(run, explanation)}", style="bold")
    if not explanation.sides:
        drawn: list[RenderableType] = [] if picture is None else [Text(""), _Drawn(picture, [])]
        return [head, *said, *drawn, Text("")]
    sides = [_indented(side_line(run, side), "dim") for side in explanation.sides]
    sections = bar(run, explanation)
    shown: list[RenderableType] = [_indented(line, "dim") for line in sections]
    if picture is not None:
        shown = [_Drawn(picture, sections)]
    faults = [_indented(line, "dim") for line in fault_lines(run, explanation)]
    nodes = [_node_table(run, explanation)] if explanation.parts else []
    return [head, *said, Text(""), *sides, *shown, *nodes, *faults, Text("")]


class _Drawn:
    """A space-time diagram as wide as the terminal, or, where that is too narrow, `instead` of it."""

    def __init__(self, picture: Picture, instead: Sequence[str]) -> None:
        self._picture, self._instead = picture, instead

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        room, least = options.max_width - _INDENT, least_columns(self._picture)
        if room >= least:
            yield from (
                _indented(line or " ", "dim") for line in text_picture(self._picture, min(COLUMNS - _INDENT, room))
            )
        else:
            yield from (_indented(line, "dim") for line in self._instead)
            yield _indented(f"widen the terminal to {least + _INDENT} columns to see the space-time diagram", "dim")


def _node_table(run: Recorded, explanation: Explanation) -> RenderableType:
    """What the nodes replied; a narrow terminal folds it within its columns."""
    table = Table.grid(padding=(0, 2, 0, 0))
    for _ in range(4):
        table.add_column(style="dim")
    for row in node_rows(run, explanation):
        table.add_row(*map(Text, row))
    return Padding(table, (0, 0, 0, _INDENT), expand=False)


def _indented(text: str, style: str = "") -> RenderableType:
    return Padding(Text(text, style=style), (0, 0, 0, _INDENT), expand=False)


def _told(run: Recorded, side: Side) -> str:
    if side.was_void:
        return "no validity left when it was granted"
    if side.deadline_max_ns >= FOREVER_NS:
        return "no validity reported"
    told = "valid " if side.validity_ms is None else f"validity {side.validity_ms:,.1f} ms, "
    if side.deadline_min_ns == side.deadline_max_ns:
        return f"{told}until {at(run, side.deadline_max_ns)}"
    return f"{told}until at least {at(run, side.deadline_min_ns)}, at most {at(run, side.deadline_max_ns)}"


def _section_cells(side: Side, place: Callable[[int], int]) -> str:
    start, end = place(side.start_ns), place(side.end_ns)
    cells = [" "] * place(side.asked_from_ns) + ["·"] * (start - place(side.asked_from_ns))
    certain = place(side.deadline_min_ns) if side.deadline_min_ns >= side.start_ns else start - 1
    possible = place(side.deadline_max_ns) if side.deadline_max_ns >= side.start_ns else start - 1
    for cell in range(start, end + 1):
        cells.append("█" if cell <= certain else "▒" if cell <= possible else "░")
    return "".join(cells)


def _said(run: Recorded, said: NodeReply) -> str:
    """`yes +10.0`, `no (nil) +10.0`, `no reply (pause)`; when the node had answered."""
    why = f" ({printable(said.cut.event.nemesis)})" if said.cut is not None else ""
    lost = _lost_on_the_way(said.request)
    if said.granted is not None:
        return f"yes {_bare(run, said.granted.by_ns)}{'' if said.heard else f', {lost}'}"
    match said.word:
        case None:
            return "not recorded"
        case "not set" | "not asked" | "silent" as word:
            return {"not set": "no key", "not asked": "not asked", "silent": lost}[word] + why
    assert said.request is not None
    assert said.request.from_node_ns is not None
    reply, when = printable(said.request.reply_label), _bare(run, said.request.from_node_ns)
    return f"{'no' if said.word == 'no' else 'answered'} ({reply}) {when}"


def _lost_on_the_way(request: WireRequest | None) -> str:
    if request is None or (request.to_node_ns is not None and request.from_node_ns is None):
        return "no reply"
    if request.to_node_ns is None:
        return "request lost"
    return "reply lost" if request.to_client_ns is None else "reply late"


def _between(run: Recorded, part: NodePart) -> str:
    """What happened on the node between the two grants, and to whom else it granted the lock meanwhile."""
    others = [f"{event.client or 'unknown'} {_bare(run, event.by_ns)}" for event in part.others]
    more = f", and {len(others) - _MOST_OTHERS} more" if len(others) > _MOST_OTHERS else ""
    granted = f"granted to {', '.join(others[:_MOST_OTHERS])}{more}" if others else ""
    return "; ".join(text for text in (_lost(run, part), granted) if text)


def _lost(run: Recorded, part: NodePart) -> str:
    loss = part.loss
    if loss is None:
        return _down(run, part.node, part.down) if part.down is not None else ""
    match loss.how:
        case "deleted":
            assert loss.by is not None
            who = loss.by.client or (None if loss.change is None else client_of(loss.change))
            return f"deleted by {who or 'unknown'} {_bare(run, loss.by.by_ns)}"
        case "went down":
            assert loss.fault is not None
            return f"{_down(run, part.node, loss.fault)}, key lost"
        case "expired":
            return "expired" if loss.by is None else f"expired {_bare(run, loss.by.by_ns)}"
        case "short TTL":
            return f"TTL over {_bare(run, loss.until_ns if loss.given is None else loss.given.over_ns)}"
        case "nested release":
            return f"removed by its own nested calls {_bare(run, loss.until_ns)}"
        case "overwritten":
            return f"overwritten {_bare(run, loss.until_ns)}"
    return f"gone by {_bare(run, loss.until_ns)}, cause unknown"


def _down(run: Recorded, node: str, window: Window) -> str:
    until = "and not restarted" if window.to_ns is None else f"to {_bare(run, window.to_ns)}"
    return f"{outage(window)} {_bare(run, window.event.began_ns)} {until}"


def _bare(run: Recorded, moment_ns: int) -> str:
    return at(run, moment_ns).removesuffix(" ms")
