"""Container images: built from the programs of this host, unless the user names one.

A program of the host needs very little to run in a container: itself, the shared libraries that `ldd` names and the
dynamic loader, each under the path at which it was found here. That is a tar of a few megabytes, made in memory and
imported by the engine in well under a second. Its tag is the hash of its content, so the second run finds it, and a
new version of the program makes a new image.

So containers run the same servers as processes do. A named image is used as it is: the one that is here, or else the
one that a registry has under this name.
"""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Literal

from docker import DockerClient
from docker.errors import ImageNotFound
from docker.models.images import Image as EngineImage

from cluster.archive import archive_of
from cluster.base import CalledOff, never
from cluster.engine import ENGINE_ERRORS, words_of
from cluster.engine_sweep import PROGRAM_LABEL
from cluster.polling import becomes_true
from cluster.server_tree import system_files
from cluster.shared_libraries import shared_libraries
from fencepost.errors import BrokenEnvironmentError

REGISTRY_ANSWER_S = 3
"""How long a registry has to confirm that it knows an image."""
PULL_S = 120
"""How long the download may then take."""

_LAYOUT = "1"
"""Part of the content hash: raise it when the image is put together in another way."""
_EMPTY_FOLDERS = ("tmp", "data")

Origin = Literal["pulled", "built-from-host"]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to get one program as an image.

    `name`: what an image built here is called, `fencepost/<name>`. `named`: the image that the user named; None: it is
    built from `program`, a file of this host. `inside`: the program's path in either image. `has_tree`: the program
    reads the tree that it is in, which is not in the image (`cluster.server_tree`).
    """

    name: str
    named: str | None
    program: Path
    inside: str
    has_tree: bool = False


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is here, and where it came from. `digests`: what the registry calls it; empty if built here."""

    reference: str
    image_id: str
    digests: tuple[str, ...]
    origin: Origin
    inside: str

    def environment(self) -> dict[str, object]:
        return {
            "image": self.reference,
            "id": self.image_id,
            "digests": list(self.digests),
            "origin": self.origin,
        }


def provide(client: DockerClient, recipe: Recipe, called_off: CalledOff = never) -> Image:
    """The image for a recipe: here already, else pulled or built. A download that is called off is not waited for.

    Raises BrokenEnvironmentError if the named image is nowhere, or the host's program is missing or cannot be packed.
    """
    try:
        return _provide(client, recipe, called_off)
    except ENGINE_ERRORS as error:
        raise BrokenEnvironmentError(f"the Docker engine has no image for {recipe.name}: {words_of(error)}") from error


def _provide(client: DockerClient, recipe: Recipe, called_off: CalledOff) -> Image:
    if recipe.named:
        found = _find(client, recipe.named) or _pull(client, recipe.named, called_off)
        if found is None:
            raise BrokenEnvironmentError(
                f"the Docker engine does not have the image {recipe.named}, and no registry answers for it; "
                f"pull it where there is a network"
            )
        return _image(found, recipe.named, "pulled", recipe.inside)
    files = _files_of(recipe)
    built_as = f"fencepost/{recipe.name}:{content_hash(files)[:12]}"
    built = _find(client, built_as) or _build(client, files, built_as, recipe)
    return _image(built, built_as, "built-from-host", recipe.inside)


def _image(found: EngineImage, reference: str, origin: Origin, inside: str) -> Image:
    return Image(reference, str(found.id), tuple(found.attrs.get("RepoDigests") or ()), origin, inside)


def _find(client: DockerClient, reference: str) -> EngineImage | None:
    try:
        return client.images.get(reference)
    except ImageNotFound:
        return None


def _pull(client: DockerClient, reference: str, called_off: CalledOff) -> EngineImage | None:
    """One bounded try. None: no registry answered, it does not know the image, or the download took too long or was
    called off."""
    try:
        with _timeout(client, REGISTRY_ANSWER_S):
            client.images.get_registry_data(reference)
    except ENGINE_ERRORS:
        return None
    repository, _, tag = reference.partition("@") if "@" in reference else reference.rpartition(":")
    # The SDK takes no time limit for a pull. A thread that is left behind here waits for the engine and does no harm.
    pulling = Thread(target=_pull_quietly, args=(client, repository, tag), daemon=True)
    pulling.start()
    becomes_true(lambda: called_off() or not pulling.is_alive(), within_s=PULL_S, every_s=0.02)
    return _find(client, reference)


def _pull_quietly(client: DockerClient, repository: str, tag: str) -> None:
    try:
        client.images.pull(repository, tag)
    except ENGINE_ERRORS:
        return  # whether it worked is asked of the engine, which alone knows


@contextmanager
def _timeout(client: DockerClient, seconds: int) -> Iterator[None]:
    before, client.api.timeout = client.api.timeout, seconds
    try:
        yield
    finally:
        client.api.timeout = before


def _build(client: DockerClient, files: Mapping[str, bytes], reference: str, recipe: Recipe) -> EngineImage:
    repository, _, tag = reference.rpartition(":")
    folders = sorted({str(Path("/", path).parent) for path in files if f"/{path}" != recipe.inside})
    changes = [
        f"LABEL {PROGRAM_LABEL}={recipe.inside}",
        "WORKDIR /data",
        f'ENTRYPOINT ["{recipe.inside}"]',
    ]
    if folders:  # the loader of another distribution may not search the folders of this one on its own
        changes.append(f"ENV LD_LIBRARY_PATH={':'.join(folders)}")
    told = client.api.import_image_from_data(_tar(files), changes=changes)
    # Podman ignores the tag of an import, so the image is tagged by its id.
    client.api.tag(json.loads(told.splitlines()[-1]).get("status", ""), repository, tag)
    built = _find(client, reference)
    if built is None:
        raise BrokenEnvironmentError(f"the Docker engine did not take the image {reference}; its log says why")
    return built


def content_hash(files: Mapping[str, bytes]) -> str:
    """A hash of everything that is in the image: paths and contents, hexadecimal."""
    digest = hashlib.sha256(_LAYOUT.encode())
    for path in sorted(files):
        digest.update(f"\0{path}\0{len(files[path])}\0".encode())
        digest.update(files[path])
    return digest.hexdigest()


def _tar(files: Mapping[str, bytes]) -> bytes:
    members = []
    for folder in _EMPTY_FOLDERS:
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
        members.append((entry, b""))
    for path in sorted(files):
        entry = tarfile.TarInfo(path)
        entry.mode = 0o755
        members.append((entry, files[path]))
    return archive_of(members)


def _files_of(recipe: Recipe) -> dict[str, bytes]:
    """What has to be in the image, by path without the leading slash. Symbolic links are followed: the file is put
    where the loader will look for it."""
    program = recipe.program
    try:
        content = program.read_bytes()
        if content[:4] != b"\x7fELF" and not recipe.has_tree:
            raise BrokenEnvironmentError(
                f"{program} is not an ELF program, so no image can be made of it; name the program itself "
                "and not a script, or use --cluster process"
            )
        needed = system_files(program.resolve().parents[1]) if recipe.has_tree else shared_libraries(program)
        files = {file.lstrip("/"): Path(file).read_bytes() for file in needed}
    except OSError as error:
        raise BrokenEnvironmentError(f"cannot read {program} to build an image: {error.strerror}") from error
    return files if recipe.has_tree else {recipe.inside.lstrip("/"): content} | files
