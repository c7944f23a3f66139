"""An argparse parser from declared options, and values from what it parsed."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from fencepost.boundary import say
from fencepost.errors import UsageError
from fencepost.options import Declared

_METAVARS: Final[Mapping[object, str]] = {int: "N", Path: "PATH"}


class HelpShown(Exception):  # noqa: N818 (nothing is wrong)
    """The help was asked for, and printed: there is nothing else to do."""


class Parser(argparse.ArgumentParser):
    """argparse that raises UsageError in one line instead of printing the usage, and never ends the process."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, **keywords)

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see `{self.prog} --help`")

    def print_help(self, file: object = None) -> None:
        say(self.format_help())

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        raise HelpShown


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


def values_of(parsed: argparse.Namespace, options: Iterable[Declared]) -> dict[str, Any]:
    """The options that were given, by field. Raises UsageError, naming the option."""
    found: dict[str, Any] = {}
    for each in options:
        given = getattr(parsed, each.field)
        if given is None:
            continue
        if each.repeats:
            found[each.field] = tuple(map(_said, given))
        else:
            found[each.field] = each.read(_said(given)) if each.takes_value else True
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
