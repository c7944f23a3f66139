"""Java: pinned jars (`fencepost.setup.jars`), and the adapter compiled with the protocol's half. Eclipse's compiler,
which is a jar too, compiles: so a runtime is enough, and every machine compiles in the same way.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from fencepost.setup.jars import Jar, bring_jars, read_jars
from fencepost.setup.toolchains import JAVA
from fencepost.setup.workshop import Workshop, replace
from workloads.languages.base import Launch, sources
from workloads.manifest import Manifest

_COMPILER = Jar(
    "org.eclipse.jdt", "ecj", "3.43.0", "", "c786468c65e906498e7e36ece4e0d04c6d3dd34c9a61b34a3a5b512801911a82"
)


class Java:
    title = "Java"

    def brings(self, lock: Manifest, tools: Path) -> str:
        return f"jars, checked against {lock.packages or 'nothing'}, and a build of the adapter{JAVA.brings(tools)}"

    def inputs(self, lock: Manifest) -> Iterable[Path]:
        return sources(lock)

    def programs(self, installed: Path) -> tuple[Path, ...]:
        return (installed / "java",)

    def install(self, shop: Workshop, step: str, lock: Manifest, installed: Path) -> str:
        java = JAVA.bring(shop, step)
        jars = read_jars(lock.packages_path) if lock.packages_path else []
        with shop.scratch(step) as scratch:
            new = scratch / "new"
            new.mkdir()
            bring_jars(shop, step, jars, new / "jars")
            _compile(shop, step, java.program, lock, new)
            (new / "java").symlink_to(java.program)
            replace(new, installed)
        return f"{java.origin}, {len(jars)} pinned jars"

    def launch(self, lock: Manifest, installed: Path) -> Launch:
        places = f"{installed / 'classes'}:{installed / 'jars'}/*"
        return Launch((str(installed / "java"), "-cp", places, lock.adapter_path.stem))

    def flaw(self, lock: Manifest, installed: Path) -> str | None:
        return None

    def missing(self, tools: Path) -> str | None:
        return None


def _compile(shop: Workshop, step: str, java: Path, lock: Manifest, new: Path) -> None:
    compiler = new.with_name("compiler")
    bring_jars(shop, step, [_COMPILER], compiler)
    words = (java, "-jar", compiler / _COMPILER.file, "-17", "-proc:none", "-nowarn", "-encoding", "UTF-8")
    files = [path for path in sources(lock) if path.suffix == ".java"]
    # this compiler takes no wildcard in its class path
    class_path = ":".join(map(str, sorted((new / "jars").iterdir())))
    shop.run(step, *words, "-cp", class_path, "-d", new / "classes", *files)


LANGUAGE = Java()
