from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.markdown import BREAK, Markdown, block, code, escaped, joined, table

HOSTILE = "<script>|`*_[x](y)\n# $a$ \x1b[2J &lt; \\"


def test_foreign_text_is_one_line_without_markup() -> None:
    assert escaped("a <b> | `c` *d* _e_ [f](g)\n# h") == (r"a &lt;b&gt; \| \`c\` \*d\* \_e\_ \[f\](g) \# h")
    assert escaped("set_nx_px, aof-always") == "set_nx_px, aof-always"


@pytest.mark.parametrize(
    ("text", "shown"), [("- a", r"\- a"), ("1. a", r"1\. a"), ("+1", r"\+1"), ("7 days", "7 days")]
)
def test_what_would_begin_a_list_is_text(text: str, shown: str) -> None:
    assert escaped(text) == shown


def test_what_is_markdown_stays_so_and_what_is_joined_with_it_does_not_become_it() -> None:
    assert escaped(Markdown("**a**")) == "**a**"
    assert joined(["<a>", code("b|c")], BREAK) == r"&lt;a&gt;<br>`b\|c`"


@given(st.text())
def test_code_ends_where_it_should(text: str) -> None:
    shown = code(text)
    fence = re.match("`+", shown)
    assert fence
    inner = shown[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in re.findall("`+", inner)
    opening, *_, closing = block(text)
    assert opening == closing
    assert opening not in block(text)[1]


@given(st.lists(st.text(), min_size=2, max_size=2), st.lists(st.lists(st.text(), min_size=2, max_size=2), max_size=3))
def test_a_table_has_as_many_rows_and_cells_as_it_was_given(heads: list[str], rows: list[list[str]]) -> None:
    lines = table(heads, rows)
    assert len(lines) == 2 + len(rows)
    for line in lines:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 3
        assert line.isprintable()


def test_a_hostile_name_is_text_in_every_form() -> None:
    for shown in (escaped(HOSTILE), code(HOSTILE), *table([HOSTILE], [[HOSTILE]])):
        assert "\n" not in shown
        assert "\x1b" not in shown
    assert "<script>" not in escaped(HOSTILE)
