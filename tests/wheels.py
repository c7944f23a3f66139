"""Wheels of our own, and the uv that set-up brought: for tests of set-up, which download nothing."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from zipfile import ZipFile, ZipInfo

from fencepost.setup.machine import tools_folder
from fencepost.setup.uv import UV

UV_FOLDER: Final = tools_folder() / "toolchains" / UV.replace("==", "-")
"""To be put on PATH. If it is not there, that very version is on PATH already."""


def write_wheel(folder: Path, name: str, version: str, programs: Mapping[str, str] | None = None) -> str:
    """A wheel with a module, and with these programs by their paths in it. Returns its pin, with the hash."""
    folder.mkdir(parents=True, exist_ok=True)
    module = name.replace("-", "_")
    file, about = folder / f"{module}-{version}-py3-none-any.whl", f"{module}-{version}.dist-info"
    with ZipFile(file, "w") as wheel:
        wheel.writestr(f"{module}/__init__.py", "")
        wheel.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        wheel.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{about}/licenses/LICENSE", "do what you like\n")
        wheel.writestr(f"{about}/RECORD", "")
        for path, script in (programs or {}).items():
            program = ZipInfo(path)
            program.external_attr = 0o755 << 16
            wheel.writestr(program, script)
    return f"{name}=={version} \\\n    --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"
