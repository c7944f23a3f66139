"""What the words of Redis requests say, whatever the state of their connection is: a row for each distinct request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from cluster.redis_keys import deciding, places_of
from cluster.requests import SAID, Bools, Ints

SUBSCRIBING: Final = frozenset(["SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE"])
"""The server confirms each channel of these by a message of its own."""
_SECRET: Final = "***"
_EVALUATING: Final = frozenset(["EVAL", "EVAL_RO"])
_MOST_DIGITS: Final = 9
"""Of the number of a database."""


class Words:
    """`said`: the table of the requests, and a last row, `message`, for messages. `command`: codes of `names`.
    `argument_count`: how many words follow it. `is_wrong`: it is no request. What it tells its connection: `database`,
    `user` (a code of `users`), `replies` (a code of `modes` of CLIENT REPLY); -1 if it does not. `scripts`: the text of
    each by its SHA-1, which stands in its place."""

    def __init__(self, plain: pa.ListArray, others: list[Any]) -> None:
        """`plain`: the words of requests. `others`: what may be words; their codes follow."""
        are_words = [type(each) is list and bool(each) and {*map(type, each)} == {str} for each in others]
        listed = [each if is_so else [] for each, is_so in zip(others, are_words, strict=True)]
        words = pa.concat_arrays([plain, pa.array([*listed, []], plain.type)])
        self.message = len(words) - 1
        self._begin = words.offsets.to_numpy().astype(np.int64)
        self._word = words.values
        self._source, self._instead = np.arange(len(self._word)), list[str]()
        self.argument_count = np.diff(self._begin) - 1
        self.is_wrong = np.zeros(len(words), np.bool_)
        self.is_wrong[len(plain) : self.message] = ~np.array(are_words, np.bool_)
        self.names, self.command = self._commands()
        self.database, self.user, self.replies = np.full((3, len(words)), -1)
        self.users, self.modes = ["default"], list[str]()
        self.scripts: dict[str, str] = {}
        self._learn()
        self.said = self._table()

    def has(self, commands: Ints, names: frozenset[str]) -> Bools:
        """Which of these codes are of commands with one of these names."""
        return np.array([name in names for name in self.names], np.bool_)[commands]

    def _commands(self) -> tuple[list[str], Ints]:
        some = np.flatnonzero(self.argument_count >= 0)
        encoded = self._word.take(pa.array(self._begin[some])).dictionary_encode()
        upper = [name.upper() for name in encoded.dictionary.to_pylist()]
        codes = {name: code for code, name in enumerate(dict.fromkeys(["", *upper]))}
        command = np.zeros(len(self.argument_count), np.int64)
        command[some] = np.array([codes[name] for name in upper], np.int64)[encoded.indices.to_numpy()]
        return list(codes), command

    def _arguments(self, row: int) -> list[str]:
        found: list[str] = self._word[self._begin[row] + 1 : self._begin[row + 1]].to_pylist()
        return found

    def _table(self) -> pa.Table:
        self._name_scripts()
        is_argument = np.ones(len(self._word), np.bool_)
        is_argument[self._begin[:-1][self.argument_count >= 0]] = False
        words = pa.concat_arrays([self._word, pa.array(self._instead, pa.string())])
        argument = words.take(pa.array(self._source[is_argument]))
        begin = np.append(0, np.cumsum(np.maximum(self.argument_count, 0)))
        return pa.table(
            [
                pa.DictionaryArray.from_arrays(pa.array(self.command, pa.int32()), pa.array(self.names, pa.string())),
                self._keys(argument, begin),
                pa.ListArray.from_arrays(pa.array(begin, pa.int32()), argument),
            ],
            schema=SAID,
        )

    def _keys(self, argument: pa.StringArray, begin: Ints) -> pa.ListArray:
        """Where they are is looked up once for each command with so many words and the same deciding one."""
        count = np.diff(begin)
        which = [deciding(name) for name in self.names]
        at = np.array([-1 if each.stop == 0 else each.start or 0 for each in which])[self.command]
        some = np.flatnonzero((at >= 0) & (at < count))
        told = argument.take(pa.array(begin[some] + at[some])).dictionary_encode()
        word = np.full(len(count), -1)
        word[some] = told.indices.to_numpy()
        every = np.flatnonzero(np.array([each == slice(None) for each in which], np.bool_)[self.command])
        word[every] = len(told.dictionary) + every
        kind, row = _kinds(count, word, self.command)
        places = np.array([self._places(argument, begin, each) for each in row.tolist()], np.int64)[kind]
        key_begin = np.append(0, np.cumsum(places[:, 2]))
        nth = np.arange(key_begin[-1]) - np.repeat(key_begin[:-1], places[:, 2])
        index = np.repeat(begin[:-1] + places[:, 0], places[:, 2]) + nth * np.repeat(places[:, 1], places[:, 2])
        return pa.ListArray.from_arrays(pa.array(key_begin, pa.int32()), argument.take(pa.array(index)))

    def _places(self, argument: pa.StringArray, begin: Ints, row: int) -> tuple[int, int, int]:
        """The first of the keys, the step to the next, and how many there are."""
        words = argument[begin[row] : begin[row + 1]].to_pylist()
        found = range(*places_of(self.names[self.command[row]], words).indices(len(words)))
        return found.start, found.step, len(found)

    # -- what a request tells its connection; one that lacks a word is no request -----------------------------------

    def _learn(self) -> None:
        is_evaluating = self.has(self.command, _EVALUATING)
        self.is_wrong |= is_evaluating & (self.argument_count == 0)
        self._texts = [(self._begin[:-1] + 1)[is_evaluating & (self.argument_count > 0)]]
        for row in np.flatnonzero(self.has(self.command, frozenset(_LEARNS))).tolist():
            try:
                _LEARNS[self.names[self.command[row]]](self, row, self._arguments(row))
            except IndexError:
                self.is_wrong[row] = True

    def select(self, row: int, arguments: list[str]) -> None:
        if arguments[0].isdecimal() and len(arguments[0]) <= _MOST_DIGITS:
            self.database[row] = int(arguments[0])

    def log_in(self, row: int, arguments: list[str]) -> None:
        self.user[row] = self._user("default" if len(arguments) == 1 else arguments[0])
        self._hide(row, len(arguments) - 1)

    def greet(self, row: int, arguments: list[str]) -> None:
        upper = [argument.upper() for argument in arguments]
        if "AUTH" in upper:
            at = upper.index("AUTH")
            name, _ = arguments[at + 1], arguments[at + 2]
            self._hide(row, at + 2)
            self.user[row] = self._user(name)

    def set_replies(self, row: int, arguments: list[str]) -> None:
        if arguments[0].upper() == "REPLY":
            self.modes.append(arguments[1].lower())
            self.replies[row] = len(self.modes) - 1

    def load_script(self, row: int, arguments: list[str]) -> None:
        if arguments[0].upper() == "LOAD":
            if len(arguments) < 2:
                raise IndexError
            self._texts.append(self._begin[row : row + 1] + 2)

    def _user(self, name: str) -> int:
        if name not in self.users:
            self.users.append(name)
        return self.users.index(name)

    def _hide(self, row: int, argument: int) -> None:
        self._source[self._begin[row] + 1 + argument] = len(self._word) + len(self._instead)
        self._instead.append(_SECRET)

    def _name_scripts(self) -> None:
        """By their SHA-1, by which EVALSHA names them."""
        places = np.concatenate(self._texts)
        texts = self._word.take(pa.array(places)).dictionary_encode()
        self._source[places] = len(self._word) + len(self._instead) + texts.indices.to_numpy()
        for text in texts.dictionary.to_pylist():
            name = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
            self.scripts[name] = text
            self._instead.append(name)


_LEARNS: Final[dict[str, Callable[[Words, int, list[str]], None]]] = {
    "SELECT": Words.select,
    "AUTH": Words.log_in,
    "HELLO": Words.greet,
    "CLIENT": Words.set_replies,
    "SCRIPT": Words.load_script,
}


def _kinds(*columns: Ints) -> tuple[Ints, Ints]:
    """Which rows are alike in these columns of numbers from -1 on: a code of each row, and a row of each code."""
    kind = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        kind = kind * (int(column.max(initial=0)) + 2) + column + 1
        kind = pa.array(kind).dictionary_encode().indices.to_numpy().astype(np.int64)
    row = np.zeros(int(kind.max(initial=-1)) + 1, np.int64)
    row[kind[::-1]] = np.arange(len(kind))[::-1]
    return kind, row
