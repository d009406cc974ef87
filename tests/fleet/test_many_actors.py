"""What an operation costs beside few other people and beside very many: requests are counted, and compared.

    python -m tests.fleet.test_many_actors

prints the requests of each beside 10, 1,000 and 10,000 actors, with the exponent: 0 for none more, 1 for as many more.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import NamedTuple

import pytest
from bench.growth import exponent

import strongroom
from strongroom import FileKeys, Token, Vault, api
from strongroom.memory import cap_index
from strongroom.store.s3 import worker_log
from tests.conftest import ALL_OPS
from tests.fleet.memory import MemoryBucket, used_by_vaults

PLACE = "s3://bucket/room"
FEW, MANY = 10, 1000
_caps = count()


class Town(NamedTuple):
    """A vault with so many actors, each with keys, a line and three caps."""

    bucket: MemoryBucket
    vault: Vault
    actors: int

    def cap(self, actor: str, *, renewals: int = 0) -> Token:
        token = self.vault.mint(actor=actor, ops=[*ALL_OPS, "renew"], namespaces=self.vault.namespaces, ttl=3600)
        for _ in range(renewals):
            token = Token(str(self.vault.memory(token).renew()))
        return token

    def requests(self, act: Callable[[], object]) -> dict[str, int]:
        """What an act asks the bucket for, by kind."""
        self.bucket.requests.clear()
        act()
        return dict(self.bucket.requests)


@pytest.fixture(scope="module")
def towns(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[int, Town]]:
    with pytest.MonkeyPatch.context() as patch:
        yield {actors: _settled(actors, tmp_path_factory.mktemp("keys"), patch) for actors in (FEW, MANY)}


def _settled(actors: int, home: Path, patch: pytest.MonkeyPatch) -> Town:
    bucket = used_by_vaults(MemoryBucket(), patch)
    town = Town(bucket, strongroom.create(PLACE, keys=FileKeys(home)), actors)
    for number in range(actors):
        cap = town.cap(f"local/a{number}", renewals=4 * (number < FEW))
        town.vault.memory(cap).put(f"trip {number}", namespace="travel")
    return town


def _revoke(town: Town) -> Callable[[], object]:
    cap = town.cap(f"local/revoked{next(_caps)}", renewals=2)
    return lambda: town.vault.revoke(cap)


def _revoke_with_a_cap(town: Town) -> Callable[[], object]:
    cap, console = town.cap(f"local/revoked{next(_caps)}", renewals=2), _console(town)
    return lambda: town.vault.door(console).call(api.Revoke(link=strongroom.caps.chain.parse(cap).links[0].id))


def _console(town: Town) -> Token:
    ops = ["mint", "revoke"]
    return town.vault.mint(actor_scope="local/", ops=ops, namespaces=town.vault.namespaces, ttl=600, data_class="admin")


def _erase(town: Town, *, what: str = "") -> Callable[[], object]:
    actor = f"local/erased{next(_caps)}"
    memory = town.vault.memory(town.cap(actor, renewals=2))
    memory.put("a trip", namespace="travel")
    return lambda: memory.erase([what]) if what else town.vault.erase(actor)


def _revoke_actor(town: Town) -> Callable[[], object]:
    actor = f"local/revoked{next(_caps)}"
    town.cap(actor, renewals=2)
    return lambda: town.vault.revoke_actor(actor)


def _renew(town: Town) -> Callable[[], object]:
    memory = town.vault.memory(town.cap(f"local/renewed{next(_caps)}", renewals=2))
    return lambda: memory.renew()


ACTS: dict[str, Callable[[Town], Callable[[], object]]] = {
    "mint": lambda town: lambda: town.cap(f"local/minted{next(_caps)}"),
    "renew": _renew,
    "revoke": _revoke,
    "revoke with a cap": _revoke_with_a_cap,
    "revoke an actor": _revoke_actor,
    "erase an actor": _erase,
    "erase a namespace": lambda town: _erase(town, what="travel"),
    "caps of one actor": lambda town: lambda: list(town.vault.caps("local/a0")),
    "doctor: look at the logs": lambda town: (
        lambda: (dict(worker_log.roster(town.bucket)), worker_log.written_logs(town.bucket))
    ),
    "doctor: open": lambda town: lambda: strongroom.open(PLACE, keys=town.vault._state.source).close(),
}
"""What concerns one actor, or none."""


@pytest.mark.requirement("fleet-many-actors")
@pytest.mark.parametrize("what", ACTS)
def test_operation_on_one_actor_takes_as_many_requests_beside_a_thousand_others_as_beside_ten(
    towns: Mapping[int, Town], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs = []
    # A sample of records that begins near their end goes on at their beginning, which is one list more.
    monkeypatch.setattr(cap_index, "random_start", lambda: cap_index.CAPS)
    for town in towns.values():
        used_by_vaults(town.bucket, monkeypatch)
        costs.append(town.requests(ACTS[what](town)))
    assert costs[0] == costs[1]
    assert sum(costs[0].values()) > 0


WALKS: dict[str, Callable[[Town], object]] = {
    "actors": lambda town: list(town.vault.actors()),
    "verify": lambda town: town.vault.audit.look(),
    "caps": lambda town: list(town.vault.caps()),
    "rotate the root": lambda town: town.vault.rotate_root(),
}
"""What is of all actors, and the most requests for each of them."""


@pytest.mark.requirement("fleet-many-actors")
@pytest.mark.parametrize("what", WALKS)
def test_cost_over_all_actors_grows_with_them_and_no_faster(
    towns: Mapping[int, Town], what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs: dict[int, int] = {}
    for town in towns.values():
        monkeypatch.setattr(town.vault.store, "_settled", 0)
        costs[town.actors] = sum(town.requests(partial(WALKS[what], town)).values())
    assert costs[MANY] <= costs[FEW] * MANY / FEW


def main(sizes: Sequence[int] = (FEW, MANY, 10_000)) -> None:
    counts: dict[str, list[tuple[int, float]]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cap_index, "random_start", lambda: cap_index.CAPS)
        for size in sizes:
            with tempfile.TemporaryDirectory() as home:
                town = _settled(size, Path(home), patch)
                patch.setattr(town.vault.store, "_settled", 0)
                walks = {what: partial(walk, town) for what, walk in WALKS.items()}
                for what, act in ({what: act(town) for what, act in ACTS.items()} | walks).items():
                    counts.setdefault(what, []).append((size, float(sum(town.requests(act).values()))))
    for what, found in counts.items():
        asked = "/".join(f"{count:,.0f}" for _, count in found)
        sys.stdout.write(f"{what:25}{asked:25}{exponent(found):5.2f}\n")


if __name__ == "__main__":
    main()
