"""Delivering: a bundle gives no right of its own, and what comes of it is what a put of its lines would do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec
import pyrage  # type: ignore[import-untyped]
import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault, api, errors
from strongroom.audit import Entry
from strongroom.crypto import inbox
from strongroom.crypto.inbox import Bundle
from strongroom.keys import VaultSecrets
from strongroom.memory.operation import SlowStep
from strongroom.memory.vault_records import SECRETS
from strongroom.model import Receipt
from strongroom.store import Swap
from tests.conftest import ALL_OPS, NAMESPACES, Clock

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
OTHER = "01JABCDEFGHJKMNPQRSTVWXYZ1"
ALICE = "local/alice"
TRIP = NewLine(text="Trip to Chengdu", namespace="travel", id=ID, session="s1", author="alice", kind="turn")
PEANUTS = NewLine(text="Allergic to peanuts", namespace="personal", id=OTHER)


@pytest.fixture
def recipient(vault: Vault, cap: Token) -> str:
    return vault.memory(cap).inbox()


def _sealed(recipient: str, *lines: NewLine, actor: str = ALICE) -> bytes:
    return inbox.seal(recipient, Bundle(actor, lines))


def _forced(recipient: str, bundle: Bundle) -> bytes:
    """A bundle that `inbox.seal` would refuse, sealed all the same."""
    sealed: bytes = pyrage.encrypt(msgspec.json.encode(bundle), [pyrage.x25519.Recipient.from_str(recipient)])
    return sealed


def _reason(call: Callable[[], object]) -> str:
    with pytest.raises(errors.StrongroomError) as refused:
        call()
    return refused.value.reason


def _since(vault: Vault, size: int) -> list[Entry]:
    return [entry for _, entry in vault.audit.entries(size) if entry is not None]


def _mint(vault: Vault, **changes: Any) -> Token:
    return vault.mint(**{"actor": ALICE, "ops": ["put"], "namespaces": NAMESPACES, **changes})


def _expired(vault: Vault, clock: Clock) -> Token:
    token = _mint(vault, ttl=1)
    clock.move(1)
    return token


def _revoked(vault: Vault) -> Token:
    token = _mint(vault)
    vault.revoke(token)
    return token


# Denials.

WRONG: dict[str, tuple[Callable[[Vault, Clock], str], str]] = {
    "no put": (lambda vault, clock: _mint(vault, ops=[op for op in ALL_OPS if op != "put"]), "cap_op_mismatch"),
    "credentials": (lambda vault, clock: _mint(vault, data_class="credentials"), "cap_data_class_mismatch"),
    "admin": (lambda vault, clock: _mint(vault, data_class="admin"), "cap_data_class_mismatch"),
    "no namespace": (
        lambda vault, clock: strongroom.attenuate(_mint(vault), namespaces=[], now=clock),
        "cap_namespace_denied",
    ),
    "a scope": (lambda vault, clock: _mint(vault, actor=None, actor_scope="local/"), "cap_malformed"),
    "expired": (lambda vault, clock: _expired(vault, clock), "cap_expired"),
    "revoked": (lambda vault, clock: _revoked(vault), "cap_revoked"),
    "another actor": (lambda vault, clock: _mint(vault, actor="local/bob"), "cap_limit_exceeded"),
    "an actor below": (lambda vault, clock: _mint(vault, actor="local/alice/phone"), "cap_limit_exceeded"),
    "other namespaces": (lambda vault, clock: _mint(vault, namespaces=["work"]), "cap_namespace_denied"),
    "another session": (lambda vault, clock: _mint(vault, session="s2"), "cap_limit_exceeded"),
}


@pytest.mark.requirement("inbox-gated", "audit-reads")
@pytest.mark.parametrize("wrong", WRONG)
def test_sound_bundle_under_a_wrong_cap_is_refused_on_record_and_nothing_is_written(
    vault: Vault, cap: Token, clock: Clock, recipient: str, wrong: str
) -> None:
    make, reason = WRONG[wrong]
    sealed, token = _sealed(recipient, TRIP), make(vault, clock)
    size = vault.audit.size()
    assert _reason(lambda: vault.memory(token).deliver(sealed)) == reason
    (entry,) = _since(vault, size)
    assert (entry.op, entry.decision, entry.reason, entry.lines) == ("put", "deny", reason, ())
    assert vault.memory(cap).list().lines == ()


@pytest.mark.requirement("inbox-gated")
@pytest.mark.parametrize(
    "wrong",
    [name for name in WRONG if name not in ("another actor", "an actor below", "other namespaces", "another session")],
)
def test_cap_that_may_not_put_has_no_bundle_opened(
    vault: Vault, clock: Clock, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: object) -> Bundle:
        raise AssertionError("the bundle was opened")

    monkeypatch.setattr(inbox, "unseal", opened)
    make, reason = WRONG[wrong]
    token = make(vault, clock)
    assert _reason(lambda: vault.memory(token).deliver(b"garbage")) == reason


@pytest.mark.requirement("inbox-gated", "gate-same-denial")
def test_bundle_with_one_denied_namespace_is_refused_whole_whether_it_exists_or_not(
    vault: Vault, cap: Token, recipient: str
) -> None:
    travel = vault.memory(_mint(vault, namespaces=["travel"]))
    answers = set()
    for name in ("personal", "nowhere"):
        denied = msgspec.structs.replace(PEANUTS, namespace=name)
        with pytest.raises(errors.CapNamespaceDenied) as refused:
            travel.deliver(_sealed(recipient, TRIP, denied))
        answers.add((refused.value.message, refused.value.hint))
    assert len(answers) == 1
    assert vault.memory(cap).list().lines == ()


@pytest.mark.requirement("inbox-sealed", "audit-reads")
def test_bundle_that_does_not_open_is_refused_on_record_and_nothing_is_written(
    vault: Vault, cap: Token, recipient: str
) -> None:
    foreign = inbox.recipient_of(inbox.new_identity())
    unnamed = msgspec.structs.replace(TRIP, id=None)
    for sealed, reason in (
        (b"", "invalid_request"),
        (b"garbage", "invalid_request"),
        (_sealed(recipient, TRIP)[:-1], "invalid_request"),
        (_sealed(foreign, TRIP), "invalid_request"),
        (bytes(inbox.SEALED_LIMIT + 1), "body_too_large"),
        (_forced(recipient, Bundle(ALICE, (unnamed,))), "invalid_request"),
        (_forced(recipient, Bundle(ALICE, (TRIP,), v=2)), "invalid_request"),
        (_forced(recipient, Bundle(ALICE, ())), "invalid_request"),
        (_forced(recipient, Bundle(ALICE, (TRIP,) * 257)), "too_many"),
        (_sealed(recipient, msgspec.structs.replace(TRIP, text="\x00")), "invalid_request"),
        (_sealed(recipient, msgspec.structs.replace(TRIP, text="x" * 32_769)), "line_too_large"),
        (_sealed(recipient, TRIP, msgspec.structs.replace(TRIP, text="another")), "line_conflict"),
    ):
        size = vault.audit.size()
        assert _reason(partial(vault.memory(cap).deliver, sealed)) == reason
        (entry,) = _since(vault, size)
        assert (entry.op, entry.decision, entry.reason) == ("put", "deny", reason)
    assert vault.memory(cap).list().lines == ()
    assert vault.audit.verify().ok


@pytest.mark.requirement("inbox-sealed")
def test_bundle_for_one_vault_is_of_no_use_in_another(
    vault: Vault, recipient: str, tmp_path_factory: pytest.TempPathFactory, clock: Clock
) -> None:
    place = tmp_path_factory.mktemp("other")
    with strongroom.create(place / "vault", keys=FileKeys(place / "keys"), now=clock) as other:
        memory = other.memory(_mint(other))
        assert memory.inbox() != recipient
        assert _reason(lambda: memory.deliver(_sealed(recipient, TRIP))) == "invalid_request"


# What comes of it.


@pytest.mark.requirement("inbox-put")
def test_delivery_writes_the_lines_and_the_entry_that_a_put_of_them_does(
    vault: Vault, cap: Token, recipient: str, clock: Clock
) -> None:
    def seen(memory: strongroom.Memory, size: int) -> tuple[Any, ...]:
        (entry,) = _since(vault, size)
        plain = msgspec.structs.replace(entry, objects=(), lines=())
        hits = memory.get(ids=[line.id for line in memory.list().lines])
        shown = [(hit.text, hit.namespace, hit.session, hit.author, hit.kind, hit.time, hit.provenance) for hit in hits]
        return plain, len(entry.objects), len(entry.lines), shown

    held = vault.memory(cap)
    held.put("made first, so that there are keys", namespace="work")
    held.forget(namespaces=["work"])
    found = []
    ways: list[Callable[[], list[Receipt]]] = [
        lambda: held.put_many([TRIP, PEANUTS]),
        lambda: held.deliver(_sealed(recipient, TRIP, PEANUTS)),
    ]
    for way in ways:
        size = vault.audit.size()
        assert [receipt.id for receipt in way()] == [ID, OTHER]
        found.append(seen(held, size))
        held.erase(["travel", "personal"])
    assert found[0] == found[1]


@pytest.mark.requirement("inbox-put")
def test_bundle_that_another_process_delivered_is_a_duplicate_here(
    vault: Vault, cap: Token, recipient: str, reopen: Callable[[], Vault]
) -> None:
    sealed = _sealed(recipient, TRIP)
    assert [one.duplicate for one in reopen().memory(cap).deliver(sealed)] == [False]
    assert [one.duplicate for one in vault.memory(cap).deliver(sealed)] == [True]


@pytest.mark.requirement("inbox-put", "gate-session")
def test_session_cap_delivers_into_its_own_session(vault: Vault, cap: Token, recipient: str, clock: Clock) -> None:
    bound = vault.memory(strongroom.attenuate(cap, session="s1", now=clock))
    bound.deliver(_sealed(recipient, TRIP, PEANUTS))
    assert {line.session for line in bound.list().lines} == {"s1"}


@pytest.mark.requirement("inbox-put")
def test_asking_for_the_key_is_on_record_and_writes_nothing(vault: Vault, cap: Token) -> None:
    size = vault.audit.size()
    assert inbox.is_recipient(vault.memory(cap).inbox())
    (entry,) = _since(vault, size)
    assert (entry.op, entry.decision, entry.detail, entry.count, entry.objects) == ("put", "allow", "inbox read", 0, ())


# The key.


def _without_inbox(vault: Vault) -> None:
    """Make a vault as it was before there were inboxes."""
    state = vault._state
    older = msgspec.structs.replace(state.records.secrets, inbox="")
    body = older.sealed(state.vault_id, state.records.ring(), state.random)
    assert b"inbox" not in msgspec.json.encode(older)
    vault._clerk.admin.record_owner("rotate-root", [Swap(SECRETS, body, state.records.secrets_version)])
    state.catch_up()


@pytest.mark.requirement("inbox-key")
def test_vault_from_before_has_no_inbox_until_its_root_is_rotated(
    vault: Vault, cap: Token, recipient: str, reopen: Callable[[], Vault]
) -> None:
    _without_inbox(vault)
    for held in (vault, reopen()):
        memory = held.memory(cap)
        for call in (memory.inbox, lambda memory=memory: memory.deliver(_sealed(recipient, TRIP))):
            with pytest.raises(errors.InvalidRequest) as refused:
                call()
            assert "rotate root" in refused.value.hint
        memory.put("everything else works", namespace="work")
    other = reopen()
    generation = vault._state.records.secrets.generation
    vault.rotate_root()
    assert vault._state.records.secrets.generation == generation + 1
    new = vault.memory(cap).inbox()
    assert new != recipient
    assert other.memory(cap).inbox() == reopen().memory(cap).inbox() == new
    assert len(other.memory(cap).deliver(_sealed(new, TRIP))) == 1
    assert vault.audit.verify().ok


@pytest.mark.requirement("inbox-key")
def test_bundle_sealed_before_any_rotation_is_delivered_after_it(vault: Vault, cap: Token, recipient: str) -> None:
    sealed, generation = _sealed(recipient, TRIP), vault._state.records.secrets.generation
    vault.rotate_root()
    vault.rotate_root()
    assert vault._state.records.secrets.generation == generation, "what it says has not changed"
    vault.rotate_issuer()
    fresh = vault.memory(_mint(vault))
    assert fresh.inbox() == recipient
    assert [one.duplicate for one in fresh.deliver(sealed)] == [False]


@pytest.mark.requirement("inbox-key")
def test_key_is_in_no_file_of_the_vault_in_clear(vault: Vault, cap: Token, recipient: str, tmp_path: Any) -> None:
    vault.memory(cap).deliver(_sealed(recipient, TRIP))
    secret = vault._state.records.secrets.inbox
    assert inbox.recipient_of(secret) == recipient
    for path in (tmp_path / "vault").rglob("*"):
        if path.is_file():
            kept = path.read_bytes()
            assert secret.encode() not in kept
            assert b"AGE-SECRET-KEY" not in kept


@pytest.mark.requirement("inbox-key")
def test_inbox_key_that_is_there_is_never_replaced() -> None:
    secrets = VaultSecrets(v=1, log_seed=b"", name_key=b"", tag_key=b"", record_key=b"", issuers={}, inbox="one")
    assert secrets.with_inbox("two") == secrets
    assert msgspec.structs.replace(secrets, inbox="").with_inbox("two").inbox == "two"


@pytest.mark.requirement("inbox-put")
def test_delivery_takes_its_time_on_the_slow_lane(vault: Vault, cap: Token) -> None:
    assert next(vault.door(cap).doing(api.Deliver(sealed=b""))) == SlowStep("local/alice")
