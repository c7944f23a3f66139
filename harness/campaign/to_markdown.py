"""A document in Markdown, to read in a repository: everything but the pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fencepost.markdown import Markdown, block, code, escaped, joined, table
from harness.campaign.document import (
    Banner,
    Block,
    Bullets,
    Code,
    CommandLine,
    DataTable,
    Folded,
    Heading,
    Paragraph,
    Prose,
    Strong,
    StudyDocument,
    TableField,
    Text,
)


def markdown(document: StudyDocument) -> str:
    facts = escaped(" · ".join(document.facts))
    lines = [f"# {escaped(document.title)}", "", facts, "", *_lines(document.all_blocks)]
    return "\n".join(lines)


def _lines(blocks: Sequence[Block]) -> Iterator[str]:
    for each in blocks:
        yield from _block(each)


def _block(each: Block) -> Iterator[str]:
    match each:
        case Heading(text, level):
            yield from (f"{'#' * level} {escaped(text)}", "")
        case Paragraph(text):
            yield from (_text(text), "")
        case Banner(word, says):
            yield from (f"**{escaped(word)}**: {escaped(says)}", "")
        case Bullets(items):
            yield from (*(f"- {_text(item)}" for item in items), "")
        case DataTable(heads, rows, _, title):
            if title:
                yield from (f"**{escaped(title)}**", "")
            yield from (*table(heads, [[_cell(cell) for cell in row] for row in rows]), "")
        case CommandLine(text):
            yield from (*block(text), "")
        case Prose(_, folder, title, file):
            yield from (f"[{escaped(title)}]({folder}/{file})", "")
        case Folded(title, inner, _, page_only) if not page_only:
            if not any(isinstance(one, Prose) for one in inner):
                yield from (f"### {escaped(title)}", "")
            yield from _lines(inner)


def _cell(cell: Text | TableField) -> Markdown:
    return joined([part for part in (cell.text, cell.note) if part]) if isinstance(cell, TableField) else _text(cell)


def _text(text: Text) -> Markdown:
    match text:
        case Code():
            return code(text)
        case Strong():
            return Markdown(f"**{escaped(text)}**")
        case str():
            return escaped(text)
    return Markdown("".join(map(_text, text)))
