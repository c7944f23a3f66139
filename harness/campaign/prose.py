"""The Markdown in which findings are written, as HTML: no markup of the text's own, and no link but to a safe place."""

from __future__ import annotations

import re
from typing import Final

from markdown_it import MarkdownIt
from markupsafe import Markup

from fencepost.markdown import without_notes

_SAFE: Final = re.compile(r"https://|[\w.-]+\.(?:md|html)$")
"""Where a link may lead: elsewhere, or to a file beside the text."""


class _Parser(MarkdownIt):
    def validateLink(self, url: str) -> bool:  # noqa: N802  # the parser's own name
        return _SAFE.match(url) is not None


_PARSER: Final = _Parser("commonmark", {"html": False}).enable("table").disable("image")


def html(text: str, folder: str) -> Markup:
    """`folder`: where the text lies, seen from the page. What is not Markdown is shown as it was typed."""
    tokens = _PARSER.parse(without_notes(text))
    for block in tokens:
        for token in block.children or ():
            if token.type == "link_open" and not (to := str(token.attrs["href"])).startswith("https://"):
                token.attrSet("href", f"{folder}/{to}")
    return Markup(_PARSER.renderer.render(tokens, _PARSER.options, {}))  # noqa: S704  # the parser escapes everything
