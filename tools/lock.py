"""`make lock`: rewrites requirements.lock from the dependencies in pyproject.toml, as resolved today.

It pins exact versions, without addresses or hashes, so that any index or mirror can serve them. Lines with a marker
(needed only by some versions of Python) are kept, because one Python cannot see what another needs.
"""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

from checkout import ROOT

# isort: split
from fencepost.setup.python import pip_command, prepare_pip
from fencepost.setup.workshop import SetupError, Workshop


def main() -> int:
    shop = Workshop(ROOT / ".tools")
    try:
        with shop.alone(waiting=lambda: print("lock: a set-up of this folder is running; waiting for it")):
            pins = _resolve(shop, tomllib.loads((ROOT / "pyproject.toml").read_text()))
    except KeyboardInterrupt:
        shop.stop()
        print("\nlock: interrupted; requirements.lock is unchanged", file=sys.stderr)
        return 130
    except (SetupError, OSError) as error:
        print(f"lock: {error}", file=sys.stderr)
        return 1
    lock = ROOT / "requirements.lock"
    old = lock.read_text().splitlines()
    head = [line for line in old if line.startswith("#")]
    marked = [line for line in old if ";" in line and not line.startswith("#")]
    names = {line.partition("==")[0] for line in marked}
    plain = [pin for pin in pins if pin.partition("==")[0] not in names]
    new = [*head, *sorted(plain + marked, key=str.lower)]
    lock.write_text("\n".join(new) + "\n")
    print(f"lock: {len(plain + marked)} packages, {len(set(new) - set(old))} of them new or changed; see git diff")
    return 0


def _resolve(shop: Workshop, project: dict[str, dict[str, list[str]]]) -> list[str]:
    wanted = (
        *project["project"]["dependencies"],
        *project["dependency-groups"]["dev"],
        *project["build-system"]["requires"],
    )
    shop.tools.joinpath("log").mkdir(parents=True, exist_ok=True)
    prepare_pip(shop)
    with shop.scratch("lock") as scratch:
        environment: Path = scratch / "env"
        shop.run("lock", sys.executable, "-m", "venv", "--without-pip", environment)
        pip = (*pip_command(shop), "--python", environment / "bin/python")
        shop.run("lock", *pip, "install", "--quiet", "--disable-pip-version-check", "--retries", "8", *wanted)
        return shop.run("lock", *pip, "freeze", "--all").splitlines()


if __name__ == "__main__":
    sys.exit(main())
