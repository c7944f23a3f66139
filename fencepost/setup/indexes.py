"""How this user reaches package indexes: what pip and uv are configured with, as environment variables of either.

uv reads no configuration of pip's, and a user's settings may also say where and how to install (`user`, `target`,
`UV_SYSTEM_PYTHON`, …), which is not theirs to say here. So set-up runs both tools without any configuration, and hands
them only addresses, certificates, proxies, time limits and the cache. Values may hold passwords: they are never on a
command line, and so never in a log.
"""

from __future__ import annotations

import configparser
import os
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from fencepost.setup.workshop import SetupError

_OF_PIP: Final = (
    "index-url",
    "extra-index-url",
    "find-links",
    "no-index",
    "trusted-host",
    "cert",
    "client-cert",
    "proxy",
    "timeout",
    "default-timeout",
    "retries",
    "keyring-provider",
    "no-cache-dir",
)
_OF_UV: Final = (
    "UV_DEFAULT_INDEX",
    "UV_INDEX",
    "UV_EXTRA_INDEX_URL",
    "UV_FIND_LINKS",
    "UV_OFFLINE",
    "UV_INSECURE_HOST",
    "UV_SYSTEM_CERTS",
    "UV_NATIVE_TLS",
    "UV_HTTP_",
    "UV_KEYRING_PROVIDER",
    "UV_CACHE_DIR",
    "UV_CREDENTIALS_DIR",
    "UV_CONCURRENT_",
)
"""Names, and beginnings of names; the ones that begin with UV_INDEX_ hold the credentials of an index."""
_NO: Final = ("", "0", "false", "no", "off", "f", "n")
_SYSTEM_CERTIFICATES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


def for_pip() -> dict[str, str]:
    """What pip runs with. Raises SetupError for a configuration that cannot be read."""
    named = {f"PIP_{name.upper().replace('-', '_')}": value for name, value in _pip_settings().items()}
    return {**named, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_NO_INPUT": "1"}


def for_uv(scratch_cache: Path) -> dict[str, str]:
    """What uv runs with; it keeps its cache in `scratch_cache` if the user wants none, or cannot write to their own.

    uv's own settings win over those of its file, and these over pip's. Raises SetupError for a configuration that
    cannot be read.
    """
    pip = _pip_settings()
    said = _from_pip(pip) | _from_uv_files() | {name: os.environ[name] for name in os.environ if _reaches(name)}
    said = {name: value for name, value in said.items() if value}
    cache = Path(said.get("UV_CACHE_DIR", "")) if "UV_CACHE_DIR" in said else _cache_home() / "uv"
    wants_none = _is_yes(pip.get("no-cache-dir")) or _is_yes(os.environ.get("UV_NO_CACHE"))
    said["UV_CACHE_DIR"] = str(scratch_cache if wants_none or not _is_ours(cache) else cache.absolute())
    # Every file has its hash, so an index cannot bring another package of the same name; pip asks all of them, too.
    return said | {"UV_NO_CONFIG": "1", "UV_INDEX_STRATEGY": "unsafe-best-match", "UV_PYTHON_DOWNLOADS": "never"}


def flags_of_install() -> tuple[str, ...]:
    """What uv has no variable for."""
    return ("--no-index",) if _is_yes(_pip_settings().get("no-index")) else ()


def _reaches(name: str) -> bool:
    if name.startswith("UV_INDEX_"):
        return name.endswith(("_USERNAME", "_PASSWORD"))
    return any(name == kept or (kept.endswith("_") and name.startswith(kept)) for kept in _OF_UV)


# -- pip


def _pip_settings() -> dict[str, str]:
    """Those of the kinds above, from pip's files and from the environment, as pip looks for them (its documentation,
    "Configuration")."""
    found: dict[str, str] = {}
    if os.environ.get("PIP_CONFIG_FILE") != os.devnull:
        read = [_ini(file) for file in _pip_files() if file.is_file()]
        for section in ("global", "install"):
            for file in read:
                found |= {name.replace("_", "-"): value for name, value in file.get(section, {}).items()}
    found |= {
        name.removeprefix("PIP_").lower().replace("_", "-"): value
        for name, value in os.environ.items()
        if name.startswith("PIP_")
    }
    return {name: value.strip() for name, value in found.items() if name in _OF_PIP and value.strip()}


def _pip_files() -> Iterator[Path]:
    for folder in reversed((os.environ.get("XDG_CONFIG_DIRS") or "/etc/xdg").split(os.pathsep)):
        yield Path(folder, "pip/pip.conf")
    yield Path("/etc/pip.conf")
    if home := _home():
        yield home / ".pip/pip.conf"
        yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config", "pip/pip.conf")
    for prefix in dict.fromkeys((sys.base_prefix, sys.prefix)):
        yield Path(prefix, "pip.conf")
    if named := os.environ.get("PIP_CONFIG_FILE"):
        yield Path(named)


def _ini(file: Path) -> Mapping[str, Mapping[str, str]]:
    parser = configparser.RawConfigParser()
    try:
        parser.read_string(file.read_text(encoding="utf-8", errors="replace"))
    except (OSError, configparser.Error) as error:
        raise SetupError(f"{file} cannot be read as pip's configuration: {_first_line(error)}") from error
    return {section: dict(parser.items(section)) for section in parser.sections()}


def _from_pip(pip: Mapping[str, str]) -> dict[str, str]:
    """The same for uv."""
    said = {
        "UV_DEFAULT_INDEX": pip.get("index-url", ""),
        "UV_INDEX": " ".join(pip.get("extra-index-url", "").split()),
        "UV_FIND_LINKS": ",".join(filter(_is_there, pip.get("find-links", "").split())),
        "UV_INSECURE_HOST": " ".join(pip.get("trusted-host", "").split()),
        "UV_HTTP_TIMEOUT": _whole(pip.get("timeout") or pip.get("default-timeout", "")),
        "UV_HTTP_RETRIES": _whole(pip.get("retries", "")),
        "UV_KEYRING_PROVIDER": "subprocess" if pip.get("keyring-provider") == "subprocess" else "",
        "SSL_CLIENT_CERT": pip.get("client-cert", ""),
    }
    if proxy := pip.get("proxy"):
        said |= dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), proxy)
    named = (os.environ.get(name) for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"))
    if certificates := next(filter(None, (pip.get("cert"), *named)), None):
        said["SSL_CERT_DIR" if Path(certificates).is_dir() else "SSL_CERT_FILE"] = certificates
    elif any(Path(file).is_file() for file in _SYSTEM_CERTIFICATES):
        said["UV_SYSTEM_CERTS"] = "1"  # as pip does since 24.2
    return said


def _is_there(place: str) -> bool:
    """Whether uv would accept this place to find files in; pip leaves out what is not there."""
    return "://" in place or Path(place).exists()


def _is_yes(value: str | None) -> bool:
    return (value or "").lower() not in _NO


def _whole(seconds: str) -> str:
    try:
        return str(int(float(seconds)))
    except ValueError:
        return ""


# -- uv


def _from_uv_files() -> dict[str, str]:
    """The settings of the same kinds in the user's `uv.toml`, or in the system's."""
    found: dict[str, str] = {}
    for file in _uv_files():
        if file.is_file():
            try:
                found |= _of_toml(tomllib.loads(file.read_text(encoding="utf-8")))
            except (OSError, ValueError, TypeError, AttributeError) as error:
                raise SetupError(f"{file} cannot be read as uv's configuration: {_first_line(error)}") from error
    return found


def _uv_files() -> Iterator[Path]:
    if os.environ.get("UV_NO_CONFIG"):
        return
    if named := os.environ.get("UV_CONFIG_FILE"):
        yield Path(named)
        return
    yield Path("/etc/uv/uv.toml")
    if home := _home():
        yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config", "uv/uv.toml")


def _of_toml(settings: Mapping[str, Any]) -> dict[str, str]:
    settings = {**settings.get("pip", {}), **settings}
    indexes = settings.get("index", [])
    usual = [index["url"] for index in indexes if index.get("default")]
    others = [f"{index['name']}={index['url']}" if "name" in index else index["url"] for index in indexes]
    others = [index for index in others if not index.endswith(tuple(usual))] if usual else others
    said = {
        "UV_DEFAULT_INDEX": next(iter(usual), settings.get("index-url", "")),
        "UV_INDEX": " ".join([*others, *settings.get("extra-index-url", [])]),
        "UV_FIND_LINKS": ",".join(settings.get("find-links", [])),
        "UV_INSECURE_HOST": " ".join(settings.get("allow-insecure-host", [])),
        "UV_SYSTEM_CERTS": "1" if settings.get("system-certs", settings.get("native-tls")) else "",
        "UV_KEYRING_PROVIDER": settings.get("keyring-provider", ""),
        "UV_CACHE_DIR": settings.get("cache-dir", ""),
    }
    return {name: value for name, value in said.items() if value}


# -- places


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:
        return None


def _cache_home() -> Path:
    named = os.environ.get("XDG_CACHE_HOME") or ""
    return Path(named) if Path(named).is_absolute() else (_home() or Path("/nonexistent")) / ".cache"


def _is_ours(folder: Path) -> bool:
    """Whether this user can write there and is its owner: root must not leave files in a home that is another user's,
    which sudo keeps as HOME."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if there.stat().st_uid != os.geteuid():
        return False
    with suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.access(folder, os.W_OK)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
