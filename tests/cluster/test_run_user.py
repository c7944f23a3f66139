"""As whom servers work: as another user only where root can become one."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.harness.runs import ROOT

NEEDED = ("chown", "dac_override", "kill", "setgid", "setuid")


def owner_of_run(capabilities: str) -> int:
    """The number of the user that a run's servers would work as, if root had these capabilities."""
    code = "from cluster.run_user import Owner; print(Owner.of_run().uid)"
    words = ["setpriv", "--inh-caps=-all", f"--bounding-set={capabilities}", sys.executable, "-c", code]
    return int(subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout)


@pytest.mark.needs("root")
@pytest.mark.parametrize("capabilities", ["+all", f"-all,+{',+'.join(NEEDED)}"])
def test_root_has_servers_work_as_a_user_that_no_system_has(capabilities: str) -> None:
    assert owner_of_run(capabilities) > 1_000_000_000


@pytest.mark.needs("root")
@pytest.mark.parametrize("capabilities", ["-all", *(f"+all,-{name}" for name in NEEDED)])
def test_without_one_of_these_capabilities_servers_stay_root(capabilities: str) -> None:
    assert owner_of_run(capabilities) == 0
