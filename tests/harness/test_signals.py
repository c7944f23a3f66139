"""Whatever signal ends a run on processes, and whenever: five seconds later nothing of it is left."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from tests import signals


@pytest.mark.timeout(200)
@pytest.mark.needs("sandbox")
def test_a_signal_at_a_random_moment_leaves_nothing(tmp_path: Path) -> None:
    """One of each; `make signals` has more, and containers."""
    length_s, random = signals.length_s(tmp_path / "undisturbed", "process"), Random("signals")
    trials = [
        signals.strike(tmp_path / number.name, "process", number, random.uniform(0, length_s))
        for number in signals.SIGNALS
    ]
    assert [str(trial) for trial in trials if not trial.is_clean] == []
