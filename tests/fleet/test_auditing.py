"""The logs of several workers, as their owner sees them: shown by time, proven one by one, missed if one is gone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

import strongroom
from strongroom import FileKeys, Vault, tlog
from strongroom.audit.verify import Flaw
from strongroom.errors import InvalidRequest, Tampered
from strongroom.store import s3
from strongroom.vault import opening
from tests.fleet.memory import MemoryBucket

Open = Callable[[], Vault]
PLACE = "s3://bucket/room"


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> MemoryBucket:
    made = MemoryBucket()

    class Backend(s3.S3Backend):
        create = staticmethod(lambda place, *rest: s3.create(made, place, *rest))  # type: ignore[assignment]
        open = staticmethod(lambda place: s3.open_store(made, place))  # type: ignore[assignment]

    monkeypatch.setattr(opening, "backend", lambda place: (Backend, place))
    return made


@pytest.fixture
def worker(bucket: MemoryBucket, tmp_path: Path) -> Iterator[Open]:
    """Opens the same vault again, as another worker does."""
    keys = FileKeys(tmp_path / "keys")
    opened = [strongroom.create(PLACE, keys=keys)]

    def another() -> Vault:
        opened.append(strongroom.open(PLACE, keys=keys))
        return opened[-1]

    yield another
    for one in opened:
        one.close()


def put(vault: Vault, *texts: str) -> None:
    cap = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"], ttl=600)
    for text in texts:
        vault.memory(cap).put(text)


def flaws(vault: Vault) -> set[Flaw]:
    return {one.flaw for one in vault.audit.look().findings}


@pytest.mark.requirement("fleet-tampering")
def test_without_its_log_a_worker_in_the_roster_is_missed(worker: Open, bucket: MemoryBucket) -> None:
    first, second = worker(), worker()
    put(first, "one")
    put(second, "two")
    assert first.audit.look().ok
    gone = next(name for name in bucket.objects if name.startswith("roster/")).removeprefix("roster/")
    bucket.delete([name for name in bucket.objects if name.startswith(f"logs/{gone}/")])
    assert Flaw.LOG_MISSING in flaws(first)


@pytest.mark.requirement("fleet-tampering")
def test_a_log_of_somebody_whom_the_vault_never_certified_is_told(worker: Open, bucket: MemoryBucket) -> None:
    vault = worker()
    put(vault, "one")
    name, body = next((name, body) for name, body in bucket.objects.items() if name.startswith("logs/"))
    bucket.objects[name.replace(name.split("/")[1], "w0000000000000aaaaaaaaaaaa")] = body
    assert Flaw.LOG_UNKNOWN in flaws(vault)


@pytest.mark.requirement("fleet-tampering")
def test_an_entry_in_the_roster_with_another_key_is_forged(worker: Open, bucket: MemoryBucket) -> None:
    vault = worker()
    put(vault, "one")
    name = next(name for name in bucket.objects if name.startswith("roster/"))
    member = msgspec.json.decode(bucket.objects[name])
    bucket.objects[name] = msgspec.json.encode({**member, "public": "A" * 43 + "="})
    assert Flaw.ROSTER_FORGED in flaws(vault)


def test_entries_of_all_workers_are_shown_by_their_times_and_each_is_proven(worker: Open) -> None:
    first, second = worker(), worker()
    put(first, "one", "two")
    put(second, "three")
    put(first, "four")
    shown = dict(second.audit.entries())
    times = [entry.time for entry in shown.values() if entry is not None]
    assert times == sorted(times)
    assert len(shown) == second.audit.size() == 8
    origins = set()
    for number, entry in shown.items():
        proof = tlog.Proof.parse(second.audit.prove(number))
        origin = proof.note.partition("\n")[0]
        assert entry is not None
        assert proof.check(entry.encoded(), origin, second.audit.public_key).size >= 1
        origins.add(origin)
    assert len(origins) == 3, "the creator's log, and two more"


def test_nothing_is_proven_of_logs_with_a_flaw_and_no_entry_that_there_is_not(
    worker: Open, bucket: MemoryBucket
) -> None:
    vault = worker()
    put(vault, "one", "two")  # the second one's entry says that the first was carried out
    with pytest.raises(InvalidRequest):
        vault.audit.prove(vault.audit.size())
    bucket.delete([min(name for name in bucket.objects if "/lines/" in name)])
    with pytest.raises(Tampered):
        vault.audit.prove(0)


def test_a_checkpoint_is_kept_for_each_log_and_a_cut_is_noticed(worker: Open, bucket: MemoryBucket) -> None:
    first, second = worker(), worker()
    put(first, "one")
    put(second, "two")
    assert first.audit.verify().ok
    last = max(name for name in bucket.objects if name.startswith(f"logs/{second._state.log.worker}/"))
    bucket.delete([last])
    assert Flaw.LOG_ROLLED_BACK in flaws(first)
