"""`lock.toml`: what a manifest says, and what is said about one that cannot be used."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.errors import UsageError
from fencepost.extensions import VARIABLE
from tests.harness import runs
from workloads import locks
from workloads.manifest import Manifest, read_manifest
from workloads.registry import find_lock

WHOLE = """
language = "python"
library = "toy 1.0"
summary = "a toy"
adapter = "adapter.py"
"""


def read(folder: Path, **texts: str) -> dict[str, Manifest]:
    """The manifests with these texts, by name; each has an adapter beside it."""
    for name, text in texts.items():
        (folder / name).mkdir()
        (folder / name / "lock.toml").write_text(text)
        (folder / name / "adapter.py").touch()
    folders = {name: folder / name for name in texts}
    return {name: read_manifest(name, folders, ("node", "python")) for name in texts}


def refused(folder: Path, text: str) -> str:
    """What is said about this manifest: one line that begins with its path."""
    with pytest.raises(UsageError) as caught:
        read(folder, toy=text)
    message = str(caught.value)
    assert "\n" not in message
    assert message.startswith(str(folder / "toy" / "lock.toml"))
    return message


def test_a_manifest_says_everything_about_a_lock(tmp_path: Path) -> None:
    tables = '[settings]\nretries = 3\nfast = true\n[configured]\nretries = "3: as its README advises"'
    lock = read(tmp_path, toy=f'{WHOLE}shows = ["deadline", "bounds"]\n{tables}')["toy"]
    assert (lock.language, lock.library, lock.summary) == ("python", "toy 1.0", "a toy")
    assert lock.adapter_path == tmp_path / "toy" / "adapter.py"
    assert lock.packages_path is None
    assert lock.settings == {"retries": 3, "fast": True}
    assert lock.described() == {
        "library": "toy 1.0",
        "language": "python",
        "summary": "a toy",
        "shows": ["deadline", "bounds"],
        "settings": {"retries": 3, "fast": True},
        "configured": {"retries": "3: as its README advises"},
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("language = ", "is not TOML: "),
        ("", "the key 'summary' is missing"),
        (WHOLE + 'adaptor = "x"', "the key 'adaptor' is not known, did you mean 'adapter'?"),
        (WHOLE + "[zzz]", "the key 'zzz' is not known; known are "),
        (WHOLE.replace("python", "cobol"), "the language 'cobol' is not one of node, python"),
        (WHOLE.replace("adapter.py", "other.py"), "adapter is 'other.py', but there is no such file beside it"),
        (WHOLE + 'packages = "go.mod"', "packages is 'go.mod', but there is no such file beside it"),
        (
            WHOLE + 'shows = ["colour"]',
            "shows has 'colour', which is not one of deadline, bounds,",
        ),
        (WHOLE + 'shows = "bounds"', "shows: expected `array`, got `str`"),
        (WHOLE + "settings = 3", "settings: expected `object`, got `int`"),
        (WHOLE + "[configured]\nretries = 3", "configured[...]: expected `str`, got `int`"),
        (
            'variant_of = "other"\nsummary = "x"',
            "variant_of is 'other', but no foreign lock of this name",
        ),
        ('variant_of = "toy"\nsummary = "x"\nadapter = "a"', "the key 'adapter' is not known"),
    ],
)
def test_a_manifest_that_cannot_be_used_is_refused_in_one_line(tmp_path: Path, text: str, expected: str) -> None:
    assert expected in refused(tmp_path, text)


def test_a_variant_has_its_own_settings_and_shares_the_rest(tmp_path: Path) -> None:
    base = WHOLE + '[settings]\nretries = 3\nfast = true\n[configured]\nretries = "3: the default"'
    variant = (
        'variant_of = "toy"\nsummary = "a patient toy"\n[settings]\nretries = 9\n[configured]\nretries = "9: to wait"'
    )
    locks = read(tmp_path, toy=base, patient=variant)
    assert locks["patient"].settings == {"retries": 9, "fast": True}
    assert locks["patient"].configured == {"retries": "9: to wait"}
    assert locks["patient"].summary == "a patient toy"
    assert locks["patient"].installed_as == "toy"
    assert locks["patient"].adapter_path == locks["toy"].adapter_path


def test_a_variant_shows_what_its_base_shows_unless_it_says_otherwise(tmp_path: Path) -> None:
    base, variant = WHOLE + 'shows = ["bounds"]', 'variant_of = "toy"\nsummary = "x"\n'
    locks = read(tmp_path, toy=base, same=variant, fenced=variant + 'shows = ["bounds", "token"]')
    assert locks["same"].shows == ("bounds",)
    assert locks["fenced"].shows == ("bounds", "token")
    with pytest.raises(UsageError, match="shows has 'colour'"):
        read(tmp_path, base=base, odd=variant + 'shows = ["colour"]')


def test_a_broken_manifest_ends_the_command_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "extension" / "workloads" / "locks" / "foreign" / "toy"
    folder.mkdir(parents=True)
    (folder / "lock.toml").write_text("speed = 3")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "extension"))
    code, out, err = runs.fencepost(tmp_path, *runs.short_run("--lock", "toy"))
    assert (code, out, err.count("\n")) == (254, "", 1)
    assert f"{folder / 'lock.toml'}: the key 'speed' is not known" in err


def test_an_unfinished_lock_is_in_the_way_of_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "extension" / "workloads" / "locks" / "foreign"
    for name, text in (("unfinished", "speed = 3"), ("whole", WHOLE)):
        (folder / name).mkdir(parents=True)
        (folder / name / "lock.toml").write_text(text)
        (folder / name / "adapter.py").touch()
    monkeypatch.setattr(locks, "__path__", [*locks.__path__, str(folder.parent)])
    assert find_lock("whole").summary == "a toy"
    with pytest.raises(UsageError, match="the key 'speed' is not known"):
        find_lock("unfinished")


def test_two_locks_of_one_name_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "extension" / "workloads" / "locks" / "foreign" / "pottery"
    folder.mkdir(parents=True)
    (folder / "lock.toml").write_text(WHOLE)
    monkeypatch.setenv(VARIABLE, str(tmp_path / "extension"))
    code, _, err = runs.fencepost(tmp_path, "test", "--help")
    assert (code, err.count("\n")) == (254, 1)
    assert "there is a lock pottery already" in err
