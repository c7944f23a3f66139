"""docs/options.md: the table of all options of a run, made from their declarations.

`python -m harness.cli.reference > docs/options.md` rewrites it; a test compares the two.
"""

from __future__ import annotations

import sys
from itertools import groupby

from fencepost.command_line import metavar
from fencepost.options import Declared, declared
from harness.options import RunArguments

_HEAD = """# Options

All options of `fencepost test`, made from their declarations by `python -m harness.cli.reference`. The last column
names other commands that take the option, where it replaces what the recorded run or the experiment has. (Those about
the result are in most commands; see their `--help`.) Every option except `--seed`, `--limit`, `--expect`, `--results`
and `--json` can be an axis of `fencepost compare`, and can follow its `--`.

A time is a number with a unit: `us`, `ms`, `s`, `m` or `h`; for faults also `ttl`. A number without a unit is refused;
only `0` needs none.
"""


def render() -> str:
    """The page, in Markdown."""
    lines = [_HEAD]
    for group, options in groupby(declared(RunArguments), key=lambda each: each.option.group):
        lines += [
            f"## {group[0].upper()}{group[1:]}\n",
            "| option | meaning | default | range | other commands |",
            "|---|---|---|---|---|",
            *(_row(each) for each in options),
            "",
        ]
    return "\n".join(lines)


def _row(each: Declared) -> str:
    flag = f"{each.flag} {metavar(each)}" if each.takes_value else each.flag
    commands = ", ".join(command for command in each.option.commands if command != "compare")
    default = each.shown_default
    cells = (f"`{flag}`", each.option.help, f"`{default}`" if default else "", each.range, commands)
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    sys.stdout.write(render())
