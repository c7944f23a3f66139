"""Words that a user keeps beside runs, in `tags.json` in the folder of runs: no run's own record is touched."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from fencepost.errors import UsageError
from fencepost.files import read_json, write_whole

FILE: Final = "tags.json"
_MOST: Final = 20
_TAG: Final = re.compile(r"[\w.+-]{1,40}")


class _Tags(msgspec.Struct):
    """The tags of each run, by its name."""

    tags: dict[str, list[str]] = {}


def read_tags(results: Path) -> Mapping[str, Sequence[str]]:
    """Empty if there are none, or the file cannot be read."""
    path = results / FILE
    try:
        return read_json(path, _Tags).tags if path.exists() else {}
    except UsageError:
        return {}


def tags_in(text: str) -> list[str]:
    """The words of a text, each once. Raises UsageError for one that cannot be a tag."""
    tags = list(dict.fromkeys(text.replace(",", " ").split()))
    for tag in tags:
        if not _TAG.fullmatch(tag):
            raise UsageError(f"{tag!r} cannot be a tag: 1 to 40 letters, digits or . _ + -")
    if len(tags) > _MOST:
        raise UsageError(f"{len(tags)} tags are too many for a run: at most {_MOST}")
    return tags


def write_tags(results: Path, run: str, tags: Sequence[str]) -> None:
    """Replace the tags of a run; none takes it out. Raises UsageError if the file there is not ours, or cannot be
    written."""
    path = results / FILE
    kept = read_json(path, _Tags) if path.exists() else _Tags()
    kept.tags.pop(run, None)
    if tags:
        kept.tags[run] = list(tags)
    try:
        write_whole(path, msgspec.json.encode(kept))
    except OSError as error:
        raise UsageError(f"{path} cannot be written ({error.strerror})") from None
