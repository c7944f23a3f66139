"""Grants without a promised lease time: the lock is held until it is released, or until its session ends."""

from __future__ import annotations

import numpy as np
import pandas as pd

from harness.history.groups import Bools

_TOLD = ("validity_ms", "granted_ms", "deadline_ns")


def granted_open_ended(ops: pd.DataFrame) -> Bools:
    """Which rows are such grants."""
    is_grant: Bools = ((ops["f"] == "acquire") & (ops["outcome"] == "ok")).to_numpy(np.bool_)
    for told in _TOLD:
        if told in ops:
            is_grant = is_grant & ops[told].isna().to_numpy(np.bool_)
    return is_grant
