"""The registry of caps in a bucket: who is voided with it, what a stranger's object does to it, and what it costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import strongroom
from strongroom import FileKeys, Vault, api
from strongroom.audit.verifier import Flaw
from strongroom.caps import chain
from strongroom.caps.chain import parse
from strongroom.errors import CapRevoked, StrongroomError
from strongroom.memory.ops import forget
from strongroom.memory.refusal_log import EACH
from strongroom.model import Millis
from strongroom.store.s3.bucket import BucketObject
from tests.fleet.memory import MemoryBucket, used_by_vaults

PLACE = "s3://bucket/room"
ALICE, BOB, SCOPE = "local/alice", "local/bob", "local/"
OPS = ["put", "get", "erase", "renew"]
HOUR, DAY = 3600, 24 * 3600
Open = Callable[..., Vault]


class Reads(MemoryBucket):
    """A bucket that also counts how often each record of a cap is read."""

    def __init__(self) -> None:
        super().__init__()
        self.records: Counter[str] = Counter()

    def get(self, name: str) -> BucketObject | None:
        if name.startswith("caps/"):
            self.records[name] += 1
        return super().get(name)


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.millis = 1_800_000_000_000

    def __call__(self) -> Millis:
        return Millis(self.millis)

    def on(self, seconds: int) -> None:
        self.millis += seconds * 1000


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Reads:
    return used_by_vaults(Reads(), monkeypatch)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def worker(bucket: Reads, clock: Clock, tmp_path: Path) -> Iterator[Open]:
    """Opens the same vault again, as another worker does, perhaps with its clock ahead."""
    keys = FileKeys(tmp_path / "keys")
    opened = [strongroom.create(PLACE, keys=keys, now=clock)]

    def another(ahead: int = 0) -> Vault:
        opened.append(strongroom.open(PLACE, keys=keys, now=lambda: Millis(clock() + ahead * 1000)))
        return opened[-1]

    yield another
    for one in opened:
        one.close()


def minted(vault: Vault, actor: str = ALICE, ttl: int = HOUR) -> str:
    return str(vault.mint(actor=actor, ops=OPS, namespaces=vault.namespaces, ttl=ttl))


def standing(vault: Vault, token: str) -> str:
    """Why a cap is refused; nothing if it is not."""
    try:
        vault.memory(token).get("anything")
    except StrongroomError as error:
        return error.reason
    return ""


def record(token: str) -> str:
    return "caps/" + parse(token).links[0].id


@pytest.mark.requirement("erase-void", "fleet-revoked-everywhere")
@pytest.mark.parametrize("void", ["erase", "revoke_actor"])
def test_voiding_an_actor_voids_caps_of_a_worker_whose_clock_is_ahead(worker: Open, clock: Clock, void: str) -> None:
    vault, fast = worker(), worker(ahead=600)
    hers, his = minted(fast, ttl=DAY), minted(fast, BOB, ttl=DAY)
    again = str(fast.memory(hers).renew())
    getattr(vault, void)(ALICE)
    assert [standing(fast, token) for token in (hers, again)] == ["cap_revoked"] * 2
    clock.on(700)
    for one in (vault, fast, worker()):
        assert [standing(one, token) for token in (hers, again, his)] == ["cap_revoked", "cap_revoked", ""]
    assert standing(vault, minted(vault)) == "", "the actor is not shut out"
    assert vault.audit.look().ok


@pytest.mark.requirement("erase-void")
def test_erasure_voids_what_a_cap_from_a_clock_that_is_ahead_can_be_narrowed_to(worker: Open, clock: Clock) -> None:
    vault, fast = worker(), worker(ahead=600)
    scope = fast.mint(actor_scope=SCOPE, ops=OPS, namespaces=["work"], ttl=DAY)
    other = fast.mint(actor_scope="other/", ops=OPS, namespaces=["work"], ttl=DAY)
    console = fast.mint(actor_scope=SCOPE, ops=["mint"], namespaces=["work"], ttl=DAY, data_class="admin")
    vault.erase(ALICE)
    clock.on(700)
    hers = strongroom.attenuate(scope, actor=ALICE, now=clock)
    theirs = strongroom.attenuate(other, actor="other/carol", now=clock)
    assert [standing(vault, one) for one in (hers, theirs)] == ["cap_revoked", ""]
    assert vault.door(console).call(api.Mint(ops=("get",), namespaces=("work",), actor=BOB, ttl=60)).link


@pytest.mark.requirement("erase-void")
def test_erasure_after_a_cap_from_a_clock_that_is_ahead_was_revoked_is_done(worker: Open) -> None:
    vault, fast = worker(), worker(ahead=600)
    hers = minted(fast, ttl=DAY)
    vault.revoke(hers)
    vault.erase(ALICE)
    assert standing(fast, hers) == "cap_revoked"


@pytest.mark.requirement("fleet-tampering", "fleet-revoked-everywhere")
@pytest.mark.parametrize("body", [b"\x01zz", b"zz", b"\x01"])
@pytest.mark.parametrize("name", ["caps/x", "caps/" + "0" * 64, "caps/~"])
def test_no_object_of_a_stranger_among_the_records_stops_a_revocation_or_an_erasure(
    worker: Open, bucket: Reads, name: str, body: bytes
) -> None:
    vault = worker()
    parent, hers, his = minted(vault, BOB), minted(vault), minted(vault, "local/carol")
    child = str(vault.memory(parent).renew())
    console = vault.mint(actor_scope=SCOPE, ops=["revoke"], namespaces=vault.namespaces, ttl=HOUR, data_class="admin")
    bucket.objects[name] = body
    vault.revoke(parent)
    vault.door(console).call(api.Revoke(link=parse(his).links[0].id))
    vault.erase(ALICE)
    assert {standing(vault, one) for one in (parent, child, hers, his)} == {"cap_revoked"}
    assert {one.actor for one in vault.caps()} == {BOB, "local/carol", SCOPE}


@pytest.mark.requirement("fleet-tampering")
def test_record_that_was_destroyed_is_named_by_verification(worker: Open, bucket: Reads) -> None:
    vault = worker()
    hers, his = minted(vault), minted(vault, BOB)
    bucket.objects[record(his)] = b"\x01zz"
    vault.erase(ALICE)
    assert standing(vault, hers) == "cap_revoked"
    assert {one.flaw for one in vault.audit.look().findings} == {Flaw.OBJECT_ALTERED}


@pytest.mark.requirement("renew-lineage")
def test_cap_whose_record_is_gone_is_not_renewed(worker: Open, bucket: Reads) -> None:
    """What came from it would have no ancestors, and so fall with none of them."""
    vault = worker()
    child = str(vault.memory(minted(vault)).renew())
    del bucket.objects[record(child)]
    with pytest.raises(CapRevoked):
        vault.memory(child).renew()


@pytest.mark.requirement("docs-scale")
def test_erasure_reads_each_record_of_others_once(worker: Open, bucket: Reads) -> None:
    vault = worker()
    his = minted(vault, BOB)
    records = [record(his), *(record(str(vault.memory(his).renew())) for _ in range(5))]
    bucket.records.clear()
    vault.erase(ALICE)
    assert [bucket.records[one] for one in records] == [1] * 6


@pytest.mark.requirement("docs-scale", "renew-lineage")
def test_records_of_caps_that_ended_long_ago_go_with_an_erasure_and_lineages_stay(
    worker: Open, bucket: Reads, clock: Clock
) -> None:
    vault = worker()
    first = minted(vault, BOB)
    clock.on(HOUR - 60)
    second = str(vault.memory(first).renew())
    clock.on(HOUR - 60)
    third = str(vault.memory(second).renew())
    clock.on(180)
    vault.erase(ALICE)
    assert [bool(bucket.objects[record(one)]) for one in (first, second, third)] == [True] * 3, "within the leeway"
    for _ in range(28):
        clock.on(HOUR - 300)
        third = str(vault.memory(third).renew())
    vault.erase(ALICE)
    assert [bool(bucket.objects[record(one)]) for one in (first, second, third)] == [False, False, True]
    assert vault.audit.look().ok
    vault.revoke(first)
    assert standing(vault, third) == "cap_revoked"


@pytest.mark.requirement("docs-scale")
def test_revocation_writes_nothing_for_descendants_that_ended_long_ago(
    worker: Open, bucket: Reads, clock: Clock
) -> None:
    vault = worker()
    first = minted(vault, BOB)
    ended = str(vault.memory(first).renew())
    clock.on(DAY + HOUR + 60)
    vault.revoke(first)
    revoked = [name.rpartition("/")[2] for name in bucket.objects if name.startswith("vault/revoked/")]
    assert revoked == [parse(first).links[0].id]
    assert standing(vault, ended) == "cap_expired"


@pytest.mark.requirement("audit-unlinkable")
def test_erasure_leaves_no_record_of_an_actor_that_has_very_many(worker: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forget, "_RECORDS", 3)
    vault = worker()
    hers = minted(vault)
    for _ in range(9):
        vault.memory(hers).renew()
    minted(vault, BOB)
    vault.erase(ALICE)
    assert [one.actor for one in vault.caps()] == [BOB]
    assert vault.audit.look().ok


@pytest.mark.requirement("audit-garbage")
def test_token_that_nobody_signed_costs_no_request(worker: Open, bucket: Reads, clock: Clock) -> None:
    vault = worker()
    token = vault.mint(actor=ALICE, ops=OPS, namespaces=["work"], ttl=HOUR, delegable=False)
    head, claims, signature = token.split(".")
    forged = f"{head}.{claims}.{'A' * 20}{signature[20:]}"
    before = vault._clerk.refusals.garbage
    bucket.requests.clear()
    assert standing(vault, "garbage") == "cap_malformed"
    assert standing(vault, "") == "cap_missing"
    assert standing(vault, forged) == "cap_signature_invalid"
    assert standing(vault, stranger("another-vault", clock)) == "cap_audience"
    assert bucket.requests == {}
    assert vault._clerk.refusals.garbage == before + 4


def stranger(audience: str, clock: Clock) -> str:
    """A cap that somebody signed with a key of their own."""
    return chain.mint(
        issuer_seed=bytes(32),
        audience=audience,
        jti=bytes(16),
        holder_seed=None,
        now=clock() // 1000,
        ttl=HOUR,
        ops=["get"],
        namespaces=["work"],
        actor=ALICE,
    )


@pytest.mark.requirement("keys-rotate-issuer", "fleet-stale-worker")
def test_cap_of_a_new_issuer_is_taken_by_a_worker_that_has_not_heard_of_it(worker: Open, clock: Clock) -> None:
    vault, other = worker(), worker()
    assert standing(other, stranger(vault.id, clock)) == "cap_signature_invalid"
    old = minted(vault)
    assert standing(other, old) == ""
    vault.rotate_issuer()
    new = minted(vault)
    assert standing(other, new) == ""
    assert standing(other, old) == "cap_signature_invalid"


@pytest.mark.requirement("audit-refusals")
def test_refusals_that_repeat_are_counted_over_a_bucket_too(worker: Open, clock: Clock) -> None:
    vault = worker()
    token = vault.mint(actor=ALICE, ops=OPS, namespaces=["travel"], ttl=HOUR)
    vault.revoke(token)
    size = vault.audit.size()
    for _ in range(EACH + 20):
        with pytest.raises(CapRevoked):
            vault.memory(token).get("x")
    assert vault.usage().refusals_pending == 20
    clock.on(61)
    with pytest.raises(CapRevoked):
        vault.memory(token).get("x")
    assert vault.usage().refusals_pending == 0
    assert EACH + 2 <= vault.audit.size() - size <= 2 * EACH + 10  # with what a worker says it carried out
    assert vault.audit.verify().ok
