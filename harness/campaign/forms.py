"""Every form of a document: a page that needs nothing but itself, Markdown, CSV, JSON; and a table at the terminal."""

from __future__ import annotations

import msgspec
from markupsafe import Markup, escape
from rich.table import Table

from fencepost.text import printable
from harness.campaign.document import Code, DataTable, Strong, StudyDocument, TableField, Text
from harness.campaign.prose import html as prose
from harness.campaign.to_markdown import markdown
from harness.report.html import render, script_json


def html(document: StudyDocument) -> str:
    return render("document.html.j2", document=document, text=_text, prose=prose, script_json=script_json)


def _text(text: Text) -> Markup:
    match text:
        case Markup():
            return text
        case Code():
            return Markup("<code>%s</code>") % printable(text)
        case Strong():
            return Markup("<b>%s</b>") % printable(text)
        case str():
            return escape(printable(text))
    return Markup("").join(map(_text, text))


def forms_of(document: StudyDocument) -> dict[str, str | bytes]:
    """By the name of its file."""
    contents: tuple[str | bytes, ...] = (
        html(document),
        markdown(document),
        *(str(frame.to_csv(index=False)) for frame in document.tables.values()),
        _json(document),
    )
    return dict(zip(document.forms, contents, strict=True))


def _json(document: StudyDocument) -> bytes:
    value = {"schema_version": 1, "title": document.title, **document.made.to_builtins(), **document.numbers}
    return msgspec.json.format(msgspec.json.encode(value)) + b"\n"


def at_terminal(shown: DataTable) -> Table:
    """Its texts; notes, links and pictures are for the page."""
    table = Table(box=None, pad_edge=False)
    for head in shown.heads:
        table.add_column(head, overflow="fold")
    for row in shown.rows:
        table.add_row(*(cell.text if isinstance(cell, TableField) else "".join(cell) for cell in row))
    return table
