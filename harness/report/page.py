"""`report.html`: one self-contained file that shows a run to readers who do not know the project."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
from markupsafe import Markup

from fencepost.files import write_whole
from fencepost.text import MISSING, count, printable
from harness.checkers.consequences import one_by_one
from harness.explain.explanation import Explanation, clearest_of
from harness.history.fault_windows import Window, windows
from harness.history.recorded import Recorded
from harness.report import charts, checker_output, run_description
from harness.report.explanations import NO_PICTURES, explanations_of, lines
from harness.report.html import render, script_json
from harness.report.judged import Judged
from harness.report.space_time_svg import svg_picture
from harness.report.timeline import MOST_OVERLAPS, timeline
from harness.report.timeline_findings import EXAMPLES
from harness.report.timeline_requests import moments_of, timeline_requests
from harness.report.wording import blame, example, headline, limit_lines, meetings_in, promise_outcomes
from harness.verdict import Finding, hidden

_COSTS: Final = 4
_GROUPS: Final = ("experiment", "cluster", "lock", "manifest", "servers", "packages")


def write_page(judged: Judged, path: Path) -> None:
    """Write the page to `path`; a reader sees the old one or the new one, never half of it. Raises OSError."""
    write_whole(path, render_page(judged))


def render_page(judged: Judged) -> str:
    """The page as one string of HTML."""
    recorded, verdict, environment, album = judged.recorded, judged.verdict, judged.environment, judged.album
    faults = windows(recorded.faults)
    word, says = headline(verdict, judged.explained)
    meetings = meetings_in(verdict)
    causes = one_by_one(verdict, judged.explained)
    in_order = [(each, cause) for cause, consequences in causes for each in (cause, *consequences)]
    holdings = None if recorded.owners is None else recorded.owners.holdings
    data = timeline(recorded, faults, [(each, blame(each.blame)) for each, _ in in_order], holdings)
    if album is not None:
        data["requests"] = timeline_requests(
            album.requests, charts.span_ns(recorded)[0], data["end"], data["clients"], data["nodes"], moments_of(data)
        )
    drawn, moments = data["overlaps"], data.get("moments", [])
    findings = [_finding(each, cause, judged) for each, cause in in_order]
    for number, finding in enumerate(findings):
        _point(finding, [place for place, moment in enumerate(moments) if moment[0] == number])
    all_tiles = run_description.tiles(verdict, environment)
    head = findings[0] if findings else None
    has_story = head is not None and bool(head["picture"] or head["clearest"]["details"])
    return render(
        "page.html.j2",
        data=script_json(data),
        title=run_description.title(recorded),
        facts=run_description.run_facts(recorded, environment),
        story=run_description.story(recorded, environment),
        word=word,
        says=says,
        hides=bool(hidden(verdict.findings, verdict.require)),
        blame_line=meetings.blame_line if meetings else None,
        verdict=verdict,
        tiles=all_tiles,
        cost=sorted(all_tiles, key=lambda tile: not tile.tone)[:_COSTS],
        promises=promise_outcomes(verdict),
        limits=list(limit_lines(verdict)),
        head=head,
        has_story=has_story,
        most_examples=EXAMPLES,
        link=causes[0].link if causes else None,
        led_to=findings[1 : 1 + len(causes[0].consequences)] if causes else [],
        kept=_kept(data.get("requests")),
        capped=count(MOST_OVERLAPS) if isinstance(drawn, list) and len(drawn) >= MOST_OVERLAPS else None,
        findings=findings,
        no_pictures=NO_PICTURES if album is not None and judged.explained and not album.has_requests else None,
        throughput=charts.throughput(recorded, faults, width=1184 if has_story else 620),
        waiting=_waiting(recorded),
        acquiring=_acquiring(recorded),
        faults=[_fault_row(w, recorded) for w in faults],
        fault_counts=[row.text for row in checker_output.rows(verdict) if row.is_input],
        parts=checker_output.parts(verdict),
        replay=printable(judged.replay) or None,
        config_rows=_rows(msgspec.to_builtins(recorded.config)),
        environment_groups=_groups(environment),
    )


def _kept(requests: Mapping[str, Any] | None) -> str | None:
    """How many requests the page has, if these are not all."""
    if requests is None or len(requests["step"]) >= requests["total"]:
        return None
    return f"{count(len(requests['step']))} of {count(requests['total'])}"


def _finding(finding: Finding, cause: Finding, judged: Judged) -> dict[str, Any]:
    """`cause`: the finding that it follows from; itself if it follows from none."""
    run, require, explained, album = judged.recorded, judged.verdict.require, judged.explained, judged.album
    follows = "" if finding is cause else f" · follows from: {printable(cause.kind.replace('-', ' '))}"
    decides = finding.decides(require)
    breaks = f"breaks --require {require}" if decides else "does not decide the verdict"
    shown = finding.examples[:EXAMPLES]
    explanations = explanations_of(finding, explained)
    picture = album.picture(explanations[0]) if album is not None and explanations else None
    return {
        "picture": None if picture is None else svg_picture(picture),
        "blame": finding.blame,
        "text": printable(finding.text),
        "blamed": blame(finding.blame),
        "who": f"{blame(finding.blame).capitalize()} · {finding.count:,} × {finding.kind} · {breaks}{follows}",
        "examples": [
            {"text": example(e), "is_timed": e.get("at_ms") is not None, "moment": None, **_why(run, why)}
            for e, why in zip_longest(shown, explanations[: len(shown)])
        ],
        "moment": None,
        "clearest": _why(run, clearest_of(finding, explained)),
    }


def _point(finding: dict[str, Any], moments: Sequence[int]) -> None:
    """Give a finding and its examples their places among the moments of the timeline."""
    if not moments:
        return
    finding["moment"] = moments[0]
    timed = [each for each in finding["examples"] if each["is_timed"]]
    for each, moment in zip(timed, moments, strict=False):
        each["moment"] = moment


def _why(run: Recorded, explanation: Explanation | None) -> dict[str, object]:
    """How an example came about; nothing where that was not looked into."""
    if explanation is None:
        return {"sentence": "", "details": ""}
    sentence = f"{explanation.sentence} {explanation.because}".strip()
    return {"sentence": printable(sentence), "details": "\n".join(map(printable, lines(run, explanation)))}


def _fault_row(window: Window, run: Recorded) -> dict[str, str]:
    def at(at_ns: int) -> str:
        return f"{(at_ns - run.timeline.start_ns) / 1e9:.3f} s"

    seen = printable(window.event.seen)
    healed = printable(window.seen_healed or "")
    if window.gone is None:
        healed = "it did not end" if window.event.unplanned else "no healing was recorded"
    elif not window.gone:
        healed = f"STILL THERE: {healed}"
    return {
        "nemesis": printable(window.event.nemesis),
        "what": printable(window.event.what),
        "begin": at(window.from_ns),
        "end": at(window.to_ns) if window.to_ns is not None else MISSING,
        "seen": seen if window.took else f"DID NOT TAKE: {seen}",
        "healed": healed,
    }


def _waiting(run: Recorded) -> Markup | None:
    if run.sections.empty:
        return None
    waits = (run.sections["start_ns"] - run.sections["asked_ns"]).to_numpy(dtype=np.float64) / 1e6
    return charts.distribution(waits, "Distribution of waiting times")


def _acquiring(run: Recorded) -> Markup | None:
    if run.ops.empty:
        return None
    granted = run.ops[(run.ops["f"] == "acquire") & (run.ops["outcome"] == "ok")]
    took = (granted["complete_ns"] - granted["invoke_ns"]).to_numpy(dtype=np.float64) / 1e6
    return charts.distribution(took, "Distribution of the duration of granted acquire calls")


def _groups(environment: Mapping[str, object]) -> list[tuple[str, list[tuple[str, str]]]]:
    """The environment in parts: what is a mapping of some size for itself, the rest under "machine"."""
    groups = [
        (name, _servers(value) if name == "servers" else _rows(value))
        for name in _GROUPS
        if isinstance(value := environment.get(name), Mapping) and value
    ]
    rest = {name: value for name, value in environment.items() if name not in dict(groups)}
    return ([("machine", _rows(rest))] if rest else []) + groups


def _servers(servers: Mapping[str, object]) -> list[tuple[str, str]]:
    """One row an option of the servers' configuration: what most of them have, then who differs."""
    configs = {name: config for name, config in servers.items() if isinstance(config, Mapping)}
    rows = []
    for option in sorted({str(option) for config in configs.values() for option in config}):
        values = {name: str(config.get(option, MISSING)) for name, config in configs.items()}
        common, alike = Counter(values.values()).most_common(1)[0]
        others = ", ".join(f"{name} {value or '(empty)'}" for name, value in values.items() if value != common)
        if alike == 1 < len(values):
            rows.append((option, ", ".join(f"{name} {value}" for name, value in values.items())))
        else:
            rows.append((option, f"{common} (but {others})" if others else common))
    return [(printable(option), printable(text)) for option, text in rows]


def _rows(values: object, prefix: str = "") -> list[tuple[str, str]]:
    """A tree as rows of a dotted name and a text."""
    if isinstance(values, Mapping):
        return [
            row for name, value in values.items() for row in _rows(value, f"{prefix}.{name}" if prefix else str(name))
        ]
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        values = ", ".join(str(v) for v in values)
    return [(printable(prefix), printable(MISSING if values is None else str(values)))]
