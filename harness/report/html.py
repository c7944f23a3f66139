"""Pages that need nothing but themselves, and that foreign text cannot break.

Whatever a run recorded is foreign text: names of locks, errors of servers, keys. Jinja2 escapes it in the markup; in
the data for the timelines every character that could end a script is written as an escape; and the page's own policy
allows no script but ours, by its hash, and no network at all.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

import msgspec
from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from fencepost.text import printable, printable_lines


def render(template: str, script_file: str = "page.js", **values: object) -> str:
    """The page of a template in this folder. In addition to its values it gets `style`, `script` and the script's
    hash."""
    return (
        _environment()
        .get_template(template)
        .render(
            script=Markup(asset(script_file)),  # noqa: S704  (our own file)
            script_hash=script_hash(script_file),
            style=Markup(asset("page.css") + asset("space_time.css")),  # noqa: S704  (our own files)
            **values,
        )
    )


def script_hash(script_file: str) -> str:
    """By which a page's policy allows this script of ours."""
    return base64.b64encode(hashlib.sha256(asset(script_file).encode()).digest()).decode()


def script_json(value: object) -> Markup:
    """JSON that may stand inside a script element: `<`, `>`, `&` and JavaScript's own line ends are escapes."""
    text = msgspec.json.encode(value).decode()
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # noqa: S704  (nothing that HTML reads as markup is left)


def _text(value: object) -> object:
    """What a template shows: foreign text without control characters."""
    return printable_lines(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def asset(name: str) -> str:
    """A file of this folder, or the script of pages, which is made of several."""
    if name == "page.js":
        return asset("timeline.js") + asset("space_time.js")
    return files("harness.report").joinpath(name).read_text("utf-8")


@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        finalize=_text,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(asset),
    )
    environment.filters["printable"] = printable
    environment.filters["capitalize_first"] = lambda text: text[:1].upper() + text[1:]
    return environment
