"""The first five minutes: what a vault remembers, whom it refuses, and what it leaves behind. Run by `make demo`.

Everything happens in a temporary directory. Each step prints `ok` or `fail`; the exit code is 0 only if all are ok.
"""

from __future__ import annotations

import base64
import sys
import tempfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

import strongroom
from strongroom import FileKeys, Memory, Token, Vault

TRIP = "Trip to Chengdu, May 25-29, hotel near Kuanzhai Alley"
ALLERGY = "Allergic to peanuts; carries an adrenaline pen"
QUESTION = "where am I going this weekend?"
EVERYTHING = ["put", "get", "list", "snapshot", "profile", "forget"]


class Unexpected(Exception):
    """A step did not end as it must."""


class Story:
    """One vault on disk and what its sessions hold. Each public method is a step; it returns what to print."""

    def __init__(self, scratch: Path) -> None:
        self.path = scratch / "vault"
        self.keys = FileKeys(scratch / "keys")
        self.owner_cap = Token()
        self.travel_cap = Token()
        self.trip = ""
        self.allergy = ""

    def open(self) -> Vault:
        """A fresh handle, as a new process would have: nothing is shared but the files."""
        return strongroom.open(self.path, keys=self.keys)

    # Remembering.

    def make_a_vault(self) -> str:
        with strongroom.create(self.path, keys=self.keys) as vault:
            self.owner_cap = vault.mint(actor="local/alice", ops=EVERYTHING, namespaces=vault.namespaces, ttl=3600)
        return "a vault is made; its keys lie outside it"

    def session_one_stores(self) -> str:
        with self.open() as vault:
            memory = vault.memory(self.owner_cap)
            self.trip = memory.put(TRIP, namespace="travel", session="one", author="alice").id
            self.allergy = memory.put(ALLERGY, namespace="personal", session="one", author="alice").id
            memory.set_profile("Call me Alice.", namespace="personal")
        return "session one stores a trip (travel) and an allergy (personal)"

    def session_two_recalls(self) -> str:
        with self.open() as vault:
            texts = [hit.text for hit in vault.memory(self.owner_cap).get(QUESTION)]
        expect(TRIP in texts, "the trip was not recalled")
        return f"session two, a fresh handle, asks {QUESTION!r} and recalls {TRIP!r}"

    # Refusing.

    def narrowed_cap_sees_travel_only(self) -> str:
        self.travel_cap = strongroom.attenuate(self.owner_cap, namespaces=["travel"], ttl=300)
        with self.open() as vault:
            memory = vault.memory(self.travel_cap)
            expect([hit.text for hit in memory.get(QUESTION)] == [TRIP], "the narrowed cap did not recall the trip")
            expect([line.id for line in memory.list().lines] == [self.trip], "it listed something else")
            expect(not memory.snapshot().profiles, "its snapshot holds a profile of another namespace")
        return "a cap narrowed offline to travel recalls, lists and snapshots travel alone"

    def narrowed_cap_is_denied_personal(self) -> str:
        with self.open() as vault:
            memory = vault.memory(self.travel_cap)
            refused("cap_namespace_denied", lambda: memory.get("allergy", namespaces=["personal"]))
            refused("cap_namespace_denied", lambda: memory.list(namespaces=["personal"]))
            refused("cap_namespace_denied", lambda: memory.snapshot(namespaces=["personal"]))
            refused("cap_namespace_denied", lambda: memory.get(ids=[self.allergy], namespaces=["personal"]))
            refused("cap_namespace_denied", lambda: memory.get("", namespaces=["no-such-namespace"]))
        return "personal is denied by get, list, snapshot and id (cap_namespace_denied), as is what does not exist"

    def unnamed_id_is_not_there(self) -> str:
        with self.open() as vault:
            refused("not_found", lambda: vault.memory(self.travel_cap).get(ids=[self.allergy]))
        return "the allergy's id alone, under the travel cap, is not_found"

    def stripped_cap_is_refused(self) -> str:
        parent_link = self.travel_cap.split("~")[0]
        own_seed = self.travel_cap.split("~")[-1]
        with self.open() as vault:
            for stripped in (parent_link, f"{parent_link}~{own_seed}"):
                refused("cap_holder_proof", using(vault.memory(Token(stripped))))
        return "the narrowing link is stripped off: refused (cap_holder_proof)"

    def widened_cap_is_refused(self) -> str:
        wider = strongroom.attenuate(self.travel_cap, namespaces=["personal", "travel"])
        with self.open() as vault:
            memory = vault.memory(wider)
            refused("cap_namespace_denied", lambda: memory.get("allergy", namespaces=["personal"]))
            refused("cap_signature_invalid", using(vault.memory(edited(self.travel_cap))))
        return "a link that names more changes nothing; an edited one is refused (cap_signature_invalid)"

    def credentials_cap_is_refused(self) -> str:
        with self.open() as vault:
            cap = vault.mint(actor="local/alice", ops=["put"], namespaces=["travel"], data_class="credentials")
            refused("cap_data_class_mismatch", lambda: vault.memory(cap).put("hello"))
        return "a credentials cap with the same op is refused (cap_data_class_mismatch)"

    # Noticing.

    def moved_line_is_noticed(self) -> str:
        self.swap_bodies()
        with self.open() as vault:
            refused("tampered", lambda: vault.memory(self.owner_cap).get("peanuts", namespaces=["travel"]))
            found = {str(finding.flaw) for finding in vault.audit.verify().findings}
        expect(found == {"object_altered"}, f"verify found {sorted(found)}")
        self.swap_bodies()
        with self.open() as vault:
            expect(vault.audit.verify().ok, "the vault is not whole again")
        return "two lines swapped on disk are refused (tampered) and named by verify; swapped back, all is well"

    def edited_log_is_noticed(self) -> str:
        number, entry = self.logged("cap_namespace_denied")
        self.write("UPDATE entries SET entry = ? WHERE number = ?", entry.replace(b'"deny"', b'"allow"'), number)
        with self.open() as vault:
            findings = vault.audit.verify().findings
        expect([(str(one.flaw), one.entry) for one in findings] == [("entry_edited", number)], "verify missed the edit")
        self.write("UPDATE entries SET entry = ? WHERE number = ?", entry, number)
        with self.open() as vault:
            expect(vault.audit.verify().ok, "the log is not whole again")
        return (
            f"a denial in the log edited into an admission is named by verify (entry {number}); restored, all is well"
        )

    # Forgetting.

    def forgotten_line_leaves_nothing(self) -> str:
        sealed = self.sealed(self.trip)
        expect(self.on_disk(sealed), "the scan does not find the sealed line while it is there")
        with self.open() as vault:
            forgotten = vault.memory(self.owner_cap).forget(ids=[self.trip])
            expect(forgotten.ids == (self.trip,) and forgotten.scrubbed, "the line was not forgotten")
            hits = vault.memory(self.owner_cap).get(QUESTION)
            again = vault.memory(self.owner_cap).put(TRIP, namespace="travel", id=self.trip)
        expect(TRIP not in [hit.text for hit in hits] and again.forgotten, "the line is still there")
        expect(not self.on_disk(sealed) and not self.on_disk(TRIP.encode()), "bytes of the line are left")
        return "forget: no file holds the sealed line any more, and its id brings nothing back"

    def erased_actor_leaves_nothing(self) -> str:
        sealed, keys = self.sealed(self.allergy), self.sealed("keys")
        expect(self.on_disk(sealed) and self.on_disk(keys), "the scan does not find what is there")
        with self.open() as vault:
            erased = vault.erase("local/alice")
            expect(not erased.pending, "the erasure is pending")
            refused("cap_revoked", using(vault.memory(self.owner_cap)))
            expect(vault.audit.verify().ok, "log and store do not agree after the erasure")
        expect(not any(map(self.on_disk, (sealed, keys, ALLERGY.encode()))), "bytes of the actor are left")
        return "erase: no file holds the line or its keys, old caps are void, and the log still verifies"

    # What an attacker with the files would do.

    def read(self, query: str, *values: str) -> list[tuple[Any, ...]]:
        with closing(apsw.Connection(str(self.path / "vault.db"))) as database:
            return database.execute(query, values).fetchall()

    def write(self, query: str, *values: str | bytes | int) -> None:
        with closing(apsw.Connection(str(self.path / "vault.db"))) as database:
            database.execute(query, values)

    def logged(self, what: str) -> tuple[int, bytes]:
        """The first entry of the log that mentions `what`."""
        query = "SELECT number, entry FROM entries WHERE CAST(entry AS TEXT) LIKE ? ORDER BY number"
        number, entry = self.read(query, f"%{what}%")[0]
        return number, entry

    def sealed(self, name: str) -> bytes:
        """The body of the object whose name ends like this."""
        ((body,),) = self.read("SELECT body FROM objects WHERE name LIKE ?", f"%/{name}")
        return bytes(body)

    def swap_bodies(self) -> None:
        trip, allergy = self.sealed(self.trip), self.sealed(self.allergy)
        for line, body in ((self.trip, allergy), (self.allergy, trip)):
            self.write("UPDATE objects SET body = ? WHERE name LIKE ?", body, f"%/{line}")

    def on_disk(self, wanted: bytes) -> bool:
        """Whether any file of the vault holds these bytes, or a piece of them."""
        files = [path.read_bytes() for path in self.path.rglob("*") if path.is_file()]
        pieces = [wanted[at : at + 48] for at in range(0, max(len(wanted) - 47, 1), 48)]
        return any(piece in data for data in files for piece in pieces)


def using(memory: Memory) -> Callable[[], object]:
    return lambda: memory.get("anything")


def edited(cap: Token) -> Token:
    """The cap with `personal` written into the claims of its last link."""
    first, link, seed = cap.split("~")
    header, payload, signature = link.split(".")
    claims = base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4))
    wider = claims.replace(b'["travel"]', b'["personal","travel"]')
    expect(wider != claims, "the claims were not found")
    return Token(f"{first}~{header}.{base64.urlsafe_b64encode(wider).rstrip(b'=').decode()}.{signature}~{seed}")


def expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Unexpected(otherwise)


def refused(reason: str, call: Callable[[], object]) -> None:
    try:
        call()
    except strongroom.errors.StrongroomError as error:
        expect(error.reason == reason, f"refused with {error.reason}, not with {reason}")
    else:
        raise Unexpected(f"admitted, where {reason} was due")


def main() -> int:
    failed = 0
    with tempfile.TemporaryDirectory() as scratch:
        story = Story(Path(scratch))
        steps = [
            story.make_a_vault,
            story.session_one_stores,
            story.session_two_recalls,
            story.narrowed_cap_sees_travel_only,
            story.narrowed_cap_is_denied_personal,
            story.unnamed_id_is_not_there,
            story.stripped_cap_is_refused,
            story.widened_cap_is_refused,
            story.credentials_cap_is_refused,
            story.moved_line_is_noticed,
            story.edited_log_is_noticed,
            story.forgotten_line_leaves_nothing,
            story.erased_actor_leaves_nothing,
        ]
        for number, step in enumerate(steps, 1):
            try:
                print(f"{number} ok {step()}")
            except Exception as error:  # noqa: BLE001 - whatever breaks a step, it has failed
                failed += 1
                print(f"{number} fail {step.__name__}: {error}")
    print("all steps are ok" if not failed else f"{failed} steps failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
