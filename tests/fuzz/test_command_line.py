from __future__ import annotations

from pathlib import Path

from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.options import Declared, declared
from harness.cli.main import COMMANDS, find_command
from harness.options import RunArguments, options_of
from tests.fuzz.command import fresh, fuzz, outcome
from tests.fuzz.hostile import NUMBERS, TEXTS

SAFE = sorted(COMMANDS.keys() - {"doctor", "clean"})
"""Doctor and clean take no arguments."""


def options(command: str) -> list[Declared]:
    found = find_command(command)
    own = declared(found.arguments)
    return [
        *own,
        *(options_of(command) if found.replaces else ()),
        *(declared(RunArguments) if command == "test" else ()),
    ]


@st.composite
def lines(draw: st.DrawFn) -> list[str]:
    command = draw(st.sampled_from(SAFE))
    words = [command]
    for _ in range(draw(st.integers(0, 4))):
        option = draw(st.sampled_from(options(command)))
        value = draw(values(option))
        words += (
            [value]
            if not option.flag.startswith("-")
            else [f"{option.flag}={value}"]
            if option.takes_value
            else [option.flag]
        )
    if draw(st.integers(0, 5)) == 0:
        words += [draw(TEXTS)]
    if draw(st.integers(0, 5)) == 0:
        words += ["--", *draw(st.lists(TEXTS, max_size=2))]
    return words


def values(option: Declared) -> st.SearchStrategy[str]:
    has_default = option.takes_value and isinstance(option.default, str | int | float)
    usual = [option.text(option.default)] if has_default else []
    known = [*option.choices, *usual, "redlock", "partition", "latest", "1", "2s", "a=b", "lock=redlock,pottery"]
    return st.one_of(st.sampled_from(known), TEXTS, NUMBERS.map(_number))


def _number(value: float) -> str:
    return str(value) if isinstance(value, float) or abs(value) < 10**4_000 else "1" + "0" * 5_000


@fuzz(80)
@given(lines())
@example(["test", "--seed", "1" + "0" * 400])
@example(["test", "--seed", "1" + "0" * 5_000])
@example(["analyze", "x" * 5_000])
@example(["analyze", "x" * 256])
@example(["analyze", "\x00"])
@example(["analyze", "\udcff"])
@example(["list", "--results", "/proc/self/mem"])
@example(["list", "--results", "/root/" + "x/" * 3_000])
@example(["test", "--results", "/dev/null/x", "--lock", "redlock", "--cluster", "process"])
@example(["compare", "--grid", "x" * 5_000])
@example(["compare", "--grid", "/dev/zero"])
@example(["compare", "--axis", "nemesis=\x1b[2J"])
@example(["script", "x" * 5_000 + ".py"])
@example(["script", "/dev/zero.py"])
@example(["test", "--schedule", "/dev/zero"])
@example(["test", "--schedule", "x" * 5_000])
@example(["test", "--server", "~nobody-of-this-name/redis"])
@example(["test", "--server", "x" * 5_000])
@example(["test", "--server", "/"])
@example(["test", "--lock", "x" * 5_000])
@example(["test", "--lock", ":"])
@example(["test", "--lock", "a:b:c"])
@example(["test", "--lock", "..:x"])
@example(["test", "--lock-command", "'"])
@example(["test", "--lock-command", "x" * 5_000])
@example(["test", "--nemesis", "+" * 1_000])
@example(["test", "--nemesis", "partition:interval=1e400s"])
@example(["\x1b[2J"])
@example(["x" * 5_000])
def test_any_command_line_ends_with_a_documented_code_and_one_line(tmp_path: Path, words: list[str]) -> None:
    outcome(*words, folder=fresh(tmp_path))
