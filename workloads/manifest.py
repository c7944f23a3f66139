"""`lock.toml`: what fencepost knows of a foreign lock before it starts it.

A foreign lock is a folder with this file, its adapter and the pinned packages that the adapter needs:

    language = "node"                    # a module of workloads/languages
    library = "redlock 4.2.0"            # what is tested, as its users call it
    summary = "npm redlock, its README's settings"    # one line for --help
    packages = "package.json"            # a file in the language's own format, beside this one
    adapter = "adapter.mjs"              # the adapter's source: a file, or a folder
    shows = ["deadline"]                 # which of deadline, bounds, token its leases carry
    server = "postgres"                  # what its nodes run, if that is no descendant of Redis
    nodes = 1                            # how many it uses, if they are not the usual five
    workload = "transaction-counter"     # what its clients do, if its transaction keeps their data

    [settings]                           # handed to the adapter when it opens, as `settings.manifest`
    retry_count = 10

    [configured]                         # how the library is configured, and why: for the report
    retryCount = "10: the README's recommendation"

`command = ["{installed}/node", "--jitless", "{folder}/adapter.mjs"]` replaces the command that the language would run.

A variant is another folder with the same library in another configuration: `variant_of = "NAME"`, a summary of its own,
the settings and reasons that differ, and `shows`, `workload`, `server` or `nodes` if that differs. It has no adapter,
and is installed with the lock that it varies.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from fencepost.errors import UsageError
from fencepost.files import identity_of, read_document

FILE: Final = "lock.toml"

SHOWN: Final = ("deadline", "bounds", "token")
"""What the leases of a lock may carry (docs/lock-protocol.md)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A foreign lock. `folder`: where its `lock.toml` is. `installed_as`: the name of its installation, which the
    variants of a lock share. `source`: the folder of the adapter and the packages; a variant's is its base's."""

    name: str
    folder: Path
    source: Path
    installed_as: str
    language: str
    library: str
    summary: str
    adapter: str
    packages: str | None = None
    shows: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    server: str | None = None
    nodes: int | None = None
    tasks: int | None = None
    cancels: bool = False
    one_key: bool = False
    workload: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    configured: Mapping[str, str] = field(default_factory=dict)

    @property
    def adapter_path(self) -> Path:
        return self.source / self.adapter

    @property
    def packages_path(self) -> Path | None:
        return self.source / self.packages if self.packages else None

    def described(self) -> dict[str, object]:
        """What a report says of the lock that its adapter cannot know."""
        return {
            "library": self.library,
            "language": self.language,
            "summary": self.summary,
            "shows": list(self.shows),
            "settings": dict(self.settings),
            "configured": dict(self.configured),
        }


class _Common(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    summary: str
    shows: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    workload: str | None = None
    server: str | None = None
    nodes: int | None = None
    one_key: bool = False
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    configured: dict[str, str] = msgspec.field(default_factory=dict)


class _Whole(_Common, frozen=True, kw_only=True, forbid_unknown_fields=True):
    language: str
    library: str
    adapter: str
    packages: str | None = None
    command: tuple[str, ...] = ()
    tasks: int | None = None
    cancels: bool = False


class _Variant(_Common, frozen=True, kw_only=True, forbid_unknown_fields=True):
    variant_of: str


_Raw = TypeVar("_Raw", _Whole, _Variant)


def name_of(folder: Path) -> str:
    """A lock is named after its folder, with dashes."""
    return folder.name.replace("_", "-")


def read_manifest(name: str, folders: Mapping[str, Path], languages: tuple[str, ...]) -> Manifest:
    """The manifest in the folder of this name; of the others, only that of the lock that it is a variant of is read.
    `languages`: the known ones.

    Raises UsageError, in one line that names the file, if it cannot be used.
    """
    path = folders[name] / FILE
    table = _read(path)
    if "variant_of" not in table:
        return _whole(name, folders[name], _converted(path, table, _Whole), languages)
    variant = _converted(path, table, _Variant)
    base = folders.get(variant.variant_of)
    is_whole = base is not None and "variant_of" not in _read(base / FILE)
    return _variant(
        name, folders[name], variant, read_manifest(variant.variant_of, folders, languages) if is_whole else None
    )


def _whole(name: str, folder: Path, raw: _Whole, languages: tuple[str, ...]) -> Manifest:
    path = folder / FILE
    if raw.language not in languages:
        raise UsageError(f"{path}: the language {raw.language!r} is not one of {', '.join(languages)}")
    for key, file in (("adapter", raw.adapter), ("packages", raw.packages)):
        if file is not None and not (folder / file).exists():
            raise UsageError(f"{path}: {key} is {file!r}, but there is no such file beside it")
    own = msgspec.structs.asdict(raw) | {"shows": raw.shows or ()}
    return Manifest(name=name, folder=folder, source=folder, installed_as=name, **own)


def _variant(name: str, folder: Path, raw: _Variant, base: Manifest | None) -> Manifest:
    if base is None:
        raise UsageError(
            f"{folder / FILE}: variant_of is {raw.variant_of!r}, but no foreign lock of this name has an adapter"
        )
    return replace(
        base,
        name=name,
        folder=folder,
        summary=raw.summary,
        shows=base.shows if raw.shows is msgspec.UNSET else raw.shows,
        server=raw.server or base.server,
        nodes=raw.nodes or base.nodes,
        one_key=raw.one_key or base.one_key,
        workload=raw.workload or base.workload,
        settings=_overlaid(base.settings, raw.settings),
        configured={**base.configured, **raw.configured},
    )


def _overlaid(base: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """The tables of `base` with what `change` says instead."""
    result = dict(base)
    for key, value in change.items():
        old = result.get(key)
        result[key] = _overlaid(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def _read(path: Path) -> dict[str, Any]:
    try:
        identity = identity_of(path)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror})") from None
    return _parsed(path, identity)


@cache
def _parsed(path: Path, _identity: tuple[int, int, int]) -> dict[str, Any]:
    """Read once as long as the file stays as it is: a plan of many runs looks at all of them for each. No process
    changes what it returns."""
    try:
        return tomllib.loads(read_document(path).decode())
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8") from None
    except (tomllib.TOMLDecodeError, ValueError, RecursionError) as error:  # ValueError: a number of 5,000 digits
        raise UsageError(f"{path} is not TOML: {error}") from None


def _converted(path: Path, table: dict[str, Any], kind: type[_Raw]) -> _Raw:
    """The table as a value of this kind. Raises UsageError: the file, the key, what was expected."""
    known = kind.__struct_fields__
    for key in table:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise UsageError(
                f"{path}: the key {key!r} is not known"
                + (f", did you mean {near[0]!r}?" if near else f"; known are {', '.join(known)}")
            )
    try:
        converted = msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{path}: {_plain(str(error))}") from None
    for shown in converted.shows or ():
        if shown not in SHOWN:
            raise UsageError(f"{path}: shows has {shown!r}, which is not one of {', '.join(SHOWN)}")
    return converted


def _plain(message: str) -> str:
    """What msgspec found wrong, as a user would say it."""
    if missing := re.search("missing required field `(.*)`", message):
        return f"the key {missing[1]!r} is missing"
    what, _, where = message.partition(" - at `$.")
    return f"{where.rstrip('`')}: {what[0].lower()}{what[1:]}"
