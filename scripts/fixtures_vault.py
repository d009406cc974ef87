"""A vault with something of everything in it, in a file or in a bucket, and what there is to be expected of it.

What is said stands here once; the manifest names it by ids. Time is given, so that the caps can be tried at the same
moment for ever.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import strongroom
from strongroom import FileKeys, Memory, NewLine, PassphraseKeys, Token, Vault
from strongroom.archive import export_lines, write_archive
from strongroom.crypto import inbox
from strongroom.keys.sources import _b64
from strongroom.model import Millis
from strongroom.vault.backup import lock_keys

START = 1_779_440_000_000
"""2026-05-22 08:53:20 UTC."""
LIFE = 400 * 86_400
PASSPHRASE = "correct horse battery staple"
ALL_OPS = ("put", "get", "list", "snapshot", "profile", "forget", "erase")
NAMES = ("personal", "family", "work", "travel")
PROFILE = "Alice prefers short answers, and trains to planes."

Said = dict[str, Any]


@dataclass(slots=True)
class Clock:
    """Time that moves when it is told to."""

    millis: int = START

    def __call__(self) -> Millis:
        return Millis(self.millis)

    def move(self, seconds: float) -> None:
        self.millis += round(seconds * 1000)


@dataclass(slots=True)
class Filling:
    """A vault that is being filled, and the part of the manifest that says what is in it."""

    vault: Vault
    clock: Clock
    caps: dict[str, Token] = field(default_factory=dict)
    lines: dict[str, list[Said]] = field(default_factory=dict)
    forgotten: dict[str, list[Said]] = field(default_factory=dict)

    def mint(self, name: str, actor: str = "", **more: Any) -> Token:
        """A cap that lasts, kept under a name."""
        terms = {"ops": ALL_OPS, "namespaces": self.vault.namespaces, "ttl": LIFE, "label": name, **more}
        self.caps[name] = self.vault.mint(actor=actor or None, **terms)
        self.clock.move(1)
        return self.caps[name]

    def memory(self, name: str) -> Memory:
        return self.vault.memory(self.caps[name], source="fixture")

    def put(self, cap: str, text: str, namespace: str, **more: Any) -> str:
        """Put a line with a cap that is called by its actor's last segment."""
        self.clock.move(1)
        receipt = self.memory(cap).put(text, namespace=namespace, **more)
        self._said(cap, receipt.id, text, namespace, **more)
        return receipt.id

    def put_many(self, cap: str, texts: list[str], namespace: str) -> None:
        self.clock.move(1)
        lines = [NewLine(text=text, namespace=namespace) for text in texts]
        for receipt, text in zip(self.memory(cap).put_many(lines), texts, strict=True):
            self._said(cap, receipt.id, text, namespace)

    def forget(self, cap: str, line: str) -> None:
        self.clock.move(1)
        self.memory(cap).forget(ids=[line])
        gone = next(one for one in self.lines[cap] if one["id"] == line)
        self.lines[cap].remove(gone)
        self.forgotten.setdefault(cap, []).append(gone)

    def _said(self, cap: str, line: str, text: str, namespace: str, **more: Any) -> None:
        said = {"id": line, "text": text, "namespace": namespace, **more}
        if isinstance(said.get("time"), datetime):
            said["time"] = said["time"].isoformat()
        self.lines.setdefault(cap, []).append(said)


def fill(vault: Vault, clock: Clock, *, many: int, other: Vault | None = None) -> dict[str, Any]:
    """Put something of everything into a vault. `other` is another worker on it, which puts some of it."""
    made = Filling(vault, clock)
    before = made.mint("before the issuer was rotated", "local/alice")
    vault.rotate_issuer()
    vault.add_namespace("garden", before="travel")
    _say(made, many)
    _profile(made.memory("alice"))
    _take_away(made)
    _rotate(made)
    if other is not None:
        made.vault = other
        made.put("alice", "Another worker has seen the kingfisher at the mill.", "garden")
        made.vault = vault
    _mint_the_rest(made, before)
    return {
        "id": vault.id,
        "namespaces": list(vault.namespaces),
        "caps": made.caps,
        "refused": REFUSED,
        "lines": made.lines,
        "forgotten": made.forgotten,
        "erased_namespaces": {"bob": ["family"]},
        "erased_actors": ["local/carol"],
        "profiles": {"alice": {"personal": PROFILE}},
        "queries": QUERIES,
    }


def _say(made: Filling, many: int) -> None:
    for name in ("alice", "bob", "carol", "dave"):
        made.mint(name, f"local/{name}")
    may = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
    made.put("alice", "Trip to Chengdu, May 25-29, 2026", "travel", session="monday", author="alice", kind="turn")
    made.put("alice", "Allergic to peanuts", "personal", kind="fact", time=may)
    made.put("alice", "My sister's birthday is on September 3", "family", author="alice")
    made.put("alice", "成都的酒店叫蓝鹤酒店", "travel", session="monday")
    made.put("alice", "The build fails with E1047 in src/parser/lexer.rs", "work", kind="summary")
    made.put("alice", "Naïve café \U0001f980, a ﬁne line\nwith a second one", "personal", kind="delegation")
    made.put("alice", "A long minute of the meeting. " * 150 + "The vote was on the orangery.", "work")
    made.put("bob", "Bob keeps bees behind the orchard", "personal")
    made.put("bob", "Bob's uncle plays the bassoon", "family")
    made.put("carol", "Carol collects stamps of lighthouses", "personal")
    made.put("dave", "Dave mends clocks in the tower", "work")
    for start in range(0, many, 100):
        numbers = range(start, min(start + 100, many))
        made.put_many("alice", [f"Shelf {n} of the archive holds box {n * 7919 % 10007}" for n in numbers], "work")


def _profile(memory: Memory) -> None:
    first = memory.set_profile("Alice prefers long answers.", namespace="personal")
    memory.set_profile(PROFILE, namespace="personal", version=first.version)


def _take_away(made: Filling) -> None:
    """Tombstones, an erased namespace, an erased actor."""
    for text, namespace in (("The safe's code is 4711", "personal"), ("Trip to Atlantis is cancelled", "travel")):
        made.forget("alice", made.put("alice", text, namespace))
    made.clock.move(1)
    made.memory("bob").erase(namespaces=["family"])
    made.lines["bob"] = [one for one in made.lines["bob"] if one["namespace"] != "family"]
    made.vault.erase("local/carol")
    del made.lines["carol"]


def _rotate(made: Filling) -> None:
    """Root and actor keys; the issuer's came first. A line before and lines after."""
    made.vault.rotate_actor("local/alice")
    made.vault.rotate_root()
    made.put("alice", "After the rotation the ferry to Naxos leaves at seven", "travel", session="tuesday")
    made.vault.revoke_actor("local/dave")
    made.clock.move(5)
    made.caps["before the actor was revoked"] = made.caps["dave"]
    made.mint("dave", "local/dave")


def _mint_the_rest(made: Filling, before: Token) -> None:
    """Caps of every shape, and one for each way in which a cap can be void."""
    caps = made.caps
    made.mint("bearer", "local/alice", ops=["get"], namespaces=["travel"], delegable=False)
    made.mint("one session", "local/alice", ops=["put", "get", "forget"], session="monday")
    made.mint("two lines", "local/alice", ops=["get", "list"], max_k=2)
    made.mint("scope", actor_scope="local/", max_depth=2)
    made.mint("admin", "local/alice", ops=["mint", "revoke", "audit"], data_class="admin")
    made.mint("credentials", "local/alice", ops=["get"], data_class="credentials")
    made.mint("renewable", "local/alice", ops=["get", "renew"], namespaces=["travel"])
    caps["renewed"] = made.memory("renewable").renew()
    narrow = strongroom.attenuate(caps["alice"], ops=["get", "list"], namespaces=["travel", "work"], now=made.clock)
    caps["narrowed twice"] = strongroom.attenuate(narrow, ops=["get"], namespaces=["travel"], label="x", now=made.clock)
    caps["narrowed from a scope"] = strongroom.attenuate(caps["scope"], actor="local/bob", ops=["get"], now=made.clock)
    made.vault.revoke(made.mint("revoked", "local/alice"))
    caps["below a revoked one"] = strongroom.attenuate(caps["revoked"], ops=["get"], now=made.clock)
    made.mint("expired", "local/alice", ttl=60)
    caps["before the issuer was rotated"] = before


REFUSED = {
    "before the issuer was rotated": "cap_signature_invalid",
    "before the actor was revoked": "cap_revoked",
    "revoked": "cap_revoked",
    "below a revoked one": "cap_revoked",
    "expired": "cap_expired",
    "carol": "cap_revoked",
    "credentials": "cap_data_class_mismatch",
    "admin": "cap_op_mismatch",
}
"""What a get with each of these is refused with."""

QUERIES: list[dict[str, Any]] = [
    {"cap": "alice", "query": "when is the trip to Chengdu?", "first": "Trip to Chengdu, May 25-29, 2026"},
    {"cap": "alice", "query": "which peanuts?", "namespaces": ["personal"], "first": "Allergic to peanuts"},
    {"cap": "alice", "query": "蓝鹤酒店", "first": "成都的酒店叫蓝鹤酒店"},
    {"cap": "alice", "query": "E1047", "first": "The build fails with E1047 in src/parser/lexer.rs"},
    {"cap": "alice", "query": "ferry to Naxos", "first": "After the rotation the ferry to Naxos leaves at seven"},
    {"cap": "alice", "query": "what is on shelf 42?", "first": "Shelf 42 of the archive holds box 2367"},
    {"cap": "bob", "query": "who keeps bees?", "first": "Bob keeps bees behind the orchard"},
    {"cap": "dave", "query": "who mends clocks?", "first": "Dave mends clocks in the tower"},
    {"cap": "bearer", "query": "Chengdu", "first": "Trip to Chengdu, May 25-29, 2026"},
    {"cap": "renewed", "query": "Chengdu", "first": "Trip to Chengdu, May 25-29, 2026"},
    {"cap": "two lines", "query": "Chengdu", "k": 2, "first": "Trip to Chengdu, May 25-29, 2026"},
    {"cap": "narrowed twice", "query": "Chengdu", "first": "Trip to Chengdu, May 25-29, 2026"},
    {"cap": "narrowed from a scope", "query": "bees", "first": "Bob keeps bees behind the orchard"},
    {"cap": "one session", "query": "Chengdu", "first": "Trip to Chengdu, May 25-29, 2026"},
]


def make(root: Path, clock: Clock) -> dict[str, Any]:
    """A vault in a file, and all that leaves one: `vault`, `log-archive`, `backup`, archives, keys in every form."""
    keys = FileKeys(root / "keys")
    with strongroom.create(root / "vault", keys=keys, now=clock) as vault:
        said = fill(vault, clock, many=300)
        reader = vault.memory(said["caps"]["alice"])
        for _ in range(240):
            reader.list(limit=1)
        said["archived"] = vault.audit.archive(root / "log-archive", keep=10)
        reader.get("which box is on shelf 1?")  # closing the vault writes a page of what this reads
        _leave(root, vault, said, clock)
    with strongroom.open(root / "vault", keys=keys, now=clock) as vault:
        report = vault.audit.verify(archive=root / "log-archive")
        assert report.ok, report.findings
        said["pages"] = sum("/derived/" in one.name for one in vault.store.names("actors/"))
    assert said["pages"], "no page was written"
    clock.move(1)
    said["locked_keys"] = "keys.age"
    (root / "keys.age").write_bytes(lock_keys(root / "vault", PASSPHRASE, keys=keys, now=clock))
    saved = strongroom.backup(root / "vault", root / "backup", keys=keys, now=clock)
    said["backup"] = {"size": saved.size, "root": saved.root, "objects": saved.objects}
    report = strongroom.verify(root / "vault", keys=keys, archive=root / "log-archive")
    said["verify"] = {"ok": report.ok, "size": report.size, "root": report.root, "objects": report.objects}
    _other_keys(root, keys)
    return said


def _leave(root: Path, vault: Vault, said: dict[str, Any], clock: Clock) -> None:
    """Archives of Alice's lines, a bundle for her, the log as tiles, a proof."""
    memory = vault.memory(said["caps"]["alice"])
    out = export_lines(memory, vault=vault.id, actor="local/alice", now=clock(), namespaces=["personal", "travel"])
    write_archive(root / "alice.age", out, PASSPHRASE)
    write_archive(root / "alice.jsonl", out, None)
    line = NewLine(
        text="Sealed while the vault was away: the heron", namespace="travel", id="01KS7DY2G0ZZZZZZZZZZZZZZZZ"
    )
    (root / "bundle.age").write_bytes(inbox.seal(memory.inbox(), inbox.Bundle(actor="local/alice", lines=(line,))))
    said["archive"] = {"lines": len(out.lines), "profiles": len(out.profiles)}
    said["bundle"] = {"id": line.id, "text": line.text, "namespace": line.namespace}
    (root / "checkpoint").write_text(vault.audit.checkpoint())
    (root / "proof").write_text(vault.audit.prove(vault.audit.size() - 1))


def _other_keys(root: Path, keys: FileKeys) -> None:
    """The same keys behind a passphrase, and as the environment holds them."""
    behind = PassphraseKeys(root / "keys-passphrase", PASSPHRASE)
    behind.create()
    ring = keys.load()
    behind.replace(ring)
    behind.replace_issuer(keys.issuer())
    values = {"STRONGROOM_ROOT_KEY": _b64(ring.keys[ring.active]), "STRONGROOM_ISSUER_KEY": _b64(keys.issuer())}
    (root / "keys.env").write_text("".join(f"{name}={value}\n" for name, value in values.items()))
