"""The texts of findings, as a page shows them."""

from __future__ import annotations

import re

import pytest

from harness.campaign.prose import html
from harness.survey.findings import read_findings
from tests.survey.test_findings import KEPT

TEXT = """
**What happens.** `tryLock(a * b)` waits, see
[another finding](other.md).

    fencepost test --lock x \\
      --seed 1

2 * 3 ** 4 <script>
"""


def test_paragraphs_code_and_what_is_marked_within_a_line_are_told_apart() -> None:
    assert html(TEXT, "findings") == (
        "<p><strong>What happens.</strong> <code>tryLock(a * b)</code> waits, see\n"
        '<a href="findings/other.md">another finding</a>.</p>\n'
        "<pre><code>fencepost test --lock x \\\n  --seed 1\n</code></pre>\n"
        "<p>2 * 3 ** 4 &lt;script&gt;</p>\n"
    )


def test_a_link_elsewhere_leads_there() -> None:
    assert html("[there](https://example.org/a?b)", "f") == '<p><a href="https://example.org/a?b">there</a></p>\n'


@pytest.mark.parametrize("to", ["javascript:alert", "//evil.example/x.md", "http://plain.example", "../../x.md?a"])
@pytest.mark.parametrize("written", ["[here]({})", "![here]({})", "[here][1]\n\n[1]: {}"])
def test_a_link_that_leads_anywhere_else_stays_text(written: str, to: str) -> None:
    shown = html(written.format(to), "f")
    assert to in shown
    assert not re.search("href|src", shown)


def test_no_mark_of_a_published_finding_is_shown_as_it_was_typed() -> None:
    for finding in read_findings(KEPT):
        shown = re.sub(r"<code>.*?</code>", "", html(finding.body, "f"), flags=re.S)
        assert not any(mark in shown for mark in ("**", "`", "](", "--&gt;", "|")), finding.name
