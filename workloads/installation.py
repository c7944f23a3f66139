"""Where foreign locks are installed, and whether they are there.

A lock is installed in `foreign/<name>` below the tools folder (`fencepost.setup.machine.tools_folder`), once for a lock
and its variants. Nothing is downloaded or built when a lock is opened: `fencepost setup --lock NAME` did that before.
"""

from __future__ import annotations

from pathlib import Path

from fencepost.errors import UsageError
from fencepost.setup.machine import tools_folder
from fencepost.setup.workshop import Step, Workshop
from workloads.languages.base import Launch, language_of
from workloads.manifest import FILE, Manifest


def installed_folder(lock: Manifest) -> Path:
    return tools_folder() / "foreign" / lock.installed_as


def step_of(lock: Manifest) -> Step:
    """The step of set-up that installs the lock. It is done if it was made from what the files are now."""
    return _step(lock, language_of(lock).brings(lock, tools_folder()))


def _step(lock: Manifest, brings: str) -> Step:
    language, installed = language_of(lock), installed_folder(lock)
    name = f"lock-{lock.installed_as}"
    contents = [f"{path.name}\n{path.read_bytes().hex()}" for path in language.inputs(lock)]

    def make(shop: Workshop) -> str:
        return language.install(shop, name, lock, installed)

    return Step(
        name,
        brings,
        (lock.language, lock.adapter, *contents),
        language.programs(installed),
        make,
    )


def why_not_installed(lock: Manifest) -> str | None:
    """None if the lock is installed from what its files are now; else what is wrong, in a few words."""
    if Workshop(tools_folder()).is_done(_step(lock, brings="")):  # to tell what it brings, toolchains would be started
        return None
    return "has changed since it was installed" if installed_folder(lock).exists() else "is not installed"


def wrong_with(lock: Manifest) -> str | None:
    """The same, and what is wrong with an installation that was changed."""
    return why_not_installed(lock) or language_of(lock).flaw(lock, installed_folder(lock))


def check_installed(lock: Manifest) -> None:
    """Raise UsageError, which says what to run, unless the lock is installed from what its files are now."""
    if wrong := why_not_installed(lock):
        raise UsageError(f"the lock {lock.name} {wrong}: run `fencepost setup --lock {lock.installed_as}`")


def launch_of(lock: Manifest) -> Launch:
    """What starts the lock's adapter. Raises UsageError for a `command` with an unknown placeholder."""
    installed = installed_folder(lock)
    usual = language_of(lock).launch(lock, installed)
    if not lock.command:
        return usual
    try:
        words = tuple(word.format(installed=installed, folder=lock.source) for word in lock.command)
    except (LookupError, ValueError):
        raise UsageError(
            f"{lock.source / FILE}: command may contain {{installed}} and {{folder}}, but no other word in braces"
        ) from None
    return Launch(words, usual.environment)
