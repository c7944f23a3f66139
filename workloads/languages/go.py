"""Go: a static binary, built from the adapter, the modules that `go.sum` vouches for, and the protocol's half, which
the adapter requires as the module `fencepost`."""

from __future__ import annotations

import re
from dataclasses import replace as changed
from pathlib import Path

from fencepost.setup.toolchains import GO, Toolchain, go_build_settings
from fencepost.setup.workshop import Workshop, replace
from workloads.languages.base import Language, Launch, copy_sources, half
from workloads.manifest import Manifest


class Go(Language):
    title = "Go"

    def brings(self, lock: Manifest, tools: Path) -> str:
        return f"Go modules, checked against go.sum, and a build of the adapter{_toolchain_for(lock).brings(tools)}"

    def programs(self, installed: Path) -> tuple[Path, ...]:
        return (installed / "adapter",)

    def install(self, shop: Workshop, step: str, lock: Manifest, installed: Path) -> str:
        go = _toolchain_for(lock).bring(shop, step)
        environment = go_build_settings(shop.tools / "cache" / "go")
        with shop.scratch(step) as scratch:
            source, new = scratch / "source", scratch / "new"
            copy_sources(lock, source, with_half=False)
            new.mkdir()
            module = ("-require=fencepost@v0.0.0", f"-replace=fencepost={half('go')}")
            shop.run(step, go.program, "mod", "edit", *module, env=environment, cwd=source)
            build = ("build", "-trimpath", "-ldflags=-s -w", "-o", new / "adapter", ".")
            shop.run(step, go.program, *build, env=environment, cwd=source)
            replace(new, installed)
        return f"built with {go.origin}"

    def launch(self, lock: Manifest, installed: Path) -> Launch:
        return Launch((str(installed / "adapter"),))


def _toolchain_for(lock: Manifest) -> Toolchain:
    """A Go that is as new as the lock's go.mod asks for."""
    asked = re.search(r"^go (\d+)\.(\d+)", (lock.source / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    return changed(GO, oldest=max(GO.oldest, (int(asked[1]), int(asked[2])))) if asked else GO


LANGUAGE = Go()
