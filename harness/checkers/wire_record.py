"""How far the record of the links reaches. The verdict says where it ends; nothing beyond it is judged by it.

The proxy stops recording when the record has become too large, so that a lock that floods its links fills no disk. On a
link on which bytes are not of the server's protocol (TLS, garbage), requests cannot be told apart from then on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fencepost.text import milliseconds, plural
from harness.figures import CheckerFigures, Part, Row
from harness.history.recorded import Recorded
from harness.history.run_tables import ForeignBytes
from harness.verdict import Answer

_LINKS_SHOWN: Final = 4


class Figures(CheckerFigures, frozen=True):
    """`ended_ms`: when the record of the links ended, since the start of the load; None if it was recorded to the end.
    `foreign`: the links with bytes of another protocol."""

    ended_ms: float | None
    foreign: tuple[ForeignBytes, ...]

    def rows(self) -> Iterator[Row]:
        """`the record of the links ends at 12.3 s: it had grown too large`."""
        yield from (Row("wire", text, order=12, is_input=True) for text in self._sentences())

    def parts(self) -> Iterator[Part]:
        said = tuple(f"{text[0].upper()}{text[1:]}." for text in self._sentences())
        yield Part("What the faults hit", order=40, sentences=said)

    def _sentences(self) -> Iterator[str]:
        if self.ended_ms is not None:
            yield f"the record of the links ends at {_since_start(self.ended_ms)}: it had grown too large"
        for each in self.foreign[:_LINKS_SHOWN]:
            verb = "is" if each.bytes == 1 else "are"
            said = f"{plural(each.bytes, 'byte')} {verb} not {each.server}'s protocol"
            yield f"{each.client}'s link to {each.node}: {said}"
        if (more := len(self.foreign) - _LINKS_SHOWN) > 0:
            yield f"{plural(more, 'more link')} carried bytes of another protocol"


def check(run: Recorded) -> Answer:
    """No figures where all is on record, or nothing was to be."""
    gaps = run.wire_gaps
    if gaps.ended_ns is None and not gaps.foreign:
        return Answer()
    ended_ms = None if gaps.ended_ns is None else run.at_ms(gaps.ended_ns)
    return Answer(Figures(ended_ms, gaps.foreign))


def _since_start(at_ms: float) -> str:
    return milliseconds(at_ms) if at_ms >= 0 else f"{milliseconds(-at_ms)} before the load"
