"""`make lock`: rewrites every file of pinned Python packages, with the hashes of all files that a version has.

requirements.lock is resolved again from pyproject.toml, for every Python and machine that fencepost runs on. The other
files keep their versions, which somebody chose, and get their hashes. No file names an index, so that any mirror can
serve it.
"""

from __future__ import annotations

import os
import sys
import tomllib
from pathlib import Path

from checkout import ROOT

# isort: split
from fencepost.setup.python import WHEELS, make_environment, prepare_pip
from fencepost.setup.workshop import SetupError, Workshop

_UV = "uv==0.13.9"
"""Resolves for other Pythons than the one it runs on, which pip does not."""
_COMPILE = ("pip", "compile", "--universal", "--generate-hashes", "--no-annotate", "--no-header", "--quiet")
_OLDEST = ("--python-version", "3.11")


def pin_files(root: Path) -> list[Path]:
    """Every file of pinned Python packages; the project's own is the first."""
    return [
        root / "requirements.lock",
        root / WHEELS.relative_to(ROOT),
        root / "workloads/languages/java_downloader.txt",
        root / "tools/documents.txt",
        *sorted((root / "workloads/locks/foreign").glob("*/requirements.txt")),
    ]


def main() -> int:
    shop = Workshop(ROOT / ".tools")
    try:
        with shop.alone(waiting=lambda: print("lock: a set-up of this folder is running; waiting for it")):
            changed = _rewrite(shop)
    except KeyboardInterrupt:
        shop.stop()
        print("\nlock: interrupted; some files may have been rewritten, see git diff", file=sys.stderr)
        return 130
    except (SetupError, OSError) as error:
        print(f"lock: {error}", file=sys.stderr)
        return 1
    print(f"lock: {len(changed)} files changed{': ' if changed else ''}{', '.join(changed)}")
    return 0


def _rewrite(shop: Workshop) -> list[str]:
    """Returns the files that changed."""
    shop.tools.joinpath("log").mkdir(parents=True, exist_ok=True)
    prepare_pip(shop)
    changed = []
    with shop.scratch("lock") as scratch:
        (scratch / "uv.txt").write_text(f"{_UV}\n")
        make_environment(shop, "lock", None, scratch / "env")
        pip = (shop.tools / "pip/bin/python", "-m", "pip", "--python", scratch / "env/bin/python")
        shop.run("lock", *pip, "install", "--quiet", "--no-deps", "-r", scratch / "uv.txt")
        own, *others = pin_files(ROOT)
        # Where fencepost runs. What only other machines need is left out, and the condition goes without saying.
        (only,) = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["uv"]["environments"]
        for path in (own, *others):
            old = path.read_text()
            asked = _of_project(scratch) if path == own else ("--no-deps", path)
            pins = shop.run("lock", scratch / "env/bin/uv", *_COMPILE, *_OLDEST, *asked, cwd=ROOT)
            pins = pins.replace(f" ; {only}", "").replace(f" and {only}", "")
            head = [line for line in old.splitlines() if line.startswith("#")]
            path.write_text("\n".join([*head, pins]) + "\n")
            if path.read_text() != old:
                changed.append(os.fspath(path.relative_to(ROOT)))
    return changed


def _of_project(scratch: Path) -> tuple[str | Path, ...]:
    """What the project and its tools ask for, and what builds them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    builders = scratch / "builders.in"
    builders.write_text("\n".join(project["build-system"]["requires"]) + "\n")
    return ("--upgrade", "--group", "dev", "pyproject.toml", builders)


if __name__ == "__main__":
    sys.exit(main())
