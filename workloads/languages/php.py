"""PHP: the interpreter, its extensions and the libraries as Debian packages them, unpacked into a folder.

`debian.txt` has a line for each package: `php-symfony-lock=5.4.*`, with the version that is meant. apt fetches them,
and what they need of PHP or the machine lacks, and checks each against Debian's signed index. Nothing is installed into
the system, so no root is needed, and a PHP of the machine's own is not touched.
"""

from __future__ import annotations

import json
import platform
import re
import shutil
from pathlib import Path
from typing import Final

from fencepost.setup.workshop import SetupError, Workshop, replace
from workloads.languages.base import Language, Launch, copy_sources
from workloads.manifest import Manifest

_RELEASE: Final = ("debian", "12")
_STATUS: Final = Path("/var/lib/dpkg/status")


class Php(Language):
    title = "PHP"

    def brings(self, lock: Manifest, tools: Path) -> str:
        return "PHP and its packages from Debian, which apt checks; nothing is installed into the system"

    def programs(self, installed: Path) -> tuple[Path, ...]:
        return (installed / "php",)

    def install(self, shop: Workshop, step: str, lock: Manifest, installed: Path) -> str:
        if reason := self.missing(shop.tools):
            raise SetupError(f"{step}: {reason}")
        with shop.scratch(step) as scratch:
            new = scratch / "new"
            copy_sources(lock, new)
            names = lock.packages_path.read_text(encoding="utf-8").split() if lock.packages_path else ["php8.2-cli"]
            versions = dict[str, str]()
            for package in _fetched(shop, step, names, scratch / "apt"):
                name, version, _ = package.stem.split("_")
                versions[name] = version.replace("%3a", ":")
                shop.run(step, "dpkg-deb", "--extract", package, new / "root")
            (new / "versions.json").write_text(json.dumps(versions, indent=1), encoding="utf-8")
            _write_ini(new, installed)
            program = new / "php"
            program.write_text(_script(new, installed), encoding="utf-8")
            program.chmod(0o755)
            replace(new, installed)
        return f"{len(versions)} packages of Debian, {lock.library}"

    def launch(self, lock: Manifest, installed: Path) -> Launch:
        return Launch((str(installed / "php"), str(installed / lock.adapter)))

    def missing(self, tools: Path) -> str | None:
        try:
            release = platform.freedesktop_os_release()
        except OSError:
            release = {}
        if (release.get("ID"), release.get("VERSION_ID")) == _RELEASE and shutil.which("apt-get"):
            return None
        return "locks in PHP are made of packages of Debian 12, and this is another system"


def _fetched(shop: Workshop, step: str, names: list[str], place: Path) -> list[Path]:
    """These packages and what they need, as files. All of PHP is fetched, whatever the machine has of it, because what
    belongs together must be of one version."""
    (place / "lists" / "partial").mkdir(parents=True)
    (place / "archives" / "partial").mkdir(parents=True)
    others = [one for one in _STATUS.read_text(encoding="utf-8").split("\n\n") if not one.startswith("Package: php")]
    (place / "status").write_text("\n\n".join(others), encoding="utf-8")
    own = {
        "Dir::Cache": place,
        "Dir::State::Lists": place / "lists",
        "Dir::State::status": place / "status",
        "Debug::NoLocking": 1,
        "APT::Sandbox::User": "root",
    }
    options = [word for name, value in own.items() for word in ("-o", f"{name}={value}")]
    shop.run(step, "apt-get", "-q", *options, "update")
    shop.run(step, "apt-get", "-qy", *options, "--download-only", "--no-install-recommends", "install", *names)
    return sorted((place / "archives").glob("*.deb"))


def _write_ini(new: Path, installed: Path) -> None:
    """Settings by which this PHP finds what was unpacked with it: each package of an extension brings a file that says
    how it is loaded, and in which order."""
    files = [path.read_text(encoding="utf-8") for path in (new / "root").rglob("*.ini")]
    loads = [
        (int((re.search(r"priority=(\d+)", text) or ["", "20"])[1]), line)
        for text in files
        for line in re.findall(r"^(?:zend_)?extension=\S+", text, re.MULTILINE)
    ]
    (modules,) = (new / "root/usr/lib/php").glob("2*")
    lines = [
        f'extension_dir = "{installed / modules.relative_to(new)}"',
        f'include_path = "{installed / "root/usr/share/php"}"',
        *(line for _, line in sorted(loads)),
    ]
    (new / "php.ini").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _script(new: Path, installed: Path) -> str:
    """Starts the PHP that was unpacked, with its libraries and settings and none of the machine's."""
    (program,) = (new / "root/usr/bin").glob("php?.?")
    libraries = [str(installed / path.relative_to(new)) for path in (new / "root").glob("usr/lib/*-linux-gnu*")]
    lines = [
        "#!/bin/sh",
        *([f'export LD_LIBRARY_PATH="{":".join(libraries)}"'] if libraries else []),
        "export PHP_INI_SCAN_DIR=",
        f'exec "{installed / program.relative_to(new)}" -c "{installed / "php.ini"}" "$@"',
    ]
    return "\n".join(lines) + "\n"


LANGUAGE = Php()
