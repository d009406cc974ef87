"""The pages on fleets are true: the session runs on a real server; rights, requests and bytes are those of the code."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

import strongroom
from strongroom import FileKeys, NewLine, Vault, errors
from strongroom.audit import unfinished_entries
from strongroom.caps.chain import Token
from strongroom.cli.serve import _DISTANT
from strongroom.crypto import merkle_log
from strongroom.memory.replica import _ACTORS_HELD
from strongroom.store import CLOCK_LEEWAY, s3
from strongroom.store.s3 import (
    S3Store,
    background_compaction,
    compaction,
    compaction_plan,
    packs,
    reader,
    s3_store,
    worker_log,
)
from strongroom.store.s3.bucket import BucketListing, BucketObject, S3Bucket
from strongroom.store.s3.bucket_probe import Probe
from strongroom.store.s3.compaction import Compactor
from strongroom.store.s3.location import _VARIABLES
from strongroom.vault import create_open
from tests.conftest import Clock
from tests.docs.pages import DOCS, blocks, code, rows, section
from tests.docs.test_service_page import options_of
from tests.docs.test_shell import drifts, is_run, run_session, sessions
from tests.fleet.memory import MemoryBucket
from tests.s3.servers import Server, running

PAGE, SCALE, SPEC = DOCS / "fleet.md", DOCS / "scale.md", DOCS / "spec" / "bucket.md"
BUCKET, PREFIX = "team-memory", "room"
OPS = ["put", "get", "list", "snapshot", "profile", "forget", "erase", "renew"]
NAMESPACES = ["personal", "travel"]
_BEFORE = 500
_MORE = 12


# The session, on a real server.


def _write_profile(server: Server, home: Path) -> None:
    """The login in a profile, as the page has it; and nowhere else."""
    told = server.environment()
    (home / ".aws").mkdir(mode=0o700)
    (home / ".aws" / "credentials").write_text(
        f"[default]\naws_access_key_id = {told['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {told['AWS_SECRET_ACCESS_KEY']}\n"
    )
    (home / ".aws" / "config").write_text(
        f"[default]\nregion = {told['AWS_REGION']}\nendpoint_url = {told['AWS_ENDPOINT_URL']}\n"
    )


@pytest.mark.long
@pytest.mark.requirement("docs-fleet", "docs-shell")
def test_page_leads_from_nothing_to_two_workers_and_all_that_it_shows_happens(tmp_path: Path) -> None:
    with running("seaweedfs") as server:
        server.make_bucket(BUCKET)
        _write_profile(server, tmp_path)
        session = [step for step in sessions(PAGE) if is_run(step)]
        outcomes = run_session(session, tmp_path)
        assert not (found := drifts(session, outcomes)), "\n".join(found)
        assert not [printed for printed, _ in outcomes if server.login.secret in printed]
    assert server.login.secret not in (tmp_path / "one.log").read_text() + (tmp_path / "two.log").read_text()


@pytest.mark.requirement("docs-fleet")
def test_command_that_is_only_shown_uses_options_that_exist() -> None:
    lines = [line for block in blocks(PAGE, "sh") for line in block.text.splitlines() if " -H strongroom " in line]
    assert lines
    for line in lines:
        words = line.partition(" -H strongroom ")[2].split()
        assert not {word for word in words if word.startswith("--")} - options_of(words)[1]


# A vault in a bucket in memory.


class Watched(MemoryBucket):
    """A bucket that notes every request as a policy sees it: the action, the object, and whether it may replace one."""

    quoted = True

    def __init__(self) -> None:
        super().__init__()
        self.asked: set[tuple[str, str, bool]] = set()

    def get(self, name: str) -> BucketObject | None:
        self.asked.add(("s3:GetObject", name, False))
        return super().get(name)

    def list(self, prefix: str, after: str = "", limit: int | None = None) -> Sequence[BucketListing]:
        self.asked.add(("s3:ListBucket", "", False))
        return super().list(prefix, after, limit)

    def folders(self, prefix: str) -> Sequence[str]:
        self.asked.add(("s3:ListBucket", "", False))
        return super().folders(prefix)

    def create(self, name: str, body: bytes) -> str:
        self.asked.add(("s3:PutObject", name, False))
        return super().create(name, body)

    def swap(self, name: str, body: bytes, etag: str) -> str:
        self.asked.add(("s3:PutObject", name, True))
        return super().swap(name, body, etag)

    def delete(self, names: Sequence[str]) -> None:
        self.asked |= {("s3:DeleteObject", name, True) for name in names}
        super().delete(names)

    def taken(self) -> dict[str, int]:
        """The requests since the last time, by their kind."""
        found, self.requests = self.requests, {}
        return found


class World:
    """A bucket, keys, and the workers on it."""

    def __init__(self, home: Path) -> None:
        self.bucket = Watched()
        self.keys = FileKeys(home / "keys")
        self.clock = Clock()
        self.workers: list[Vault] = []

    def create(self, _: str, *rest: Any) -> S3Store:
        return s3.create(self.bucket, "bucket/vault", *rest)

    def open(self, _: str) -> S3Store:
        return s3.open_store(self.bucket, "bucket/vault")

    def start(self, how: Callable[..., Vault] = strongroom.open) -> Vault:
        self.workers.append(how("s3://bucket/vault", keys=self.keys, now=self.clock))
        return self.workers[-1]


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World(tmp_path)
    monkeypatch.setattr(create_open, "backend", lambda place: (made, place))
    # No worker writes while a test tampers with its log.
    monkeypatch.setattr(worker_log, "on_timer", lambda seconds, act: lambda: None)
    made.start(strongroom.create)
    yield made
    for worker in made.workers:
        worker.close()


def _cap(vault: Vault, actor: str = "a/b") -> Token:
    return vault.mint(actor=actor, ops=OPS, namespaces=NAMESPACES, ttl=3000)


def _use(vault: Vault, cap: Token) -> None:
    """All that a cap of one actor is good for, but renewing."""
    memory = vault.memory(cap)
    ids = [memory.put(f"line {number}", namespace="travel").id for number in range(8)]
    memory.get("line")
    memory.list()
    memory.set_profile("A profile.", namespace="travel", version=memory.profile("travel").version)
    memory.snapshot()
    memory.forget(ids=ids[:2])
    _compact(vault, "a/b")
    memory.forget(ids=ids[4:5])
    memory.erase(namespaces=["travel"])
    memory.put("again", namespace="travel")


def _compact(vault: Vault, actor: str) -> None:
    store = vault._state.store
    assert isinstance(store, S3Store)
    compactor = Compactor(store.reader, os.urandom, settled=0, least=2)
    assert compactor.compact(vault._state.slots.actor(cast("Any", actor))).packs


# Rights.


def _policies() -> list[list[dict[str, Any]]]:
    return [json.loads(block.text)["Statement"] for block in blocks(PAGE, "json")]


def _allows(statements: Sequence[Mapping[str, Any]], action: str, name: str, *, replaces: bool) -> bool:
    """Whether a policy lets a request through, as far as these pages use the language."""
    target = f"arn:aws:s3:::{BUCKET}" + (f"/{PREFIX}/{name}" if name else "")
    meant = [one for one in statements if _means(one, action, target, replaces=replaces)]
    return any(one["Effect"] == "Allow" for one in meant) and not any(one["Effect"] == "Deny" for one in meant)


def _means(one: Mapping[str, Any], action: str, target: str, *, replaces: bool) -> bool:
    conditions = {"Null": {"s3:if-none-match": "true"}}, {"Bool": {"aws:SecureTransport": "false"}}
    if one.get("Condition") == conditions[0] and not replaces:
        return False
    if one.get("Condition") == conditions[1]:
        return False  # the requests here are as with TLS
    assert one.get("Condition") in (None, conditions[0])
    actions, targets = ([part] if isinstance(part, str) else part for part in (one["Action"], one["Resource"]))
    return any(fnmatch.fnmatchcase(action, each) for each in actions) and any(
        fnmatch.fnmatchcase(target, each) for each in targets
    )


def _whole_life(world: World) -> None:
    """Everything that is done with a vault in a bucket."""
    Probe(cast("S3Bucket", world.bucket), "00" * 8).check()
    first, second = world.workers[0], world.start()
    cap = _cap(first)
    _use(second, cap)
    first.memory(cap).renew()
    first.add_namespace("health")
    first.rotate_actor("a/b")
    first.revoke(_cap(first))
    _use(first, _cap(first))
    first.erase("a/b")
    second.audit.checkpoint()
    assert first.audit.verify().ok


@pytest.mark.requirement("docs-fleet")
def test_workers_get_every_right_that_they_use_and_none_of_the_rest(world: World) -> None:
    _whole_life(world)
    workers, everybody, _ = _policies()
    refused = [
        (action, name)
        for action, name, replaces in world.bucket.asked
        if not _allows([*workers, *everybody], action, name, replaces=replaces)
    ]
    assert not refused
    for part in ("logs", "roster", "news"):
        assert not _allows([*workers, *everybody], "s3:PutObject", f"{part}/x", replaces=True)
        assert not _allows([*workers, *everybody], "s3:DeleteObject", f"{part}/x", replaces=True)
    assert not _allows([*workers, *everybody], "s3:DeleteObject", "vault/secrets", replaces=True)


@pytest.mark.requirement("docs-fleet")
def test_every_right_of_the_workers_is_used(world: World) -> None:
    _whole_life(world)
    targets = [f"arn:aws:s3:::{BUCKET}/{PREFIX}/{name}" for action, name, _ in world.bucket.asked if "Delete" in action]
    (delete,) = (one for one in _policies()[0] if one["Action"] == "s3:DeleteObject")
    parts = {part for part in delete["Resource"] if not fnmatch.filter(targets, part)}
    assert parts <= {f"arn:aws:s3:::{BUCKET}/{PREFIX}/caps/*"}, "only a lost race deletes the record of a cap"
    assert {action for action, _, _ in world.bucket.asked} == {
        "s3:ListBucket",
        "s3:GetObject",
        "s3:PutObject",
        "s3:DeleteObject",
    }


@pytest.mark.requirement("docs-fleet")
def test_worker_for_one_actor_is_held_to_its_prefix(world: World) -> None:
    first = world.workers[0]
    cap, other = _cap(first), _cap(first, "c/d")
    first.memory(other).put("another's", namespace="travel")
    world.bucket.asked.clear()
    Probe(cast("S3Bucket", world.bucket), "00" * 8).check()
    second = world.start()
    _use(second, cap)
    second.close()
    locator, foreign = (first._state.slots.actor(cast("Any", actor)) for actor in ("a/b", "c/d"))
    one = json.loads(json.dumps(_policies()[2]).replace("LOCATOR", locator))
    refused = [
        (action, name)
        for action, name, replaces in world.bucket.asked
        if not _allows(one, action, name, replaces=replaces)
    ]
    assert not refused
    held = [name for name in world.bucket.objects if foreign in name]
    assert held
    for action in ("s3:GetObject", "s3:PutObject", "s3:DeleteObject"):
        assert not [name for name in held if _allows(one, action, name, replaces=True)]
    assert not _allows(one, "s3:PutObject", "vault/revoked/x", replaces=False)


# Requests.


def _told(heading: str, table: int) -> dict[str, dict[str, int]]:
    """What a table of the page says of each operation."""
    text = section(SCALE, heading).split("| operation |")[table + 1].partition("\n\n")[0]
    kinds = ("list", "get", "put", "delete")
    return {what: dict(zip(kinds, map(int, counts), strict=True)) for what, *counts in rows(f"| operation |{text}")}


def _counted(world: World) -> Iterator[tuple[str, dict[str, int]]]:
    first = world.workers[0]
    taken = world.bucket.taken

    def done(what: str) -> tuple[str, dict[str, int]]:
        return what, {"list": 0, "get": 0, "put": 0, "delete": 0} | taken()

    taken()
    cap = _cap(first)
    yield done("mint")
    memory = first.memory(cap)
    memory.put("one", namespace="travel")
    yield done("first put of an actor")
    memory.put("two", namespace="travel")
    yield done("put of a line")
    memory.put_many([NewLine(text=f"x {number}", namespace="travel") for number in range(10)])
    yield done("put of a batch of 10 lines")
    last = memory.put("three", namespace="travel").id
    memory.get("one")
    taken()
    memory.get("one")
    yield done("get")
    second = world.start()
    yield done("start of a worker, without the trials")
    other = second.memory(cap)
    other.get("one")
    yield done("first get of 13 lines that are not packed, at a fresh worker")
    memory.put("four", namespace="travel")
    taken()
    other.get("four")
    yield done("get after another worker's put")
    memory.get("four")
    taken()
    memory.forget(ids=[last])
    yield done("forget of a line")
    memory.erase(namespaces=["travel"])
    yield done("erasure of a namespace")


@pytest.mark.requirement("docs-scale")
def test_requests_of_each_operation_are_those_of_the_page(world: World) -> None:
    exactly, at_most = _told("## Requests", 0), _told("## Requests", 1)
    counted = dict(_counted(world))
    assert {what: counted[what] for what in exactly} == exactly
    assert set(at_most) == set(counted) - set(exactly)
    for what, told in at_most.items():
        assert all(counted[what][kind] <= told[kind] for kind in told), (what, counted[what])
        assert sum(told.values()) <= sum(counted[what].values()) + 3, (what, counted[what])


@pytest.mark.requirement("docs-scale")
def test_put_and_a_get_ask_for_nothing_of_another_actor(world: World) -> None:
    first = world.workers[0]
    for number in range(3):
        first.memory(_cap(first, f"other/{number}")).put("another's", namespace="travel")
    memory = first.memory(_cap(first))
    memory.put("one", namespace="travel")
    world.bucket.taken()
    memory.put("two", namespace="travel")
    assert world.bucket.taken() == {"get": 2, "put": 2}
    memory.get("one")
    world.bucket.taken()
    memory.get("one")
    assert world.bucket.taken() == {"list": 1, "get": 1, "put": 1}


@pytest.mark.requirement("docs-scale")
def test_money_is_the_arithmetic_of_the_requests() -> None:
    told = {what: (alone, at_8, best) for what, alone, at_8, best in rows(section(SCALE, "## Money"))}
    exactly = _told("## Requests", 0)

    def cost(what: str, shared: float) -> float:
        """Dollars for a million: one GET and one PUT are shared, the others are the call's own."""
        counts = exactly[what]
        return 5 * (counts["list"] + counts["put"] - 1 + shared) + 0.4 * (counts["get"] - 1 + shared)

    for row, what, lines in (
        ("puts", "put of a line", 1),
        ("gets, warm", "get", 1),
        ("lines, in batches of 10", "put of a batch of 10 lines", 10),
    ):
        wanted = [cost(what, shared) / lines for shared in (1, 1 / 8, 0)]
        assert [float(cell.removeprefix("$")) for cell in told[row]] == pytest.approx(wanted, abs=0.006), row


def _grows(world: World, more: Callable[[], object], work: Callable[[], object], kind: str) -> float:
    """By how many requests of a kind some work grows with each thing more."""
    counts = []
    for _ in range(2):
        for _ in range(_MORE):
            more()
        world.bucket.taken()
        work()
        counts.append(world.bucket.taken()[kind])
    return (counts[1] - counts[0]) / _MORE


@pytest.mark.requirement("docs-scale")
def test_owners_work_grows_as_the_page_says(world: World) -> None:
    first = world.workers[0]
    store = first._state.store
    assert isinstance(store, S3Store)
    store._settled = 0.0
    numbers = iter(range(1000))
    more: dict[str, Callable[[], object]] = {
        "cap": lambda: _cap(first, f"x/{next(numbers)}"),
        "actor": lambda: first.memory(_cap(first, f"y/{next(numbers)}")).put("a", namespace="travel"),
        "revoked": lambda: first.revoke(_cap(first, f"z/{next(numbers)}")),
    }

    def erase() -> None:
        actor = f"q/{next(numbers)}"
        first.memory(_cap(first, actor)).put("a", namespace="travel")
        world.bucket.taken()
        first.erase(actor)

    for _ in range(40):
        more["cap"]()  # as many as an erasure takes a sample of
    assert _grows(world, more["cap"], lambda: first.revoke(_cap(first)), "get") == 0
    assert _grows(world, more["cap"], erase, "get") == 0
    assert _grows(world, more["cap"], lambda: list(first.caps()), "get") <= 1.2
    assert _grows(world, more["actor"], first.rotate_root, "list") <= 3.2
    assert _grows(world, more["actor"], first.rotate_root, "put") <= 1.2
    assert _grows(world, more["revoked"], lambda: world.start(), "get") <= 1.2


@pytest.mark.requirement("docs-scale")
def test_bounds_of_the_page_are_those_of_the_code() -> None:
    text = " ".join(SCALE.read_text().split())
    assert f"the last {reader.VIEWS:,}, or fewer" in text
    assert f"| {reader._BYTES >> 20} MiB; the actor in use" in text
    assert f"{create_open.SHELF_BYTES >> 20} MiB by default" in text
    assert f"the last {_ACTORS_HELD:,} |" in text
    assert f"at least {compaction.LOOSE} loose lines" in text
    assert f"the {_DISTANT} threads" in text


# What the operator of the bucket can do, and what notices.


Tamper = Callable[[dict[str, bytes]], object]


def _lines(objects: Mapping[str, bytes]) -> list[str]:
    return sorted(name for name, body in objects.items() if "/lines/" in name and body)


def _worker(objects: Mapping[str, bytes]) -> str:
    return min(name for name in objects if name.startswith("roster/")).removeprefix("roster/")


def _without(objects: dict[str, bytes], *starts: str) -> None:
    for name in [name for name in objects if name.startswith(starts)]:
        del objects[name]


TAMPERED: dict[str, tuple[Tamper, str]] = {
    "a line is deleted": (lambda held: held.pop(_lines(held)[0]), "object_missing"),
    "lines are swapped": (lambda held: held.update({_lines(held)[0]: held[_lines(held)[1]]}), "object_altered"),
    "a line is added": (
        lambda held: held.update({_lines(held)[0][:-26] + "7" + 25 * "Z": held[_lines(held)[0]]}),
        "object_extra",
    ),
    "a revocation is removed": (lambda held: _without(held, "vault/revoked/"), "object_missing"),
    "a bundle is removed": (lambda held: held.pop(f"logs/{_worker(held)}/000000000002"), "entry_missing"),
    "a bundle is replaced": (
        lambda held: held.update({f"logs/{_worker(held)}/000000000002": held[f"logs/{_worker(held)}/000000000001"]}),
        "log_edited",
    ),
    "a log is removed": (lambda held: _without(held, f"logs/{_worker(held)}/"), "log_missing"),
    "a log is cut": (
        lambda held: held.pop(max(name for name in held if name.startswith(f"logs/{_worker(held)}/"))),
        "log_rolled_back",
    ),
    "an entry of the roster is forged": (
        lambda held: held.update({f"roster/{_worker(held)}": b"{}"}),
        "roster_forged",
    ),
    "a log is made up": (
        lambda held: held.update(
            {"logs/w0000000000000000000000000/000000000001": held[f"logs/{_worker(held)}/000000000002"]}
        ),
        "log_unknown",
    ),
}


@pytest.mark.requirement("docs-fleet", "fleet-tampering")
@pytest.mark.parametrize("what", TAMPERED)
def test_verify_finds_what_the_operator_of_a_bucket_did(world: World, what: str) -> None:
    first = world.workers[0]
    memory = first.memory(_cap(first))
    for number in range(3):
        memory.put(f"line {number}", namespace="travel")
    first.revoke(_cap(first))
    memory.get("line")
    assert first.audit.verify().ok
    tamper, flaw = TAMPERED[what]
    tamper(world.bucket.objects)
    with strongroom.open("bucket/vault", keys=world.keys, now=world.clock) as auditor:
        assert flaw in {finding.flaw.value for finding in auditor.audit.look().findings}


@pytest.mark.requirement("docs-fleet", "fleet-tampering")
@pytest.mark.parametrize(("seconds", "is_found"), [(31, True), (29, False)])
def test_older_profile_put_back_is_found_unless_another_worker_replaced_it_within_30_seconds(
    world: World, seconds: int, is_found: bool
) -> None:
    first = world.workers[0]
    memory = first.memory(_cap(first))
    old = memory.set_profile("old", namespace="travel")
    (place,) = (name for name in world.bucket.objects if name.endswith("/profile"))
    kept = world.bucket.objects[place]
    world.clock.move(seconds)
    other = world.start()
    other.memory(_cap(other)).set_profile("new", namespace="travel", version=old.version)
    world.bucket.objects[place] = kept
    flaws = {finding.flaw.value for finding in first.audit.look().findings}
    assert flaws == ({"object_altered"} if is_found else set()), "then the page promises too little"


@pytest.mark.requirement("docs-fleet", "fleet-tampering")
def test_line_put_back_into_its_place_after_a_forget_stays_forgotten_and_its_pack_rolled_back_is_found(
    world: World,
) -> None:
    first = world.workers[0]
    cap = _cap(first)
    line = first.memory(cap).put("put back", namespace="travel").id
    before = dict(world.bucket.objects)
    world.clock.move(60)
    first.memory(cap).forget(ids=[line])
    first.memory(cap).get("anything")
    (place,) = (name for name in before if line in name)
    world.bucket.objects[place] = before[place]
    assert world.start().memory(cap).get("put back") == []
    _without(world.bucket.objects, place.partition("lines/")[0] + "packs/")
    assert [hit.id for hit in world.start().memory(cap).get("put back")] == [line], "then the page promises too little"
    assert "object_revived" in {finding.flaw.value for finding in first.audit.look().findings}


@pytest.mark.requirement("docs-fleet", "fleet-tampering")
def test_revocation_that_is_removed_still_holds_where_it_was_heard_of(world: World) -> None:
    first = world.workers[0]
    cap = _cap(first)
    first.revoke(cap)
    _without(world.bucket.objects, "vault/revoked/")
    with pytest.raises(errors.CapRevoked):
        first.memory(cap).get("x")
    assert world.start().memory(cap).get("x") == [], "then the page promises too little"


@pytest.mark.requirement("docs-fleet", "fleet-tampering")
def test_log_removed_with_its_entry_of_the_roster_is_found_only_if_it_was_seen(world: World) -> None:
    first = world.workers[0]
    cap = _cap(first)
    second = world.start()
    second.memory(cap).get("x")
    seen = dict(world.bucket.objects)
    _without(world.bucket.objects, *(f"{part}/{max(_members(seen))}" for part in ("logs", "roster")))
    assert first.audit.look().ok, "then the page promises too little"
    world.bucket.objects.update(seen)
    assert first.audit.verify().ok
    _without(world.bucket.objects, *(f"{part}/{max(_members(seen))}" for part in ("logs", "roster")))
    assert "log_rolled_back" in {finding.flaw.value for finding in first.audit.look().findings}


def _members(objects: Mapping[str, bytes]) -> list[str]:
    return [name.removeprefix("roster/") for name in objects if name.startswith("roster/")]


# Bytes.


def _context(*parts: str | int | bytes) -> bytes:
    raw = [
        part.to_bytes(8) if isinstance(part, int) else part.encode() if isinstance(part, str) else part
        for part in parts
    ]
    return b"".join(len(part).to_bytes(4) + part for part in raw)


@pytest.mark.requirement("docs-bucket-spec")
def test_objects_of_a_vault_read_as_the_specification_says(world: World) -> None:
    first = world.workers[0]
    _use(first, _cap(first))
    memory = first.memory(_cap(first))
    ids = [memory.put(f"packed {number}", namespace="personal").id for number in range(4)]
    memory.forget(ids=ids[:1])
    _compact(first, "a/b")
    objects = world.bucket.objects
    locator = first._state.slots.actor(cast("Any", "a/b"))
    table, keys, is_gone = msgspec.msgpack.decode(objects[f"actors/{locator}/at"][8:])
    assert set(table) == {"actor", "shelves"}
    assert list(table["shelves"].values()) == [1]
    assert (type(keys), is_gone) == (bytes, False)
    (filled,) = (
        body for name, body in objects.items() if "/packs/" in name and b"packed" not in body and len(body) > _BEFORE
    )
    begin = b"strongroom pack of lines 1\n"
    assert filled.startswith(begin)
    records = {name: body for name, _, body in msgspec.msgpack.decode(filled[len(begin) :])}
    assert sorted(records) == sorted(f"lines/{one}" for one in ids)
    assert [records[f"lines/{one}"] is None for one in ids] == [True, False, False, False]
    assert all(body[:1] == b"\x01" for name, body in objects.items() if name.startswith(("vault/", "caps/")) and body)
    assert all(len(body) == 16 for name, body in objects.items() if name.startswith("news/"))


@pytest.mark.requirement("docs-bucket-spec")
def test_bundles_and_the_roster_hold_what_the_specification_says(world: World) -> None:
    first = world.workers[0]
    _use(first, _cap(first))
    objects = world.bucket.objects
    ((place, entry),) = ((name, body) for name, body in objects.items() if name.startswith("roster/"))
    worker = place.removeprefix("roster/")
    member = msgspec.json.decode(entry, type=_Entry)
    log_key = Ed25519PublicKey.from_public_bytes(first._state.log.public_key)
    log_key.verify(member.certificate, _context("strongroom/worker/v1", first.id, worker, member.public))
    names = sorted(name for name in objects if name.startswith("logs/"))
    assert names == [f"logs/{worker}/{number:012d}" for number in range(1, len(names) + 1)]
    edge, carried = merkle_log.Range(), set()
    for name in names:
        start, entries, time, peaks, signature, inside = msgspec.msgpack.decode(objects[name])
        assert start == edge.size
        assert (inside is not None) == (name == names[0])
        for one in entries:
            edge.append(hashlib.sha256(b"\x00" + one).digest())
        assert peaks == edge.packed()
        signed = _context("strongroom/bundle/v1", worker, edge.size, peaks, time)
        Ed25519PublicKey.from_public_bytes(member.public).verify(signature, signed)
        for said in (one["detail"] for one in map(msgspec.json.decode, entries) if one["op"] == "done"):
            runs = [run.split("-") for run in said.partition(" not ")[0].split(",")]
            carried |= {number for begin, behind in runs for number in range(int(begin), int(behind))}
    assert carried
    assert max(carried) < edge.size


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    v: int
    worker: str
    public: bytes
    since: int
    certificate: bytes


@pytest.mark.requirement("docs-bucket-spec")
def test_figures_of_the_specification_are_those_of_the_code() -> None:
    text = " ".join(SPEC.read_text().split())
    figures = {
        f"At most {packs.MOST:,}": packs.MOST == 1024,
        f"{packs.MOST_GONE:,} tombstones": packs.MOST_GONE == 65_536,
        f"{compaction_plan.BYTES >> 20} MiB of bodies": compaction_plan.BYTES == 8 << 20,
        f"more than {compaction_plan.LARGE >> 10} KiB": compaction_plan.LARGE == 256 << 10,
        "older than 75 s": compaction.SETTLED == 75_000,
        f"Wait {background_compaction.REST:.0f} seconds": background_compaction.REST == 15,
        "before an hour": compaction.DEAD == 3_600_000,
        f"more than {s3_store._AT_MOST:.0f} seconds": s3_store._AT_MOST == 20,
        "more than 30 s later in another": CLOCK_LEEWAY == 30_000,
        "older than 90 s": unfinished_entries.IS_OVER + CLOCK_LEEWAY == 90_000,
        "within a second": worker_log.WITHIN == 1,
        f"{packs.CLAIM_SIZE} bytes": packs.CLAIM_SIZE == 21,
    }
    assert not [words for words, holds in figures.items() if not holds or words not in text]


@pytest.mark.requirement("docs-fleet")
def test_trials_of_the_page_are_those_of_the_probe(world: World) -> None:
    tried = [trial.what for trial in Probe(cast("S3Bucket", world.bucket), "00" * 8).run()]
    (shown,) = (step.shown for step in sessions(PAGE) if "doctor --store" in step.command)
    assert [line.partition(f"trial {number}")[2].strip() for number, line in _trials(shown)] == tried


def _trials(shown: str) -> Iterator[tuple[int, str]]:
    return enumerate((line for line in shown.splitlines() if " trial " in line), 1)


@pytest.mark.requirement("docs-fleet")
def test_page_names_the_variables_that_are_read() -> None:
    told = {name for cells in rows(section(PAGE, "## From nothing to two workers")) for name in code(cells[1])}
    assert {"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} <= told
    assert told - {"default", ".aws/credentials", ".aws/config"} <= {
        *_VARIABLES,
        "AWS_PROFILE",
        "AWS_SHARED_CREDENTIALS_FILE",
        "AWS_CONFIG_FILE",
    }
