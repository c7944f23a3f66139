"""Set-up and its user's settings: those that lead to a package index hold, all others are not set-up's business."""

from __future__ import annotations

import base64
import functools
import hashlib
import http.server
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.setup import indexes, python, uv
from fencepost.setup.machine import on_path
from fencepost.setup.workshop import SetupError, Workshop
from tests.wheels import UV_FOLDER, write_wheel

PASSWORD = "hunter2"


class Handler(http.server.SimpleHTTPRequestHandler):
    """A package index, for its user alone."""

    def do_GET(self) -> None:
        expected = "Basic " + base64.b64encode(f"me:{PASSWORD}".encode()).decode()
        if self.headers.get("Authorization") == expected:
            super().do_GET()
        else:
            self.send_response(401)
            self.send_header("WWW-Authenticate", 'Basic realm="index"')
            self.end_headers()

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """Its address, with a password. It has `honest` 1.0."""
    write_wheel(tmp_path / "index/honest", "honest", "1.0")
    handler = functools.partial(Handler, directory=str(tmp_path / "index"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://me:{PASSWORD}@127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user without settings."""
    for name in os.environ:
        if name.startswith(("PIP_", "UV_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PATH", f"{UV_FOLDER}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "home/.config/pip").mkdir(parents=True)
    (tmp_path / "home/.config/uv").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def shop(home: Path, tmp_path: Path) -> Workshop:
    return Workshop(tmp_path / ".tools")


def honest(index_folder: Path) -> str:
    file = next(index_folder.glob("honest/*.whl"))
    return f"honest==1.0 --hash=sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}\n"


def packages(environment: Path) -> list[str]:
    asked = [environment / "bin/python", "-I", "-c", "import honest; print(honest.__file__)"]
    return subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()


# -- what leads to an index


WAYS = {
    "PIP_INDEX_URL": ({"PIP_INDEX_URL": "{index}"}, "", ""),
    "pip.conf": ({}, "[global]\nindex-url = {index}\n", ""),
    "pip.conf of install": ({}, "[global]\nindex-url = http://127.0.0.1:1/\n[install]\nindex_url = {index}\n", ""),
    "the environment before pip.conf": (
        {"PIP_INDEX_URL": "{index}"},
        "[install]\nindex-url = http://127.0.0.1:1/\n",
        "",
    ),
    "another one beside": ({"PIP_INDEX_URL": "{folder}", "PIP_EXTRA_INDEX_URL": "{index}"}, "", ""),
    "find-links": ({"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": "{folder}/honest {folder}/absent"}, "", ""),
    "UV_DEFAULT_INDEX": ({"UV_DEFAULT_INDEX": "{index}", "PIP_INDEX_URL": "http://127.0.0.1:1/"}, "", ""),
    "uv.toml": ({}, "", '[[index]]\nname = "ours"\nurl = "{index}"\ndefault = true\n'),
    "uv.toml of pip": ({}, "", '[pip]\nindex-url = "{index}"\n'),
}


@pytest.mark.parametrize("way", WAYS)
def test_an_index_that_the_user_configured_is_used_and_its_password_is_not_logged(
    way: str, index: str, shop: Workshop, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, pip_conf, uv_toml = WAYS[way]

    def filled(text: str) -> str:
        return text.replace("{index}", index).replace("{folder}", str(tmp_path / "index"))

    for name, value in settings.items():
        monkeypatch.setenv(name, filled(value))
    (home / ".config/pip/pip.conf").write_text(filled(pip_conf))
    (home / ".config/uv/uv.toml").write_text(filled(uv_toml))
    (tmp_path / "pins.txt").write_text(honest(tmp_path / "index"))
    assert python.make_environment(shop, "env", tmp_path / "pins.txt", tmp_path / "env").endswith("1 pinned packages")
    assert packages(tmp_path / "env")
    assert not any(PASSWORD in log.read_text() for log in (shop.tools / "log").iterdir())


def test_certificates_proxy_and_hosts_go_along(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    (home / ".config/pip/pip.conf").write_text(
        "[global]\ncert = /etc/ours.pem\nproxy = http://proxy:3128\ntrusted-host = one\n  two:8443\ntimeout = 7.5\n"
    )
    found = indexes.for_uv(tmp_path)
    assert found["SSL_CERT_FILE"] == "/etc/ours.pem"
    assert (found["HTTPS_PROXY"], found["UV_INSECURE_HOST"]) == ("http://proxy:3128", "one two:8443")
    assert found["UV_HTTP_TIMEOUT"] == "7"
    assert indexes.for_pip()["PIP_CERT"] == "/etc/ours.pem"
    assert indexes.for_pip()["PIP_CONFIG_FILE"] == os.devnull


def test_a_configuration_that_cannot_be_read_is_one_line(home: Path, tmp_path: Path) -> None:
    (home / ".config/pip/pip.conf").write_text("index-url = nowhere\n")
    with pytest.raises(SetupError, match=r"^[^\n]*pip\.conf cannot be read as pip's configuration: [^\n]*$"):
        indexes.for_pip()


@pytest.mark.parametrize("settings", [{"UV_NO_CACHE": "1"}, {"PIP_NO_CACHE_DIR": "1"}, {"HOME": "/proc"}])
def test_who_wants_no_cache_or_cannot_have_one_gets_none(
    settings: dict[str, str], home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert indexes.for_uv(tmp_path / "scratch")["UV_CACHE_DIR"] == str(home / ".cache/uv")
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    assert indexes.for_uv(tmp_path / "scratch")["UV_CACHE_DIR"] == str(tmp_path / "scratch")


# -- what is none of set-up's business


ASTRAY: dict[str, dict[str, str]] = {
    "pip's": {
        "PIP_USER": "1",
        "PIP_TARGET": "{there}",
        "PIP_PREFIX": "{there}",
        "PIP_ROOT": "{there}",
        "PIP_PYTHON": "/bin/false",
        "PIP_REQUIRE_VIRTUALENV": "1",
        "PIP_CONSTRAINT": "{there}/constraints.txt",
        "PIP_NO_BINARY": ":all:",
        "PIP_DRY_RUN": "1",
    },
    "uv's": {
        "UV_SYSTEM_PYTHON": "1",
        "UV_PROJECT_ENVIRONMENT": "{there}",
        "UV_PYTHON": "/bin/false",
        "UV_CONSTRAINT": "{there}/constraints.txt",
        "UV_NO_BINARY": "1",
        "UV_EXCLUDE_NEWER": "2001-01-01",
        "UV_OVERRIDE": "{there}/constraints.txt",
        "UV_LINK_MODE": "symlink",
    },
    "Python's": {
        "PYTHONPATH": "{there}",
        "PYTHONHOME": "{there}",
        "VIRTUAL_ENV": "{there}",
        "CONDA_PREFIX": "{there}",
    },
}
PIP_CONF = (
    "[global]\nuser = true\ntarget = {there}\nprefix = {there}\nrequire-virtualenv = true\nconstraint = {there}/c\n"
)
UV_TOML = 'exclude-newer = "2001-01-01"\nno-binary = true\n[pip]\ntarget = "{there}"\nsystem = true\n'


@pytest.mark.parametrize("whose", [*ASTRAY, "pip.conf", "uv.toml"])
def test_settings_that_would_lead_elsewhere_do_not(
    whose: str, shop: Workshop, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither uv nor the pip that fetches it: both are played, with a uv of ours in an index of ours."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "encodings.py").write_text("raise SystemExit('this module is not for set-up')")
    for name, value in ASTRAY.get(whose, {}).items():
        monkeypatch.setenv(name, value.format(there=there))
    if whose not in ASTRAY:
        file, text = (("pip/pip.conf", PIP_CONF), ("uv/uv.toml", UV_TOML))[whose == "uv.toml"]
        (home / ".config" / file).write_text(text.format(there=there))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    before = sorted(there.iterdir())

    (tmp_path / "pins.txt").write_text(write_wheel(tmp_path / "wheels", "honest", "1.0"))
    python.make_environment(shop, "env", tmp_path / "pins.txt", tmp_path / "env")
    assert packages(tmp_path / "env") == [str(next((tmp_path / "env").glob("lib/*/site-packages/honest/__init__.py")))]

    fetched(shop, tmp_path, monkeypatch)
    assert sorted(there.iterdir()) == before


# -- the pip that fetches uv


def fetched(shop: Workshop, place: Path, monkeypatch: pytest.MonkeyPatch, of_path: Path | None = None) -> None:
    """A uv of ours is fetched from `wheels`, and works."""
    version = uv.UV.partition("==")[2]
    (place / "wheels.lock").write_text(
        write_wheel(
            place / "wheels", "uv", version, {f"uv-{version}.data/scripts/uv": f"#!/bin/sh\necho uv {version}\n"}
        )
    )
    monkeypatch.setattr("fencepost.setup.pins.WHEELS", place / "wheels.lock")
    monkeypatch.setattr(uv, "on_path", lambda _: of_path)
    assert uv.run_uv(shop, "step", "anything") == f"uv {version}"
    assert os.access(shop.tools / "toolchains" / f"uv-{version}" / "uv", os.X_OK)


@pytest.mark.parametrize("has", [["pip", "ensurepip"], ["ensurepip"]])
def test_uv_is_fetched_by_a_pip_or_by_the_one_that_python_brings(
    has: list[str], shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uv, "_has", lambda _, module: module in has)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    fetched(shop, tmp_path, monkeypatch)


def test_uv_is_fetched_by_another_uv_where_there_is_no_pip(
    shop: Workshop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uv, "_has", lambda _, module: False)
    monkeypatch.setattr(uv, "UV", "uv==0.0.1")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    fetched(shop, tmp_path, monkeypatch, of_path=on_path("uv"))


def test_without_any_pip_it_is_said_in_one_line_what_to_do(shop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uv, "_has", lambda _, module: False)
    monkeypatch.setattr(uv, "on_path", lambda _: None)
    monkeypatch.setattr(uv, "has_apt", lambda: False)
    with pytest.raises(SetupError, match=r"^\S+ has neither pip, ensurepip nor virtualenv, .*python3-venv.*$"):
        uv.run_uv(shop, "step", "anything")
