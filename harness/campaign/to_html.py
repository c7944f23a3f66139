"""A document as a page that needs nothing but itself."""

from __future__ import annotations

from markupsafe import Markup, escape

from fencepost.text import printable
from harness.campaign.document import Code, Strong, StudyDocument, Text
from harness.campaign.prose import html as prose
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
