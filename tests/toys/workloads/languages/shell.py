"""A toy language: an adapter is a script, and installing it is to run the script `install` beside it, if there is one,
and to copy the adapter."""

from __future__ import annotations

import shutil
from pathlib import Path

from fencepost.setup.workshop import Workshop, replace
from workloads.languages.base import Language, Launch
from workloads.manifest import Manifest


class Shell(Language):
    title = "a shell"

    def brings(self, lock: Manifest, tools: Path) -> str:
        return "nothing; the script beside the adapter runs" if lock.packages else "nothing"

    def programs(self, installed: Path) -> tuple[Path, ...]:
        return (installed / "adapter",)

    def install(self, shop: Workshop, step: str, lock: Manifest, installed: Path) -> str:
        with shop.scratch(step) as scratch:
            (scratch / "new").mkdir()
            if lock.packages_path:
                shop.run(step, "sh", lock.packages_path, cwd=scratch)
            shutil.copy(lock.adapter_path, scratch / "new" / "adapter")
            (scratch / "new" / "adapter").chmod(0o755)
            replace(scratch / "new", installed)
        return "copied"

    def launch(self, lock: Manifest, installed: Path) -> Launch:
        return Launch(("sh", str(installed / "adapter")))

    def flaw(self, lock: Manifest, installed: Path) -> str | None:
        return "was tampered with" if (installed / "tampered").exists() else None


LANGUAGE = Shell()
