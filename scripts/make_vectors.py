"""Write every committed test vector anew, byte for byte the same each time: `make vectors`."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the scripts are no installed package

from scripts import vectors_audit, vectors_cap, vectors_inbox, vectors_keys, vectors_sealed  # noqa: E402


def write(directory: Path) -> None:
    """Write the vectors of every specification, each into its own folder below `directory`."""
    vectors_cap.write(directory / "cap")
    vectors_sealed.write(directory / "line", vectors_sealed.vectors())
    vectors_sealed.write(directory / "keys", vectors_keys.vectors())
    vectors_sealed.write(directory / "audit", vectors_audit.vectors())
    vectors_sealed.write(directory / "inbox", vectors_inbox.vectors())


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "tests" / "vectors"
    write(target)
    print(f"make_vectors: {len(list(target.glob('*/*.json')))} vectors in {target}")
