"""`make docs`: the documentation as a site in build/site, to be looked at in a browser or put on any web server.

The pages are the repository's own Markdown files, with the links that they have there: `zensical.toml` only says in
which order they come. Whatever git tracks of them is copied to build/pages, and zensical makes a site of that. A link
that leads nowhere stops it. No page asks another machine for anything.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from checkout import ROOT
from documents import environment

# isort: split
from fencepost.setup.workshop import SetupError, Workshop

PAGES: Final = ROOT / "build/pages"
SITE: Final = ROOT / "build/site"
_TRACKED: Final = ("README.md", "docs", "*.md", "results/*.html", "results/*.png", "results/*.svg")
_ELSEWHERE: Final = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
_COLOR: Final = re.compile(r"\x1b\[[0-9;]*m")


def main() -> int:
    shop = Workshop(ROOT / ".tools")
    try:
        programs = environment(shop, "docs")
        copy_pages()
        return _build(programs / "zensical")
    except KeyboardInterrupt:
        shop.stop()
        print("\ndocs: interrupted", file=sys.stderr)
        return 130
    except (SetupError, OSError) as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1


def copy_pages() -> None:
    """What git tracks of the documentation, as it is now, to `PAGES`."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *_TRACKED],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    shutil.rmtree(PAGES, ignore_errors=True)
    for name in filter(None, listed.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (PAGES / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, PAGES / name)


def _build(zensical: Path) -> int:
    done = subprocess.run(
        [zensical, "build", "--strict", "--clean"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        said, _, _ = _COLOR.sub("", done.stdout + done.stderr).partition("Traceback")
        print(f"{said.strip()}\ndocs: the site was not built", file=sys.stderr)
        return 1
    pages = list(SITE.rglob("*.html"))
    for page in pages:
        if found := _ELSEWHERE.search(page.read_text()):
            print(f"docs: {page.relative_to(ROOT)} would ask another machine: {found[0]}", file=sys.stderr)
            return 1
    print(
        f"docs: {len(pages)} pages; look at them with `python3 -m http.server --bind 127.0.0.1 --directory build/site`"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
