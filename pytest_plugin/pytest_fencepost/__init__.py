"""Locks under faults, as tests of pytest: the fixture `fencepost` (docs/pytest.md).

Clients of a run import this package too, so it imports nothing large.
"""

from pytest_fencepost.lease import Lease
from pytest_fencepost.result import Finding, Run

__all__ = ["Finding", "Lease", "Run"]
