"""An argparse parser from declared options, and values from what it parsed."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from fencepost.boundary import say
from fencepost.errors import UsageError
from fencepost.meant import meant
from fencepost.options import Declared

_METAVARS: Final[Mapping[object, str]] = {int: "N", Path: "PATH"}


class HelpShown(Exception):  # noqa: N818 (nothing is wrong)
    """The help was asked for, and printed: there is nothing else to do."""


class Parser(argparse.ArgumentParser):
    """argparse that raises UsageError in one line instead of printing the usage, and never ends the process. What it
    does not know it names, with what was perhaps meant."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=True, **keywords)
        # So that `--ttl -1s` gives --ttl this value, which its reader refuses in words.
        self._negative_number_matcher = re.compile(r"-[0-9.]")

    def read(
        self, words: Sequence[str], place_of: Callable[[str], str | None] = lambda word: None
    ) -> argparse.Namespace:
        """What these words say. Raises UsageError. `place_of`: for a word that has no place, how it would have one."""
        parsed, unknown = self.parse_known_args(list(words))
        if unknown:
            flag, word = unknown[0].partition("=")[0], unknown[0]
            is_option = word.startswith("-") and word != "-"
            near = meant(flag, self._option_string_actions) if is_option else place_of(word)
            what = f"option {flag} is not known" if is_option else f"{word!r} has no place here"
            self.error(f"{what}, did you mean {near}?" if near else what)
        return parsed

    def error(self, message: str) -> NoReturn:
        for pattern, words in _IN_WORDS:
            if found := re.fullmatch(pattern, message):
                message = found.expand(words)
        raise UsageError(f"{message}{'' if message.endswith('?') else ';'} see `{self.prog} --help`")

    def print_help(self, file: object = None) -> None:
        say(self.format_help())

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpShown


_IN_WORDS: Final = (
    (r"argument (\S+): expected one argument", r"\1 needs a value"),
    (r"argument (\S+): ignored explicit argument .*", r"\1 takes no value"),
    (r"the following arguments are required: (\S+)", r"which \1?"),
    (r"ambiguous option: (\S+) could match (.*)", r"option \1 is not clear: it may be \2"),
)
"""What argparse says, and what to say instead."""


def add_options(parser: Parser, options: Iterable[Declared], *, grouped: bool = False) -> None:
    """Add options to a parser, each with its default in the help; in their own groups if `grouped`."""
    groups: dict[str, argparse._ArgumentGroup] = {}
    for each in options:
        place: argparse.ArgumentParser | argparse._ArgumentGroup = parser
        if grouped:
            group = each.option.group
            place = groups[group] if group in groups else groups.setdefault(group, parser.add_argument_group(group))
        _add(place, each, each.shown_default)


def add_replacements(parser: Parser, options: Iterable[Declared], title: str) -> None:
    """Add options that replace something recorded or scripted: the help shows no default for them."""
    group = parser.add_argument_group(title)
    for each in options:
        _add(group, each, "")


def values_of(parsed: argparse.Namespace, options: Collection[Declared]) -> dict[str, Any]:
    """The options that were given, by field. Raises UsageError, naming the option."""
    found: dict[str, Any] = {}
    for each in options:
        given = getattr(parsed, each.field)
        if given is None:
            continue
        if each.repeats:
            found[each.field] = tuple(each.read(_said(one)) for one in given)
        else:
            found[each.field] = each.read(_said(given)) if each.takes_value else True
    flags = {each.field: each.flag for each in options}
    for each in options:
        if each.field in found and each.option.instead_of in found:
            raise UsageError(f"{flags[each.option.instead_of]} and {each.flag} cannot be given together; leave one out")
    return found


def _said(given: Any) -> Any:
    """What argparse was given: before Python 3.13 it takes the value of `--name=--` for an end of the options."""
    return "--" if given == [] else given


def metavar(each: Declared) -> str:
    """What stands for the value in the help: `N`, `TIME`, or the choices."""
    if each.option.metavar:
        return each.option.metavar
    if each.choices:
        return f"{{{','.join(each.choices)}}}"
    return "TIME" if each.option.unit else _METAVARS.get(each.type, "TEXT")


def _add(place: argparse.ArgumentParser | argparse._ArgumentGroup, each: Declared, default: str) -> None:
    text = f"{each.option.help} ({default})" if default else each.option.help
    text = text.replace("%", "%%")
    if not each.flag.startswith("-"):
        needed = each.default is msgspec.NODEFAULT
        place.add_argument(each.field, metavar=each.flag, nargs=None if needed else "?", help=text)
    elif each.takes_value:
        action = "append" if each.repeats else "store"
        place.add_argument(each.flag, dest=each.field, action=action, metavar=metavar(each), help=text)
    else:
        place.add_argument(each.flag, dest=each.field, action="store_const", const=True, help=text)
