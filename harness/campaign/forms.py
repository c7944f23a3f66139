"""Every form of a document: a page, Markdown, CSV and JSON."""

from __future__ import annotations

import msgspec

from harness.campaign.document import StudyDocument
from harness.campaign.to_html import html
from harness.campaign.to_markdown import markdown


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
