"""Pick texts that users read, at random: `.venv/bin/python tools/reading.py [SEED] [N]`.

A reader who does not know the project marks those that have to be read twice; then these are rewritten, and what is
like them. The texts are paragraphs and rows of the documentation, the help of every option, and the sentences of the
terminal and the pages that tests keep beside them (`*.golden.txt`). Published results are records, and left out.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from textwrap import indent

from checkout import ROOT

_BLOCK = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_SHORTEST = 25


def main() -> None:
    seed, number = (int(word) for word in (*sys.argv[1:], *("1", "20")[len(sys.argv) - 1 :]))
    for place, text in Random(seed).sample(sorted(texts()), number):
        print(f"{place}\n{indent(text, '    ')}\n")


def texts() -> Iterator[tuple[str, str]]:
    """Where a text stands, and the text."""
    tracked = subprocess.check_output(["git", "ls-files", "*.md", "*.golden.txt"], cwd=ROOT, text=True).splitlines()
    for name in tracked:
        if name.startswith("results/"):
            continue
        for text in pieces(Path(name), (ROOT / name).read_text()):
            if len(text) >= _SHORTEST:
                yield name, text


def pieces(name: Path, text: str) -> Iterator[str]:
    """The lines of kept sentences; else the paragraphs, and the rows of tables and lists."""
    if name.suffix == ".txt":
        yield from (line for line in text.splitlines() if line.strip() and not line.startswith("==="))
        return
    for paragraph in re.split(r"\n\s*\n", _BLOCK.sub("", text)):
        yield from re.split(r"\n(?=[|*-])", paragraph.strip())


if __name__ == "__main__":
    main()
