"""Pick texts that users read, at random: `.venv/bin/python tools/reading.py [SEED] [N]`.

A reader who does not know the project marks the ones that have to be read twice; then these are rewritten, and what is
like them. As many come from each of three kinds: the terminal (the sentences that tests keep beside them,
`*.golden.txt`, and the help of every option), the pages (what their templates say, and the published ones, which are
drawn in today's words), and the docs (paragraphs, and rows of tables and lists).
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from html.parser import HTMLParser
from random import Random
from textwrap import indent
from typing import Final

from checkout import ROOT

_CODE_BLOCK: Final = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_TEMPLATE_WORDS: Final = re.compile(r"{%.*?%}|{#.*?#}|({{.*?}})", re.DOTALL)
_WORD: Final = re.compile(r"[^\W\d_]{2,}")
_FEWEST_WORDS: Final = 4
_HELP_OF_OPTIONS: Final = "docs/options.md"
_NO_TEXT: Final = frozenset({"head", "script", "style", "svg", "pre", "code"})
_INLINE: Final = frozenset({"a", "b", "em", "i", "kbd", "span", "strong"})

Text = tuple[str, str]
"""Where it stands, and what it says."""


def main() -> None:
    """Prints N texts, as many of each kind as of the others, or one more."""
    seed, number = (int(word) for word in (*sys.argv[1:], *("1", "20")[len(sys.argv) - 1 :]))
    random = Random(seed)
    for place, (kind, texts) in enumerate(KINDS.items()):
        share = (number + place) // len(KINDS)
        for name, text in random.sample(sorted(set(texts())), share):
            print(f"{kind}: {name}\n{indent(text, '    ')}\n")


def of_the_terminal() -> Iterator[Text]:
    """The lines of kept sentences, and what `--help` says of every option."""
    for name in _tracked("*.golden.txt"):
        lines = (ROOT / name).read_text().splitlines()
        yield from _long_enough(name, (line.strip() for line in lines if not line.startswith("===")))
    yield from _long_enough(_HELP_OF_OPTIONS, _pieces((ROOT / _HELP_OF_OPTIONS).read_text()))


def of_pages() -> Iterator[Text]:
    """What templates say around their figures, and what published pages say."""
    for name in _tracked("*.html.j2", "results/*.html"):
        page = _Page()
        page.feed(_TEMPLATE_WORDS.sub(lambda found: "…" if found[1] else " ", (ROOT / name).read_text()))
        yield from _long_enough(name, page.texts)


def of_docs() -> Iterator[Text]:
    """Paragraphs, and rows of tables and lists, of everything in Markdown but records."""
    for name in _tracked("*.md"):
        if not name.startswith("results/") and name != _HELP_OF_OPTIONS:
            yield from _long_enough(name, _pieces((ROOT / name).read_text()))


KINDS: Final[Mapping[str, Callable[[], Iterator[Text]]]] = {
    "terminal": of_the_terminal,
    "page": of_pages,
    "docs": of_docs,
}


class _Page(HTMLParser):
    """`texts`: what stands in one paragraph, heading, cell or button each."""

    def __init__(self) -> None:
        super().__init__()
        self.texts = [""]
        self._unread: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag in _NO_TEXT:
            self._unread.append(tag)
        elif tag not in _INLINE:
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        if self._unread[-1:] == [tag]:
            self._unread.pop()
            self.texts[-1] += "…"
        elif tag not in _INLINE:
            self.texts.append("")

    def handle_data(self, data: str) -> None:
        if not self._unread:
            self.texts[-1] += data


def _tracked(*patterns: str) -> list[str]:
    return subprocess.check_output(["git", "ls-files", *patterns], cwd=ROOT, text=True).splitlines()


def _pieces(text: str) -> Iterator[str]:
    for paragraph in re.split(r"\n\s*\n", _CODE_BLOCK.sub("", text)):
        yield from re.split(r"\n(?=[|*-])", paragraph.strip())


def _long_enough(name: str, texts: Iterator[str] | list[str]) -> Iterator[Text]:
    """A row of figures, or a line of a picture, is no text to read."""
    for text in texts:
        if len(_WORD.findall(text)) >= _FEWEST_WORDS:
            yield name, "\n".join(line.strip() for line in text.strip().splitlines())


if __name__ == "__main__":
    main()
