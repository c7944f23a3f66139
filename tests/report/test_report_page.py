from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest
from synthetic import Made, make_empty_run, make_run

from harness.checkers.kinds import kinds
from harness.explain.examples import Case
from harness.explain.explanation import Explained, Explanation
from harness.report.judged import Judged
from harness.report.page import render_page, script_json, write_page
from harness.verdict import Finding

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028'\"&"


def page_of(made: Made, **options: Any) -> str:
    return render_page(Judged(made.recorded, made.verdict, made.environment, **options))


def data_of(page: str) -> dict[str, Any]:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data: dict[str, Any] = json.loads(found[1])
    return data


class Tags(HTMLParser):
    """Which elements a browser would see, and what they load."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.attributes += attrs


def test_the_page_tells_the_verdict_the_blame_and_how_to_repeat_it() -> None:
    page = page_of(make_run(lock_overlaps=3, client_overlaps=2), replay="fencepost test --seed 7")
    assert '<span class="word">VIOLATION</span> — 3 overlaps, first after' in page
    assert "the lock is to blame" in page
    assert "Overlaps: 3 blamed on the lock, 2 on a client that outlived its lease, 0 undecided." in page
    assert "<pre>fencepost test --seed 7</pre>" in page
    assert "12 planned, 12 injected, 12 verified active, 12 verified healed" in page


@pytest.mark.parametrize(("began_ms", "title"), [(10.0, "It led to"), (90.0, "Related")])
def test_what_began_before_the_cause_s_case_did_not_come_of_it(began_ms: float, title: str) -> None:
    made = make_run()
    cause = kinds()["renewal-after-release"].found("lock", "renewed", 1, (), began_ms)
    changed = kinds()["changed-another-clients-key"].found("lock", "changed", 1, (), 20.0)
    verdict = msgspec.structs.replace(made.verdict, verdict="violation", findings=(changed, cause))
    explained = [Explained(f, (Explanation(Case(f, {}, {}), "So.", cause="set again"),)) for f in (changed, cause)]
    page = render_page(Judged(made.recorded, verdict, made.environment, explained=explained))
    assert re.findall("<h2>(It led to|Related)</h2>", page) == [title]


def test_a_failure_that_no_fault_caused_is_shaded_and_labelled_as_such() -> None:
    made = make_run()
    planned = page_of(made)
    failure = msgspec.structs.replace(
        made.recorded.faults[0], fault="unplanned-1", nemesis="unplanned", what="n2 went down", unplanned=True
    )
    page = page_of(replace(made, recorded=replace(made.recorded, faults=(*made.recorded.faults, failure))))
    assert 'class="fault unplanned"' in page
    assert 'class="fault unplanned"' not in planned
    assert [fault["what"] for fault in data_of(page)["faults"] if fault["unplanned"]] == ["n2 went down"]
    assert not any(fault["unplanned"] for fault in data_of(planned)["faults"])
    assert "<td>n2 went down</td>" in page
    assert "<td>it did not end</td>" in page


def test_the_page_needs_no_network() -> None:
    page = page_of(make_run(lock_overlaps=1))
    assert not re.search(r"https?:|//[a-z]+\.|url\(|@import", page)
    assert not {"src", "href"} & {name for name, _ in Tags(page).attributes}
    assert "default-src 'none'" in page


def test_the_only_script_that_may_run_is_the_one_whose_hash_is_in_the_policy() -> None:
    import base64
    import hashlib

    page = page_of(make_run())
    script = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(script) == 1
    digest = base64.b64encode(hashlib.sha256(script[0].encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in page


def test_hostile_names_errors_and_keys_are_text_wherever_they_appear() -> None:
    made = make_run(lock_overlaps=1, lock_command=HOSTILE)
    recorded = replace(
        made.recorded,
        sections=made.recorded.sections.assign(key=HOSTILE),
        faults=tuple(msgspec.structs.replace(e, what=HOSTILE, seen=HOSTILE) for e in made.recorded.faults),
    )
    finding = Finding(HOSTILE, "resource", HOSTILE, examples=({HOSTILE: HOSTILE},))
    verdict = msgspec.structs.replace(made.verdict, findings=(finding,), unknown=(HOSTILE,))
    environment: dict[str, object] = {HOSTILE: HOSTILE, "lock": {"error": HOSTILE}, "cluster": {HOSTILE: [HOSTILE]}}
    page = render_page(Judged(recorded, verdict, environment, replay=HOSTILE))
    clean = Tags(page_of(make_run(lock_overlaps=1), replay="x"))
    tags = Tags(page)
    assert tags.names.count("script") == clean.names.count("script") == 2
    assert "img" not in tags.names
    assert not any(name.startswith("on") for name, _ in tags.attributes)
    assert data_of(page)["keys"][0].startswith("</script><script>alert(1)</script><img src=x")


def test_the_servers_configuration_is_one_row_an_option_that_names_who_differs() -> None:
    servers = {"n1": {"appendfsync": "no"}, "n2": {"appendfsync": "no"}, "resource": {"appendfsync": "always"}}
    made = make_run()
    page = render_page(Judged(made.recorded, made.verdict, {"servers": servers}))
    assert "<tr><th>appendfsync</th><td>no (but resource always)</td></tr>" in page


def test_the_word_safe_never_appears() -> None:
    for made in (make_run(), make_run(lock_overlaps=2), make_empty_run()):
        assert not re.search(r"\bsafe", page_of(made), re.IGNORECASE)


def test_json_in_a_script_holds_nothing_that_ends_it() -> None:
    text = str(script_json({"a": HOSTILE, "b": "<!--"}))
    assert not set("<>&\u2028\u2029") & set(text)
    assert json.loads(text) == {"a": HOSTILE, "b": "<!--"}


def test_the_timeline_holds_every_section_overlap_and_fault() -> None:
    made = make_run(lock_overlaps=2, client_overlaps=3, undecided_overlaps=1)
    data = data_of(page_of(made))
    sections = made.recorded.sections.sort_values("start_ns")
    columns = data["sections"]
    assert {len(column) for column in columns.values()} == {len(sections)}
    starts = [sum(columns["step"][: n + 1]) for n in (0, 10, len(sections) - 1)]
    real = (sections["start_ns"] - made.recorded.timeline.start_ns) // 1000
    assert starts == [int(real.iloc[n]) for n in (0, 10, -1)]
    blames = [overlap[4] for overlap in data["overlaps"]]
    assert (blames.count(0), blames.count(1), blames.count(2)) == (2, 3, 1)
    for first, second, begin, end, _ in data["overlaps"]:
        assert columns["client"][first] != columns["client"][second]
        assert begin <= end
    assert [f["what"] for f in data["faults"]] == [e.what for e in made.recorded.faults if e.event == "injected"]
    looks = {(hit["of"], hit["look"]) for f in data["faults"] for hit in f["hits"] if hit["rows"]}
    assert looks >= {("link", "cut"), ("node", "down"), ("client", "stopped")}


def test_a_fault_that_did_not_take_and_one_that_was_never_healed_are_said_to_be() -> None:
    made = make_run()
    first, second, *_ = (e for e in made.recorded.faults if e.event == "injected")
    missed = msgspec.structs.replace(first, holds=False, seen="3 of 8 links still answer")
    recorded = replace(made.recorded, faults=(missed, second))
    page = render_page(Judged(recorded, made.verdict, {}))
    assert "DID NOT TAKE: 3 of 8 links still answer" in page
    assert "no healing was recorded" in page
    assert [(f["took"], f["healed"]) for f in data_of(page)["faults"]] == [(False, False), (True, False)]


def test_a_run_without_sections_is_a_page_that_says_so() -> None:
    page = page_of(make_empty_run())
    assert "UNKNOWN" in page
    assert "no client acquired the lock; no planned fault was observed" in page
    data = data_of(page)
    assert data["sections"] is None
    assert data["end"] == 500_000, "a run that broke off is drawn over the time that was planned"


@pytest.mark.parametrize("missing", ["exclusion", "counter", "fencing", "liveness", "faults", "phases"])
def test_any_checker_may_be_missing(missing: str) -> None:
    made = make_run()
    figures = {name: value for name, value in made.verdict.figures.items() if name != missing}
    page = render_page(Judged(made.recorded, msgspec.structs.replace(made.verdict, figures=figures), {}))
    assert "VALID" in page


def test_a_lock_that_told_no_validity_is_drawn_within_it() -> None:
    made = make_run()
    forever = made.recorded.sections.assign(deadline_min_ns=2**62, deadline_max_ns=2**62)
    data = data_of(render_page(Judged(replace(made.recorded, sections=forever), made.verdict, {})))
    assert set(data["sections"]["valid"]) == {10**13}
    assert set(data["sections"]["slack"]) == {0}


def test_a_hundred_thousand_sections_stay_a_few_megabytes() -> None:
    made = make_run(seconds=950, hold_ms=(1, 4), rest_ms=(3, 6))
    assert len(made.recorded.sections) > 100_000
    page = page_of(made)
    assert len(page) < 6_000_000


def test_the_page_is_written_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    made = make_run()
    path = tmp_path / "report.html"
    path.write_text("old")
    write_page(Judged(made.recorded, made.verdict, made.environment), path)
    assert path.read_text("utf-8").startswith("<!doctype html>")
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
