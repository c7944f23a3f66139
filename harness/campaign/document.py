"""What a study says, as blocks that are written once and rendered to HTML, Markdown, CSV and JSON.

`forms` and `to_markdown` show the blocks. CSV and JSON are for programs: they hold the numbers, and nothing rounded.
Whatever is a `str` here is foreign text, which no form takes for markup.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final, Literal

import pandas as pd
from markupsafe import Markup

from harness.campaign.provenance import Provenance


class Code(str):
    """Words of a program within a text: a command, a folder."""

    __slots__ = ()


class Strong(str):
    """What a paragraph begins with, to be found at a glance."""

    __slots__ = ()


Text = str | Sequence[str]
"""Of one kind, or of parts that are `Code`, `Strong` or plain."""


@dataclass(frozen=True, slots=True)
class TableField:
    """A field of a table with more than a text. `note`: stands below; `tone`: its class in the style sheet; `to`: the
    anchor or address it leads to; `why`: shown when pointed at. `picture`: shown on the page in place of the text."""

    text: str
    note: str = ""
    tone: str = ""
    to: str = ""
    why: str = ""
    picture: Markup | None = None


class Block:
    """A part of a document. `kind`: its class, by which the page's template knows it."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return type(self).__name__


@dataclass(frozen=True, slots=True)
class Heading(Block):
    """`level`: 2 or more; the title of the document has 1."""

    text: str
    level: int = 2
    anchor: str = ""


@dataclass(frozen=True, slots=True)
class Paragraph(Block):
    text: Text
    tone: Literal["", "lead", "hint", "says", "notice"] = ""


@dataclass(frozen=True, slots=True)
class Banner(Block):
    """One word, and what it stands on. `tone`: `valid`, `violation` or `unknown`."""

    word: str
    says: str
    tone: str


@dataclass(frozen=True, slots=True)
class Bullets(Block):
    items: Sequence[Text]


@dataclass(frozen=True, slots=True)
class DataTable(Block):
    """`style`: its class in the style sheet. The first field of a row is its head."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Text | TableField]]
    style: str = ""
    title: str = ""


@dataclass(frozen=True, slots=True)
class StillPicture(Block):
    """A still picture, on the page only: its numbers are in a table beside it."""

    picture: Markup
    caption: str = ""


@dataclass(frozen=True, slots=True)
class StillPictures(Block):
    """A row of small pictures that share a legend."""

    legend: Markup
    panels: Sequence[StillPicture]
    hint: str = ""


@dataclass(frozen=True, slots=True)
class RunTimeline(Block):
    """An excerpt of a run, or all of a short one, to look into. `moment`: as `harness.campaign.example_timeline` makes
    it, with the `folder` of its run."""

    name: str
    moment: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CommandLine(Block):
    text: str


@dataclass(frozen=True, slots=True)
class Prose(Block):
    """Markdown of ours, from a file in `folder`. `title`: with which the file begins; `file`: its name."""

    text: str
    folder: str
    title: str
    file: str


@dataclass(frozen=True, slots=True)
class Folded(Block):
    """What the page shows on a click. `page_only`: other forms leave it out."""

    title: str
    blocks: Sequence[Block]
    is_open: bool = False
    page_only: bool = False


LOOK_INTO: Final = (
    "In a picture, a row is a client, and a bar is the time in which it held the lock. Drag to move; double-click, + "
    "and − to zoom."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyDocument:
    """`name`: of its files, `claims.md` and `claims.json`. `numbers`: what `NAME.json` holds beside how the document
    was made. `tables`: each becomes a CSV file of its name."""

    name: str
    title: str
    facts: Sequence[str]
    blocks: Sequence[Block]
    made: Provenance
    numbers: Mapping[str, object]
    tables: Mapping[str, pd.DataFrame]

    @property
    def timelines(self) -> list[RunTimeline]:
        """In order, those of folded blocks too."""
        return [each for each in _flat(self.blocks) if isinstance(each, RunTimeline)]

    @property
    def all_blocks(self) -> Sequence[Block]:
        """With the part that every document has: how it was made, and how to make it again."""
        return [
            *self.blocks,
            Heading("Reproduce"),
            DataTable(("", ""), self.made.rows, "pairs"),
            CommandLine(self.made.command),
        ]

    @property
    def forms(self) -> list[str]:
        """The names of its files, the page first."""
        return ["index.html", f"{self.name}.md", *(f"{name}.csv" for name in self.tables), f"{self.name}.json"]


def _flat(blocks: Sequence[Block]) -> Iterator[Block]:
    return chain.from_iterable(_flat(each.blocks) if isinstance(each, Folded) else (each,) for each in blocks)


def paragraphs(texts: Sequence[str], tone: Literal["", "says", "notice"] = "") -> list[Block]:
    return [Paragraph(text, tone) for text in texts]


def folders(names: Sequence[str]) -> list[str]:
    """The folders of runs, within a text."""
    return [part for number, name in enumerate(names) for part in ([", "] * bool(number) + [Code(name)])] or [
        "none yet"
    ]
