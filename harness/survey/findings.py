"""Investigated findings, in `results/survey/findings/`: for each a text, and the run that shows it best.

`<name>.md` begins with what it is about, between two lines of dashes, as GitHub shows it in a table:

    ---
    subject: redsync, redsync-fail-fast
    promise: validity
    finding: late-grant
    verdict: violation
    run: redsync-late-grant.tar.xz
    ---
    # A title
    What, how to repeat it, where in the source, and what would mend it.

`run` is a run folder in one file beside it, without what `fencepost analyze` makes anew, and without the folders of the
machine that made it. `python -m
harness.survey.findings RUN FILE.tar.xz` makes it; `tar -xf FILE.tar.xz` gives the folder back. `run: awaited`: there is
no such run at present, and the first line below the title says so.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import msgspec

from cluster.lifetime import temporary_folder
from fencepost.boundary import exit_code_of
from fencepost.errors import UsageError
from fencepost.files import read_document
from harness.store.manifest import RunManifest, check_manifest, write_manifest
from harness.store.run_folder import RunFolder

FOLDER: Final = "findings"
"""Beside the page."""
MOST_BYTES: Final = 1_000_000
_MADE_ANEW: Final = ("report.html", "history.parquet", "verdict.json", "logs")
_DASHES: Final = "---"
_AWAITED: Final = "awaited"


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`subject`, `promise`: which ✗ it explains; several are joined by commas, `exclusive of rslock` is about one
    subject only, and `none` breaks no promise of the survey. `finding`: the kind that the verdict must have, blamed on
    the lock. `run`: the file's name, or `awaited`."""

    subject: str
    promise: str
    finding: str
    verdict: Literal["valid", "violation", "unknown"]
    run: str

    @property
    def subjects(self) -> tuple[str, ...]:
        return tuple(name.strip() for name in self.subject.split(","))

    @property
    def promises(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self._told)

    @property
    def _told(self) -> list[tuple[str, str]]:
        """Each promise, and the one subject that it is about; empty: all of them."""
        parts = (one.strip().partition(" of ") for one in self.promise.split(",") if one.strip() != "none")
        return [(name, only) for name, _, only in parts]

    @property
    def is_awaited(self) -> bool:
        """Whether there is no run of it."""
        return self.run == _AWAITED

    def explains(self, subject: str, promise: str) -> bool:
        """Whether it says why this subject breaks this promise."""
        return subject in self.subjects and any(name == promise and only in ("", subject) for name, only in self._told)


class Finding(msgspec.Struct, frozen=True):
    """`text`: Markdown, without what it is about. `title`: its first line."""

    name: str
    about: About
    text: str

    @property
    def title(self) -> str:
        return self.text.strip().partition("\n")[0].lstrip("# ")

    @property
    def body(self) -> str:
        """What follows the title."""
        return self.text.strip().partition("\n")[2]


def read_findings(folder: Path) -> list[Finding]:
    """All that are kept there, by name. Raises UsageError, naming the file, for one that cannot be read."""
    return [read_finding(path) for path in sorted(folder.glob("*.md"))]


def read_finding(path: Path) -> Finding:
    whole = read_document(path).decode(errors="replace")
    head, _, text = whole.removeprefix(f"{_DASHES}\n").partition(f"\n{_DASHES}\n")
    pairs = (line.partition(":") for line in head.splitlines())
    try:
        about = msgspec.convert({name.strip(): value.strip() for name, _, value in pairs}, About)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path} does not begin with what it is about: {error}") from None
    return Finding(path.stem, about, text)


def pack_small(run: RunFolder, file: Path) -> None:
    """Put the run into one file. Raises UsageError if it is damaged, or larger than a finding may be."""
    with TemporaryDirectory(prefix="fencepost-finding-", dir=temporary_folder()) as scratch:
        copy = RunFolder(Path(scratch) / run.name)
        shutil.copytree(run.path, copy.path, ignore=lambda folder, _: _MADE_ANEW if Path(folder) == run.path else ())
        _forget_folders(copy)
        with tarfile.open(file, "w:xz") as tar:
            tar.add(copy.path, arcname=copy.name)
    if (size := file.stat().st_size) > MOST_BYTES:
        file.unlink()
        raise UsageError(
            f"{run.name} is {size:,} bytes in one file, at most {MOST_BYTES:,} are allowed; choose a shorter run"
        )


def _forget_folders(run: RunFolder) -> None:
    """Paths on that machine are left out. Raises UsageError for a damaged record, for which the
    manifest must not vouch anew."""
    if (manifest := run.read_manifest(RunManifest)) is not None:
        check_manifest(run, manifest)
    run.write_environment(_without_folders(run.read_environment()))
    if manifest is not None:
        write_manifest(run)


def _without_folders(value: Any) -> Any:
    """Of each absolute path its last part."""
    if isinstance(value, dict):
        return {name: _without_folders(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_without_folders(part) for part in value]
    return Path(value).name if isinstance(value, str) and value.startswith("/") else value


def main() -> int:
    if len(sys.argv) != 3:
        raise UsageError("usage: python -m harness.survey.findings RUN FILE.tar.xz")
    pack_small(RunFolder.open(sys.argv[1]), Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(exit_code_of(main))
