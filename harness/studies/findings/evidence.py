"""What stands in the text of a published finding and is measured: its commands, how often each showed it, and with
which versions.

It is a block between two comments, drawn from the record of the replays. Beside it, a text has no figure that is not a
field of its data.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from fencepost.markdown import escaped, table
from fencepost.text import listed
from harness.campaign import facts
from harness.campaign.folder import Campaign
from harness.campaign.provenance import date_of, in_words
from harness.studies.findings.study import Replayed
from harness.studies.findings.table import RECOMMENDED

_BEGIN: Final = "<!-- from the record of the replays: make published -->"
_END: Final = "<!-- end -->"
EMPTY_BLOCK: Final = f"{_BEGIN}\n\nNo replay is on record.\n\n{_END}"


def block(found: Sequence[Replayed], campaign: Campaign, unmaintained: Sequence[str] = ()) -> str:
    """The measured part of one finding's text, between its two comments. `unmaintained`: the libraries among those that
    had no release for years, each with the month of its newest."""
    lines = [line for one in found for line in one.lines]
    if not lines:
        return EMPTY_BLOCK
    played = [one for one in found if one.lines]
    nemeses = [campaign.grid.cells[one.cell][1].options["nemesis"] for one in played]
    rows = [
        [escaped(one.lock), _settings(one), escaped(nemesis), one.said, escaped(_clearest(one))]
        for one, nemesis in zip(played, nemeses, strict=True)
    ]
    heads = ["lock", "settings", "fault", "shown in", "the clearest of these runs"]
    if len(set(nemeses)) == 1:
        heads, *rows = [[*row[:2], *row[3:]] for row in (heads, *rows)]
    commands = dict.fromkeys(facts.command(campaign.grid, one.cell, 1) for one in found if one.is_shown)
    servers = sorted({line.versions.get("servers", "") for line in lines} - {""})
    libraries = sorted({line.versions.get("lock libraries", "") for line in lines} - {""})
    revisions = Counter(line.revision for line in lines)
    dates = sorted({date_of(line.folder) for line in lines} - {""})
    made = f"{listed(libraries)} on {listed(servers)}; {listed(dates)}, revision {in_words(revisions)}."
    if unmaintained:
        made += f" Unmaintained: {listed(unmaintained)}."
    shown = [f"    {command}" for command in commands]
    return "\n".join(
        [
            _BEGIN, "", "**Repeat it**, with any seed:", "", *shown, "",
            *table(heads, rows), "",
            escaped(made), "", _END,
        ]
    )  # fmt: skip


def _settings(one: Replayed) -> str:
    """`tight: TTL 1 s`; `as documented: TTL 1 s (README, …)` where the library's documentation shows that, too."""
    known = RECOMMENDED.get(one.lock)
    return (
        f"{known.settings} ({known.place.replace('`', '')})" if known and known.ttl_ms == one.ttl_ms else one.settings
    )


def _clearest(one: Replayed) -> str:
    """What the judge said of the run with the most cases, in its own words."""
    said = [blamed for line in one.shown if line.figures for blamed in line.figures.blamed if blamed.kind == one.kind]
    return max(said, key=lambda blamed: blamed.count).text if said else ""


def with_block(text: str, measured: str) -> str:
    """The text with this block in the place of the one that it has. Raises ValueError if it has none."""
    before, begin, rest = text.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not begin or not end:
        raise ValueError("the text has no block for what is measured")
    return f"{before}{measured}{after}"
