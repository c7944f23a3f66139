"""The uv that set-up brought, for tests of set-up that must not download another one."""

from __future__ import annotations

from typing import Final

from fencepost.setup.machine import tools_folder
from fencepost.setup.uv import UV

UV_FOLDER: Final = tools_folder() / "toolchains" / UV.replace("==", "-")
"""To be put on PATH. If it is not there, that very version is on PATH already."""
