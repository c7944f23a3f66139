"""Finds the locks and opens them.

Locks are found by looking into folders: a recipe is a module in `locks/` that defines `LOCK`, a foreign lock is a
folder in `locks/foreign/` with a `lock.toml` (`workloads.manifest`). A lock is named after its file or folder, with
dashes. Finding a lock imports nothing, so a foreign library is needed only when it is opened. A user's own lock is
`package.module:Class`, or any program that speaks the protocol in `docs/lock-protocol.md`.

Every client opens a lock, so what only foreign locks need is imported for them alone.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Final, Literal, cast

import msgspec

from fencepost.errors import BrokenEnvironmentError, InternalError, UsageError
from fencepost.extensions import object_in
from fencepost.files import identity_of
from fencepost.meant import question
from fencepost.user_code import in_words, user_code
from workloads import locks
from workloads.base import Lock, LockFactory, LockSettings, NodeAddress

if TYPE_CHECKING:
    from workloads.manifest import Manifest

_VERBS: Final = ("acquire", "extend", "release", "close", "describe")


@dataclass(frozen=True, slots=True)
class LockInfo:
    """A lock that ships with fencepost; a `control` is broken on purpose. `summary`: its module's first sentence, or
    what the manifest of a foreign lock says."""

    name: str
    kind: Literal["recipe", "control", "foreign"]
    path: Path
    summary: str
    manifest: Manifest | None = None


def lock_names() -> tuple[LockInfo, ...]:
    """All locks that ship with fencepost or are on FENCEPOST_PATH, by kind and name, whether or not this machine can
    run them. Raises UsageError for a manifest that cannot be used."""
    recipes = [_info(path) for folder in locks.__path__ for path in Path(folder).glob("[!_]*.py")]
    infos = recipes + [_foreign(lock) for lock in foreign_locks()]
    return tuple(sorted(infos, key=lambda info: (("recipe", "foreign", "control").index(info.kind), info.name)))


def foreign_locks() -> tuple[Manifest, ...]:
    """The manifests of all foreign locks, by name. Raises UsageError for one that cannot be used."""
    folders = _foreign_folders()
    return tuple(_manifest(name, folders) for name in sorted(folders))


def _foreign_folders() -> dict[str, Path]:
    """By the name of the lock. Raises UsageError for a name that is taken."""
    from workloads.manifest import FILE, name_of

    folders: dict[str, Path] = {}
    for place in locks.__path__:
        for path in sorted(Path(place, "foreign").glob(f"*/{FILE}")):
            name = name_of(path.parent)
            if name in folders:
                raise UsageError(f"{path}: there is a lock {name} already, in {folders[name]}; rename the folder")
            folders[name] = path.parent
    return folders


def _manifest(name: str, folders: dict[str, Path]) -> Manifest:
    from workloads.languages.base import language_names
    from workloads.manifest import read_manifest

    return read_manifest(name, folders, language_names())


def find_lock(name: str) -> LockInfo:
    """The lock of this name. Raises UsageError, with what was perhaps meant, if there is none."""
    # The other files need not be read, nor be in order.
    if (path := _recipe_file(name)) is not None:
        return _info(path)
    if name in (folders := _foreign_folders()):
        return _foreign(_manifest(name, folders))
    if (own := _own_class(name)) is not None:
        raise UsageError(f"no lock is named {name!r}; a class of your own is --lock {own}")
    listed = "`fencepost test --help` lists them; your own is --lock package.module:Class or --lock-command"
    raise UsageError(f"no lock is named {name!r}{question(name, [info.name for info in lock_names()], listed)}")


def _own_class(name: str) -> str | None:
    """How to write a class of the user's own that is called by a dot (`mine.MyLock`) or by its file; None if
    this is none."""
    path, _, class_name = name.partition(":")
    if path.endswith(".py"):
        return f"{path.removesuffix('.py').strip('./').replace('/', '.')}:{class_name or 'Class'}"
    if re.fullmatch(r"[a-z_][\w.]*\.[A-Z]\w*", name):
        module, _, class_name = name.rpartition(".")
        return f"{module}:{class_name}"
    return None


def manifest_of(lock: str, lock_command: str | None) -> Manifest | None:
    """The manifest of the lock that is tested; None for one that has none."""
    return None if lock_command is not None or ":" in lock else find_lock(lock).manifest


def opened_by_client(lock: str, lock_command: str | None) -> object | None:
    """What a client itself opens the lock with, a class as a rule; None for a program, and for a lock that cannot be
    used, of which `check_lock` says why."""
    try:
        return _python_factory(lock, lock_command)
    except UsageError:
        return None


def _told_by(lock: str, lock_command: str | None) -> tuple[Manifest | None, object | None]:
    """What says what the lock can do: the manifest of a foreign lock, or the class of another one; neither for a
    program that is given as a command, and for a lock that cannot be used."""
    try:
        return manifest_of(lock, lock_command), opened_by_client(lock, lock_command)
    except UsageError:
        return None, None


def tasks_can_share(lock: str, lock_command: str | None) -> bool:
    """Whether the lock says that several tasks of a client may share its object: a Python class by `SHARED_BY_TASKS`, a
    foreign lock by `tasks` in its manifest. A program that is given as a command says nothing."""
    manifest, factory = _told_by(lock, lock_command)
    return (manifest.tasks or 1) > 1 if manifest else getattr(factory, "SHARED_BY_TASKS", False) is True


def can_be_cancelled(lock: str, lock_command: str | None) -> bool:
    """Whether a user can cancel its calls, as far as the lock says so: a Python class by `cancel_after`
    (`workloads.base`), a foreign lock by its manifest. A program that is given as a command says nothing."""
    manifest, factory = _told_by(lock, lock_command)
    return manifest.cancels if manifest else hasattr(factory, "cancel_after")


def holds_two_keys(lock: str, lock_command: str | None) -> bool:
    """Whether one user can hold two keys at once: unless a Python class says `ONE_KEY_AT_A_TIME`, or the manifest of a
    foreign lock `one_key`. A program that is given as a command says nothing."""
    manifest, factory = _told_by(lock, lock_command)
    return (
        not manifest.one_key if manifest else factory is not None and not getattr(factory, "ONE_KEY_AT_A_TIME", False)
    )


def check_lock(lock: str, lock_command: str | None) -> None:
    """Raise UsageError if `open_lock` cannot open this lock on this machine. Starts nothing."""
    if lock_command is not None:
        _program(lock_command)
    elif ":" in lock:
        _user_class(lock)
    else:
        manifest = find_lock(lock).manifest
        if manifest is not None:
            from workloads.installation import check_installed, launch_of

            check_installed(manifest)
            launch_of(manifest)


def check_renews(lock: str, lock_command: str | None) -> None:
    """Raise UsageError for a Python lock that cannot say whether it is still held (`workloads.base`, `is_held`). A
    program is asked when it is opened."""
    factory = _python_factory(lock, lock_command)
    if inspect.isclass(factory) and not hasattr(factory, "is_held"):
        raise UsageError(f"--renewal: {lock} has no is_held, so it cannot say whether it is still held")


def check_can_be_cancelled(lock: str, lock_command: str | None) -> None:
    """Raise UsageError for a lock whose calls cannot be cancelled, unless it is a program that is given as a command:
    that may ignore it."""
    if lock_command is None and not can_be_cancelled(lock, lock_command):
        raise UsageError(f"--cancel: a call of {lock} cannot be cancelled; leave --cancel out")


def check_holds_two_keys(lock: str, lock_command: str | None) -> None:
    """Raise UsageError for a lock of which a user holds one key at a time. A program that is given as a command may
    refuse the second one."""
    if lock_command is None and not holds_two_keys(lock, lock_command):
        raise UsageError(f"--two-keys: a user of {lock} holds one key at a time; leave --two-keys out")


def check_lets_readers_in(lock: str, lock_command: str | None) -> None:
    """Raise UsageError for a Python lock without `acquire_shared` (`workloads.base`). A program is told with each
    acquire."""
    factory = _python_factory(lock, lock_command)
    if inspect.isclass(factory) and not hasattr(factory, "acquire_shared"):
        raise UsageError(f"--lock {lock} has no acquire_shared, so it cannot let readers in together")


def check_runs_statements(lock: str, lock_command: str | None, workload: str) -> None:
    """Raise UsageError for a lock that keeps no data in its transaction (`workloads.base`, `run`). A program that is
    given as a command is told with each statement."""
    factory, manifest = _python_factory(lock, lock_command), manifest_of(lock, lock_command)
    if (factory and not hasattr(factory, "run")) or (manifest and manifest.workload != workload):
        known = [each.name for each in foreign_locks() if each.workload == workload]
        raise UsageError(
            f"--lock {lock} keeps no data in a transaction, as --workload {workload} needs; choose {', '.join(known)}"
        )


def check_asks_nobody(lock: str, lock_command: str | None) -> None:
    """Raise UsageError for a Python lock that asks sentinels where the primary is (`ASKS_SENTINELS`)."""
    if getattr(_python_factory(lock, lock_command), "ASKS_SENTINELS", False):
        raise UsageError(f"--lock {lock} asks sentinels where the primary is; add --replication sentinel")


def _python_factory(lock: str, lock_command: str | None) -> LockFactory | None:
    """What opens a Python lock; None for a program."""
    if lock_command is not None or (":" not in lock and find_lock(lock).kind == "foreign"):
        return None
    return _user_class(lock) if ":" in lock else _recipe(find_lock(lock).path)


def open_lock(lock: str, lock_command: str | None, nodes: Sequence[NodeAddress], settings: LockSettings) -> Lock:
    """Open a lock: connect it to its nodes and make it ready. `lock_command`, if given, replaces `lock`.

    Raises UsageError as `check_lock` does, and BrokenEnvironmentError if a program or a class fails to open.
    """
    if lock_command is not None:
        from workloads.foreign import ForeignLock

        return ForeignLock(_program(lock_command), nodes, settings)
    if ":" in lock:
        factory = _user_class(lock)
        try:
            return factory(nodes, settings)
        except Exception as error:  # whatever a stranger's constructor raises
            raise BrokenEnvironmentError(f"--lock {lock} cannot be opened: {in_words(error)}") from error
    if (path := _recipe_file(lock)) is not None:
        return _recipe(path)(nodes, settings)
    if (manifest := find_lock(lock).manifest) is None:
        raise InternalError(f"the lock {lock} is neither a module nor a program")
    from workloads.foreign import ForeignLock
    from workloads.installation import check_installed, launch_of

    check_installed(manifest)
    launch = launch_of(manifest)
    settings = msgspec.structs.replace(settings, manifest=manifest.settings)
    return ForeignLock(launch.command, nodes, settings, launch.environment)


def _recipe(path: Path) -> LockFactory:
    return cast(LockFactory, object_in(f"workloads.locks.{path.stem}", "LOCK", Callable))  # type: ignore[arg-type]


def _recipe_file(name: str) -> Path | None:
    if not re.fullmatch("[a-z][a-z0-9-]{,99}", name):  # anything may be asked for: paths, too
        return None
    file = f"{name.replace('-', '_')}.py"
    return next((path for folder in locks.__path__ if (path := Path(folder, file)).is_file()), None)


def _foreign(lock: Manifest) -> LockInfo:
    from workloads.manifest import FILE

    return LockInfo(lock.name, "foreign", lock.folder / FILE, lock.summary, lock)


def _info(path: Path) -> LockInfo:
    name = path.stem.replace("_", "-")
    kind: Literal["recipe", "control"] = "control" if name.startswith("control-") else "recipe"
    try:
        return LockInfo(name, kind, path, _first_sentence(path, identity_of(path)))
    except (OSError, SyntaxError, ValueError, RecursionError) as error:
        raise UsageError(f"{path} is not a module that Python can read: {in_words(error)}") from None


@cache
def _first_sentence(path: Path, _identity: tuple[int, int, int]) -> str:
    """Of a module's docstring. Read once as long as the file stays as it is."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].split()).split(". ")[0].rstrip(".")


def _program(lock_command: str) -> list[str]:
    import shlex
    import shutil

    try:
        words = shlex.split(lock_command)
    except ValueError as error:
        raise UsageError(f"--lock-command {lock_command!r} cannot be split into words: {error}") from None
    if not words:
        raise UsageError("--lock-command is empty; give a program that speaks the lock protocol, and its arguments")
    program = shutil.which(words[0])
    if program is None:
        raise UsageError(f"--lock-command: no program {words[0]!r} was found that can be run; check its name and path")
    return [program, *words[1:]]


def _user_class(lock: str) -> LockFactory:
    """The class that `package.module:Class` names; this also searches the current folder, after everything else."""
    module_name, _, class_name = lock.partition(":")
    if (meant := _own_class(lock)) is not None:
        raise UsageError(f"--lock {lock}: {module_name!r} is a file and no module; write --lock {meant}")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.append(here)
    with user_code(f"--lock {lock}", f"--lock {lock}: the module {module_name!r} cannot be imported from {here}"):
        module = importlib.import_module(module_name)
    top = module_name.partition(".")[0]
    own, found = Path(here, top), Path(getattr(sys.modules[top], "__file__", None) or here)
    if (own.is_dir() or own.with_suffix(".py").exists()) and not found.is_relative_to(here):
        raise UsageError(f"--lock {lock}: {found} hides the module {top!r} in {here}; rename the latter")
    with user_code(f"--lock {lock}", f"--lock {lock} cannot be looked into"):
        return _checked_class(lock, module, class_name)


def _checked_class(lock: str, module: ModuleType, class_name: str) -> LockFactory:
    factory = getattr(module, class_name, None)
    if factory is None:
        classes = [name for name, value in vars(module).items() if inspect.isclass(value)]
        raise UsageError(
            f"--lock {lock}: {module.__name__} has no {class_name!r}; its classes: {', '.join(classes) or 'none'}"
        )
    missing = [verb for verb in _VERBS if not callable(getattr(factory, verb, None))]
    if not inspect.isclass(factory) or missing:
        raise UsageError(
            f"--lock {lock} is not a class with {', '.join(_VERBS)}; missing: {', '.join(missing) or 'a class'}"
        )
    try:
        inspect.signature(factory).bind([], LockSettings())
    except TypeError as error:
        raise UsageError(f"--lock {lock}: its constructor must take (nodes, settings): {error}") from None
    return cast(LockFactory, factory)
