"""A document is written once, and says the same in every form."""

from __future__ import annotations

import json
import re

import msgspec
import pandas as pd

from fencepost.markdown import escaped
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
    RunTimeline,
    Strong,
    StudyDocument,
    TableField,
)
from harness.campaign.folder import RunLine
from harness.campaign.forms import forms_of
from harness.campaign.provenance import UNKNOWN, date_of, in_words, provenance_of, versions_of
from tests.campaign import made

HOSTILE = "</script><b>|`x`"


def forms(*blocks: Block, lines: tuple[RunLine, ...] = ()) -> dict[str, str]:
    document = StudyDocument(
        name="study",
        title=HOSTILE,
        facts=["a fact"],
        blocks=blocks,
        made=provenance_of(made.campaign(), lines, ["a lock is not installed"]),
        numbers={"answer": 42},
        tables={"runs": pd.DataFrame([{"cell": "a", "share": 0.123456789}])},
    )
    return {name: form if isinstance(form, str) else form.decode() for name, form in forms_of(document).items()}


def test_every_form_is_written_and_names_the_others() -> None:
    written = forms(Paragraph("Words."))
    assert list(written) == ["index.html", "study.md", "runs.csv", "study.json"]
    assert "study.md, runs.csv, study.json" in written["index.html"]
    assert written["runs.csv"] == "cell,share\na,0.123456789\n", "numbers are not rounded"
    assert json.loads(written["study.json"])["answer"] == 42


def test_the_page_and_the_markdown_have_every_text() -> None:
    blocks = (
        Heading("a heading", 3, "place"),
        Paragraph(["first ", Code("some code"), Strong("weight")]),
        Banner("GREEN", "it stands", "valid"),
        Bullets(["an item"]),
        DataTable(
            ("a head", "b"), [("row", TableField("value", "a note", "bad", "#place", "a reason"))], title="a title"
        ),
        CommandLine("fencepost test"),
        Folded("folded up", [Paragraph("inside")]),
    )
    written = forms(*blocks)
    for text in (
        *("a heading", "first ", "some code", "weight", "GREEN", "it stands", "an item", "a head", "row", "value"),
        *("a note", "a title", "fencepost test", "folded up", "inside"),
    ):
        assert text in written["index.html"], text
        assert text in written["study.md"], text
    assert (
        '<td class="bad" title="a reason"><a href="#place">value</a><span>a note</span></td>' in written["index.html"]
    )
    assert "| row | value<br>a note |" in written["study.md"]


def test_what_is_for_the_page_only_is_not_in_the_markdown() -> None:
    written = forms(Folded("many numbers", [Paragraph("inside")], page_only=True))
    assert "many numbers" in written["index.html"]
    assert "many numbers" not in written["study.md"]
    assert "inside" not in written["study.md"]


def test_foreign_text_is_no_markup_in_any_form() -> None:
    moment = {"text": HOSTILE, "folder": HOSTILE, "data": {"clients": [HOSTILE]}}
    field = TableField(HOSTILE, HOSTILE, to="#a", why=HOSTILE)
    blocks = (Heading(HOSTILE), Paragraph([HOSTILE, Code(HOSTILE)]), DataTable((HOSTILE, ""), [(HOSTILE, field)]))
    written = forms(*blocks, RunTimeline("moment", moment), CommandLine(HOSTILE), Folded(HOSTILE, [Bullets([HOSTILE])]))
    page = written["index.html"]
    assert page.count("<script") == page.count("</script>") == 2
    assert "</script><b>" not in page
    text = written["study.md"]
    assert text.startswith(f"# {escaped(HOSTILE)}\n")
    assert f"## {escaped(HOSTILE)}\n" in text
    assert f"- {escaped(HOSTILE)}\n" in text
    assert not re.search(r"^\|.*<(?!br>)", text, re.MULTILINE)


def test_a_document_states_how_it_was_made_and_names_a_dirty_tree() -> None:
    environment = {
        "fencepost": "0.1.0",
        "cluster": {
            "server": {"name": "redis", "version": "8.2.3"},
            "resource_server": {"name": "redis", "version": "7.0.15"},
            "toxiproxy": {"version": "2.12.0"},
        },
        "lock": {"library": "redlock-ng 2.0.4"},
    }
    whole = made.line("none · clients 2", 1)
    line = msgspec.structs.replace(
        whole, folder="20261125T014401.105793Z-x", revision="1a2b+", versions=versions_of(environment)
    )
    written = forms(lines=(line,))
    for form in (written["index.html"], written["study.md"]):
        for said in (
            *("1a2b with uncommitted changes", "0.1.0", "redis 8.2.3 and redis 7.0.15", "2.12.0", "redlock-ng 2.0.4"),
            *("2026-11-25", "2 cores", "1 of 8 runs", "1 to 2", "a lock is not installed.", "fencepost compare"),
        ):
            assert said in form.replace("\\", ""), said
    document = json.loads(written["study.json"])
    assert document["revisions"] == {"1a2b+": 1}
    assert document["versions"]["lock libraries"] == ["redlock-ng 2.0.4"]
    assert (document["finished"], document["planned"], document["command"]) == (1, 8, "fencepost compare")


def test_a_command_that_was_given_again_to_add_runs_is_told_once() -> None:
    again = msgspec.structs.replace(made.campaign(), command="make a\nmake b\nmake a")
    assert provenance_of(again, []).command == "make a\nmake b"


def test_what_an_older_run_did_not_record_is_said_to_be_missing() -> None:
    rows = dict(provenance_of(made.campaign(), [made.line("none · clients 2", 1)]).rows)
    assert rows["servers"] == rows["fencepost"] == rows["lock libraries"] == rows["made"] == UNKNOWN
    assert date_of("run-of-a-test") == ""


def test_several_revisions_are_named_with_their_runs() -> None:
    first, _, second = in_words({"1a": 2, "2b+": 1}).partition(" and ")
    assert first == "1a (2 runs)"
    assert second.startswith("2b with")
    assert second.endswith("(1 run)")
    assert in_words({}) == UNKNOWN
