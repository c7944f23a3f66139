"""What a command of `fencepost` is: its arguments, what it says about itself, and what it does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec

from fencepost.command_line import Parser, add_options, add_replacements, values_of
from fencepost.errors import UsageError
from fencepost.options import Option, declared
from harness.cli.places import place_of
from harness.options import options_of

if TYPE_CHECKING:
    from rich.console import Console

    from harness.campaign.study import Study

_PLACES: Final = ("--report", "--results")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a command. `arguments`: what was given of the command's own arguments, and else their defaults.
    `given`: the fields that were. `replaced`: options of `fencepost test` that the command has too, as fields of a
    `RunConfig`; only the ones that were given. `behind_dashes`: the words after `--`. `words`: the whole command
    line. `out`: where it prints."""

    arguments: Any
    given: frozenset[str]
    replaced: dict[str, Any]
    behind_dashes: list[str]
    words: Sequence[str]
    out: Console

    @property
    def to_repeat(self) -> str:
        """The command for other people, on their machines: without the folders that were chosen on this one."""
        kept, words = ["fencepost"], iter(self.words)
        for word in words:
            option, equals, _ = word.partition("=")
            if not _names_a_place(option):
                kept.append(word)
            elif not equals:
                next(words, None)
        return shlex.join(kept)

    def make(self, study: Study[Any], before: Callable[[Study[Any]], object] = lambda _: None) -> int:
        """Make the runs of a study where its command wants them; returns the exit code. `before`: what is done when it
        is known where."""
        from harness.campaign.parallelism import Hands
        from harness.campaign.study import run_study

        told = self.arguments
        hands = Hands.found(told.workers, told.scheduler)
        before(study)
        return run_study(study, told.results, hands=hands, command=self.to_repeat, out=self.out)


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One command. `arguments`: a struct whose fields declare options. `replaces`: the title over those options of
    `fencepost test` that the command has too, which replace what a run would have. `epilog`: a text, or what makes it
    when it is asked for. `with_dashes`: whether the words after `--` are for its runs. `grouped`: whether the help
    shows the options in their groups.

    Whatever `do` needs is imported inside of it, so that every command's help starts fast.
    """

    description: str
    arguments: type[msgspec.Struct]
    do: Callable[[Call], int]
    epilog: str | Callable[[], str] = ""
    usage: str | None = None
    replaces: str | None = None
    with_dashes: bool = False
    grouped: bool = False

    def call(self, name: str, words: Sequence[str]) -> Call:
        """Read the words that follow the command's name. Raises UsageError; `--help` prints and exits."""
        _check_words(words)
        own, behind = split_at_dashes(words) if self.with_dashes else (list(words), [])
        options, replaced = declared(self.arguments), options_of(name) if self.replaces else ()
        asks = "-h" in own or "--help" in own
        epilog = self.epilog if isinstance(self.epilog, str) else self.epilog() if asks else ""
        parser = Parser(prog=f"fencepost {name}", usage=self.usage, description=self.description.strip(), epilog=epilog)
        add_options(parser, options, grouped=self.grouped)
        if self.replaces:
            add_replacements(parser, replaced, self.replaces)
        parsed = parser.read(own, lambda word: place_of(word, own, (*options, *replaced)))
        values = values_of(parsed, options)
        from harness.report.terminal import Terminal

        given = self.arguments(**values), frozenset(values), values_of(parsed, replaced)
        return Call(*given, behind, (name, *words), Terminal())


def _names_a_place(option: str) -> bool:
    """Options may be abbreviated."""
    return len(option) > len("--") and any(place.startswith(option) for place in _PLACES)


def _check_words(words: Sequence[str]) -> None:
    """Raise UsageError for a word that cannot be recorded."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise UsageError(f"the argument {word!r} is not UTF-8") from None


def split_at_dashes(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """The words before and after the first `--`."""
    own = list(words)
    at = own.index("--") if "--" in own else len(own)
    return own[:at], own[at + 1 :]


ARecordedRun = Annotated[Path, Option("RUN", "run folder, or its name in the folder of runs")]
"""A run that the command reads."""
