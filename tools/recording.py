"""Make the recording in the README again, of a real run: `make recording` (half a minute).

The run has a terminal of its own. What that showed, and when, becomes an SVG whose frames follow each other without any
script, so that it moves wherever a picture can be shown. pyte is the terminal.
"""

from __future__ import annotations

import codecs
import fcntl
import importlib.util
import os
import pty
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final, NamedTuple
from xml.sax.saxutils import escape

from checkout import ROOT
from documents import environment

# isort: split
from fencepost.setup.workshop import SetupError, Workshop

RECORDING: Final = ROOT / "docs/pictures/recording.svg"
MOST_BYTES: Final = 1_000_000
COLUMNS, LINES = 100, 32
WIDTH, HEIGHT, MARGIN = 8, 17, 14
"""Of a character, and around all of them, in pixels."""
LEAST_S: Final = 0.2
"""No frame is shorter."""
STAYS_S: Final = 5.0
"""For how long the end can be read."""
COMMAND: Final = "fencepost test --lock control-quorum-of-two --nemesis partition --duration 9s --cluster process"
COLORS: Final = {
    "default": "#d6dde6",
    "black": "#495160",
    "red": "#ff7b72",
    "green": "#56d364",
    "brown": "#e3b341",
    "blue": "#79c0ff",
    "magenta": "#d2a8ff",
    "cyan": "#56d4dd",
    "white": "#f0f6fc",
}


class Style(NamedTuple):
    color: str
    is_bold: bool


class Run(NamedTuple):
    """Characters of one style, from a column on."""

    column: int
    text: str
    style: Style


Line = tuple[Run, ...]


class Frame(NamedTuple):
    """What the terminal showed from a moment on, in seconds."""

    at_s: float
    lines: tuple[Line, ...]


def main() -> int:
    if importlib.util.find_spec("pyte") is None:
        try:
            programs = environment(Workshop(ROOT / ".tools"), "recording")
        except SetupError as error:
            print(f"recording: {error}", file=sys.stderr)
            return 1
        os.execv(programs / "python", [str(programs / "python"), __file__])  # noqa: S606 (there is none)
    frames = list(_played())
    RECORDING.write_text("".join(_svg(frames)))
    size = RECORDING.stat().st_size
    print(f"{RECORDING.relative_to(ROOT)}: {len(frames)} frames, {frames[-1].at_s:.0f} s, {size:,} bytes")
    return 0 if size <= MOST_BYTES else 1


def _played() -> Iterator[Frame]:
    """The frames of a run, after the command that starts it was typed."""
    import pyte

    screen = pyte.Screen(COLUMNS, LINES)
    terminal = pyte.Stream(screen)
    at_s = 0.0
    for typed in range(0, len(COMMAND) + 1, 6):
        yield Frame(at_s, _lines(screen, f"$ {COMMAND[:typed]}▌"))
        at_s += 0.06
    screen.reset()
    terminal.feed(f"$ {COMMAND}\r\n")
    began, shown = time.monotonic() - at_s, -LEAST_S
    last: tuple[Line, ...] = ()
    for text in _said():
        terminal.feed(text)
        at_s = time.monotonic() - began
        lines = _lines(screen)
        if lines != last and at_s - shown >= LEAST_S:
            yield Frame(at_s, lines)
            last, shown = lines, at_s
    yield Frame(max(at_s, shown + LEAST_S), _lines(screen))


def _said() -> Iterator[str]:
    """What the run wrote to its terminal, as it came."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    programs = {"PATH": f"{ROOT / '.venv/bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    settings = {"TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            COMMAND.split(),
            cwd=folder,
            env=os.environ | programs | settings,
            stdin=its,
            stdout=its,
            stderr=its,
            start_new_session=True,
        )
        os.close(its)
        try:
            while True:
                try:
                    data = os.read(ours, 1 << 16)
                except OSError:  # the other end was closed
                    break
                yield decoder.decode(data)
        except (KeyboardInterrupt, GeneratorExit):
            process.send_signal(signal.SIGINT)  # it has a session of its own, so Ctrl-C does not reach it
            raise
        finally:
            os.close(ours)
            process.wait()


def _lines(screen: Any, first: str = "") -> tuple[Line, ...]:
    """What the screen shows; `first`: instead of its first line."""
    lines = [tuple(_runs(screen.buffer[row])) for row in range(LINES)]
    return ((Run(0, first, Style("default", is_bold=False)),), *lines[1:]) if first else tuple(lines)


def _runs(row: Any) -> Iterator[Run]:
    cells = [row[column] for column in range(COLUMNS)]
    column = 0
    for style, same in groupby(cells, lambda cell: Style(cell.fg, cell.bold)):
        text = "".join(cell.data for cell in same)
        if text.strip():
            blank = len(text) - len(text.lstrip())
            yield Run(column + blank, text.strip(), style)
        column += len(text)


def _svg(frames: Sequence[Frame]) -> Iterator[str]:
    """All frames side by side, of which one at a time is in the window. Each line that was ever shown is there once."""
    width, height = COLUMNS * WIDTH + 2 * MARGIN, LINES * HEIGHT + 2 * MARGIN
    length_s = frames[-1].at_s + STAYS_S
    steps = "".join(
        f"{100 * frame.at_s / length_s:.3f}%{{transform:translateX({-number * width}px)}}"
        for number, frame in enumerate(frames)
    )
    last = -(len(frames) - 1) * width
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">'
        "<title>A run in the terminal, from the command to the verdict</title><style>"
        f"@keyframes play{{{steps}100%{{transform:translateX({last}px)}}}}"
        f"#film{{animation:play {length_s:.2f}s steps(1,end) infinite}}"
        f"@media(prefers-reduced-motion:reduce){{#film{{animation:none;transform:translateX({last}px)}}}}"
        "text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre}"
        f"</style><rect width='100%' height='100%' rx='8' fill='#0d1117'/><defs>"
    )
    known: dict[Line, int] = {}
    for frame in frames:
        for line in frame.lines:
            if line and line not in known:
                known[line] = len(known)
                yield f'<g id="l{known[line]}">{"".join(map(_text, line))}</g>'
    yield "</defs><g id='film'>"
    for number, frame in enumerate(frames):
        uses = (
            f'<use href="#l{known[line]}" y="{MARGIN + row * HEIGHT}"/>' for row, line in enumerate(frame.lines) if line
        )
        yield f'<g transform="translate({number * width + MARGIN})">{"".join(uses)}</g>'
    yield "</g></svg>\n"


def _text(run: Run) -> str:
    weight = ' font-weight="700"' if run.style.is_bold else ""
    color = COLORS.get(run.style.color.removeprefix("bright"), f"#{run.style.color}")
    return (
        f'<text x="{run.column * WIDTH}" y="13" fill="{color}"{weight} textLength="{len(run.text) * WIDTH}" '
        f'lengthAdjust="spacingAndGlyphs">{escape(run.text)}</text>'
    )


if __name__ == "__main__":
    sys.exit(main())
