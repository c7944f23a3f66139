"""The terminal: the one way on which anything but an error gets there.

What is printed is mostly foreign: names, paths, last words of programs. So text is text: there is no markup in it, and
no character that a terminal would obey. A plain string is one line; what has more lines is a `Text` or several calls.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import IO, Any, Final, cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text as AnyText

from fencepost.text import printable, printable_lines

_WIDEST: Final = 10_000
"""Characters of a line that is not for a terminal."""
_PADDING: Final = re.compile(" +(?=\n)")


class _Unpadded:
    """A stream to which lines go without the spaces that fill a table."""

    def __init__(self, file: IO[str]) -> None:
        self._file = file

    def write(self, text: str) -> int:
        return self._file.write(_PADDING.sub("", text))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Text(AnyText):
    """A text of rich, which begins as one line of printable characters; more can be appended."""

    def __init__(self, text: str = "", style: str = "", **settings: Any) -> None:
        super().__init__(printable(text), style, **settings)


class Terminal(Console):
    """A console of rich, for text that cannot be trusted. Takes rich's arguments.

    What goes into a pipe or a file is not wrapped, whatever COLUMNS says: a command, a path or a row of a table is one
    line there, for other programs to find."""

    def __init__(self, file: IO[str] | None = None, **settings: Any) -> None:
        # Not whatever sys.stdout is later: what others print while it is diverted must not divert this.
        file = file or sys.stdout
        if file is not None and not file.isatty() and "width" not in settings:
            settings |= {"width": _WIDEST, "soft_wrap": True}
            file = cast(IO[str], _Unpadded(file))
        super().__init__(file=file, markup=False, emoji=False, highlight=False, **settings)

    def render_str(self, text: str, **settings: Any) -> AnyText:
        return super().render_str(printable(text), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            if segment.control or segment.text.isprintable():
                yield segment
            else:
                yield Segment(printable_lines(segment.text), segment.style)
