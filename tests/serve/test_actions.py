"""What changes something is done only for forms of our own pages: tags; runs started, repeated and stopped."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

import pytest

from fencepost.errors import UsageError
from harness.serve.filter import RunFilter
from harness.serve.index import RunSummary
from harness.serve.tags import FILE, read_tags, tags_in, write_tags
from tests.serve.served import Served, a_run, serving, told

WHEN = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("actions")
    a_run(place / "runs", 1)
    with serving(place) as served:
        yield served


def the_run(served: Served) -> str:
    return next(path.name for path in served.results.iterdir() if path.name.endswith("-1"))


def test_tags_are_kept_shown_and_chosen_by(served: Served) -> None:
    here = f"runs/{quote(the_run(served))}/"
    status, headers, _ = served.send(f"{here}tags", {"form": served.form_token(), "tags": "flaky, keep"})
    assert (status, headers["Location"]) == (303, f"{served.root}{here}")
    assert read_tags(served.results) == {the_run(served): ["flaky", "keep"]}
    assert 'value="flaky keep"' in served.page(here)
    assert "?tag=flaky" in served.page("?tag=keep")
    assert "No run matches" in served.page("?tag=other")
    served.send(f"{here}tags", {"form": served.form_token(), "tags": ""})
    assert read_tags(served.results) == {}


@pytest.mark.parametrize("path", ["start", "runs/{run}/tags", "runs/{run}/repeat", "runs/{run}/stop"])
@pytest.mark.parametrize(
    ("token", "headers"),
    [
        ("wrong", {}),
        ("", {}),
        ("right", {"Origin": ""}),
        ("right", {"Origin": "null"}),
        ("right", {"Origin": "http://evil.example"}),
        ("right", {"Sec_Fetch_Site": "cross-site"}),
    ],
)
def test_what_is_sent_from_elsewhere_is_refused(path: str, token: str, headers: dict[str, str], served: Served) -> None:
    fields = {"form": served.form_token() if token == "right" else token, "tags": "seen", "options": "--no-such"}
    assert served.send(path.format(run=quote(the_run(served))), fields, **headers)[0] == 403
    assert not (served.results / FILE).exists() or read_tags(served.results) == {}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--no-such-option", "--no-such-option"),
        ("--ttl 2parsecs", "--ttl"),
        ("--lock no-such-lock", "no-such-lock"),
        ("--name 'open", "cannot be read"),
    ],
)
def test_a_run_is_refused_in_the_words_of_the_command_line(options: str, said: str, served: Served) -> None:
    before = sorted(served.results.iterdir())
    status, _, body = served.send("start", {"form": served.form_token(), "options": options})
    assert status == 400
    assert said in told(body)
    assert sorted(served.results.iterdir()) == before


def test_a_run_that_was_not_started_here_cannot_be_stopped_here(served: Served) -> None:
    status, _, body = served.send(f"runs/{quote(the_run(served))}/stop", {"form": served.form_token()})
    assert status == 400
    assert "was not started here" in told(body)


@pytest.mark.parametrize("text", ["a/b", "<b>", "x" * 41, " ".join(map(str, range(21)))])
def test_what_cannot_be_a_tag_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        tags_in(text)


def test_a_file_of_tags_that_is_not_ours_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("mine")
    assert read_tags(tmp_path) == {}
    with pytest.raises(UsageError):
        write_tags(tmp_path, "run", ["a"])
    assert (tmp_path / FILE).read_text() == "mine"


def test_the_gravest_come_first_and_of_equals_the_newest() -> None:
    runs = [
        RunSummary("a", WHEN, "valid"),
        RunSummary("b", WHEN, "valid", says="3 updates were lost"),
        RunSummary("c", WHEN, "unknown"),
        RunSummary("d", WHEN, "violation"),
        RunSummary("e", WHEN, "unjudged"),
        RunSummary("f", WHEN, "violation"),
    ]
    assert [run.name for run in RunFilter(sort="most severe").chosen(runs)] == ["d", "f", "c", "b", "a", "e"]
    assert [run.name for run in RunFilter().chosen(runs)] == ["a", "b", "c", "d", "e", "f"]


def test_the_order_stays_from_page_to_page() -> None:
    assert RunFilter(sort="most severe", tag="x").at(2) == "?tag=x&sort=most+severe&page=2"
    assert RunFilter.read(lambda name: "<b>" if name == "sort" else "").sort == ""
