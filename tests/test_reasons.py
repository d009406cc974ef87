"""Every reason through the public API, and the log's word for each that it must record.

Some belong to servers and to what connects to them: a vault in this process never raises those, and the table says
so.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import apsw
import pytest

import strongroom
from strongroom import FileKeys, NewLine, Token, Vault, errors, model
from strongroom.caps import chain
from strongroom.model import LineDetails
from strongroom.store.sqlite import SqliteStore
from tests.conftest import ALL_OPS, NAMESPACES, Clock

ID = "01JABCDEFGHJKMNPQRSTVWXYZ0"
EDGE_ONLY = {
    # What a server refuses before a call is read.
    "unknown_route",
    "method_refused",
    "media_type_refused",
    "host_refused",
    "origin_refused",
    "request_too_slow",
    "headers_too_large",
    "rate_limited",
    # What a server, or who cannot reach it, says of itself.
    "server_unavailable",
    "server_defect",
    # What the host of providers says; tests/host has a case for each.
    "provider_refused",
    "identity_incomplete",
    "provider_missing",
    "provider_unavailable",
    "journal_unavailable",
}
NOT_LOGGED = {
    # Refused before link 0's signature is known to be valid.
    "cap_missing",
    "cap_malformed",
    "cap_signature_invalid",
    # Nothing was decided.
    "audit_unavailable",
    "store_unavailable",
    "key_unavailable",
    "clock_behind",
    "format_too_new",
    # Not requests to a memory.
    "unknown_namespace",
    "vault_exists",
    "vault_format",
    "vault_missing",
}


@dataclass
class Scene:
    """What a case may use."""

    vault: Vault
    cap: Token
    clock: Clock
    keys: FileKeys
    path: Path
    monkeypatch: pytest.MonkeyPatch


Case = Callable[[Scene], object]


def _narrowed(scene: Scene, **claims: object) -> Token:
    return strongroom.attenuate(scene.cap, now=scene.clock, **claims)  # type: ignore[arg-type]


def _stripped(scene: Scene) -> object:
    first, _, seed = _narrowed(scene, namespaces=["travel"]).split("~")
    return scene.vault.memory(f"{first}~{seed}").get("x")


def _forged(scene: Scene) -> object:
    head, payload, signature = scene.cap.split("~")[0].split(".")
    other = ("A" if signature[0] != "A" else "B") + signature[1:]
    return scene.vault.memory(f"{head}.{payload}.{other}~{scene.cap.split('~')[1]}").get("x")


def _other_audience(scene: Scene) -> object:
    token = chain.mint(
        issuer_seed=scene.keys.issuer(),
        audience="another-vault",
        jti=os.urandom(16),
        holder_seed=None,
        now=scene.clock() // 1000,
        ttl=60,
        ops=["get"],
        namespaces=["work"],
        actor="local/alice",
    )
    return scene.vault.memory(token).get("x")


def _expired(scene: Scene) -> object:
    scene.clock.move(3600)
    return scene.vault.memory(scene.cap).get("x")


def _not_yet(scene: Scene) -> object:
    token = chain.attenuate(
        scene.cap, now=scene.clock() // 1000, jti=os.urandom(16), holder_seed=None, nbf=scene.clock() // 1000 + 31
    )
    return scene.vault.memory(token).get("x")


def _revoked(scene: Scene) -> object:
    child = _narrowed(scene, namespaces=["work"])
    scene.vault.memory(child).get("x")
    scene.vault.revoke(scene.cap)
    return scene.vault.memory(child).get("x")


def _wrong_op(scene: Scene) -> object:
    return scene.vault.memory(_narrowed(scene, ops=["get"])).put("x", namespace="work")


def _wrong_class(scene: Scene) -> object:
    token = scene.vault.mint(actor="local/alice", ops=["put"], namespaces=["work"], data_class="credentials")
    return scene.vault.memory(token).put("x", namespace="work")


def _conflict(scene: Scene) -> object:
    scene.vault.memory(scene.cap).put("one", namespace="work", id=ID)
    return scene.vault.memory(scene.cap).put("two", namespace="work", id=ID)


def _version(scene: Scene) -> object:
    return scene.vault.memory(scene.cap).set_profile("x", namespace="work", version="1" * 32)


def _tampered(scene: Scene) -> object:
    memory = scene.vault.memory(scene.cap)
    memory.put("one", namespace="work", id=ID)
    memory.put("two", namespace="travel", id=ID)
    with apsw.Connection(str(scene.path / "vault" / "vault.db")) as db:
        rows = list(db.execute("SELECT version, body FROM objects WHERE name LIKE '%/lines/%'"))
        for (version, _), (_, body) in zip(rows, reversed(rows), strict=True):
            db.execute("UPDATE objects SET body = ? WHERE version = ?", (body, version))
    return memory.get("x")


def _unwritable_log(scene: Scene) -> object:
    store = scene.vault._state.store
    assert isinstance(store, SqliteStore)
    for connection in store._idle:
        connection.execute("PRAGMA query_only = ON")  # SQLite itself refuses to write from here on
    return scene.vault.memory(scene.cap).get("x")


def _closed(scene: Scene) -> object:
    scene.vault.close()
    return scene.vault.memory(scene.cap).get("x")


def _no_keys(scene: Scene) -> object:
    shutil.rmtree(scene.path / "keys")
    return strongroom.open(scene.path / "vault", keys=scene.keys, now=scene.clock)


def _clock_behind(scene: Scene) -> object:
    scene.vault.memory(scene.cap).get("x")
    scene.clock.move(-31)
    token = chain.mint(
        issuer_seed=scene.keys.issuer(),
        audience=scene.vault.id,
        jti=os.urandom(16),
        holder_seed=None,
        now=scene.clock() // 1000,
        ttl=60,
        ops=["get"],
        namespaces=["work"],
        actor="local/alice",
    )
    return scene.vault.memory(token).get("x")


def _newer_format(scene: Scene) -> object:
    with apsw.Connection(str(scene.path / "vault" / "vault.db")) as db:
        db.execute(
            "UPDATE objects SET body = CAST(replace(body, '\"v\":2', '\"v\":3') AS BLOB) WHERE name = 'vault/format'"
        )
    return strongroom.open(scene.path / "vault", keys=scene.keys, now=scene.clock)


def _second_correction(scene: Scene) -> object:
    memory = scene.vault.memory(scene.cap)
    old = memory.put("x", namespace="work")
    memory.replace(old.id, "y")
    return memory.replace(old.id, "z")


def _details_too_early(scene: Scene) -> object:
    scene.vault._state.records._format = 1  # as in a process that began before it was raised
    return scene.vault.memory(scene.cap).put("x", namespace="work", tags=["x"])


def _line_of_tomorrow(scene: Scene) -> object:
    details = LineDetails(critical=("of_tomorrow",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(model, "clean_details", lambda _: details)
        scene.vault.memory(scene.cap).put("x", namespace="work")
    scene.vault._state.shelves.drop("actors/")
    return scene.vault.memory(scene.cap).get("x")


def _large_batch(scene: Scene) -> object:
    return scene.vault.memory(scene.cap).put_many([NewLine(text="x" * 32_000, namespace="work")] * 140)


CASES: dict[str, Case] = {
    "cap_missing": lambda s: s.vault.memory("").get("x"),
    "cap_malformed": lambda s: s.vault.memory("garbage").get("x"),
    "cap_signature_invalid": _forged,
    "cap_holder_proof": _stripped,
    "cap_audience": _other_audience,
    "cap_expired": _expired,
    "cap_not_yet_valid": _not_yet,
    "cap_revoked": _revoked,
    "cap_op_mismatch": _wrong_op,
    "cap_data_class_mismatch": _wrong_class,
    "cap_namespace_denied": lambda s: s.vault.memory(s.cap).get("x", namespaces=["nowhere"]),
    "cap_limit_exceeded": lambda s: s.vault.memory(_narrowed(s, max_k=2)).get("x", k=3),
    "invalid_request": lambda s: s.vault.memory(s.cap).put("\x00", namespace="work"),
    "line_too_large": lambda s: s.vault.memory(s.cap).put("x" * 40_000, namespace="work"),
    "too_many": lambda s: s.vault.memory(s.cap).get("x", k=21),
    "body_too_large": _large_batch,
    "unknown_namespace": lambda s: s.vault.mint(actor="local/a", ops=["get"], namespaces=["nowhere"]),
    "vault_exists": lambda s: strongroom.create(s.path / "vault", keys=FileKeys(s.path / "more")),
    "vault_format": _newer_format,
    "format_too_old": _details_too_early,
    "format_too_new": _line_of_tomorrow,
    "vault_missing": lambda s: strongroom.open(s.path / "nowhere"),
    "not_found": lambda s: s.vault.memory(s.cap).get(ids=[ID]),
    "line_conflict": _conflict,
    "line_replaced": _second_correction,
    "version_conflict": _version,
    "tampered": _tampered,
    "audit_unavailable": _unwritable_log,
    "store_unavailable": _closed,
    "key_unavailable": _no_keys,
    "clock_behind": _clock_behind,
}


@pytest.mark.requirement("reasons")
def test_every_reason_has_a_case() -> None:
    assert set(CASES) | EDGE_ONLY == set(errors.BY_REASON)


@pytest.mark.requirement("reasons")
def test_reasons_of_servers_and_hosts_are_raised_by_nothing_below_them() -> None:
    assert not EDGE_ONLY & set(CASES)
    classes = {errors.BY_REASON[reason].__name__ for reason in EDGE_ONLY}
    sources = Path(strongroom.__file__).parent
    below = ("audit", "cap", "engines", "keys", "memory", "store", "vault", "archive", "gate.py", "model.py")
    files = [path for name in below for path in (sources / name, *(sources / name).rglob("*.py")) if path.is_file()]
    assert len(files) > 30
    assert not [path.name for path in files if classes & set(re.findall(r"\w+", path.read_text()))]


@pytest.mark.requirement("reasons", "bad-cap", "bad-vault", "audit-reads", "audit-garbage")
@pytest.mark.parametrize("reason", sorted(CASES))
def test_reason_through_the_public_api(
    reason: str,
    vault: Vault,
    cap: Token,
    clock: Clock,
    keys: FileKeys,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene = Scene(vault, cap, clock, keys, tmp_path, monkeypatch)
    with pytest.raises(errors.BY_REASON[reason]) as raised:
        CASES[reason](scene)
    assert raised.value.reason == reason
    assert raised.value.message
    if reason not in NOT_LOGGED:
        *_, (_, last) = vault.audit.entries()
        assert last is not None
        assert (last.decision, last.reason) == ("fail" if reason == "tampered" else "deny", reason)
        assert last.links
    elif reason.startswith("cap_"):
        assert vault._clerk.refusals.garbage == 1
        assert not [entry for _, entry in vault.audit.entries() if entry is not None and entry.decision == "deny"]


@pytest.mark.requirement("bad-cap", "cap-scope")
def test_scope_cap_is_refused_until_a_link_names_one_actor(vault: Vault, clock: Clock) -> None:
    scope = vault.mint(actor_scope="hermes/default/", ops=ALL_OPS, namespaces=NAMESPACES)
    with pytest.raises(errors.CapMalformed):
        vault.memory(scope).get("x")
    *_, (_, last) = vault.audit.entries()
    assert last is not None
    assert last.reason == "cap_malformed"
    for actor in ("hermes/default/telegram/1", "hermes/default/telegram/2"):
        vault.memory(strongroom.attenuate(scope, actor=actor, now=clock)).put(actor, namespace="work")
    one = strongroom.attenuate(scope, actor="hermes/default/telegram/1", now=clock)
    assert [hit.text for hit in vault.memory(one).get("hermes")] == ["hermes/default/telegram/1"]
    for outside in ("hermes/defaults/x", "hermes/default", "local/alice"):
        with pytest.raises(errors.InvalidRequest):
            strongroom.attenuate(scope, actor=outside, now=clock)


@pytest.mark.requirement("bad-cap", "cap-narrow")
def test_widening_link_gains_nothing(vault: Vault, clock: Clock) -> None:
    narrow = vault.mint(actor="local/alice", ops=["get"], namespaces=["travel"], ttl=300)
    wide = strongroom.attenuate(narrow, ops=ALL_OPS, namespaces=NAMESPACES, ttl=10**6, max_k=20, now=clock)
    with pytest.raises(errors.CapOpMismatch):
        vault.memory(wide).put("x", namespace="travel")
    with pytest.raises(errors.CapNamespaceDenied):
        vault.memory(wide).get("x", namespaces=["personal"])
    clock.move(301)
    with pytest.raises(errors.CapExpired):
        vault.memory(wide).get("x")


@pytest.mark.requirement("bad-cap")
def test_cap_of_another_vault_is_refused(vault: Vault, tmp_path: Path, clock: Clock) -> None:
    with strongroom.create(tmp_path / "other", keys=FileKeys(tmp_path / "other-keys"), now=clock) as other:
        foreign = other.mint(actor="local/alice", ops=["get"], namespaces=["work"])
    with pytest.raises(errors.CapAudience):
        vault.memory(foreign).get("x")


@pytest.mark.requirement("cap-revoke")
def test_revoking_a_child_leaves_the_parent(vault: Vault, cap: Token, clock: Clock) -> None:
    child = strongroom.attenuate(cap, namespaces=["work"], now=clock)
    grandchild = strongroom.attenuate(child, ttl=60, now=clock)
    link = vault.revoke(child)
    vault.revoke(link)
    for token in (child, grandchild):
        with pytest.raises(errors.CapRevoked):
            vault.memory(token).get("x")
    vault.memory(cap).get("x")


@pytest.mark.requirement("cap-revoke")
def test_revoking_an_actor_voids_its_caps_and_spares_others(vault: Vault, cap: Token) -> None:
    bob = vault.mint(actor="local/bob", ops=["get"], namespaces=["work"])
    vault.memory(cap).put("stays", namespace="work")
    vault.revoke_actor("local/alice")
    with pytest.raises(errors.CapRevoked):
        vault.memory(cap).get("x")
    vault.memory(bob).get("x")
    fresh = vault.mint(actor="local/alice", ops=["get"], namespaces=["work"])
    assert vault.memory(fresh).get("stays")[0].text == "stays"


@pytest.mark.requirement("bad-clock")
def test_owner_can_accept_a_clock_that_went_back(vault: Vault, clock: Clock) -> None:
    vault.audit.checkpoint()
    clock.move(-3600)
    with pytest.raises(errors.ClockBehind):
        vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["work"])
    vault.accept_clock()
    memory = vault.memory(vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["work"]))
    memory.put("after the clock was set")
    assert len(memory.get("clock")) == 1
    assert vault.audit.verify().ok


@pytest.mark.requirement("bad-vault")
@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_file_that_is_no_vault_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake" / "vault.db").write_bytes(content)
    with pytest.raises(errors.Tampered):
        strongroom.open(tmp_path / "fake")
    assert (tmp_path / "fake" / "vault.db").read_bytes() == content


@pytest.mark.requirement("bad-vault")
def test_creating_over_a_vault_makes_no_keys_and_changes_nothing(vault: Vault, tmp_path: Path) -> None:
    before = (tmp_path / "vault" / "vault.db").read_bytes()
    with pytest.raises(errors.VaultExists):
        strongroom.create(tmp_path / "vault", keys=FileKeys(tmp_path / "more"))
    assert not (tmp_path / "more").exists()
    assert (tmp_path / "vault" / "vault.db").read_bytes() == before


@pytest.mark.requirement("bad-vault")
def test_vault_that_could_not_be_made_leaves_no_keys_behind(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(errors.StoreUnavailable):
        strongroom.create(tmp_path / "file" / "vault", keys=FileKeys(tmp_path / "keys"))
    assert not (tmp_path / "keys").exists()
    strongroom.create(tmp_path / "vault", keys=FileKeys(tmp_path / "keys")).close()


@pytest.mark.requirement("bad-vault")
def test_unknown_store_is_named(tmp_path: Path) -> None:
    with pytest.raises(errors.InvalidRequest):
        strongroom.open("nosuch://place")
    with pytest.raises(errors.InvalidRequest):
        strongroom.create(tmp_path / "v", engine="nosuch", keys=FileKeys(tmp_path / "k"))
    assert list(tmp_path.iterdir()) == []


def test_threads_share_one_vault(vault: Vault, cap: Token) -> None:
    memory, failed = vault.memory(cap), []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                memory.put(f"line {number} {turn}", namespace=NAMESPACES[number % 4])
                memory.get("line")
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(memory.list(limit=1000).lines) == 80
    assert vault.audit.verify().ok
