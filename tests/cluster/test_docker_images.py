"""Images: the host's own programs are packed once; only an image that the user named is looked for elsewhere."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from docker import DockerClient
from docker.errors import APIError, ImageNotFound

from cluster.images import Recipe, content_hash, provide
from cluster.programs import find_toxiproxy
from cluster.shared_libraries import parse_ldd, shared_libraries
from fencepost.errors import BrokenEnvironmentError


class FakeEngine:
    """An engine with images in a dictionary, and a registry that may or may not answer."""

    def __init__(self, *here: str, registry: tuple[str, ...] | None = None) -> None:
        self.here = {reference: self._image(reference) for reference in here}
        self.registry = registry
        self.asked: list[tuple[str, int]] = []
        self.imported: list[tuple[bytes, list[str]]] = []
        self.api = SimpleNamespace(timeout=10, import_image_from_data=self._import, tag=self._tag)
        self.images = SimpleNamespace(get=self._get, pull=self._pull, get_registry_data=self._get_registry_data)

    def _image(self, reference: str) -> Any:
        return SimpleNamespace(id=f"sha256:{reference}", attrs={"RepoDigests": [f"{reference}@sha256:1"]})

    def _get(self, reference: str) -> Any:
        if reference not in self.here:
            raise ImageNotFound(reference)
        return self.here[reference]

    def _get_registry_data(self, reference: str) -> None:
        self.asked.append((reference, self.api.timeout))
        if self.registry is None or reference not in self.registry:
            raise APIError("500 Server Error: no such host")

    def _pull(self, repository: str, tag: str) -> None:
        self.here[f"{repository}:{tag}"] = self._image(f"{repository}:{tag}")

    def _import(self, data: bytes, changes: list[str]) -> str:
        self.imported.append((data, changes))
        return '{"status":"sha256:built"}\r\n'

    def _tag(self, image: str, repository: str, tag: str) -> None:
        self.here[f"{repository}:{tag}"] = SimpleNamespace(id=image, attrs={"RepoDigests": None})

    def provide(self, recipe: Recipe) -> Any:
        return provide(cast(DockerClient, self), recipe)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """A small dynamic program that is on every machine."""
    copy = tmp_path / "server"
    copy.write_bytes(Path("/bin/true").resolve().read_bytes())
    copy.chmod(0o755)
    return copy


def redis(program: Path) -> Recipe:
    return Recipe("redis", None, program, "/usr/local/bin/redis-server")


NAMED = Recipe("redis", "redis:7.4", Path("/usr/local/bin/redis-server"), "/usr/local/bin/redis-server")


def test_a_named_image_that_is_here_is_used_and_no_registry_is_asked() -> None:
    engine = FakeEngine("redis:7.4")
    image = engine.provide(NAMED)
    assert (image.reference, image.origin, image.digests) == ("redis:7.4", "pulled", ("redis:7.4@sha256:1",))
    assert engine.asked == []


def test_a_named_image_is_pulled_where_a_registry_answers() -> None:
    engine = FakeEngine(registry=("redis:7.4",))
    image = engine.provide(NAMED)
    assert (image.reference, image.origin) == ("redis:7.4", "pulled")
    assert engine.imported == []


def test_a_named_image_that_is_nowhere_is_one_clear_line_after_a_few_seconds() -> None:
    engine = FakeEngine()
    with pytest.raises(
        BrokenEnvironmentError, match=r"does not have the image redis:7\.4, and no registry answers for"
    ):
        engine.provide(NAMED)
    assert engine.asked == [("redis:7.4", 3)]
    assert engine.api.timeout == 10, "the client has its own timeout back"


def test_the_program_of_the_host_is_packed_with_its_libraries_and_no_registry_is_asked(program: Path) -> None:
    engine = FakeEngine(registry=("redis:latest",))
    image = engine.provide(redis(program))
    assert engine.asked == []
    assert image.origin == "built-from-host"
    assert image.reference.startswith("fencepost/redis:")
    ((data, changes),) = engine.imported
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        names = archive.getnames()
        assert all(not entry.issym() for entry in archive.getmembers())
    assert "usr/local/bin/redis-server" in names
    assert any("libc.so" in name for name in names)
    assert any("ld-" in name for name in names), "the dynamic loader is missing"
    assert 'ENTRYPOINT ["/usr/local/bin/redis-server"]' in changes


def test_one_version_of_a_program_is_one_image_wherever_the_program_is(program: Path, tmp_path: Path) -> None:
    engine = FakeEngine()
    other = tmp_path / "another clone" / "server"
    other.parent.mkdir()
    other.write_bytes(program.read_bytes())
    assert engine.provide(redis(program)) == engine.provide(redis(other))
    assert len(engine.imported) == 1


def test_another_version_of_the_program_makes_another_image(program: Path) -> None:
    engine = FakeEngine()
    first = engine.provide(redis(program))
    program.write_bytes(program.read_bytes() + b"newer")
    assert engine.provide(redis(program)).reference != first.reference


def test_a_script_is_refused_because_it_would_not_start_in_an_empty_image(tmp_path: Path) -> None:
    script = tmp_path / "server"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(BrokenEnvironmentError, match="not an ELF program"):
        FakeEngine().provide(redis(script))


def test_ldd_names_libraries_and_the_loader_and_the_kernels_own_is_left_out() -> None:
    told = """
        linux-vdso.so.1 (0x00007ffc)
        libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007f)
        /lib64/ld-linux-x86-64.so.2 (0x00007f)
    """
    assert parse_ldd(told, Path("p")) == ("/lib/x86_64-linux-gnu/libm.so.6", "/lib64/ld-linux-x86-64.so.2")


def test_a_library_that_the_host_lacks_is_named() -> None:
    with pytest.raises(BrokenEnvironmentError, match=r"server needs liblzf\.so\.1"):
        parse_ldd("\tliblzf.so.1 => not found\n", Path("server"))


def test_a_static_program_has_no_libraries() -> None:
    assert shared_libraries(find_toxiproxy().path) == ()


def test_a_dynamic_program_has_libraries_that_exist(program: Path) -> None:
    libraries = shared_libraries(program)
    assert libraries
    assert all(Path(library).is_file() for library in libraries)


def test_the_hash_sees_paths_contents_and_where_one_ends() -> None:
    hashes = {content_hash(files) for files in ({"a": b"bc"}, {"ab": b"c"}, {"a": b"b", "c": b""}, {"a": b"bd"})}
    assert len(hashes) == 4
