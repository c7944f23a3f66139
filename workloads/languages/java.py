"""Java: pinned jars (`fencepost.setup.jars`), and the adapter compiled with the protocol's half."""

from __future__ import annotations

from pathlib import Path

from fencepost.setup.jars import bring_jars, compile_java, read_jars
from fencepost.setup.toolchains import JAVA
from fencepost.setup.workshop import Workshop, replace
from workloads.languages.base import Language, Launch, sources
from workloads.manifest import Manifest


class Java(Language):
    title = "Java"

    def brings(self, lock: Manifest, tools: Path) -> str:
        return f"jars, checked against {lock.packages or 'nothing'}, and a build of the adapter{JAVA.brings(tools)}"

    def programs(self, installed: Path) -> tuple[Path, ...]:
        return (installed / "java",)

    def install(self, shop: Workshop, step: str, lock: Manifest, installed: Path) -> str:
        java = JAVA.bring(shop, step)
        jars = read_jars(lock.packages_path) if lock.packages_path else []
        with shop.scratch(step) as scratch:
            new = scratch / "new"
            new.mkdir()
            bring_jars(shop, step, jars, new / "jars")
            files = [path for path in sources(lock) if path.suffix == ".java"]
            compile_java(shop, step, java.program, files, new / "jars", new / "classes")
            (new / "java").symlink_to(java.program)
            replace(new, installed)
        return f"{java.origin}, {len(jars)} pinned jars"

    def launch(self, lock: Manifest, installed: Path) -> Launch:
        places = f"{installed / 'classes'}:{installed / 'jars'}/*"
        return Launch((str(installed / "java"), "-cp", places, lock.adapter_path.stem))


LANGUAGE = Java()
