"""The search for a smaller schedule: from bold guesses to small steps, each decided by `Trials`.

It follows what is known about shrinking. A good first guess saves most of the work (Hypothesis tries the simplest input
first). Remove what came after the failure before what came before it (shrinkers of command sequences). Remove whole
chunks before single things (delta debugging). Because failures come by chance here, a step may be accepted by luck: so
the result is run once more at the end, and if it fails, the search returns to a larger schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from fencepost.errors import FencepostError
from harness.replay.violation import Moment
from harness.shrink.ddmin import ddmin, least
from harness.shrink.edits import (
    FaultNames,
    hitting,
    only,
    shortened,
    squeezed,
    stretches,
    targets,
    until,
    window,
)
from harness.shrink.trials import EnoughError, Reason, Tally, Trials
from nemesis.schedule import Schedule

T = TypeVar("T")

LEAD_MS: Final = 400
"""How long clients work before the first fault."""
_TAIL_MS: Final = 1_000
"""How much later than recorded a violation may come in a replay; at least a TTL."""
_STEP_MS: Final = 50
"""Times are found to within this."""
_LOAD_MS: Final = 200
"""The shortest load."""
_LOOK_BACK_TTLS: Final = (1, 4)
_MOST_GUESSES: Final = 3
_LONGEST_STRETCHES_TTLS: Final = (0.25, 1.5, 3.0)


@dataclass(frozen=True, slots=True)
class Smallest:
    """The result of the search. `schedule`: the smallest one, None if not even the whole schedule showed the violation.
    `confirmed`: how often the confirmation runs showed it, None if there were none. `ended`: why the search stopped
    early, None if it found nothing smaller."""

    schedule: Schedule | None
    confirmed: Tally | None
    ended: Reason | None


def search(whole: Schedule, moments: Sequence[Moment], trials: Trials) -> Smallest:
    """Find a smaller schedule that shows the violation. `moments`: when the recorded violations happened, if known.

    If runs start to fail, returns the best so far; raises FencepostError if there is none."""
    ended: Reason | None = None
    try:
        if not _comes_again(whole, moments, trials):
            return Smallest(None, None, None)
        _shrink(trials)
    except EnoughError as enough:
        ended = enough.reason
    except FencepostError:
        if trials.best is None:
            raise
        ended = "broken"
    if ended in ("interrupted", "broken") or trials.best is None:
        return Smallest(trials.best, None, ended)
    return _confirmed(trials, ended)


def _comes_again(whole: Schedule, moments: Sequence[Moment], trials: Trials) -> bool:
    """Whether the violation comes again at all; then tries whether the faults around it are enough."""
    tail_ms = max(_TAIL_MS, whole.topology.ttl_ms)
    trials.step = "the whole schedule"
    cut = until(whole, round(moments[0].to_ms) + tail_ms) if moments else whole
    if not trials.shows(cut) and not (cut != whole and trials.shows(whole)):
        return False
    trials.step = "faults near the violation"
    moments = sorted({*moments[:_MOST_GUESSES], *trials.moments[:1]}, key=lambda moment: moment.to_ms)
    for guess in _guesses(whole, moments, tail_ms):
        if len(guess.faults) < len(_best(trials).faults) and trials.shows(guess):
            break
    return True


def _guesses(whole: Schedule, moments: Sequence[Moment], tail_ms: int) -> Iterator[Schedule]:
    """The faults that were active or just healed around each moment; then those of a longer time before it."""
    for ttls in _LOOK_BACK_TTLS:
        for moment in moments:
            back_ms = round(ttls * whole.topology.ttl_ms)
            since_ms = round(moment.from_ms) - back_ms
            near = [p.at_ms for p in whole.faults if p.end_ms >= since_ms and p.at_ms <= moment.to_ms]
            from_ms = max(min([*near, since_ms]), since_ms - 4 * back_ms, 0)
            yield window(whole, from_ms, round(moment.to_ms) + tail_ms, LEAD_MS)


def _shrink(trials: Trials) -> None:
    """Make the best schedule smaller in every way, again and again, until nothing helps."""
    while True:
        before = trials.best
        trials.step = "fewer faults"
        ids = [planned.id for planned in _best(trials).faults]
        ddmin(ids, _shows(trials, partial(only, _best(trials))))
        trials.step = "less time"
        _squeeze(trials)
        _shorten(trials)
        trials.step = "fewer targets"
        _spare(trials)
        if trials.best == before:
            return


def _shows(trials: Trials, edited: Callable[[T], Schedule]) -> Callable[[T], bool]:
    """Whether the schedule, edited so, shows the violation."""
    return lambda how: trials.shows(edited(how))


def _squeeze(trials: Trials) -> None:
    """Shorten all stretches of time together."""
    best = _best(trials)
    for ttls in _LONGEST_STRETCHES_TTLS:
        shorter = squeezed(best, max(_STEP_MS, round(ttls * best.topology.ttl_ms)))
        if shorter.duration_ms <= best.duration_ms - _STEP_MS and trials.shows(_long_enough(shorter)):
            return


def _shorten(trials: Trials) -> None:
    """Shorten the stretches of time one by one, the longest first."""
    done: set[int] = set()
    while left := [(s.ms, -i) for i, s in enumerate(stretches(_best(trials))) if i not in done]:
        index = -max(left)[1]
        done.add(index)
        best = _best(trials)
        stretch = stretches(best)[index]
        shortest_ms = LEAD_MS // 2 if index == 0 or stretch.last else _STEP_MS
        shortest_ms = max(shortest_ms, _LOAD_MS - (best.duration_ms - stretch.ms))
        if stretch.ms - shortest_ms >= _STEP_MS:
            least(shortest_ms, stretch.ms, _STEP_MS, _shows(trials, partial(shortened, best, stretch)))


def _spare(trials: Trials) -> None:
    """Reduce the nodes, clients and links of each fault."""
    for whom in tuple(targets(_best(trials))):
        ddmin(whom.names, partial(_shows_hitting, trials, _best(trials), whom))


def _shows_hitting(trials: Trials, schedule: Schedule, whom: FaultNames, names: Sequence[str]) -> bool:
    return bool(names) and trials.shows(hitting(schedule, whom, names))


def _long_enough(schedule: Schedule) -> Schedule:
    """The schedule with at least the shortest load."""
    last = stretches(schedule)[-1]
    return schedule if schedule.duration_ms >= _LOAD_MS else shortened(schedule, last, last.ms + _LOAD_MS)


def _confirmed(trials: Trials, ended: Reason | None) -> Smallest:
    """The best schedule that also shows when it is run again from scratch. If the last one does not, an earlier one is
    tried, twice as far back each time."""
    trials.step = "confirmation"
    kept = list(trials.kept)
    back = 1
    tally = None
    try:
        while True:
            tally = trials.confirm(kept[-1])
            if tally.seen >= trials.needed or len(kept) == 1:
                return Smallest(kept[-1], tally, ended)
            kept = kept[: max(1, len(kept) - back)]
            back *= 2
            tally = None
    except EnoughError as enough:
        return Smallest(kept[-1], tally, enough.reason)
    except FencepostError:
        return Smallest(kept[-1], tally, "broken")


def _best(trials: Trials) -> Schedule:
    assert trials.best is not None
    return trials.best
