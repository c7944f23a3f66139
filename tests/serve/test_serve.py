"""`fencepost serve`, asked as a browser and as an attacker would ask it."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from io import FileIO
from pathlib import Path
from urllib.parse import quote

import msgspec
import pytest

from cluster.polling import becomes_true
from fencepost.files import open_regular
from harness.checkers.judge import judge_folder
from harness.serve.filter import ON_A_PAGE, RunFilter
from harness.serve.index import UNREAD, Index, RunSummary, summary_of
from harness.serve.pages import list_page
from harness.store.manifest import write_manifest
from harness.store.run_folder import RunFolder
from harness.verdict import VERDICT_SCHEMA
from tests.harness.runs import command
from tests.serve.served import HOSTILE, ROOT, Served, a_run, serving, told

WORDS = """---
subject: unseen
---
# words

<!-- unseen -->

<b>bold</b> [the report](fsync/report.md), [out](../secret), [run](javascript:alert(1)), [none](nobody/report.md)

| cell |
|---|
| x |
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place = tmp_path_factory.mktemp("serve")
    results = place / "runs"
    a_run(results, 1, lock="redlock")
    path = a_run(results, 2, lock_command="node lock.mjs", name="mine", nemesis="crash")
    (path / "report.html").write_text("<!doctype html><title>picture</title>")
    (path / "logs" / f"{HOSTILE.replace('/', '')}.log").write_text("said")
    (place / "secret").write_text("secret")
    (path / "logs" / "link").symlink_to(place / "secret")
    (results / "linked").symlink_to(path)
    hostile = results / f"20260101T000000.000000Z-{HOSTILE.replace('/', '')}"
    hostile.mkdir()
    (hostile / "config.json").write_text("{")
    for name in ("fsync", HOSTILE.replace("/", "")):
        (place / "reports" / name).mkdir(parents=True)
        (place / "reports" / name / "campaign.json").write_text("{}")
        (place / "reports" / name / "index.html").write_text("the report")
    (place / "reports" / "linked").symlink_to(place)
    (place / "reports" / "words.md").write_text(WORDS)
    (place / "reports" / "fsync" / "report.md").write_text("# told")
    with serving(place) as served:
        yield served


def run_of(served: Served, seed: int) -> Path:
    return next(path for path in served.results.iterdir() if path.name.endswith(f"-{seed}") and not path.is_symlink())


def hostile_run(served: Served) -> str:
    return next(path.name for path in served.results.iterdir() if "script" in path.name)


def test_the_newest_run_comes_first_and_each_has_its_page(served: Served) -> None:
    page = served.page("")
    assert "3 runs, newest first" in page
    assert page.index("mine, crash") < page.index("redlock, partition")
    link = f"{served.root}runs/{quote(run_of(served, 2).name, safe='')}/"
    assert f'href="{link}"' in page
    run = served.page(link)
    assert "mine under crash" in run
    assert "UNKNOWN" in run
    picture = f"{link}files/report.html"
    assert f'<iframe src="{picture}" sandbox="allow-scripts"' in run, "its own page comes first"
    files = served.page(f"{link}?tab=files")
    assert "<iframe" not in files
    assert f'href="{link}files/config.json"' in files
    other = served.page(f"runs/{quote(run_of(served, 1).name)}/")
    assert "config.json</a>" in other, "one that has no page shows its files"


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("?lock=mine", ["mine, crash"]),
        ("?nemesis=partition", ["redlock, partition"]),
        ("?verdict=unknown", ["mine, crash", "redlock, partition"]),
        ("?verdict=damaged", []),
        ("?text=REDLOCK", ["redlock, partition"]),
        ("?text=no+such+thing", []),
        ("?page=0&lock=mine", ["mine, crash"]),
    ],
)
def test_runs_are_chosen_by_lock_nemesis_verdict_and_text(asked: str, shown: list[str], served: Served) -> None:
    page = served.page(asked)
    assert [name for name in ("mine, crash", "redlock, partition") if name in page] == shown


def test_the_files_of_a_run_are_shown_and_come_as_one_zip(served: Served) -> None:
    path = run_of(served, 2)
    here = f"runs/{quote(path.name)}/"
    status, headers, body = served.ask(f"{here}files/config.json")
    assert (status, headers["Content-Type"], body) == (
        *(200, "text/plain; charset=utf-8"),
        (path / "config.json").read_bytes(),
    )
    status, headers, body = served.ask(f"{here}zip")
    assert (status, headers["Content-Type"]) == (200, "application/zip")
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        assert archive.testzip() is None
        names = archive.namelist()
    assert f"{path.name}/config.json" in names
    assert not [name for name in names if name.endswith("link")]


def test_two_runs_are_shown_side_by_side_with_what_was_asked_differently(served: Served) -> None:
    first, second = (quote(run_of(served, seed).name) for seed in (1, 2))
    page = served.page(f"two?run={first}&run={second}")
    different, _, alike = page.partition("Same settings")
    assert "<th>nemesis</th><td>partition</td><td>crash</td>" in different
    assert "<th>clients</th><td>10</td><td>10</td>" in alike
    assert "<script" not in served.page(f"two?run={second}&run={quote(hostile_run(served), safe='')}")


def test_reports_of_campaigns_are_listed_and_open_as_what_another_site_made(served: Served) -> None:
    page = served.page("")
    assert f'href="{served.root}reports/fsync/files/index.html"' in page
    assert "linked" not in page
    status, headers, body = served.ask("reports/fsync/files/index.html")
    assert (status, body) == (200, b"the report")
    assert "sandbox" in headers["Content-Security-Policy"]
    for path in (
        "linked/files/secret",
        "../secret",
        "fsync/files/../../secret",
        "fsync/files/..%2f..%2fsecret",
        "..%2fruns/files/config.json",
        "nobody/files/index.html",
        "nobody/live",
        "nobody/events",
    ):
        assert served.ask(f"reports/{path}")[0] == 404, path


def test_published_documents_are_listed_and_shown_as_pages(served: Served) -> None:
    assert f'href="{served.root}documents/words.md"' in served.page("")
    page = served.page("documents/words.md")
    assert "<h1>words</h1>" in page
    assert "<b>bold" not in page
    assert "unseen" not in page
    assert f'<a href="{served.root}reports/fsync/files/report.md">the report</a>' in page
    assert "<th>cell</th>" in page
    for outside in ("../secret", "javascript:alert", "nobody/report.md"):
        assert f'href="{outside}' not in page
    assert page.count("<a href") == 3, "the list, the report and the raw text"
    assert "<h1>told</h1>" in served.page("reports/fsync/files/report.md")
    status, headers, body = served.ask("documents/words.md?raw=1")
    assert (status, headers["Content-Type"], body) == (200, "text/plain; charset=utf-8", WORDS.encode())
    for name in ("..%2fsecret", "fsync", "fsync%2findex.html", "nothing.md"):
        assert served.ask(f"documents/{name}")[0] == 404


@pytest.mark.parametrize("asked", ["", "?run=a", "?run=a&run=b&run=c"])
def test_only_two_runs_go_side_by_side(asked: str, served: Served) -> None:
    status, _, body = served.ask(f"two{asked}")
    assert status == 400
    assert "two runs" in told(body)
    assert f'<a href="{served.root}">All runs</a>' in body.decode()
    assert served.ask("two?run=..&run=linked")[0] == 404


def test_a_run_s_own_page_runs_as_another_site_that_reaches_nothing(served: Served) -> None:
    status, headers, _ = served.ask(f"runs/{quote(run_of(served, 2).name)}/files/report.html")
    assert status == 200
    policy = headers["Content-Security-Policy"]
    assert "sandbox allow-scripts;" in policy
    assert "default-src 'none'" in policy
    assert "allow-same-origin" not in policy


def test_our_pages_run_no_script_and_say_nowhere_where_they_are(served: Served) -> None:
    status, headers, _ = served.ask("")
    assert status == 200
    assert "default-src 'none'; style-src 'unsafe-inline'" in headers["Content-Security-Policy"]
    assert "script-src" not in headers["Content-Security-Policy"]
    assert (headers["Referrer-Policy"], headers["X-Content-Type-Options"]) == ("same-origin", "nosniff")
    assert "Access-Control-Allow-Origin" not in headers


def test_hostile_names_are_text(served: Served) -> None:
    name = run_of(served, 2).name
    for path in ("", f"runs/{quote(name)}/", "?text=%3Cscript%3Ealert(1)", "?lock=%22%3E%3Cscript%3E"):
        assert "<script" not in served.page(path)
    assert "&lt;script&gt;" in served.page("")


@pytest.mark.parametrize("path", ["/", "/wrong/", "/wrong/runs/x/", "//", "/wrong/runs/x/files/config.json"])
def test_without_the_token_nothing_is_shown(path: str, served: Served) -> None:
    status, _, body = served.ask(path)
    assert status == 403
    assert "the whole address" in told(body)
    assert served.root.strip("/") not in body.decode()


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "127.0.0.1"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
    ],
)
def test_other_hosts_and_other_sites_are_refused(headers: dict[str, str], served: Served) -> None:
    assert served.ask("", **headers)[0] == 403
    assert served.ask("")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_what_only_shows_takes_no_other_method(method: str, served: Served) -> None:
    assert served.ask("", method)[0] == 405


@pytest.mark.parametrize(
    "name",
    [
        "../../secret",
        "..%2f..%2fsecret",
        "%2e%2e/%2e%2e/secret",
        "logs/../../../secret",
        "/etc/passwd",
        "%2fetc%2fpasswd",
        "logs/link",
        "logs",
        "logs/",
        "config.json%00",
        "no-such-file",
        "x" * 5000,
    ],
)
def test_no_path_leads_out_of_a_run_s_folder(name: str, served: Served) -> None:
    status, _, body = served.ask(f"runs/{quote(run_of(served, 2).name)}/files/{name}")
    assert status == 404, body
    assert b"secret" not in body


@pytest.mark.parametrize("name", ["..", "%2e%2e", ".", "..%2fruns", "linked", "no-such-run", "%00"])
def test_no_other_folder_is_a_run(name: str, served: Served) -> None:
    for below in ("", "zip", "files/config.json"):
        assert served.ask(f"runs/{name}/{below}")[0] == 404


def settle(path: Path, at_s: float = 1) -> None:
    """As if nothing had changed in this run's folder since then. The manifest comes last, as in a run: what has changed
    after it, be it by a tick of the file system's clock, is read."""
    for each in sorted(path.rglob("*"), key=lambda each: (each.name == "manifest.json", each)):
        os.utime(each, (at_s - 0.5, at_s - 0.5))  # a record is older than its verdict
    for each in (path / "verdict.json", path):
        os.utime(each, (at_s, at_s))


def test_a_verdict_that_is_edited_in_its_place_is_seen(tmp_path: Path) -> None:
    path, index = a_run(tmp_path / "runs", 1), Index(tmp_path / "runs", tmp_path / "index.json")
    settle(path)
    assert [run.verdict for run in index.runs()] == ["unknown"]
    text = (path / "verdict.json").read_text()
    (path / "verdict.json").write_text(text.replace('"verdict": "unknown"', '"verdict": "valid"'))
    assert path.stat().st_mtime == 1
    assert [run.verdict for run in index.runs()] == ["changed"]


def test_a_run_is_read_anew_only_when_its_folder_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, kept = a_run(tmp_path / "runs", 1), tmp_path / "cache" / "index.json"
    settle(path)
    (first,) = Index(tmp_path / "runs", kept).runs()
    read: list[Path] = []
    monkeypatch.setattr("harness.serve.index.summary_of", lambda path: read.append(path) or summary_of(path))
    index = Index(tmp_path / "runs", kept)
    assert (list(index.runs()), read) == ([first], [])
    (path / "verdict.json").unlink()
    (changed,) = index.runs()
    assert (changed.verdict, read) == ("unjudged", [path])
    shutil.rmtree(path)
    assert (list(index.runs()), list(Index(tmp_path / "runs", kept).runs())) == ([], [])
    assert b"partition" not in kept.read_bytes()


def test_five_thousand_known_runs_are_listed_in_less_than_a_second(tmp_path: Path) -> None:
    """By the processor's time, so that a busy machine changes nothing."""
    results, kept = tmp_path / "runs", tmp_path / "index.json"
    known = {}
    for number in range(5000):
        path = results / f"20260101T{number // 3600:02}{number // 60 % 60:02}{number % 60:02}.000000Z-run"
        path.mkdir(parents=True)
        (path / "config.json").touch()
        summary = {"name": path.name, "when": datetime(2026, 1, 1, tzinfo=UTC), "verdict": "valid", "lock": "redlock"}
        os.utime(path, (1, 1))
        known[path.name] = (path.stat().st_mtime_ns, summary)
    kept.write_bytes(msgspec.json.encode({"schema": (2, VERDICT_SCHEMA), "runs": known}))
    began_s = time.process_time()
    page = list_page("/token/", results, Index(results, kept).runs(), RunFilter(lock="redlock"))
    assert time.process_time() - began_s < 1
    assert "5000 runs, newest first" in page
    assert page.count("redlock, ") == ON_A_PAGE


def counted_reads(monkeypatch: pytest.MonkeyPatch, folder: Path) -> list[Path]:
    """Every file below the folder that is opened to be read, from now on. (A thread of the server of an earlier test
    may still read its own.)"""
    opened: list[Path] = []

    def watched(path: Path) -> AbstractContextManager[FileIO]:
        if path.is_relative_to(folder):
            opened.append(path)
        return open_regular(path)

    for module in ("fencepost.files", "harness.store.manifest", "harness.store.append_log"):
        monkeypatch.setattr(f"{module}.open_regular", watched)
    return opened


def test_of_many_runs_nobody_knows_the_first_page_reads_the_newest_and_the_others_follow(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in files, so that a busy machine changes nothing: three of each run on the page, one of
    them twice, and none of the others."""
    results, kept = tmp_path / "runs", tmp_path / "index.json"
    one = a_run(results, 1, lock="redlock")
    write_manifest(RunFolder(one))
    judge_folder(RunFolder(one))
    for number in range(ON_A_PAGE + 60):
        path = results / f"20990101T000000.{number:06}Z-run"
        path.mkdir()
        for name in ("config.json", "verdict.json", "manifest.json"):
            (path / name).write_bytes((one / name).read_bytes())
        settle(path)
    shutil.rmtree(one)
    index = Index(results, kept)
    opened = counted_reads(monkeypatch, tmp_path)
    runs = index.runs(most=ON_A_PAGE)
    assert len(opened) == 4 * ON_A_PAGE
    assert [run.verdict for run in runs] == ["unknown"] * ON_A_PAGE + [UNREAD] * 60
    page = list_page("/token/", results, runs, RunFilter())
    assert page.count("redlock, partition") == ON_A_PAGE
    assert "60 of them are still being read" in page
    assert not kept.exists(), "what is known of a part would be taken for all"

    assert (index.read_on(50), index.read_on(50)) == (True, False)
    assert len(opened) == 4 * (ON_A_PAGE + 60)
    assert {run.verdict for run in index.runs(most=0)} == {"unknown"}
    assert {run.verdict for run in Index(results, kept).runs(most=0)} == {"unknown"}
    assert len(opened) == 4 * (ON_A_PAGE + 60) + 1, "the index, which the second one read"


def test_runs_that_come_go_and_change_while_others_are_read_are_listed_as_they_are(tmp_path: Path) -> None:
    results = tmp_path / "runs"
    paths = [a_run(results, seed) for seed in range(4)]
    for path in paths:
        settle(path)
    index = Index(results, tmp_path / "index.json")
    assert [run.verdict for run in index.runs(most=1)] == ["unknown", *[UNREAD] * 3]
    shutil.rmtree(paths[0])
    (paths[1] / "verdict.json").unlink()
    os.utime(paths[1], (4e9, 4e9))  # it has just changed, however long this takes
    (paths[3] / "verdict.json").unlink()
    os.utime(paths[3], (2, 2))
    a_run(results, 4)
    assert not index.read_on(10)
    assert [(run.seed, run.verdict) for run in index.runs(most=2)] == [
        ("4", "unknown"),
        ("3", "unjudged"),
        ("2", "unknown"),
        ("", UNREAD),
    ]
    assert not index.read_on(10)
    assert [run.verdict for run in index.runs()] == ["unknown", "unjudged", "unknown", "unjudged"]


def test_all_runs_are_known_to_a_server_that_was_asked_for_its_first_page(tmp_path: Path) -> None:
    for seed in range(ON_A_PAGE + 60):
        (tmp_path / "runs" / f"20990101T000000.{seed:06}Z-run").mkdir(parents=True)
        (tmp_path / "runs" / f"20990101T000000.{seed:06}Z-run" / "config.json").write_text("{")
        os.utime(tmp_path / "runs" / f"20990101T000000.{seed:06}Z-run", (1, 1))
    with serving(tmp_path) as served:
        assert "60 of them are still being read" in served.page("")
        assert becomes_true(lambda: [*tmp_path.glob("cache/*/runs-*.json")] != [], within_s=60), "without being asked"
        assert "still being read" not in served.page("")
        assert f"{ON_A_PAGE + 60} runs, newest first" in served.page("?verdict=damaged")


def test_a_run_that_has_just_changed_is_read_again(tmp_path: Path) -> None:
    """The file system may tell two changes the same time."""
    path, index = a_run(tmp_path / "runs", 1), Index(tmp_path / "runs", tmp_path / "index.json")
    changed = path.stat()
    assert [run.verdict for run in index.runs()] == ["unknown"]
    (path / "verdict.json").unlink()
    os.utime(path, ns=(changed.st_atime_ns, changed.st_mtime_ns))
    assert [run.verdict for run in index.runs()] == ["unjudged"]


@pytest.mark.parametrize("content", [b"", b"{", b'{"schema": [0, 0], "runs": {}}', b'{"schema": [1, 2], "runs": 5}'])
def test_an_index_that_cannot_be_used_is_made_anew(content: bytes, tmp_path: Path) -> None:
    a_run(tmp_path / "runs", 1)
    kept = tmp_path / "index.json"
    kept.write_bytes(content)
    assert len(Index(tmp_path / "runs", kept).runs()) == 1


def test_pages_hold_a_hundred_runs_and_lead_to_each_other() -> None:
    run = msgspec.convert({"name": "r", "when": "2026-01-01T00:00:00Z", "verdict": "valid", "lock": "a b"}, RunSummary)
    choice = RunFilter(lock="a b", page=2)
    assert len(choice.on_page([run] * (ON_A_PAGE + 5))) == 5
    assert choice.at(1) == "?lock=a+b&page=1"
    for page in ("", "0", "-1", "x", "²", "9" * 5000):
        assert RunFilter.read(lambda name, page=page: page if name == "page" else "") == RunFilter()  # type: ignore[misc]


def test_a_port_that_is_taken_is_told_in_one_line(served: Served) -> None:
    done = subprocess.run(
        [*command("serve", "--port", served.host.partition(":")[2]), "--results", str(served.results)],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (254, "", 1)
    assert "choose another one" in done.stderr
