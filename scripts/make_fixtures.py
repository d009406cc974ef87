"""Freeze what this version writes, as test data for every later one: `python scripts/make_fixtures.py`.

Run once for a version, before anything of its formats changes, with Hermes in `.venv-hermes` and SeaweedFS in `.cache`.
It writes `tests/fixtures/v<major>.<minor>`, and never over one that is there: see CONTRIBUTING.md.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the scripts are no installed package

from scripts import fixtures_bucket, fixtures_hermes, fixtures_vault  # noqa: E402
from scripts.fixtures_pack import files_below, pack  # noqa: E402
from scripts.fixtures_vault import PASSPHRASE, Clock  # noqa: E402

FIXTURES = ROOT / "tests" / "fixtures"


def write(target: Path) -> None:
    """Make every fixture, and the manifest that says what is in them and what they hash to."""
    target.mkdir(parents=True)
    clock = Clock()
    manifest: dict[str, Any] = {"version": version("strongroom"), "commit": _commit(), "passphrase": PASSPHRASE}
    with tempfile.TemporaryDirectory() as scratch:
        places = {name: Path(scratch) / name for name in ("vault", "buckets", "journal")}
        for place in places.values():
            place.mkdir()
        manifest["vault"] = fixtures_vault.make(places["vault"], clock)
        manifest |= fixtures_bucket.make(places["buckets"], clock)
        manifest["journal"] = fixtures_hermes.leave_journal(places["journal"])
        for name, place in places.items():
            pack(target / f"{name}.tar.xz", files_below(place))
    files, manifest["hermes"] = fixtures_hermes.make(clock)
    pack(target / "hermes.tar.xz", files)
    manifest["now"] = clock()
    manifest["files"] = {one.name: _sha256(one) for one in sorted(target.glob("*.tar.xz"))}
    (target / "manifest.json").write_text(json.dumps(manifest, indent=1, ensure_ascii=False, sort_keys=True) + "\n")
    print(f"make_fixtures: {target}; tests/upgrades/frozen.py pins {_sha256(target / 'manifest.json')}")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _commit() -> str:
    """The last commit that changed the code that wrote this."""
    done = subprocess.run(["git", "log", "-1", "--format=%H", "--", "src"], cwd=ROOT, capture_output=True, check=True)
    return done.stdout.decode().strip()


if __name__ == "__main__":
    named = "v" + ".".join(version("strongroom").split(".")[:2])
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else FIXTURES / named)
