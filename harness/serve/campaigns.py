"""Campaigns of every kind: comparisons, mutants, claims, surveys, also those under way; and published documents.

A campaign is a folder with a `campaign.json`, in the folder of reports or one below (`results/survey`,
`results/reports/fsync`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from fencepost.errors import UsageError
from fencepost.files import read_json
from fencepost.text import printable
from harness.store.folder_lock import is_held

_FRONT_PAGES: Final = ("index.html", "table.md", "report.md")
_FILE: Final = "campaign.json"


class _Grid(msgspec.Struct):
    title: str = ""


class _Titled(msgspec.Struct):
    """As much of `campaign.json` as the list shows."""

    grid: _Grid = msgspec.field(default_factory=_Grid)


@dataclass(frozen=True, slots=True)
class CampaignListed:
    """`name`: its folder, as seen from the folder of reports. `page`: the name of the file that shows its results; None
    if there is none yet. `is_under_way`: whether a process is running it."""

    name: str
    title: str
    page: str | None
    is_under_way: bool


@dataclass(frozen=True, slots=True)
class Campaigns:
    """Those in a folder. `results`: the folder of runs, where none are looked for."""

    reports: Path
    results: Path

    def all(self) -> Sequence[CampaignListed]:
        return [CampaignListed(name, title_of(path), front_page(path), is_held(path)) for name, path in self._found()]

    def named(self, name: str) -> Path | None:
        """The campaign's folder; None if there is none of this name."""
        return dict(self._found()).get(name)

    def documents(self) -> Sequence[str]:
        """The names of the Markdown files in the folder itself."""
        if not self.reports.is_dir():
            return []
        return sorted(path.name for path in self.reports.glob("*.md") if path.is_file() and not path.is_symlink())

    def _found(self) -> Iterator[tuple[str, Path]]:
        for folder in _folders_in(self.reports):
            if folder.absolute() == self.results.absolute():
                continue
            for path in (folder, *_folders_in(folder)):
                if (path / _FILE).is_file() and not (path / _FILE).is_symlink():
                    yield path.relative_to(self.reports).as_posix(), path


def front_page(campaign: Path) -> str | None:
    """The name of the file that shows its results; None if there is none yet."""
    return next((name for name in _FRONT_PAGES if (campaign / name).is_file()), None)


def _folders_in(folder: Path) -> Sequence[Path]:
    """Without links, and without what cannot be read."""
    with suppress(OSError):
        return sorted(path for path in folder.iterdir() if not path.is_symlink() and path.is_dir())
    return []


def title_of(campaign: Path) -> str:
    """Empty if that cannot be read."""
    try:
        return printable(read_json(campaign / _FILE, _Titled).grid.title)
    except UsageError:
        return ""
