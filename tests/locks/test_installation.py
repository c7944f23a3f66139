"""`fencepost setup`: foreign locks are installed when they are asked for, once, whole, and again after a change.

The locks here are in a toy language, from `tests/toys/`, whose installation is a shell script: nothing is downloaded.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from cluster.polling import becomes_true
from fencepost.extensions import VARIABLE
from tests.harness import runs
from tests.wheels import UV_FOLDER

TOYS = Path(__file__).parent.parent / "toys"
MANIFEST = """
language = "shell"
library = "toy 1.0"
summary = "a toy"
adapter = "adapter.sh"
packages = "install.sh"
"""


class Workbench:
    """A folder with one lock, an empty tools folder, and `fencepost setup`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.tools = folder / "tools"
        self.installed = self.tools / "foreign" / "toy"
        self.lock = folder / "extension" / "workloads" / "locks" / "foreign" / "toy"
        self.lock.mkdir(parents=True)
        (self.lock / "lock.toml").write_text(MANIFEST)
        (self.lock / "adapter.sh").write_text("echo one")
        self.install("true")

    def install(self, script: str) -> None:
        """What installing the lock does."""
        (self.lock / "install.sh").write_text(script)

    def setup(self, *words: str) -> tuple[int, str, str]:
        return runs.fencepost(self.folder, "setup", *(words or ("--lock", "toy")))

    def left_over(self) -> list[str]:
        return sorted(path.name for path in self.tools.glob("tmp/*"))


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    monkeypatch.setenv("FENCEPOST_TOOLS", str(tmp_path / "tools"))
    monkeypatch.setenv(VARIABLE, os.pathsep.join((str(TOYS), str(tmp_path / "extension"))))
    return Workbench(tmp_path)


def test_a_lock_is_installed_once(bench: Workbench) -> None:
    bench.install("echo ran >> ../../ran")
    code, out, err = bench.setup()
    assert (code, err) == (0, "")
    assert "lock-toy" in out
    assert "copied" in out
    assert bench.setup() == (0, "setup: toy is installed: tools/foreign/toy\n", "")
    assert bench.setup("--quiet", "--lock", "toy") == (0, "", "")
    assert (bench.tools / "ran").read_text() == "ran\n"


@pytest.mark.parametrize("file", ["adapter.sh", "install.sh"])
def test_a_lock_whose_files_changed_is_refused_until_it_is_installed_again(bench: Workbench, file: str) -> None:
    assert bench.setup()[0] == 0
    (bench.lock / file).write_text("echo two")
    told = "fencepost: the lock toy has changed since it was installed: run `fencepost setup --lock toy`\n"
    assert runs.fencepost(bench.folder, *runs.short_run("--lock", "toy")) == (254, "", told)
    code, out, _ = bench.setup()
    assert code == 0
    assert "copied" in out
    assert (bench.installed / "adapter").read_text() == (bench.lock / "adapter.sh").read_text()
    assert "is installed" in bench.setup()[1]


def test_a_summary_may_change_without_a_new_installation(bench: Workbench) -> None:
    assert bench.setup()[0] == 0
    (bench.lock / "lock.toml").write_text(MANIFEST.replace("a toy", "another summary") + "[settings]\nretries = 3")
    assert "is installed" in bench.setup()[1]


def test_an_installation_that_somebody_tampered_with_is_made_again(bench: Workbench) -> None:
    assert bench.setup()[0] == 0
    (bench.installed / "tampered").touch()
    assert "copied" in bench.setup()[1]
    assert not (bench.installed / "tampered").exists()


def test_a_variant_shares_the_installation(bench: Workbench) -> None:
    variant = bench.lock.with_name("patient_toy")
    variant.mkdir()
    (variant / "lock.toml").write_text('variant_of = "toy"\nsummary = "a patient toy"')
    code, out, _ = bench.setup("--lock", "patient-toy", "--lock", "toy")
    assert code == 0
    assert out.count("copied") == 1
    assert bench.setup("--lock", "patient-toy")[1] == "setup: patient-toy is installed: tools/foreign/toy\n"


def test_a_failure_is_one_line_that_names_the_log_and_the_old_installation_stays(bench: Workbench) -> None:
    assert bench.setup()[0] == 0
    bench.install("echo working; echo 'error: no such package'; exit 3")
    code, _, err = bench.setup()
    assert (code, err) == (255, "setup: lock-toy: error: no such package; the log is tools/log/lock-toy.log\n")
    assert "working" in (bench.tools / "log" / "lock-toy.log").read_text()
    assert (bench.installed / "adapter").read_text() == "echo one"
    assert bench.left_over() == []


def test_an_interruption_ends_what_runs_and_leaves_nothing_half_done(bench: Workbench) -> None:
    bench.install("echo $$ > ../../pid; exec sleep 100")
    process = runs.start(bench.folder, "setup", "--lock", "toy")
    pid = bench.tools / "pid"
    assert becomes_true(lambda: pid.exists() and pid.read_text().strip() != "", within_s=30, every_s=0.02)
    process.send_signal(signal.SIGINT)
    code, _, err = runs.finish(process)
    assert (code, err) == (
        255,
        "fencepost: set-up was interrupted; finished steps are kept, run the command again to continue\n",
    )
    assert becomes_true(lambda: not Path(f"/proc/{pid.read_text().strip()}").exists(), within_s=10, every_s=0.02)
    assert not bench.installed.exists()
    assert bench.left_over() == []


def test_what_cannot_be_installed_is_refused_in_one_line(bench: Workbench) -> None:
    code, out, err = bench.setup("--lock", "tyo")
    assert (code, out, err.count("\n")) == (254, "", 1)
    assert "no lock is named 'tyo', did you mean toy?" in err


def test_a_lock_that_ships_whole_needs_no_installation(bench: Workbench) -> None:
    assert bench.setup("--lock", "redlock") == (0, "setup: redlock needs no installation\n", "")
    assert bench.setup("--quiet", "--lock", "mine.locks:Mine") == (0, "", "")
    assert not bench.tools.exists()


def test_the_list_says_what_is_installed(bench: Workbench) -> None:
    assert bench.setup()[0] == 0
    lines = {line.split()[0]: " ".join(line.split()) for line in bench.setup("--list")[1].splitlines()}
    assert lines["toy"] == "toy shell toy 1.0 is installed"
    assert lines["pottery"] == "pottery python pottery 3.0.1 is not installed"


def test_what_cannot_be_downloaded_is_one_line(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    (bench.lock / "lock.toml").write_text(MANIFEST.replace("shell", "python").replace("install.sh", "pins.txt"))
    (bench.lock / "pins.txt").write_text(f"no-such-package==1.0 --hash=sha256:{'0' * 64}\n")
    monkeypatch.setenv("PATH", f"{UV_FOLDER}:{os.environ['PATH']}")
    code, _, err = bench.setup()
    assert (code, err.count("\n")) == (255, 1)
    assert "Because no-such-package was not found in the provided package locations" in err
    assert err.endswith("; the log is tools/log/lock-toy.log\n")
    assert not bench.installed.exists()


@pytest.mark.needs("sandbox", "lock:redlock-ng")
def test_an_installed_lock_needs_no_network(tmp_path: Path) -> None:
    words = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"])]
    done = subprocess.run(
        [*words, *runs.command("setup", "--lock", "redlock-ng")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(runs.ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("setup: redlock-ng is installed: ")
