"""fencepost and the plain judge agree on who set each key, and which request changed it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from fencepost.history import LOCK_STEPS
from harness.checkers import ownership
from harness.history import ledger
from harness.history.calls import Calls
from harness.history.change_causes import find_causes
from tests.judge.histories import History
from tests.judge.test_ownership import deletes, during, extending, inside, overwrites, prolongs
from tests.peers.comparison import as_read, by_the_plain_judge, by_the_product, in_one_form, plainly
from tests.peers.plain_judge.verdict import judge_record
from tests.peers.random_links import draw
from tests.peers.recorded import WITH_LINKS, names, unpack

DRAWN = 60
PROLONGED_UNSEEN = 139
"""A client prolongs what another one had set while the node was out of sight: it is not its own."""


def both(history: History) -> tuple[dict[str, Any], dict[str, Any]]:
    history.config = replace(history.config, require="lease")
    return in_one_form(history.recorded()), plainly(judge_record(as_read(history)))


@pytest.mark.parametrize("how", [deletes, prolongs, overwrites])
@pytest.mark.parametrize("outcome", ["ok", "fail"])
@pytest.mark.parametrize("f", LOCK_STEPS[:3])
def test_the_judges_agree_on_a_request_that_changes_another_clients_key(f: str, outcome: str, how: Any) -> None:
    for owned in (inside(), inside(until=550), inside(outcome="fail"), inside(ttl=None)):
        ours, plain = both(how(during(f, owned, outcome)))
        assert ours == plain
    ours, plain = both(how(extending(inside())))
    assert ours == plain
    assert plain["anothers_keys"]


@pytest.mark.parametrize("seed", [*range(DRAWN), PROLONGED_UNSEEN])
def test_the_judges_agree_on_a_drawn_history_of_requests(seed: int) -> None:
    ours, plain = both(draw(seed))
    assert ours == plain


def test_the_drawn_histories_show_every_kind_of_finding() -> None:
    found: Counter[str] = Counter()
    for seed in range(DRAWN):
        judged = judge_record(as_read(draw(seed)))
        found.update({breaks: len(keys) for breaks, keys in judged.anothers_keys.items()})
        found.update(judged.orphans | judged.not_backed | {"without": judged.changes_without_request})
    wanted = ("lease", "liveness", "without", "lock", "not released", "given up", "set too late")
    assert all(found[kind] for kind in wanted), found


def own_keys_too(request: Any, holder: Any) -> bool:
    return bool(request["by"] != "client")


def the_call_before(calls: Calls, own: Any, sent_ns: Any) -> Any:
    return BEGUN(calls, own, sent_ns - 10_000_000)


def without_a_cause(changes: Any, wire: Any) -> Any:
    causes = FIND_CAUSES(changes, wire)
    causes.connection[::10] = -1
    return causes


BEGUN, FIND_CAUSES = Calls._begun, find_causes
BREAKS = [
    (ownership, "_is_of", own_keys_too),
    (Calls, "_begun", the_call_before),
    (ledger, "find_causes", without_a_cause),
    (ownership, "_only_keeps", lambda change, single: False),
]


@pytest.mark.parametrize(("part", "name", "wrong"), BREAKS, ids=[name for _, name, _ in BREAKS])
def test_a_bug_of_fencepost_shows(monkeypatch: pytest.MonkeyPatch, part: Any, name: str, wrong: Any) -> None:
    monkeypatch.setattr(part, name, wrong)
    assert any(ours != plain for ours, plain in map(both, map(draw, range(DRAWN))))


@pytest.mark.parametrize("name", names(WITH_LINKS))
def test_the_judges_agree_on_a_run_with_a_record_of_its_links(tmp_path: Path, name: str) -> None:
    run = unpack(tmp_path, WITH_LINKS) / name
    ours, plain = by_the_product(run), by_the_plain_judge(run)
    assert ours == plain
    assert plain["changes"] > 500
    assert bool(plain["anothers_keys"]) is (name == "release-without-comparing")
