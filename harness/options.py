"""What `fencepost test` is told: from words to a run, and from a run to the words that make it again."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import SystemRandom
from typing import Annotated, Any, Literal

import msgspec

from cluster.upstream import shown, upstreams_in
from fencepost.command_line import Parser, add_options, values_of
from fencepost.errors import UsageError
from fencepost.extensions import VARIABLE, extension_folders
from fencepost.meant import meant
from fencepost.options import Declared, Option, declared, fields_of, words_of
from fencepost.units import Duration
from harness.config import RESULTS, RunConfig, Seed

Results = Annotated[Path, Option("--results", "folder of run folders", "the result", "DIR", commands=())]
Expected = Annotated[
    Literal["valid", "violation"],
    Option("--expect", "the outcome that gives exit code 0", "the result", commands=()),
]
JsonFile = Annotated[
    Path | None,
    Option(
        "--json",
        "also write the result to this file, for programs (docs/result.md); - is standard output, and all else goes to "
        "standard error",
        "the result",
        "FILE",
        commands=(),
    ),
]


Verbose = Annotated[
    bool,
    Option("-v", "all figures and findings: more than 25 lines", "the result", instead_of="quiet", commands=()),
]
Quiet = Annotated[bool, Option("--quiet", "only the verdict, and where the run is", "the result", commands=())]


class RunArguments(RunConfig, frozen=True, kw_only=True):
    """All options of `fencepost test`: those of the run, and what else the command is told."""

    restart_delay: Annotated[
        str | None,
        Option(
            "--restart-delay",
            "how long nodes that the nemesis took down stay down: 0, 500ms, 1.2ttl",
            "faults",
            "TIME",
            shown_default="1.2ttl; hunt: 0",
        ),
    ] = None
    seed: Seed = msgspec.field(default_factory=partial(SystemRandom().randrange, 10**6))
    expect: Expected = "valid"
    results: Results = RESULTS
    json: JsonFile = None
    quiet: Quiet = False
    verbose: Verbose = False


def options_of(command: str) -> tuple[Declared, ...]:
    """The options of `fencepost test` that another command has too."""
    return tuple(each for each in declared(RunArguments) if command in each.option.commands)


def axis_named(name: str, command: str = "test") -> Declared:
    """The option of a campaign's runs that it calls by this name: the flag without its dashes, or enough of its
    beginning. `command`: what makes the runs, `test` or `script`. Raises UsageError if there is none, or if the
    campaign itself decides it."""
    options = {each.name: each for each in declared(RunArguments)}
    found = [name] if name in options else [each for each in options if each.startswith(name)]
    if len(found) != 1:
        near = ", ".join(found) or meant(name, options)
        said = f", did you mean {near}?" if near else ";"
        raise UsageError(f"{name!r} is not an option of `fencepost test`{said} see `fencepost test --help`")
    commands = options[found[0]].option.commands
    if "compare" not in commands:
        raise UsageError(f"--{found[0]} belongs to the campaign; it cannot be an option of its runs")
    if command != "test" and command not in commands:
        raise UsageError(f"--{found[0]} is no option of `fencepost {command}`; see `fencepost {command} --help`")
    return options[found[0]]


def config_from(arguments: RunArguments, given: Collection[str]) -> RunConfig:
    """The run that the arguments ask for. `given`: the fields that the user named. Raises UsageError."""
    from harness.habits import with_habits
    from harness.loads import with_loads
    from harness.lock_choices import with_lock_choices

    config = RunConfig(**fields_of(arguments, RunConfig))
    if config.nodes_at is not None:  # what is kept of a run has no passwords
        config = msgspec.structs.replace(config, nodes_at=shown(upstreams_in(config.nodes_at, config.nodes_ca)))
    config.check()
    config = with_lock_choices(config, given)
    if arguments.restart_delay is not None:
        config = msgspec.structs.replace(config, nemesis=_delayed(arguments, arguments.restart_delay.strip()))
    return with_loads(with_habits(config, given), given)


def parse_run(words: Sequence[str]) -> RunConfig:
    """The run that these arguments of `fencepost test` ask for. Raises UsageError."""
    given = _parsed("test", words, declared(RunArguments))
    return config_from(RunArguments(**given), given)


def parse_replacements(command: str, words: Sequence[str]) -> dict[str, Any]:
    """What these arguments of another command replace in the configuration of its run, by field. Raises UsageError."""
    return _parsed(command, words, options_of(command))


def _parsed(command: str, words: Sequence[str], options: Collection[Declared]) -> dict[str, Any]:
    parser = Parser(prog=f"fencepost {command}")
    add_options(parser, options)
    return values_of(parser.read(words), options)


def replay_command(config: RunConfig, schedule: Path, experiment: Mapping[str, Any] | None = None) -> str:
    """The command that makes this run again: the same schedule, the same seed for everything else; or the same
    `experiment`, as its run folder describes it, with what differs from the experiment's own settings."""
    if experiment is not None:
        own = msgspec.convert({"seed": 0} | experiment.get("settings", {}), RunConfig)
        return _command(["script", str(experiment["target"])], config, own, options_of("script"))
    from harness.loads import kept_defaults

    replayed = [each for each in declared(RunConfig) if each.option.replayed]
    if config.lock_command is not None:  # in its place a lock may have been named, which nothing asked
        replayed = [each for each in replayed if each.field != "lock"]
    kept = set(kept_defaults(config))
    named = [word for each in replayed if each.field in kept for word in each.words(each.default)]
    return _command(["test", *named], msgspec.structs.replace(config, schedule=str(schedule)), None, replayed)


def program() -> list[str]:
    """How the user calls fencepost, in words: by its name if that is on PATH, else by the path that was used now; with
    the folders of extensions, which locks and faults may come from."""
    folders = os.pathsep.join(map(str, extension_folders()))
    extensions = ["env", f"{VARIABLE}={folders}"] if folders else []
    called = Path(sys.argv[0])
    if not shutil.which("fencepost"):
        if called.parts[-2:] == ("fencepost", "__main__.py"):
            return [*extensions, sys.executable, "-m", "fencepost"]
        if called.name == "fencepost":
            return [*extensions, os.path.relpath(called)]
    return [*extensions, "fencepost"]


def _command(words: list[str], config: RunConfig, usual: RunConfig | None, options: Collection[Declared]) -> str:
    return shlex.join([*program(), *words, *words_of(config, options, usual)])


def _delayed(arguments: RunArguments, delay: str) -> str:
    """The spec of the nemeses with `--restart-delay` written into it."""
    from nemesis.spec import with_option

    if arguments.schedule is not None:
        raise UsageError("--restart-delay cannot change a saved schedule; edit its duration_ms, or draw a new one")
    try:
        Duration.parse(delay)
    except UsageError as error:
        raise UsageError(f"--restart-delay: {error}") from None
    return with_option(arguments.nemesis, "restart-delay", delay)
