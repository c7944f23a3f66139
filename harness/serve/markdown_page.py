"""Published Markdown as a page: no markup of the text's own, and no link but to other documents or to https."""

from __future__ import annotations

import posixpath
from collections.abc import Callable
from typing import Final

from markdown_it import MarkdownIt
from markupsafe import Markup

from fencepost.markdown import without_notes
from harness.report.html import render

_PARSER: Final = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")


def markdown_page(root: str, title: str, text: str, link_to: Callable[[str], str | None]) -> str:
    """`link_to`: the address of a file beside the text; None if nothing is shown there, and then the link's text alone
    is. `root`: what every address begins with."""
    tokens = _PARSER.parse(without_notes(text))
    for block in tokens:
        for token in block.children or ():
            if token.type == "link_open":
                to = str(token.attrs["href"])
                address = to if to.startswith(("https://", "#")) else link_to(to.partition("#")[0])
                if address is None:
                    del token.attrs["href"]
                else:
                    token.attrSet("href", address)
    body = Markup(_PARSER.renderer.render(tokens, _PARSER.options, {}))  # noqa: S704  # the parser escapes everything
    return render("markdown.html.j2", root=root, title=title, body=body)


def beside(folder: str, link: str) -> tuple[str, str] | None:
    """The folder and the name of what a relative link in a text in `folder` leads to; None if that is outside."""
    path = posixpath.normpath(posixpath.join(folder, link))
    if path.startswith(("/", "..")) or path == ".":
        return None
    return posixpath.dirname(path), posixpath.basename(path)
