"""A Lua script as the ways through it: the calls of commands on each, and what is returned at its end.

Only what scripts on a server use is read: local names, conditions, loops, calls of commands. Functions, loops without a
condition in front, and calls of a command whose name is computed are not followed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from cluster.effects import NO_CHANGE
from cluster.lua_tokens import closing, literal_of, split_at
from cluster.lua_ways import ARGUMENT, Call, ChangesOf, Guard, Return, State
from cluster.redis_keys import keys_of

_BLOCK_ENDS: Final = frozenset(["end", "else", "elseif", "until", ""])
_STRANGE: Final = frozenset(["function", "repeat", "goto", "::", "loadstring", "setmetatable", "_G", "rawget"])
_HARMLESS: Final = frozenset(
    ["error_reply", "status_reply", "sha1hex", "log", "replicate_commands", "set_repl", "setresp", "LOG_WARNING"]
)
_KEY: Final = re.compile(r"KEYS \[ (\w+) \]")
_READ: Final = re.compile(r'(?:redis|server) \. p?call \( "(?:get|GET) , (KEYS \[ \d+ \]|\w+) \)')
_CALL_TOKENS: Final = 3
"""`redis . call`"""
_IN_EXPRESSION: Final = frozenset(["and", "or", "not", "(", "{", ",", "..", "==", "~=", "<", ">", "<=", ">=", "+", "-"])
"""A call behind one of these may be left out, for all that is known."""
_GO_ON: Final = frozenset([".", "..", "[", "or", "and", "==", "~=", "+", "-", "*", "/", ","])
"""Before these an expression is not over."""


class StrangeScriptError(Exception):
    """The script has something that is not followed."""


@dataclass(slots=True)
class Reader:
    tokens: Sequence[str]
    changes_of: ChangesOf
    at: int = 0
    calls: list[Call] = field(default_factory=list)
    returns: list[Return] = field(default_factory=list)
    any_key: bool = False
    bound: dict[str, int] = field(default_factory=dict)
    """The names that stand for the reply of a call."""
    meaning: dict[str, str] = field(default_factory=dict)
    """What local names stand for, as Lua."""
    only_maybe: set[int] = field(default_factory=set)
    """The calls in the middle of an expression, which may be left out."""
    declared: set[str] = field(default_factory=set)
    """The names that have been local ones once: another one of the same name stands for nothing."""

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def next(self) -> str:
        token = self.peek()
        self.at += 1
        if token in _STRANGE:
            raise StrangeScriptError
        return token

    def expect(self, token: str) -> None:
        if self.next() != token:
            raise StrangeScriptError

    def block(self, state: State, *, is_repeated: bool) -> State | None:
        """Read up to the block's end. Returns the state in which it goes on; None if it does not."""
        left: State | None = state
        while (token := self.peek()) not in _BLOCK_ENDS:
            state = left or State()
            if token == "if":
                left = self._if(state, is_repeated)
            elif token in ("for", "while"):
                left = self._loop(state)
            elif token == "do":
                self.next()
                left = self.block(state, is_repeated=is_repeated)
                self.expect("end")
            elif token == "return":
                self.next()
                self._return(state, is_repeated)
                left = None
            elif token == "break":
                raise StrangeScriptError
            else:
                left = state.with_calls(self._statement(is_repeated), self.only_maybe)
        return left

    def _if(self, state: State, is_repeated: bool) -> State | None:
        ways: list[State | None] = []
        self.next()
        while True:
            tokens, new = self._until("then", is_repeated)
            if_true, if_false = self._held(tokens)
            not_if_true, not_if_false = self._ruled_out(tokens, new)
            state = state.with_calls(new, self.only_maybe)
            ways.append(self.block(state.without(not_if_true, if_true), is_repeated=is_repeated))
            state = state.without(not_if_false, if_false)
            end = self.next()
            if end == "elseif":
                continue
            if end == "else":
                ways.append(self.block(state, is_repeated=is_repeated))
                self.expect("end")
            elif end == "end":
                ways.append(state)
            else:
                raise StrangeScriptError
            going_on = [way for way in ways if way is not None]
            return State.merged(going_on) if going_on else None

    def _loop(self, state: State) -> State:
        self.next()
        _, new = self._until("do", True)
        state = State(state.made | new, state.must, state.held)
        begin, ways, calls = self.at, len(self.returns), len(self.calls)
        self.block(state, is_repeated=True)  # once, to see what may have been done in an earlier round
        state = State(state.made | frozenset(range(calls, len(self.calls))), state.must, state.held)
        del self.returns[ways:]
        self.at = begin
        first = len(self.calls)
        self.block(state, is_repeated=True)
        self.expect("end")
        return State(state.made | frozenset(range(first, len(self.calls))), state.must, state.held)

    def _return(self, state: State, is_repeated: bool) -> None:
        begin = self.at
        new = frozenset[int]()
        while self.peek() not in _BLOCK_ENDS and self.peek() != ";":
            new |= self._token(is_repeated)
        tokens = list(self.tokens[begin : self.at])
        if self.peek() == ";":
            self.next()
        call = None if is_repeated else self._as_call(tokens, new)
        self.returns.append(Return(literal_of(tokens), call, state.with_calls(new, self.only_maybe)))

    def _statement(self, is_repeated: bool) -> frozenset[int]:
        """One token, or a local name and what it stands for."""
        if self.peek() != "local":
            name = self.peek()
            if self.at + 1 < len(self.tokens) and self.tokens[self.at + 1] in ("=", ","):
                self._forget(name)
            return self._token(is_repeated)
        self.next()
        name = self.next()
        self._forget(name)
        if self.peek() != "=":
            return frozenset()
        self.next()
        begin = self.at
        new = self._token(is_repeated)
        if self.tokens[begin] in ("KEYS", "ARGV") and self.peek() == "[":
            while self.next() != "]":
                pass
        if self.peek() in _GO_ON:
            self.declared.add(name)
        if name in self.declared:
            return new
        self.declared.add(name)
        self.meaning[name] = " ".join(self.tokens[begin : self.at])
        if new and not is_repeated:
            self.bound[name] = max(new)
        return new

    def _forget(self, name: str) -> None:
        self.bound.pop(name, None)
        self.meaning.pop(name, None)

    def _token(self, is_repeated: bool) -> frozenset[int]:
        """Read a token, or a whole call of a command."""
        token = self.next()
        if token not in ("redis", "server"):
            return frozenset()
        self.expect(".")
        what = self.next()
        if what in _HARMLESS:
            return frozenset()
        if what not in ("call", "pcall"):
            raise StrangeScriptError
        begins = self.at - _CALL_TOKENS
        made = self._call(is_repeated)
        if begins > 0 and self.tokens[begins - 1] in _IN_EXPRESSION:
            self.only_maybe |= made
        return made

    def _call(self, is_repeated: bool) -> frozenset[int]:
        self.expect("(")
        depth, words, word = 1, list[list[str]](), list[str]()
        made = frozenset[int]()
        while depth:
            begin = self.at
            made |= self._token(is_repeated)
            some = self.tokens[begin : self.at]
            if not some:
                raise StrangeScriptError
            depth += some.count("(") + some.count("{") - some.count(")") - some.count("}")
            if depth == 1 and some == [","]:
                words.append(word)
                word = []
            elif depth:
                word += some
        words.append(word)
        name, *arguments = words
        if len(name) != 1 or not name[0].startswith('"'):
            raise StrangeScriptError
        command = name[0][1:].upper()
        texts = (" ".join(argument) for argument in arguments)
        plain = tuple(self.meaning.get(text, text).removeprefix('"') for text in texts)
        call = Call(command, plain, is_repeated)
        if call.changes(self.changes_of, None) == NO_CHANGE:
            return made
        named = keys_of(command, plain)
        self.any_key |= not named or not all(self._is_named(key) for key in named)
        self.calls.append(call)
        return made | {len(self.calls) - 1}

    def _is_named(self, key: str) -> bool:
        return _KEY.fullmatch(self.meaning.get(key, key)) is not None

    def _until(self, end: str, is_repeated: bool) -> tuple[list[str], frozenset[int]]:
        """The tokens up to this one, which is read as well, and the calls among them."""
        begin, made = self.at, frozenset[int]()
        while self.peek() != end:
            if self.peek() in _BLOCK_ENDS:
                raise StrangeScriptError
            made |= self._token(is_repeated)
        tokens = list(self.tokens[begin : self.at])
        self.next()
        return tokens, made

    def _held(self, tokens: Sequence[str]) -> tuple[Guard | None, Guard | None]:
        """What a key must have held if the condition is true, and if it is false."""
        words = {"and", "or"} & set(tokens)
        if len(words) == 1:  # all parts are true, or all are false
            word = words.pop()
            parts = [self._held(part) for part in split_at(tokens, word)]
            if_true, if_false = (next((side for side in sides if side), None) for sides in zip(*parts, strict=True))
            return (if_true, None) if word == "and" else (None, if_false)
        at = next((place for place, token in enumerate(tokens) if token in ("==", "~=")), None)
        if at is None or words or "not" in tokens:
            return None, None
        sides = (" ".join(tokens[:at]), " ".join(tokens[at + 1 :]))
        left, right = (self.meaning.get(side, side) for side in sides)
        for read, told in ((left, right), (right, left)):
            got, argument = _READ.fullmatch(read), ARGUMENT.fullmatch(told)
            key = None if got is None else _KEY.fullmatch(self.meaning.get(got[1], got[1]))
            if key is not None and argument is not None and key[1].isdecimal():
                guard = int(key[1]), int(argument[1])
                return (guard, None) if tokens[at] == "==" else (None, guard)
        return None, None

    def _as_call(self, tokens: Sequence[str], new: frozenset[int]) -> int | None:
        """The call whose reply this expression is."""
        if len(tokens) == 1:
            return self.bound.get(tokens[0])
        if len(new) != 1 or tokens[0] not in ("redis", "server") or closing(tokens, 3) != len(tokens) - 1:
            return None
        return max(new)

    def _ruled_out(self, tokens: Sequence[str], new: frozenset[int]) -> tuple[frozenset[int], frozenset[int]]:
        """The call that certainly did nothing if the condition is true, and if it is false."""
        nothing = frozenset[int]()
        tokens, is_not = (tokens[1:], True) if tokens[:1] == ["not"] else (tokens, False)
        left, operator, right = tokens, "", ""
        if len(tokens) > 2 and tokens[-2] in ("==", "~="):
            left, operator, right = tokens[:-2], tokens[-2], tokens[-1]
        call = self._as_call(left, new) if left else None
        if call is None or self.calls[call].is_repeated or (is_not and operator):
            return nothing, nothing
        done = self.calls[call]
        if not operator or right == "false":
            refuses = done.changes(self.changes_of, "null") == NO_CHANGE
            if_true, if_false = False, refuses
            if is_not or operator == "==":
                if_true, if_false = refuses, False
        else:
            refuses = done.changes(self.changes_of, "0") == NO_CHANGE
            if_true, if_false = right == "0" and refuses, right == "1" and refuses and _is_one_or_none(done)
            if operator == "~=":
                if_true, if_false = if_false, if_true
        own = frozenset([call])
        return (own if if_true else nothing), (own if if_false else nothing)


def _is_one_or_none(call: Call) -> bool:
    """Whether the command has no other answers than 1 and 0."""
    single = ("SETNX", "MSETNX", "PERSIST", "EXPIRE", "PEXPIRE", "EXPIREAT", "PEXPIREAT", "HSETNX")
    return call.command in single or (call.command in ("DEL", "UNLINK") and len(call.words) == 1)
