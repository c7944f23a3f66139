"""Make the pictures in `docs/pictures/` again, of real runs: `make screenshots` (needs Chromium; three minutes).

Three short runs are made in a temporary folder. The last one is of a lock that is broken on purpose; its live page is
taken as soon as something is found. Then the broken lock of the example is tested by pytest and by the GitHub Action.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import quote

from chromium import Chromium, Page
from markdown_it import MarkdownIt
from markupsafe import escape

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs/pictures"
MOST_BYTES = 150_000
PROGRAMS = Path(sys.executable).parent
FENCEPOST = (str(PROGRAMS / "fencepost"),)
ENVIRONMENT = os.environ | {"PATH": f"{PROGRAMS}:{os.environ['PATH']}"}
"""With `fencepost` on PATH, as users have it: so the pages show the command without a path of this machine."""
COMMON = ("--cluster", "process", "--clients", "5", "--seed", "7")
RUNS = (
    ("--lock", "redlock-ng", "--nemesis", "partition", "--duration", "10s"),
    ("--lock", "redlock", "--nemesis", "pause", "--duration", "10s"),
)
EXAMPLE = ROOT / "examples/quorum_locks"
PLUGIN = ROOT / "pytest_plugin"
TERMINAL = "body { background: #0d1117; color: #d6dde6; margin: 16px } pre { font: 13px/1.45 monospace; margin: 0 }"
SUMMARY = (
    "body { font: 14px/1.5 sans-serif; color: #1f2328; background: #fff; margin: 16px 24px } pre, code { font: 12px"
    "/1.45 monospace; background: #f6f8fa } pre { padding: 12px } td, th { border: 1px solid #d1d9e0; padding: 6px 9px;"
    " text-align: left } table { border-collapse: collapse }"
)
BROKEN = ("--lock", "control-quorum-of-two", "--nemesis", "partition+pause", "--duration", "30s")


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory(prefix="fencepost-screenshots-") as folder:
        place = Path(folder)
        for options in RUNS:
            making(options, place).wait()
        with serving(place) as address, Chromium() as browser:
            under_way = making(BROKEN, place)
            take_live(browser.page(width=1100, height=1010), address)
            under_way.wait()
            names = sorted(path.name for path in (place / "runs").iterdir() if not path.is_symlink())
            valid, _, broken = map(quote, names)
            for name, path, first, above in (
                ("list", "", "main", 90),
                ("two-runs", f"two?run={valid}&run={broken}", "main", 90),
                ("run", f"runs/{broken}/files/report.html", "main", 0),
                ("timeline", f"runs/{broken}/files/report.html#finding-1", "[data-timeline]", 60),
                ("compare", "reports/reports%2Ffsync/files/index.html", "main", 90),
            ):
                page = browser.page(width=1100, height={"run": 680, "compare": 600}.get(name, 760))
                page.open(address + path)
                page.evaluate(f"scrollBy(0, document.querySelector('{first}').getBoundingClientRect().top - {above})")
                take(page, name)
            locks = shutil.copytree(EXAMPLE, place / "locks", ignore=shutil.ignore_patterns("fencepost-runs"))
            take_text(browser, "pytest", f"<pre>{escape(failing_test(locks))}</pre>", TERMINAL)
            take_text(browser, "action", MarkdownIt().enable("table").render(summary(locks)), SUMMARY)


def making(options: Sequence[str], place: Path) -> subprocess.Popen[bytes]:
    """A run that begins now, in the folder `runs`."""
    return subprocess.Popen([*FENCEPOST, "test", *COMMON, *options, "--results", "runs"], cwd=place, env=ENVIRONMENT)


@contextmanager
def serving(place: Path) -> Iterator[str]:
    """The address of a server."""
    server = subprocess.Popen(
        [*FENCEPOST, "serve", "--results", "runs", "--reports", str(ROOT / "results")],
        cwd=place,
        env=ENVIRONMENT | {"XDG_CACHE_HOME": str(place / "cache")},
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split(" at ")[1].split()[0]
    finally:
        server.terminate()
        server.wait()


def take_live(page: Page, address: str) -> None:
    """The live page of the run that is under way, with a finding and a fault in force."""
    live = "document.querySelector('a[href*=\"/runs/\"][href$=live]')"
    page.open(address)
    while not page.evaluate(f"Boolean({live})"):
        page.open(address)
    page.open(page.evaluate(f"{live}.href"))
    wanted = ("[data-rows=findings] li", "[data-rows=faults] li")
    there = " && ".join(f"document.querySelector('{each}')" for each in wanted)
    page.wait_for(f"document.querySelector('progress').value > 0.4 && {there}")
    take(page, "live")


def failing_test(locks: Path) -> str:
    """What pytest prints of the example's broken lock. The long words that open the lock are left out of the replay."""
    words = ("-m", "pytest", "-p", "pytest_fencepost.plugin", "--fencepost-cluster=process", "--fencepost-seed=7")
    done = subprocess.run(
        [sys.executable, *words, "-q", "broken"],
        cwd=locks,
        env=ENVIRONMENT | {"PYTHONPATH": str(PLUGIN), "COLUMNS": "110"},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    said = re.sub("'env PYTHONPATH=.*?start hasty:Hasty'", "'… hasty:Hasty'", done.stdout)
    return said.replace(f"{locks}/", "")


def summary(locks: Path) -> str:
    """What the Action writes into a job's summary, of the same lock."""
    asked = {
        "LOCK_CLASS": "hasty:Hasty",
        "PYTHON": sys.executable,
        "NEMESIS": "partition",
        "SEEDS": "7",
        "DURATION": "5s",
    }
    inputs = {f"INPUT_{name}": value for name, value in asked.items()}
    written = locks / "summary.md"
    more = {"INPUT_OPTIONS": "--clients 4 --recovery 1s --cluster process", "GITHUB_STEP_SUMMARY": str(written)}
    subprocess.run(
        [sys.executable, str(ROOT / "tools/action.py")],
        cwd=locks,
        env=ENVIRONMENT | inputs | more | {"PYTHONPATH": f"{locks}/broken:{locks}:{locks}/tests"},
        check=False,
    )
    return written.read_text()


def take_text(browser: Chromium, name: str, body: str, style: str) -> None:
    """A picture of a whole text, as wide as a page of the documentation shows it."""
    written = f"document.write({f'<style>{style} pre {{ white-space: pre-wrap }}</style>{body}'!r})"
    page = browser.page(width=1100, height=100)
    page.evaluate(written)
    page = browser.page(width=1100, height=page.evaluate("document.documentElement.scrollHeight"))
    page.evaluate(written)
    take(page, name)


def take(page: Page, name: str) -> None:
    picture = PICTURES / f"{name}.png"
    page.screenshot(picture)
    size = picture.stat().st_size
    print(f"{picture.relative_to(ROOT)}: {size:,} bytes")
    if size > MOST_BYTES:
        raise SystemExit(f"that is more than {MOST_BYTES:,}")


if __name__ == "__main__":
    main()
