"""Pinned jars: a file of them, and how they are brought.

A file has one line for each jar: `group:artifact:version` or `group:artifact:version:classifier`, a space, and its
SHA-256. Maven downloads them if `mvn` is on PATH, with this machine's settings; else a small client from the Python
package index does, which knows where Maven's repository is. The sums are checked in either case.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.setup.python import make_environment
from fencepost.setup.workshop import SetupError, Workshop

_DOWNLOADER: Final = Path(__file__).with_name("java_downloader.txt")


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


_COMPILER: Final = Jar(
    "org.eclipse.jdt", "ecj", "3.43.0", "", "c786468c65e906498e7e36ece4e0d04c6d3dd34c9a61b34a3a5b512801911a82"
)


def read_jars(path: Path) -> list[Jar]:
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


def bring_jars(shop: Workshop, step: str, jars: Sequence[Jar], into: Path) -> None:
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


def compile_java(shop: Workshop, step: str, java: Path, files: Sequence[Path], jars: Path, into: Path) -> None:
    """Compile sources against the jars in a folder, with Eclipse's compiler, which is a jar too: so a runtime is
    enough, and every machine compiles in the same way."""
    compiler = into.with_name("compiler")
    bring_jars(shop, step, [_COMPILER], compiler)
    words = (java, "-jar", compiler / _COMPILER.file, "-17", "-proc:none", "-nowarn", "-encoding", "UTF-8")
    # this compiler takes no wildcard in its class path
    shop.run(step, *words, "-cp", ":".join(map(str, sorted(jars.iterdir()))), "-d", into, *files)
    shutil.rmtree(compiler)


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
