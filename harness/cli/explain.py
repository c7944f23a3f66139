"""`fencepost explain`: how each violation of a recorded run happened."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from fencepost.errors import UsageError
from fencepost.files import kind_of, on_disk, write_whole
from fencepost.options import Option
from harness.cli.command import ARecordedRun, Call, Command
from harness.config import RESULTS

if TYPE_CHECKING:
    from harness.explain.explanation import Explained
    from harness.explain.space_time import Album


class Arguments(msgspec.Struct, frozen=True, kw_only=True):
    run: ARecordedRun = RESULTS / "latest"
    limit: Annotated[int, Option("--limit", "how many of each kind", low=1)] = 3
    kind: Annotated[
        str | None, Option("--kind", "only findings of this kind, like overlap", metavar="NAME", shown_default="all")
    ] = None
    svg: Annotated[
        Path | None,
        Option("--svg", "write the space-time diagram of the first finding to this file", metavar="FILE"),
    ] = None


def _explain(call: Call) -> int:
    from harness.checkers.explained import explain
    from harness.checkers.judge import judge, recorded_verdict
    from harness.explain.space_time import Album
    from harness.report.explanations import render_explained
    from harness.store.run_folder import RunFolder
    from harness.store.tables import load_recorded

    arguments: Arguments = call.arguments
    folder = RunFolder.open(arguments.run)
    run = load_recorded(folder)
    verdict = judge(run)
    try:
        recorded_verdict(folder)
    except UsageError as unfit:
        call.out.print(f"{unfit}; what follows is from the record", soft_wrap=True)
    explained = explain(run, verdict, arguments.limit)
    if arguments.kind is not None:
        explained = tuple(one for one in explained if one.finding.kind == arguments.kind)
        if not explained:
            kinds = ", ".join(dict.fromkeys(finding.kind for finding in verdict.findings)) or "none"
            raise UsageError(f"no finding is of the kind {arguments.kind}; the kinds here: {kinds}")
    album = Album(run, folder)
    if arguments.svg is not None:
        _write_svg(arguments.svg, album, explained)
    call.out.print(render_explained(run, verdict, explained, album))
    return 0


def _write_svg(path: Path, album: Album, explained: Sequence[Explained]) -> None:
    """Raises UsageError if there is no diagram, or for a path that no file can have."""
    from harness.report.space_time_svg import svg_file

    if kind_of(path.parent) != "folder" or kind_of(path) not in ("file", None):
        raise UsageError(f"--svg {path}: there is no such folder, or something else is there")
    firsts = (one.explanations[0] for one in explained if one.explanations)
    picture = next((drawn for first in firsts if (drawn := album.picture(first)) is not None), None)
    if picture is None:
        why = "no finding names a key and a time" if album.has_requests else "its requests are not on record"
        raise UsageError(f"--svg {path}: this run has no space-time diagram: {why}")
    with on_disk(path):
        write_whole(path, svg_file(picture))


COMMAND = Command(
    description="""
Say how each violation of a recorded run happened. Of each kind of finding, the first few and the longest one are shown:
a sentence that explains it, the two sections, the lease that the lock reported to each client, the reply of each node
and the changes on it in between, and the faults in force. The first of each kind has a space-time diagram, too: clients
and nodes are lines, time runs downwards, and requests are arrows. Gives no verdict.""",
    arguments=Arguments,
    do=_explain,
    epilog="""The replies of the nodes come from the record of the links. Where it has gaps, the sentence says so.
See docs/explain.md.
examples:
  fencepost explain latest
  fencepost explain latest --kind overlap --svg overlap.svg    (for a report in Markdown: ![how](overlap.svg))

exit codes: 0, also if there is nothing to explain; 254 bad arguments or a damaged folder
""",
)
