"""A store that fails: before anything was done, after everything was done, on a full, locked, read-only or bad disk."""

from __future__ import annotations

import os
import random
import resource
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import strongroom
from strongroom import FileKeys, Memory, NewLine, Token, Vault, engines
from strongroom.audit.entry import Decision
from strongroom.audit.log import Witness
from strongroom.engines.recency import Recency
from strongroom.errors import KeyUnavailable, StrongroomError
from strongroom.keys import Keyring
from strongroom.model import Document, DocumentPage, Erased, Forgotten, Listing, Profile, Receipt, Snapshot
from strongroom.store import sqlite
from strongroom.store.fair_lock import WRITABLE
from strongroom.store.fake import FakeDisk, FakeStores, Faults
from strongroom.store.sqlite import SqliteStore
from strongroom.vault import create_open
from strongroom.vault.key_rotation import Rotated
from tests.conftest import ALL_OPS, NAMESPACES, Clock
from tests.store.children import Place, Process, in_fork, reason_of

LINE_IDS = [f"01JABCDEFGHJKMNPQRSTVWXY{number:02}" for number in range(20)]
ACTORS = ["local/alice", "local/bob", "local/carol"]
UNAVAILABLE = {"audit_unavailable", "store_unavailable"}


# A whole vault in memory, which can be copied before each fault.


class MemoryKeys:
    """A key source that lives as long as the test."""

    def __init__(self) -> None:
        self.ring: Keyring | None = None
        self.seed = b""

    def copy(self) -> MemoryKeys:
        other = MemoryKeys()
        other.ring, other.seed = self.ring, self.seed
        return other

    def create(self) -> None:
        self.ring, self.seed = Keyring.of(os.urandom(32)), os.urandom(32)

    def discard(self) -> None:
        """They outlive every vault of a test."""

    def load(self) -> Keyring:
        if self.ring is None:
            raise KeyUnavailable("there are no keys")
        return self.ring

    def replace(self, ring: Keyring) -> None:
        self.ring = ring

    def issuer(self) -> bytes:
        return self.seed

    def replace_issuer(self, seed: bytes) -> None:
        self.seed = seed

    @contextmanager
    def rotating(self) -> Iterator[None]:
        yield


class MemoryWitness(Witness):
    def __init__(self, note: str | None = None) -> None:
        super().__init__(Path())
        self.note = note

    def read(self) -> str | None:
        return self.note

    def keep(self, note: str) -> None:
        self.note = note


@dataclass
class Scene:
    """An open vault on a store that can be made to fail."""

    stores: FakeStores
    keys: MemoryKeys
    witness: MemoryWitness
    vault: Vault
    caps: dict[str, Token]
    profile: str = ""
    document: str = ""

    @property
    def faults(self) -> Faults:
        return self.stores.faults

    @property
    def memory(self) -> Memory:
        return self.vault.memory(self.caps["local/alice"])

    def copy(self) -> Scene:
        """The same vault, byte for byte, as it would be restored elsewhere, just opened."""
        disk = self.stores.disks["here"]
        stores = FakeStores()
        stores.disks["here"] = FakeDisk(dict(disk.objects), list(disk.entries), disk.head, disk.version)
        keys, witness = self.keys.copy(), MemoryWitness(self.witness.note)
        return replace(self, stores=stores, keys=keys, witness=witness, vault=_open(stores, keys, witness))

    def restarted(self) -> Vault:
        """Another process's view of the same vault, without faults."""
        return _open(FakeStores.of(self.stores.disks), self.keys, self.witness)


def _open(stores: FakeStores, keys: MemoryKeys, witness: MemoryWitness) -> Vault:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(create_open, "backend", lambda location: (stores, location))
        return strongroom.open("here", keys=keys, witness=witness, now=Clock())


def _create() -> Scene:
    stores, keys, witness = FakeStores(), MemoryKeys(), MemoryWitness()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(create_open, "backend", lambda location: (stores, location))
        vault = strongroom.create("here", keys=keys, witness=witness, now=Clock())
    caps = {actor: vault.mint(actor=actor, ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600) for actor in ACTORS}
    caps["travel only"] = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"], ttl=3600)
    return Scene(stores, keys, witness, vault, caps)


@pytest.fixture(scope="module")
def furnished() -> Scene:
    """Alice has lines in two namespaces, a profile and a document, Bob has a line, Carol has a cap and nothing else."""
    scene = _create()
    scene.memory.put("one", namespace="travel", id=LINE_IDS[1])
    scene.memory.put("two", namespace="travel", id=LINE_IDS[2], session="s")
    scene.memory.put("three", namespace="work", id=LINE_IDS[3], session="s")
    profile = scene.memory.set_profile("likes tea", namespace="work").version
    document = scene.memory.write_document("trip", "old", namespace="travel").version
    scene.vault.memory(scene.caps["local/bob"]).put("Bob's", namespace="travel", id=LINE_IDS[1])
    scene.vault.audit.checkpoint()
    return replace(scene, profile=profile, document=document)


OPERATIONS: dict[str, Callable[[Scene], object]] = {
    "put": lambda scene: scene.memory.put("four", namespace="travel", id=LINE_IDS[4]),
    "put into a new namespace": lambda scene: scene.memory.put("four", namespace="family", id=LINE_IDS[4]),
    "put by a new actor": lambda scene: scene.vault.memory(scene.caps["local/carol"]).put("new", namespace="work"),
    "put again": lambda scene: scene.memory.put("one", namespace="travel", id=LINE_IDS[1]),
    "put a batch": lambda scene: scene.memory.put_many(
        [NewLine(text=str(number), namespace=NAMESPACES[number], id=LINE_IDS[4]) for number in range(4)]
    ),
    "get": lambda scene: scene.memory.get("one"),
    "get by id": lambda scene: scene.memory.get(ids=[LINE_IDS[2], LINE_IDS[3]]),
    "list": lambda scene: scene.memory.list(),
    "snapshot": lambda scene: scene.memory.snapshot(),
    "profile": lambda scene: scene.memory.profile("work"),
    "set profile": lambda scene: scene.memory.set_profile("likes maté", namespace="work", version=scene.profile),
    "write a document": lambda scene: scene.memory.write_document("new", "new", namespace="travel"),
    "write a document into a new namespace": lambda scene: scene.memory.write_document("a", "b", namespace="family"),
    "change a document": lambda scene: scene.memory.write_document(
        "trip", "new", namespace="travel", version=scene.document
    ),
    "rename a document": lambda scene: scene.memory.rename_document("trip", "moved", namespace="travel"),
    "delete a document": lambda scene: scene.memory.delete_document("trip", namespace="travel"),
    "list documents": lambda scene: scene.memory.documents(),
    "history of a document": lambda scene: scene.memory.document_history("trip", namespace="travel"),
    "forget a document": lambda scene: scene.memory.forget(kind="document"),
    "forget": lambda scene: scene.memory.forget(ids=[LINE_IDS[1], LINE_IDS[9]]),
    "forget a session": lambda scene: scene.memory.forget(session="s"),
    "erase a namespace": lambda scene: scene.memory.erase(["travel"]),
    "erase everything": lambda scene: scene.memory.erase(everything=True),
    "denied": lambda scene: scene.vault.memory(scene.caps["travel only"]).list(),
    "conflict": lambda scene: scene.memory.put("another", namespace="travel", id=LINE_IDS[1]),
    "mint": lambda scene: scene.vault.mint(actor="local/dan", ops=["get"], namespaces=["work"]),
    "revoke": lambda scene: scene.vault.revoke(scene.caps["local/alice"]),
    "revoke an actor": lambda scene: scene.vault.revoke_actor("local/alice"),
    "add a namespace": lambda scene: scene.vault.add_namespace("health"),
    "erase an actor": lambda scene: scene.vault.erase("local/alice", rotate_root=True),
    "rotate the root": lambda scene: scene.vault.rotate_root(),
    "rotate an actor": lambda scene: scene.vault.rotate_actor("local/alice"),
    "rotate the issuer": lambda scene: scene.vault.rotate_issuer(),
    "accept the clock": lambda scene: scene.vault.accept_clock(),
}


def _outcome(operation: Callable[..., object], *args: object, **named: object) -> object:
    """What a caller gets to see, without what is random in it."""
    try:
        return _plain(operation(*args, **named))
    except StrongroomError as error:
        return error.reason


def _run(scene: Scene, name: str) -> object:
    return _outcome(OPERATIONS[name], scene)


def _plain(result: Any) -> object:
    match result:
        case list():
            return tuple(_plain(one) for one in result)
        case Receipt():
            return result.namespace, result.duplicate, result.forgotten
        case Listing():
            return tuple((line.id, line.namespace) for line in result.lines)
        case Snapshot():
            return tuple(profile.text for profile in result.profiles)
        case Profile():
            return result.text
        case Document():
            return result.key, result.text
        case DocumentPage():
            return tuple(one.key for one in result.documents)
        case Forgotten(ids=ids) if ids and ids[0] not in LINE_IDS:
            return result.missing, result.scrubbed
        case Forgotten() | Erased() | Rotated() | None:
            return result
        case str():
            return "a token or a link"
        case _:
            return result.id, result.text


def _visible(scene: Scene) -> object:
    """Everything that anybody can see after a restart, without what is random in it. Leaves the scene as it is."""
    size = scene.stores.disks["here"].head.size
    with scene.copy().vault as vault:
        caps = sorted((record.actor, record.revoked) for record in vault.caps())
        usable = {name: reason_of(vault.memory(cap).get) for name, cap in scene.caps.items()}
        lines = {actor: _lines(vault, actor) for actor in sorted(vault.actors())}
        report = vault.audit.verify()
        assert report.ok, report.findings
        return size, caps, usable, vault.namespaces, lines


def _lines(vault: Vault, actor: str) -> Sequence[tuple[str, str]]:
    token = vault.mint(actor=actor, ops=["list", "get", "snapshot"], namespaces=vault.namespaces, ttl=3600)
    memory = vault.memory(token)
    ids = sorted({line.id for line in memory.list().lines})
    found = [(hit.namespace, hit.text) for hit in (memory.get(ids=ids) if ids else [])]
    documents = [memory.document(one.key, namespace=one.namespace) for one in memory.documents().documents]
    found += [(one.namespace, one.key + one.text) for one in documents]
    return [*found, *((profile.namespace, profile.text) for profile in memory.snapshot().profiles)]


def _commits(furnished: Scene, name: str) -> tuple[int, object, object]:
    """How many commits an operation makes without faults, what it returns, and what is visible then."""
    scene = furnished.copy()
    before = scene.faults.calls["commit"]
    outcome = _run(scene, name)
    return scene.faults.calls["commit"] - before, outcome, _visible(scene)


@pytest.mark.requirement("store-faults", "audit-closed", "audit-atomic")
@pytest.mark.parametrize("name", OPERATIONS)
def test_fault_at_any_commit_leaves_all_of_it_or_nothing(furnished: Scene, name: str) -> None:
    count, outcome, done = _commits(furnished, name)
    assert count > 0
    assert outcome not in UNAVAILABLE
    reached = _visible(furnished.copy())
    for number in range(1, count + 1):
        # What is there before the n-th commit is what was there after the one before it: nothing lies between.
        scene = furnished.copy()
        scene.faults.before("commit", number)
        assert _run(scene, name) == "audit_unavailable"
        assert _visible(scene) == reached
        if number == 1:
            assert _run(scene, name) == outcome
            assert _visible(scene) == done
        scene = furnished.copy()
        scene.faults.after("commit", number)
        assert _run(scene, name) == "audit_unavailable"
        reached = _visible(scene)
        assert _run(scene, name) not in UNAVAILABLE | {"tampered"}
        _visible(scene)
    assert reached == done


READS = ["get", "list", "version", "changes", "head", "entries"]


@pytest.mark.requirement("store-faults", "store-missing-broken")
@pytest.mark.parametrize("name", OPERATIONS)
def test_read_that_fails_is_never_taken_for_an_empty_answer(furnished: Scene, name: str) -> None:
    scene = furnished.copy()
    scene.faults.calls.clear()
    outcome = _run(scene, name)
    calls = {method: scene.faults.calls[method] for method in READS}
    possible = [_visible(furnished.copy()), _visible(scene)]
    failed = 0
    for method, count in calls.items():
        for number in range(1, count + 1):
            scene = furnished.copy()
            scene.faults.before(method, number)
            got = _run(scene, name)
            assert got in ("store_unavailable", outcome), (method, number)
            failed += got == "store_unavailable"
            if name not in ("erase an actor", "rotate the issuer", "rotate the root"):  # these make several commits
                assert _visible(scene) in possible, (method, number)
            again = _run(scene, name)
            assert again not in UNAVAILABLE | {"tampered"}, (method, number)
    assert failed or not sum(calls.values())


@pytest.mark.requirement("store-faults", "put-idempotent")
def test_put_that_failed_after_it_was_durable_is_a_duplicate_when_sent_again(furnished: Scene) -> None:
    scene = furnished.copy()
    for when in (scene.faults.before, scene.faults.after):
        when("commit")
        line = LINE_IDS[5] if when == scene.faults.before else LINE_IDS[6]
        assert reason_of(scene.memory.put, "five", namespace="travel", id=line) == "audit_unavailable"
        receipt = scene.memory.put("five", namespace="travel", id=line)
        assert receipt.duplicate is (when == scene.faults.after)
        assert [hit.text for hit in scene.memory.get(ids=[line])] == ["five"]


@pytest.mark.requirement("audit-closed")
@pytest.mark.parametrize("name", OPERATIONS)
def test_nothing_is_answered_while_the_log_cannot_be_written(furnished: Scene, name: str) -> None:
    scene = furnished.copy()
    before = _visible(scene)
    scene.faults.down("commit")
    for _ in range(2):
        assert _run(scene, name) == "audit_unavailable"
    assert _visible(scene) == before
    scene.faults.clear()
    assert _run(scene, name) not in UNAVAILABLE


@pytest.mark.requirement("store-faults")
def test_creation_that_fails_makes_no_vault_and_one_that_was_durable_is_there() -> None:
    for after in (False, True):
        stores, keys = FakeStores(), MemoryKeys()
        (stores.faults.after if after else stores.faults.before)("create")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(create_open, "backend", lambda location, stores=stores: (stores, location))
            given = {"keys": keys, "witness": MemoryWitness(), "now": Clock()}
            assert reason_of(strongroom.create, "here", **given) == "audit_unavailable"
            assert reason_of(strongroom.open, "here", **given) == ("" if after else "vault_missing")


STEPS = st.tuples(
    st.sampled_from(["put", "put", "forget", "get", "restart"]),
    st.integers(0, 3),
    st.sampled_from(["", "", "before", "after"]),
)


@pytest.mark.requirement("store-faults", "forget-stays")
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEPS, max_size=25))
def test_acknowledged_lines_are_there_and_forgotten_ones_are_not_whatever_fails(
    steps: list[tuple[str, int, str]],
) -> None:
    scene = _TEMPLATE.copy()
    state = dict.fromkeys(range(4), "absent")
    for what, number, fault in steps:
        line = LINE_IDS[number]
        if what == "restart":
            scene = replace(scene, vault=_open(scene.stores, scene.keys, scene.witness))
            continue
        if fault:
            getattr(scene.faults, fault)("commit")
        expected = "audit_unavailable" if fault else ""
        if what == "put":
            was = state[number]
            state[number] = "there" if was == "absent" and fault != "before" else was
            got = _outcome(scene.memory.put, "text", namespace="work", id=line)
            assert got == (expected or ("work", was == "there", was == "forgotten"))
        elif what == "forget":
            was = state[number]
            state[number] = "forgotten" if was == "there" and fault != "before" else was
            assert reason_of(scene.memory.forget, ids=[line]) == expected
        else:
            reason = expected or ("" if state[number] == "there" else "not_found")
            assert reason_of(scene.memory.get, ids=[line]) == reason
    for memory in (scene.memory, scene.restarted().memory(scene.caps["local/alice"])):
        present = {info.id for info in memory.list().lines}
        assert present == {LINE_IDS[number] for number, one in state.items() if one == "there"}
    assert scene.restarted().audit.verify().ok


_TEMPLATE = _create()


# The real disk: full.


def _hint_of(call: Callable[[], object]) -> str:
    with pytest.raises(StrongroomError) as raised:
        call()
    return raised.value.hint


def _fill(pipe: Connection, place: Place, token: str) -> None:
    """Put until the disk is full, then try everything else, then put again with room."""
    with place.open() as vault:
        memory = vault.memory(token)
        largest = max(path.stat().st_size for path in place.vault.iterdir())
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (largest + 500_000, hard))
        number = 0
        while True:
            line = LINE_IDS[0][:-4] + f"{number:04}"
            reason = reason_of(memory.put, "x" * 500, namespace="travel", id=line)
            if reason:
                break
            pipe.send(("put", line))
            number += 1
        while not reason_of(memory.get, "x"):  # until there is no room for an entry alone
            pass
        calls: list[Callable[[], object]] = [
            lambda: memory.put("x" * 500, namespace="travel"),
            lambda: memory.get("x"),
            lambda: memory.erase(),
            lambda: vault.mint(actor="local/bob", ops=["get"], namespaces=["work"]),
        ]
        pipe.send(("full", [reason, *map(reason_of, calls)]))
        pipe.send(("hints", {_hint_of(call) for call in calls}))
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        pipe.send(("room", [reason_of(memory.put, "with room", namespace="travel", id=LINE_IDS[19])]))
        pipe.recv()


@pytest.mark.requirement("bad-disk", "audit-closed", "store-faults")
def test_full_disk_is_audit_unavailable_and_loses_nothing(
    tmp_path: Path, vault: Vault, cap: Token, clock: Clock
) -> None:
    process = Process(_fill, Place(tmp_path / "vault", tmp_path / "keys", clock.millis), cap)
    acknowledged: list[str] = []
    try:
        while (said := process.pipe.recv())[0] == "put":
            acknowledged.append(said[1])
        assert said == ("full", ["audit_unavailable"] * 5)
        assert process.pipe.recv() == ("hints", {WRITABLE})
        assert process.pipe.recv() == ("room", [""])
    finally:
        process.kill()
    assert len(acknowledged) > 20
    memory = vault.memory(cap)
    assert {line.id for line in memory.list(limit=1000).lines} == {*acknowledged, LINE_IDS[19]}
    assert vault.audit.verify().ok


# Read-only.


@pytest.fixture
def scratch() -> Iterator[Path]:
    """A directory that another user may work in: a test as root has to become one, or nothing is read-only to it."""
    made = Path(tempfile.mkdtemp(prefix="strongroom-"))
    if os.geteuid() == 0:
        os.chown(made, NOBODY, NOBODY)
    yield made
    for path in [made, *made.rglob("*")]:
        if path.is_dir():
            path.chmod(0o700)
    shutil.rmtree(made)


NOBODY = 65534


def _as_user(work: Callable[..., object], *args: object, **named: object) -> str:
    """The reason that `work` meets when an ordinary user runs it."""
    return in_fork(lambda: reason_of(work, *args, **named), user=NOBODY if os.geteuid() == 0 else None)


def _make(place: Path) -> None:
    strongroom.create(place / "vault", keys=FileKeys(place / "keys")).close()


def _use(place: Path) -> object:
    with strongroom.open(place / "vault", keys=FileKeys(place / "keys")) as vault:
        return vault.mint(actor="local/alice", ops=["get"], namespaces=["work"])


@pytest.fixture
def _nothing_to_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other user may not be able to read where this package is installed."""
    monkeypatch.setattr(create_open, "backend", lambda location: (SqliteStore, location))
    monkeypatch.setattr(engines, "load", lambda name: Recency())


@pytest.mark.requirement("bad-disk", "bad-vault")
@pytest.mark.usefixtures("_nothing_to_look_up")
def test_vault_is_not_made_where_nothing_can_be_written(scratch: Path) -> None:
    (scratch / "closed").mkdir(mode=0o555)
    for place in ("closed", "closed/deeper"):
        keys = FileKeys(scratch / "keys" / place)
        assert _as_user(strongroom.create, scratch / place, keys=keys) == "store_unavailable"
    assert list((scratch / "closed").iterdir()) == []


@pytest.mark.requirement("bad-disk", "store-missing-broken")
@pytest.mark.usefixtures("_nothing_to_look_up")
@pytest.mark.parametrize(
    ("directory", "files"), [(0o500, 0o400), (0o500, 0o600), (0o700, 0o400), (0o700, 0o000), (0o000, 0o600)]
)
def test_vault_that_cannot_be_written_is_unavailable_and_not_missing(scratch: Path, directory: int, files: int) -> None:
    assert _as_user(_make, scratch) == ""
    content = (scratch / "vault" / "vault.db").read_bytes()
    for path in (scratch / "vault").iterdir():
        path.chmod(files)
    (scratch / "vault").chmod(directory)
    assert _as_user(_use, scratch) == "store_unavailable"
    assert in_fork(lambda: _hint_of(lambda: _use(scratch)), user=NOBODY if os.geteuid() == 0 else None) == WRITABLE
    (scratch / "vault").chmod(0o700)
    assert {path.name for path in (scratch / "vault").iterdir()} == {"vault.db", "vault.turn", "vault.lock"}
    for path in (scratch / "vault").iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == files
        path.chmod(0o600)
    assert (scratch / "vault" / "vault.db").read_bytes() == content
    assert _as_user(_use, scratch) == ""


# Locked.


@pytest.mark.requirement("bad-disk", "audit-closed")
def test_locked_database_is_audit_unavailable_until_it_is_free(
    tmp_path: Path, keys: FileKeys, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "_BUSY_SECONDS", 0.05)
    with strongroom.create(tmp_path / "vault", keys=keys, now=clock) as vault:
        cap = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], ttl=3600)
        memory = vault.memory(cap)
        memory.put("before")
        other = apsw.Connection(str(tmp_path / "vault" / "vault.db"))
        other.execute("BEGIN EXCLUSIVE")
        calls: list[Callable[[], object]] = [
            lambda: memory.put("while it was locked"),
            lambda: memory.get("before"),
            lambda: memory.forget(namespaces=["travel"]),
            lambda: memory.list(namespaces=["work"]),  # a denial must be on record, too
        ]
        assert [reason_of(call) for call in calls] == ["audit_unavailable"] * 4
        other.execute("ROLLBACK")
        other.close()
        assert [hit.text for hit in memory.get("")] == ["before"]
        assert [reason_of(call) for call in calls] == ["", "", "", "cap_namespace_denied"]
        assert vault.audit.verify().ok


# Damaged.


@dataclass
class Kept:
    """A vault with lines, closed, to be damaged and opened."""

    directory: Path
    keys: FileKeys
    cap: Token
    texts: list[str]
    clock: Clock

    @property
    def file(self) -> Path:
        return self.directory / "vault.db"

    def restore(self, content: bytes) -> None:
        for name in ("vault.db-wal", "vault.db-shm"):
            (self.directory / name).unlink(missing_ok=True)
        self.file.write_bytes(content)

    def look(self) -> tuple[str, list[str], bool]:
        """The reason for which a caller is refused, or else every text there is and what verification says."""
        try:
            with strongroom.open(self.directory, keys=self.keys, now=self.clock) as vault:
                memory = vault.memory(self.cap)
                ids = [line.id for line in memory.list(limit=1000).lines]
                hits = [hit for at in range(0, len(ids), 20) for hit in memory.get(ids=ids[at : at + 20])]
                return "", sorted(hit.text for hit in hits), vault.audit.verify().ok
        except StrongroomError as error:
            return error.reason, [], False


@pytest.fixture
def kept(tmp_path: Path, keys: FileKeys, clock: Clock) -> Kept:
    texts = sorted(f"line {number} " + "x" * (number * 40) for number in range(40))
    with strongroom.create(tmp_path / "vault", keys=keys, now=clock) as vault:
        cap = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"], ttl=3600)
        for text in texts:
            vault.memory(cap).put(text)
        vault.audit.checkpoint()
    return Kept(tmp_path / "vault", keys, cap, texts, clock)


@pytest.mark.requirement("bad-disk", "bad-object", "store-missing-broken")
@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.long)])
def test_garbage_page_is_tampered_and_never_an_empty_answer(kept: Kept, step: int) -> None:
    whole = kept.file.read_bytes()
    chance = random.Random(step)
    pages = range(0, len(whole), 4096)
    refused = 0
    for start in pages[::step]:
        kept.restore(whole[:start] + chance.randbytes(4096) + whole[start + 4096 :])
        reason, texts, sound = kept.look()
        assert reason in ("", "tampered", "store_unavailable"), start
        assert reason or (texts == kept.texts and not sound), start
        refused += bool(reason)
    assert refused >= len(pages[::step]) // 2
    kept.restore(whole)
    assert kept.look() == ("", kept.texts, True)


@pytest.mark.requirement("bad-disk", "bad-object", "audit-verify")
@pytest.mark.parametrize("flips", [60, pytest.param(4000, marks=pytest.mark.long)])
def test_flipped_bit_is_refused_or_found_by_verification(kept: Kept, flips: int) -> None:
    whole = kept.file.read_bytes()
    chance = random.Random(flips)
    noticed = 0
    for _ in range(flips):
        at, bit = chance.randrange(len(whole)), chance.randrange(8)
        kept.restore(whole[:at] + bytes([whole[at] ^ 1 << bit]) + whole[at + 1 :])
        reason, texts, sound = kept.look()
        assert reason in {"", "tampered", "key_unavailable", "vault_format", *UNAVAILABLE}, (at, bit)
        assert reason or not sound or texts == kept.texts, (at, bit)
        noticed += not sound
    assert noticed > flips // 4


@pytest.mark.requirement("bad-disk", "store-missing-broken")
@pytest.mark.parametrize("size", [0, 100, 4096, -4096])
def test_database_cut_short_is_tampered(kept: Kept, size: int) -> None:
    whole = kept.file.read_bytes()
    kept.restore(whole[:size])
    assert kept.look()[0] == "tampered"


@contextmanager
def _sql(directory: Path) -> Iterator[apsw.Connection]:
    connection = apsw.Connection(str(directory / "vault.db"))
    try:
        yield connection
    finally:
        connection.close()


def _swap_bodies(directory: Path, one: str, two: str) -> None:
    with _sql(directory) as connection:
        bodies = {
            name: connection.execute("SELECT body FROM objects WHERE name = ?", (name,)).get for name in (one, two)
        }
        for name, other in ((one, two), (two, one)):
            connection.execute("UPDATE objects SET body = ? WHERE name = ?", (bodies[other], name))


def _name(vault: Vault, actor: str, namespace: str, line: str) -> str:
    slots = vault._state.slots
    return f"{slots.shelf(strongroom.model.actor(actor), strongroom.model.namespace(namespace))}lines/{line}"


@pytest.mark.requirement("bad-object", "audit-reads", "seal-slot")
@pytest.mark.parametrize(
    "other",
    [
        ("local/alice", "travel", LINE_IDS[2]),
        ("local/alice", "work", LINE_IDS[1]),
        ("local/bob", "travel", LINE_IDS[1]),
    ],
)
def test_lines_moved_to_each_others_places_are_tampered_and_the_failure_is_logged(
    tmp_path: Path, vault: Vault, reopen: Callable[[], Vault], other: tuple[str, str, str]
) -> None:
    caps = {
        actor: vault.mint(actor=actor, ops=ALL_OPS, namespaces=["travel", "work"], ttl=3600) for actor in ACTORS[:2]
    }
    vault.memory(caps["local/alice"]).put("one", namespace="travel", id=LINE_IDS[1])
    vault.memory(caps[other[0]]).put("other", namespace=other[1], id=other[2])
    _swap_bodies(tmp_path / "vault", _name(vault, "local/alice", "travel", LINE_IDS[1]), _name(vault, *other))
    again = reopen()
    memory = again.memory(caps["local/alice"])
    calls: list[Callable[[], object]] = [
        lambda: memory.get("one", namespaces=["travel"]),
        lambda: memory.get(ids=[LINE_IDS[1]], namespaces=["travel"]),
        lambda: memory.list(namespaces=["travel"]),
        lambda: memory.put("one", namespace="travel", id=LINE_IDS[1]),
    ]
    for call in calls:
        size = again.audit.size()
        assert reason_of(call) == "tampered"
        logged = [entry for _, entry in again.audit.entries(size) if entry is not None]
        assert [(entry.decision, entry.reason) for entry in logged] == [(Decision.FAIL, "tampered")]
    assert not again.audit.verify().ok


@pytest.mark.requirement("bad-object", "audit-reads", "store-changes")
def test_line_altered_before_another_process_saw_it_is_that_actors_failure_alone(
    tmp_path: Path, vault: Vault, reopen: Callable[[], Vault]
) -> None:
    caps = {actor: vault.mint(actor=actor, ops=ALL_OPS, namespaces=["travel"], ttl=3600) for actor in ACTORS[:2]}
    for actor, cap in caps.items():
        vault.memory(cap).put(f"of {actor}", id=LINE_IDS[1])
    follower = reopen()
    for cap in caps.values():
        follower.memory(cap).get("")  # both shelves are in memory now
    vault.memory(caps["local/alice"]).put("new", id=LINE_IDS[2])
    with _sql(tmp_path / "vault") as connection:
        name = _name(vault, "local/alice", "travel", LINE_IDS[2])
        connection.execute("UPDATE objects SET body = zeroblob(400) WHERE name = ?", (name,))
    size = follower.audit.size()
    assert reason_of(lambda: follower.memory(caps["local/alice"]).get("")) == "tampered"
    logged = [entry for _, entry in follower.audit.entries(size) if entry is not None]
    assert [(entry.decision, entry.reason) for entry in logged] == [(Decision.FAIL, "tampered")]
    assert [hit.text for hit in follower.memory(caps["local/bob"]).get("")] == ["of local/bob"]


# The clock.


@pytest.mark.requirement("bad-clock")
def test_clock_far_behind_is_refused_until_the_owner_accepts_it(vault: Vault, cap: Token, clock: Clock) -> None:
    memory = vault.memory(cap)
    clock.move(40)
    memory.put("later", namespace="travel")
    clock.move(-31)
    size = vault.audit.size()
    calls: list[Callable[[], object]] = [
        lambda: memory.put("earlier", namespace="travel"),
        lambda: memory.get(""),
        lambda: memory.list(),
        lambda: vault.mint(actor="local/bob", ops=["get"], namespaces=["work"]),
        lambda: vault.revoke(cap),
    ]
    assert [reason_of(call) for call in calls] == ["clock_behind"] * 5
    assert vault.audit.size() == size
    vault.accept_clock()
    entry = next(entry for _, entry in vault.audit.entries(size))
    assert entry is not None
    assert (entry.op, entry.time) == ("accept-clock", clock.millis)
    assert [reason_of(call) for call in calls] == [""] * 5
    assert vault.audit.verify().ok


@pytest.mark.requirement("bad-clock")
def test_clock_a_little_behind_is_no_trouble(vault: Vault, cap: Token, clock: Clock) -> None:
    clock.move(30)
    vault.memory(cap).put("later", namespace="travel")
    clock.move(-30)
    vault.memory(cap).put("earlier", namespace="travel")
    assert {hit.text for hit in vault.memory(cap).get("")} == {"later", "earlier"}
