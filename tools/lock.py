"""`make lock`: rewrites every file of pinned Python packages, with the hashes of all files that a version has.

requirements.lock and requirements-dev.lock are resolved again from pyproject.toml, for every Python and machine that
fencepost runs on. The other files keep their versions, which were chosen by hand, and get their hashes. No file names
an index, so that any mirror can serve it."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Sequence
from pathlib import Path

from checkout import ROOT

# isort: split
from fencepost.setup.pins import WHEELS
from fencepost.setup.uv import run_uv
from fencepost.setup.workshop import SetupError, Workshop

_COMPILE = ("pip", "compile", "--universal", "--generate-hashes", "--no-annotate", "--no-header")
_OLDEST = ("--python-version", "3.11")


def pin_files(root: Path) -> list[Path]:
    """Every file of pinned Python packages; the project's own are the first, and its tools' the second."""
    return [
        root / "requirements.lock",
        root / "requirements-dev.lock",
        root / WHEELS.relative_to(ROOT),
        root / "fencepost/setup/java_downloader.txt",
        root / "tools/documents.txt",
        *sorted((root / "workloads/locks/foreign").glob("*/requirements.txt")),
    ]


def main(arguments: Sequence[str]) -> int:
    if arguments:  # as `--help`, which must not resolve anything
        print("lock: takes no arguments; it rewrites every file of pins at once", file=sys.stderr)
        return 254
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
    changed = []
    own, tools, *_ = files = pin_files(ROOT)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    # Where fencepost runs. What only other machines need is left out, and the condition goes without saying.
    (only,) = project["tool"]["uv"]["environments"]
    with shop.scratch("lock") as scratch:
        builders = scratch / "builders.in"
        builders.write_text("\n".join(project["build-system"]["requires"]) + "\n")
        asked: dict[Path, tuple[str | Path, ...]] = {
            own: ("--upgrade", "pyproject.toml", builders),
            # In the same environment, so of the same versions.
            tools: ("--upgrade", "--group", "dev", "--constraints", own),
        }
        for path in files:
            old = path.read_text()
            words = asked.get(path, ("--no-deps", path))
            pins = run_uv(shop, "lock", *_COMPILE, *_OLDEST, *words, cwd=ROOT, env={"UV_NO_CONFIG": "0"})
            pins = pins.replace(f" ; {only}", "").replace(f" and {only}", "")
            head = [line for line in old.splitlines() if line.startswith("#")]
            path.write_text("\n".join([*head, pins]) + "\n")
            if path.read_text() != old:
                changed.append(os.fspath(path.relative_to(ROOT)))
    return changed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
