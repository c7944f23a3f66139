"""The command line: `fencepost COMMAND`; `fencepost --help` lists the commands.

Exit codes: 0 valid, 1 violation, 2 unknown, 254 bad arguments or configuration, 255 the harness or its environment
failed, 130 after Ctrl-C where no run was under way, 141 if the output was closed. With `--expect violation` 0 means
that a violation was found.

A command is a module of this folder with a `COMMAND`. Only the one that was asked for is imported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Final

from fencepost.boundary import exit_code_of, say
from fencepost.command_line import HelpShown, Parser
from fencepost.errors import UsageError
from fencepost.meant import question
from harness.cli.command import Command

COMMANDS: Final[Mapping[str, str]] = {
    "test": "make a run and judge it",
    "compare": "make many runs over a grid of configurations, and a report",
    "survey": "play lock libraries under the same faults, and report which promises each one keeps",
    "mutants": "run broken versions of the reference lock until each is caught",
    "script": "play a scripted experiment",
    "claims": "put claims about locks on Redis to the test",
    "nightly": "play the standard faults on many locks, night after night",
    "study": "play a study of your own, defined in a Python file",
    "replay": "make a recorded run again",
    "shrink": "find the fewest and shortest faults that still show a run's violation",
    "analyze": "judge a recorded run again",
    "explain": "say how each violation happened",
    "list": "list recorded runs",
    "serve": "show recorded runs in a browser",
    "export": "write a recorded run in the format of another tool",
    "shell": "look into a live run: a shell where its servers can be reached",
    "setup": "install servers, the proxy and foreign locks",
    "doctor": "say what this machine can do, and how to fix what is missing",
    "clean": "remove resources left by crashed runs",
}
"""What each command does, in the order of `fencepost --help`."""
_ELSEWHERE: Final = {"run": "test", "start": "test", "install": "setup", "ls": "list", "show": "explain", "ui": "serve"}
"""What other programs call the same."""


def run(argv: Sequence[str]) -> int:
    """Parse, do, and return the exit code. Every error is one line on stderr."""
    return exit_code_of(lambda: _run(argv))


def _run(argv: Sequence[str]) -> int:
    try:
        name, words = _command_of(argv)
        call = find_command(name).call(name, words)
    except HelpShown:
        return 0
    return find_command(name).do(call)


def _command_of(argv: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The name of the command, and its words. Raises UsageError if there is none, and HelpShown."""
    name, words = (argv[0], argv[1:]) if argv else ("", ())
    if name == "help" and words:  # as git and others have it
        return words[0], ["--help"]
    if name == "--version":
        from importlib.metadata import version

        say(f"fencepost {version('fencepost')}\n")
        raise HelpShown
    if name in ("", "help", "-h", "--help"):
        _parser().print_help()
        if name:
            raise HelpShown
        raise UsageError("no command was given, so nothing was done; `fencepost test` makes a run")
    if name.startswith("-"):
        raise UsageError(f"{name} follows a command, as in `fencepost test {name}`; see `fencepost --help`")
    return name, words


def find_command(name: str) -> Command:
    """The command of this name. Raises UsageError if there is none."""
    if name not in COMMANDS:
        see = "see `fencepost --help`"
        if name in _ELSEWHERE:
            raise UsageError(f"command {name!r} is not known, did you mean {_ELSEWHERE[name]}?")
        raise UsageError(f"command {name!r} is not known{question(name, [*COMMANDS, '--version'], see)}")
    command: Command = import_module(f"harness.cli.{name}").COMMAND
    return command


def _parser() -> Parser:
    parser = Parser(
        prog="fencepost",
        usage="fencepost [--help | --version] COMMAND …",
        description="Finds out, by experiment on real Redis servers, whether a distributed lock keeps its promise.",
        epilog="`fencepost COMMAND --help` shows the options of a command.\n"
        "exit codes: 0 valid, 1 violation, 2 unknown, 254 bad arguments, 255 the harness or its environment failed,\n"
        "130 interrupted while no run was under way, 141 the output was closed",
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        commands.add_parser(name, help=text)
    return parser
