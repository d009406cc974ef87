"""The logs of several workers, as their owner sees them: shown by time, proven one by one, missed if one is gone.

What a bucket's operator puts there is found by its name, whatever it is; what workers do meanwhile is no flaw.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import pytest

import strongroom
from strongroom import FileKeys, Vault
from strongroom.audit.verifier import Flaw
from strongroom.cli import log_view
from strongroom.crypto import merkle_log
from strongroom.errors import InvalidRequest, StoreUnavailable, Tampered
from strongroom.model import Millis
from strongroom.store.s3.bucket import BucketListing
from strongroom.vault import owner_audit
from tests.fleet.memory import MemoryBucket, used_by_vaults

Open = Callable[[], Vault]
PLACE = "s3://bucket/room"
OPS = ["put", "get", "list", "forget", "erase"]


class Clock:
    """The time of all workers; it stands still unless it is moved."""

    def __init__(self) -> None:
        self.time = 1_800_000_000_000

    def __call__(self) -> Millis:
        return Millis(self.time)

    def pass_by(self, seconds: int) -> None:
        self.time += seconds * 1000


class BusyBucket(MemoryBucket):
    """One where something else may happen each time that somebody begins to read the logs."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], None] | None = None

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        if prefix == "roster/" and self.meanwhile is not None:
            self.meanwhile()
        return super().list(prefix, after, limit)


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> BusyBucket:
    return used_by_vaults(BusyBucket(), monkeypatch)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def worker(bucket: MemoryBucket, tmp_path: Path, clock: Clock) -> Iterator[Open]:
    """Opens the same vault again, as another worker does."""
    keys = FileKeys(tmp_path / "keys")
    opened = [strongroom.create(PLACE, keys=keys, now=clock)]

    def another() -> Vault:
        opened.append(strongroom.open(PLACE, keys=keys, now=clock))
        return opened[-1]

    yield another
    for one in opened:
        one.close()


def put(vault: Vault, *texts: str, actor: str = "local/alice") -> list[str]:
    cap = vault.mint(actor=actor, ops=OPS, namespaces=["travel"], ttl=600)
    return [vault.memory(cap).put(text).id for text in texts]


def flaws(vault: Vault) -> set[Flaw]:
    return {one.flaw for one in vault.audit.look().findings}


@pytest.mark.requirement("fleet-tampering")
def test_worker_in_the_roster_without_its_log_is_missed(worker: Open, bucket: MemoryBucket) -> None:
    first, second = worker(), worker()
    put(first, "one")
    put(second, "two")
    assert first.audit.look().ok
    gone = next(name for name in bucket.objects if name.startswith("roster/")).removeprefix("roster/")
    bucket.delete([name for name in bucket.objects if name.startswith(f"logs/{gone}/")])
    assert Flaw.LOG_MISSING in flaws(first)


@pytest.mark.requirement("fleet-tampering")
def test_log_of_somebody_whom_the_vault_never_certified_is_told(worker: Open, bucket: MemoryBucket) -> None:
    vault = worker()
    put(vault, "one")
    name, body = next((name, body) for name, body in bucket.objects.items() if name.startswith("logs/"))
    bucket.objects[name.replace(name.split("/")[1], "w0000000000000aaaaaaaaaaaa")] = body
    assert Flaw.LOG_UNKNOWN in flaws(vault)


@pytest.mark.requirement("fleet-tampering")
def test_entry_in_the_roster_with_another_key_is_forged(worker: Open, bucket: MemoryBucket) -> None:
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
        proof = merkle_log.Proof.parse(second.audit.prove(number))
        origin = proof.note.partition("\n")[0]
        assert entry is not None
        assert proof.check(entry.encoded(), origin, second.audit.public_key).size >= 1
        origins.add(origin)
    assert len(origins) == 3, "the creator's log, and two more"


def test_newest_entries_of_all_workers_come_first_each_with_its_worker(
    worker: Open, bucket: MemoryBucket, clock: Clock
) -> None:
    first, second = worker(), worker()
    clock.pass_by(1)
    put(first, "one", "two")
    clock.pass_by(1)
    put(second, "three")
    newest = list(second.audit.newest())
    assert [(one.number, one.entry) for one in newest] == list(second.audit.entries())[::-1]
    latest, before = newest[0].worker, newest[2].worker
    assert [one.worker for one in newest[:5]] == [latest, latest, before, before, before]
    assert {one.worker for one in newest} == {name.split("/")[1] for name in bucket.objects if name.startswith("logs/")}
    assert latest != before


def test_shown_entry_says_which_worker_wrote_it(worker: Open) -> None:
    first, second = worker(), worker()
    put(first, "one")
    put(second, "two")
    shown, _ = log_view.find_entries(second, log_view.Filter(ops=frozenset({"put"})), 10)
    assert {(one.index, one.worker) for one in shown} <= {(one.number, one.worker) for one in second.audit.newest()}
    assert [log_view.seen_row(one)[1] for one in shown] == [one.worker[-6:] for one in shown]
    assert len({one.worker[-6:] for one in shown}) == 2


def test_every_part_of_a_log_is_read_once_for_the_newest_entries(
    worker: Open, bucket: MemoryBucket, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = worker()
    put(vault, *map(str, range(20)))
    bundles = [name for name in bucket.objects if name.startswith("logs/")]
    monkeypatch.setattr(owner_audit, "_BLOCK", 2)
    before = bucket.requests["get"]
    assert len(list(vault.audit.newest())) > 20
    assert bucket.requests["get"] - before == len(bundles)


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


def test_checkpoint_is_kept_for_each_log_and_a_cut_is_noticed(worker: Open, bucket: MemoryBucket) -> None:
    first, second = worker(), worker()
    put(first, "one")
    put(second, "two")
    assert first.audit.verify().ok
    last = max(name for name in bucket.objects if name.startswith(f"logs/{second._state.log.worker}/"))
    bucket.delete([last])
    assert Flaw.LOG_ROLLED_BACK in flaws(first)


# Erasures.


@pytest.mark.requirement("fleet-tampering")
def test_erased_actor_that_is_put_back_whole_is_found(worker: Open, bucket: MemoryBucket, clock: Clock) -> None:
    vault = worker()
    put(vault, "a trip")
    kept = {name: body for name, body in bucket.objects.items() if name.startswith("actors/")}
    clock.pass_by(600)
    vault.erase("local/alice")
    put(vault, "somebody else's", actor="local/bob")  # says that the erasure was carried out
    assert vault.audit.look().ok
    bucket.objects.update(kept)
    found = vault.audit.look().findings
    assert [one.flaw for one in found] == [Flaw.OBJECT_REVIVED] * 2
    assert {one.object for one in found} == {_logical(name) for name in kept}


@pytest.mark.requirement("fleet-tampering")
def test_absence_of_a_line_is_still_found_after_an_erasure_that_failed(
    worker: Open, bucket: MemoryBucket, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    vault = worker()
    put(vault, "a trip")
    memory = vault.memory(vault.mint(actor="local/alice", ops=OPS, namespaces=vault.namespaces, ttl=600))
    with monkeypatch.context() as patch:
        patch.setattr(vault._state.store.writer, "carry_out", _fails)  # type: ignore[attr-defined]
        with pytest.raises(StoreUnavailable):
            memory.erase(everything=True)
    clock.pass_by(3600)
    put(vault, "another trip", "and one more")
    assert vault.audit.look().is_sound
    bucket.delete([min(name for name in bucket.objects if "/lines/" in name)])
    assert flaws(vault) == {Flaw.OBJECT_MISSING}


def test_actor_that_comes_back_after_its_erasure_is_no_flaw(worker: Open, clock: Clock) -> None:
    vault = worker()
    put(vault, "a trip")
    vault.erase("local/alice")
    clock.pass_by(1)  # caps of the same moment are void
    put(vault, "a new life", "and another line")
    assert vault.audit.look().ok


def _fails(*_: object) -> int:
    raise StoreUnavailable("the bucket is out of reach")


def _logical(place: str) -> str:
    """An object's name, by where it lies in a bucket in which nothing was erased before."""
    return place.replace("/g000000", "").removesuffix("/at") + ("/keys" if place.endswith("/at") else "")


# Whatever somebody puts into a bucket.

PACK = b"strongroom pack of lines 1\n"
SALT = b"12345678"
UTF8 = b"\xa2\xff\xfe"
NESTED = b"\x91" * 100_000 + b"\xc0"


def _bundle(first: int, time: int, worker: bytes = b"w") -> bytes:
    member = {"v": 1, "worker": "XYZ", "public": b"", "since": 0, "certificate": b""}
    return msgspec.msgpack.encode([first, [b""], time, b"", b"", member]).replace(
        b"\xa3XYZ", bytes([160 + len(worker)]) + worker
    )


MALFORMED: Mapping[str, tuple[str, bytes, Flaw]] = {
    "a line with another frame": ("{shelf}lines/planted", b"\x02line", Flaw.OBJECT_ALTERED),
    "a line of an actor that is none": ("actors/{none}/g000000/x", b"no frame", Flaw.OBJECT_ALTERED),
    "a head of garbage": ("{actor}at", b"garbage", Flaw.OBJECT_ALTERED),
    "a head of nothing": ("{actor}at", b"", Flaw.OBJECT_ALTERED),
    "a head that is no text": ("{actor}at", SALT + b"\x93\x81" + UTF8 + b"\x00\xc0\xc2", Flaw.OBJECT_ALTERED),
    "a head without an end": ("{actor}at", SALT + b"\x94\x80\xc0\xc2" + NESTED, Flaw.OBJECT_ALTERED),
    "a pack of garbage": ("{shelf}packs/" + "0" * 24, b"x" * 100, Flaw.OBJECT_ALTERED),
    "a pack that is no text": (
        "{shelf}packs/" + "0" * 24,
        PACK + b"\x91\x93" + UTF8 + b"\x01\xc0",
        Flaw.OBJECT_ALTERED,
    ),
    "a record of a cap without a frame": ("caps/x", b"no frame", Flaw.OBJECT_ALTERED),
    "an object of the vault without a frame": ("vault/x", b"no frame", Flaw.OBJECT_ALTERED),
    "keys where none are": ("{actor}g000000/keys", b"\x01keys", Flaw.OBJECT_EXTRA),
    "a name behind all names in an actor": ("{actor}\u00e9", b"\x01", Flaw.OBJECT_EXTRA),
    "a name behind all names of actors": ("actors/\u00e9/\u00e9", b"\x01", Flaw.OBJECT_EXTRA),
    "a name behind all names in a log": ("{log}\u00e9", b"\x01", Flaw.LOG_EDITED),
    "a folder of actors": ("actors/", b"", Flaw.OBJECT_EXTRA),
    "a folder without a name": ("actors//x", b"", Flaw.OBJECT_EXTRA),
    "a folder of logs": ("logs/", b"", Flaw.OBJECT_EXTRA),
    "a folder of the roster": ("roster/", b"", Flaw.ROSTER_FORGED),
    "an entry of the roster without an end": ("roster/x", b'{"v":1,"w":' + b"[" * 100_000, Flaw.ROSTER_FORGED),
    "a bundle that is no text": ("{log}000000000099", _bundle(0, 0, b"\xff\xfe"), Flaw.LOG_EDITED),
    "a bundle before all others": ("{log}000000000099", _bundle(-5, 0), Flaw.LOG_EDITED),
    "a bundle at the end of all numbers": ("{log}000000000099", _bundle(2**64 - 1, 0), Flaw.LOG_EDITED),
    "a bundle of nobody": ("logs/w1/000000000001", _bundle(0, 0), Flaw.LOG_UNKNOWN),
}


@pytest.mark.parametrize("what", MALFORMED)
@pytest.mark.requirement("fleet-tampering")
def test_one_malformed_object_is_named_and_hides_nothing_else(worker: Open, bucket: MemoryBucket, what: str) -> None:
    vault = worker()
    put(vault, "one", "two", "three")
    put(vault, "one", "two", "three", actor="local/bob")
    victim, other = (
        sorted(name for name in bucket.objects if "/lines/" in name and name.startswith(actor))
        for actor in _actors(bucket)
    )
    place, body, flaw = MALFORMED[what]
    log = next(name for name in bucket.objects if name.startswith(f"logs/{vault._state.log.worker}/"))
    actor, shelf = victim[0].partition("g000000")[0], victim[0].partition("lines/")[0]
    place = place.format(actor=actor, shelf=shelf, none="0" * 32, log=log.rpartition("/")[0] + "/")
    altered = bucket.objects[other[0]]
    bucket.objects[place] = body
    bucket.objects[other[0]] = altered[:-1] + bytes([altered[-1] ^ 1])
    bucket.delete([other[1]])
    found = strongroom.verify(PLACE, keys=vault._state.source).findings
    assert flaw in {one.flaw for one in found if one.object != _logical(other[0])}
    assert flaw not in {Flaw.OBJECT_ALTERED, Flaw.OBJECT_EXTRA} or _named(place) in {one.object for one in found}
    assert (Flaw.OBJECT_ALTERED, _logical(other[0])) in {(one.flaw, one.object) for one in found}
    assert Flaw.OBJECT_MISSING in {one.flaw for one in found}, "what is gone is missed, too"


def _actors(bucket: MemoryBucket) -> list[str]:
    return sorted(name.removesuffix("at") for name in bucket.objects if name.endswith("/at"))


def _named(place: str) -> str:
    """How a finding names what lies at a place. An actor of which a pack does not read is named by its keys."""
    if "/packs/" in place:
        return place.partition("g000000")[0] + "keys"
    if place.startswith("caps/"):
        return f"vault/{place}"
    return _logical(place) if "/g000000/keys" not in place else place


FOLDERS = ["actors/", "actors/{none}/", "{actor}", "caps/", "caps/x/", "logs/", "logs/w0/", "{log}", "roster/"]


@pytest.mark.parametrize("folder", FOLDERS)
@pytest.mark.requirement("fleet-tampering")
def test_marker_of_a_folder_ends_no_list_and_hides_nobody(
    worker: Open, bucket: BusyBucket, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    vault = worker()
    put(vault, "one", "two")
    log, actor = f"logs/{vault._state.log.worker}/", _actors(bucket)[0]
    bucket.objects[folder.format(log=log, actor=actor, none="0" * 32)] = b""
    monkeypatch.setattr(bucket, "list", _without_slashes(bucket))
    found = flaws(vault)
    assert found or folder.startswith("caps/"), "one among the records of caps is no object by any name"
    assert found <= {Flaw.OBJECT_EXTRA, Flaw.LOG_EDITED, Flaw.ROSTER_FORGED, Flaw.LOG_MISSING}
    assert list(vault.actors()) == ["local/alice"]


def _without_slashes(bucket: MemoryBucket) -> Callable[..., Sequence[BucketListing]]:
    """Lists as the client library gives them: what ends with a slash is called by what is before it."""

    def listed(prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        found = [one for one in MemoryBucket.list(bucket, prefix) if one.name > after]
        return [one._replace(name=one.name.rstrip("/")) for one in found[:limit]]

    return listed


@pytest.mark.requirement("fleet-tampering")
def test_unsigned_entry_speaks_for_no_object(worker: Open, bucket: MemoryBucket) -> None:
    vault = worker()
    put(vault, "one", "two")
    name = max(name for name in bucket.objects if name.startswith(f"logs/{vault._state.log.worker}/"))
    fields = msgspec.msgpack.decode(bucket.objects[name])
    bucket.objects[name] = msgspec.msgpack.encode([bytes(64) if part == fields[-2] else part for part in fields])
    assert flaws(vault) == {Flaw.HEAD_FORGED, Flaw.OBJECT_EXTRA}


# What workers do meanwhile.


def _each_time(steps: Sequence[Callable[[], object]]) -> Callable[[], None]:
    left = iter(steps)

    def step() -> None:
        next(left, lambda: None)()

    return step


@pytest.mark.requirement("fleet-tampering")
def test_lines_that_are_forgotten_at_every_look_are_no_flaw(worker: Open, bucket: BusyBucket, clock: Clock) -> None:
    vault, other = worker(), worker()
    ids = put(vault, *(f"trip {number}" for number in range(20)))
    memory = other.memory(other.mint(actor="local/alice", ops=OPS, namespaces=["travel"], ttl=6000))
    clock.pass_by(600)

    def forget(line: str) -> Callable[[], object]:
        return lambda: (memory.forget(ids=[line]), memory.get("trip"))

    bucket.meanwhile = _each_time([forget(line) for line in ids])
    assert not flaws(vault)


@pytest.mark.requirement("fleet-tampering")
def test_lines_that_are_put_at_every_look_are_not_missing(worker: Open, bucket: BusyBucket) -> None:
    vault, other = worker(), worker()
    put(vault, "first")
    bucket.meanwhile = _each_time([lambda: put(other, "one more", "and another")] * 20)
    assert not flaws(vault)


@pytest.mark.requirement("fleet-tampering")
def test_line_that_is_altered_or_gone_is_found_while_others_write_at_every_look(
    worker: Open, bucket: BusyBucket
) -> None:
    vault, other = worker(), worker()
    put(vault, "one", "two", "three")
    altered, gone = sorted(name for name in bucket.objects if "/lines/" in name)[:2]
    bucket.objects[altered] += b"more"
    bucket.delete([gone])
    bucket.meanwhile = _each_time([lambda: put(other, "one more", "and another")] * 20)
    assert flaws(vault) == {Flaw.OBJECT_ALTERED, Flaw.OBJECT_MISSING}


@pytest.mark.parametrize("content", ["", "garbage", "strongroom/0123456789abcdef/w/x\n"])
@pytest.mark.requirement("fleet-tampering")
def test_witness_that_is_no_checkpoint_is_named(worker: Open, tmp_path: Path, content: str) -> None:
    vault = worker()
    assert vault.audit.verify().ok
    (tmp_path / "keys" / "checkpoint").write_text(content, encoding="utf-8")
    assert flaws(vault) == {Flaw.WITNESS_INVALID}


# What is beside.


@pytest.mark.requirement("fleet-tampering")
def test_entry_of_the_roster_that_was_deleted_alone_is_named(worker: Open, bucket: MemoryBucket) -> None:
    vault = worker()
    put(vault, "a trip")
    gone = vault.store.worker  # type: ignore[attr-defined]
    bucket.delete([f"roster/{gone}"])
    assert flaws(vault) == {Flaw.ROSTER_MISSING}


@pytest.mark.requirement("fleet-tampering")
def test_worker_killed_before_it_was_in_the_roster_is_no_flaw(worker: Open, bucket: MemoryBucket) -> None:
    vault = worker()
    bodies = dict(bucket.objects)
    put(vault, "a trip")
    mine = vault.store.worker  # type: ignore[attr-defined]
    bodies[f"logs/{mine}/{1:012d}"] = bucket.objects[f"logs/{mine}/{1:012d}"]
    bucket.objects.clear()
    bucket.objects.update(bodies)
    assert Flaw.ROSTER_MISSING not in flaws(worker())


@pytest.mark.requirement("fleet-tampering")
def test_planted_announcements_are_named(worker: Open, bucket: MemoryBucket) -> None:
    vault = worker()
    bucket.create("news/000000000099", b"planted")
    bucket.create("news/zzz", b"planted")
    assert {(one.flaw, one.object) for one in vault.audit.look().findings} == {
        (Flaw.OBJECT_EXTRA, "news/000000000099"),
        (Flaw.OBJECT_EXTRA, "news/zzz"),
    }


@pytest.mark.requirement("fleet-tampering")
def test_bytes_of_a_forgotten_line_beside_its_burial_are_noted_and_not_served(
    worker: Open, bucket: MemoryBucket
) -> None:
    vault = worker()
    put(vault, "a trip")
    memory = vault.memory(vault.mint(actor="local/alice", ops=OPS, namespaces=vault.namespaces, ttl=600))
    (name,) = [one for one in bucket.objects if "/lines/" in one]
    body = bucket.objects[name]
    memory.forget(ids=[name[-26:]])
    assert vault.audit.look().notes == ()
    bucket.objects[name] = body
    report = vault.audit.look()
    assert report.ok
    assert [name[-26:] in one for one in report.notes] == [True]
    assert memory.list().lines == ()


@pytest.mark.requirement("s3-contract")
def test_forgotten_line_is_not_said_to_be_scrubbed_where_the_bucket_keeps_versions(
    worker: Open, bucket: MemoryBucket
) -> None:
    vault = worker()
    put(vault, "a trip", "another")
    memory = vault.memory(vault.mint(actor="local/alice", ops=OPS, namespaces=vault.namespaces, ttl=600))
    first, second = [one.id for one in memory.list().lines]
    assert memory.forget(ids=[first]).scrubbed
    bucket.keeps_versions = True
    assert not memory.forget(ids=[second]).scrubbed
