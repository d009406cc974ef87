"""The first get of a fresh process, from `open` to the answer. Runs itself as the process that is measured."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from bench.measure import Goal, Row, Run

_KEY = bytes(range(32))


def rows(run: Run) -> Iterator[Row]:
    from bench import vaults
    from bench.lines import lines

    count = run.pick(10_000, 2_000)
    with vaults.make(run.scratch) as vault:
        token = vaults.session_cap(vault)
        vaults.fill(vault.memory(token), lines(1, count))
    _write_bare(run.scratch / "vault", run.scratch / "bare.db")
    taken: dict[str, list[dict[str, float]]] = {"ours": [], "bare": []}
    for side in taken:
        _child(side, run.scratch, token)
    for _ in range(run.pick(9, 3)):
        for side, costs in taken.items():
            costs.append(_child(side, run.scratch, token))
    ours, bare = ({key: median(one[key] for one in costs) * 1e3 for key in costs[0]} for costs in taken.values())
    what = f"first get, {count:,} lines"
    beside = "read the same rows, AES-GCM open them"
    goal = None if run.quick else Goal("ours", 1200, 100)
    yield Row("first.get", what, "ms wall", ours["wall"], bare["wall"], beside, goal)
    yield Row("first.get", what, "ms cpu", ours["cpu"], bare["cpu"], beside)
    beside = "import apsw and AESGCM"
    yield Row("first.import", "import strongroom", "ms cpu", ours["import"], bare["import"], beside)


def _child(side: str, scratch: Path, token: str) -> dict[str, float]:
    # Compiled modules are kept, as an installed package keeps them, whatever this environment says.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment["PYTHONPYCACHEPREFIX"] = str(scratch / "compiled")
    done = subprocess.run(
        [sys.executable, "-m", "bench.fresh", side, str(scratch)],
        env=environment,
        input=token,
        capture_output=True,
        text=True,
        check=True,
    )
    costs: dict[str, float] = json.loads(done.stdout)
    return costs


def _write_bare(vault: Path, file: Path) -> None:
    """The rows of the vault with bodies of the same size that plain AES-GCM opens."""
    import apsw
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    from bench.bare import DATABASE

    source, target = apsw.Connection(str(vault / DATABASE)), apsw.Connection(str(file))
    target.execute("CREATE TABLE objects (version INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, body BLOB) STRICT")
    aead, nonce = AESGCM(_KEY), bytes(12)
    with target:
        for version, name, size in source.execute("SELECT version, name, length(body) FROM objects"):
            body = nonce + aead.encrypt(nonce, bytes(max(size - 28, 0)), None)
            target.execute("INSERT INTO objects VALUES (?, ?, ?)", (version, name, body))
    source.close()
    target.close()


def _open_ours(scratch: Path, token: str) -> Callable[[], object]:
    from bench import vaults

    return lambda: vaults.reopen(scratch).memory(token).get("the first question of the day")


def _open_bare(scratch: Path, token: str) -> Callable[[], object]:  # noqa: ARG001
    import apsw
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    def read() -> list[bytes]:
        connection = apsw.Connection(str(scratch / "bare.db"))
        aead = AESGCM(_KEY)
        rows = connection.execute("SELECT name, body FROM objects ORDER BY name")
        return [aead.decrypt(body[:12], body[12:], None) for _, body in rows]

    return read


def main(side: str, scratch: Path) -> None:
    token = sys.stdin.read()
    started = process_time()
    work = (_open_ours if side == "ours" else _open_bare)(scratch, token)
    imported = process_time() - started
    wall, cpu = perf_counter(), process_time()
    work()
    costs = {"cpu": process_time() - cpu, "wall": perf_counter() - wall, "import": imported}
    print(json.dumps(costs))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
