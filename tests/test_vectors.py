"""The committed vectors of sealing, keys and log: each does what it says, and all regenerate to the same bytes."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from scripts import make_vectors

from strongroom import FileKeys, PassphraseKeys
from strongroom.audit.entry import decode_entry
from strongroom.audit.log import VaultMac
from strongroom.audit.verifier import Expected
from strongroom.crypto import chunked_aead, document_encryption, hmac_state, inbox, line_encryption, merkle_log
from strongroom.crypto.hmac_state import HmacState
from strongroom.crypto.line_encryption import LinePlace
from strongroom.errors import StrongroomError, Tampered
from strongroom.keys import ActorKeys, Keyring, Slots, VaultSecrets
from strongroom.keys.hierarchy import tag
from strongroom.keys.sources import root_id
from strongroom.model import Actor, LineId, Namespace
from strongroom.store import Head
from tests.crypto.test_chunked_aead import spec_open

VECTORS = Path(__file__).parent / "vectors"
FOLDERS = ["audit", "cap", "inbox", "keys", "line"]
FILES = sorted(path for folder in ("audit", "inbox", "keys", "line") for path in (VECTORS / folder).glob("*.json"))

Vector = dict[str, Any]


class Registry(msgspec.Struct):
    names: list[str]


def _b64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _hex(values: dict[Any, bytes]) -> dict[str, str]:
    return {str(name): value.hex() for name, value in values.items()}


def _ring(vector: Vector) -> Keyring:
    keys = {name: bytes.fromhex(key) for name, key in vector["keyring"].items()}
    return Keyring(next(iter(keys)), keys)


def _keys(vector: Vector) -> dict[int, bytes]:
    return {int(epoch): bytes.fromhex(key) for epoch, key in vector["keys"].items()}


def _place(vector: Vector) -> LinePlace:
    return LinePlace(vector["vault"], Actor(vector["actor"]), Namespace(vector["namespace"]))


# For each kind of vector: do what it says, and give what came out under the names that the vector uses.


def _cobblestone(vector: Vector, _: Path) -> Vector:
    key, sealed, ctx = bytes.fromhex(vector["key"]), _b64(vector["sealed"]), bytes.fromhex(vector["context"])
    plain = chunked_aead.unseal(key, sealed, ctx)
    assert spec_open(key, sealed, ctx) == plain
    assert chunked_aead.seal(key, plain, ctx, sealed[:24]) == sealed
    return {"plaintext": base64.b64encode(plain).decode()}


def _context(vector: Vector, _: Path) -> Vector:
    return {"context": hmac_state.context(*vector["parts"]).hex()}


def _padding(vector: Vector, _: Path) -> Vector:
    return {"sizes": [[size, line_encryption.padded_size(size)] for size, _ in vector["sizes"]]}


def _line(vector: Vector, _: Path) -> Vector:
    sealed, place, keys = _b64(vector["sealed"]), _place(vector), _keys(vector)
    line = line_encryption.open_line(sealed, LineId(vector["id"]), place, keys)
    epoch = line_encryption.sealed_epoch(sealed, line_encryption.DETAILED)
    assert line_encryption.seal_line(line, place, epoch, keys[epoch], sealed[5:29]) == sealed
    return {"line": json.loads(msgspec.json.encode(line))}


def _document(vector: Vector, _: Path) -> Vector:
    sealed, place, keys = _b64(vector["sealed"]), _place(vector), _keys(vector)
    document = document_encryption.open_document(sealed, vector["locator"], place, keys)
    epoch = line_encryption.sealed_epoch(sealed)
    again = document_encryption.seal_document(document, vector["locator"], place, epoch, keys[epoch], sealed[5:29])
    assert again == sealed
    return {"document": json.loads(msgspec.json.encode(document))}


def _document_locator(vector: Vector, _: Path) -> Vector:
    slots = Slots(bytes.fromhex(vector["name_key"]))
    name = slots.document(Actor(vector["actor"]), Namespace(vector["namespace"]), vector["key"])
    return {"locator": name.rsplit("/", 1)[1]}


def _text(vector: Vector, _: Path) -> Vector:
    sealed, place, keys = _b64(vector["sealed"]), _place(vector), _keys(vector)
    text = line_encryption.open_text(sealed, vector["name"], place, keys)
    epoch = line_encryption.sealed_epoch(sealed)
    assert line_encryption.seal_text(text, vector["name"], place, epoch, keys[epoch], sealed[5:29]) == sealed
    return {"text": text}


def _record(vector: Vector, _: Path) -> Vector:
    sealed, key = _b64(vector["sealed"]), bytes.fromhex(vector["key"])
    record = line_encryption.open_record(sealed, vector["name"], vector["vault"], key, Registry)
    assert line_encryption.seal_record(record, vector["name"], vector["vault"], key, sealed[5:29]) == sealed
    return {"names": record.names}


def _root_id(vector: Vector, _: Path) -> Vector:
    return {"id": root_id(bytes.fromhex(vector["key"]))}


def _locators(vector: Vector, _: Path) -> Vector:
    slots, actor = Slots(bytes.fromhex(vector["name_key"])), Actor(vector["actor"])
    return {
        "actor_locator": slots.actor(actor),
        "namespace_locator": slots.namespace(actor, Namespace(vector["namespace"])),
    }


def _tag(vector: Vector, _: Path) -> Vector:
    return {"tag": tag(HmacState(bytes.fromhex(vector["key"])), *vector["parts"])}


def _vault_secrets(vector: Vector, _: Path) -> Vector:
    found = VaultSecrets.open(vector["document"].encode(), vector["vault"], _ring(vector))
    names = ("log_seed", "name_key", "tag_key", "record_key")
    opened: Vector = {name: getattr(found, name).hex() for name in names} | {"issuers": _hex(found.issuers)}
    return {"secrets": opened | ({"inbox": found.inbox} if found.inbox else {})}


def _actor_document(vector: Vector, _: Path) -> Vector:
    slots = Slots(bytes.fromhex(vector["name_key"]))
    found = ActorKeys.open(vector["document"].encode(), vector["vault"], slots, vector["locator"], _ring(vector))
    return {
        "keys": {
            "actor": found.actor,
            "epoch": found.epoch,
            "actor_key": found.actor_key.hex(),
            "tag_key": found.tag_key.hex(),
            "namespaces": {name: _hex(dict(epochs)) for name, epochs in found.namespaces.items()},
        }
    }


def _file(keys: FileKeys, vector: Vector) -> Vector:
    path = keys.directory / "root.keyring"
    path.write_text(vector["content"], encoding="utf-8")
    path.chmod(0o600)
    ring = keys.load()
    return {"active": ring.active, "keys": _hex(dict(ring.keys))}


def _keyring(vector: Vector, scratch: Path) -> Vector:
    return _file(FileKeys(scratch), vector)


def _passphrase(vector: Vector, scratch: Path) -> Vector:
    return _file(PassphraseKeys(scratch, vector["passphrase"]), vector)


def _recipient(vector: Vector, _: Path) -> Vector:
    return {"recipient": inbox.recipient_of(vector["identity"])}


def _inbox(vector: Vector, _: Path) -> Vector:
    bundle = inbox.unseal(vector["identity"], _b64(vector["sealed"]))
    again = inbox.seal(inbox.recipient_of(vector["identity"]), bundle)
    assert inbox.unseal(vector["identity"], again) == bundle
    return {"bundle": json.loads(msgspec.json.encode(bundle))}


def _entry(vector: Vector, _: Path) -> Vector:
    data = vector["entry"].encode()
    entry = decode_entry(data)
    assert entry.encoded() == data
    fields = json.loads(msgspec.json.encode(entry))
    return {"leaf": merkle_log.leaf_hash(data).hex(), "fields": fields}


def _tree(vector: Vector, _: Path) -> Vector:
    leaves = [merkle_log.leaf_hash(entry.encode()) for entry in vector["entries"]]
    edge = merkle_log.Range()
    roots, peaks = [edge.root().hex()], [edge.packed().hex()]
    for leaf in leaves:
        edge.append(leaf)
        roots.append(edge.root().hex())
        peaks.append(edge.packed().hex())
    return {"leaves": [leaf.hex() for leaf in leaves], "roots": roots, "peaks": peaks}


def _bundle(vector: Vector, _: Path) -> Vector:
    return {"entries": [entry.decode() for entry in merkle_log.unbundle(_b64(vector["bundle"]))]}


def _tile_paths(vector: Vector, _: Path) -> Vector:
    return {"paths": {number: merkle_log.tile_path(int(number)) for number in vector["paths"]}}


def _inclusion(vector: Vector, _: Path) -> Vector:
    proof = [bytes.fromhex(one) for one in vector["proof"]]
    root = merkle_log.root_from_inclusion(bytes.fromhex(vector["leaf"]), vector["index"], vector["size"], proof)
    if root.hex() != vector["root"]:
        raise Tampered("another root")
    return {}


def _consistency(vector: Vector, _: Path) -> Vector:
    roots = bytes.fromhex(vector["old_root"]), bytes.fromhex(vector["new_root"])
    proof = [bytes.fromhex(one) for one in vector["proof"]]
    merkle_log.check_consistency(vector["old"], roots[0], vector["new"], roots[1], proof)
    return {}


def _verifier_key(vector: Vector, _: Path) -> Vector:
    return {"verifier_key": merkle_log.verifier_key(vector["origin"], bytes.fromhex(vector["public"]))}


def _checkpoint(vector: Vector, _: Path) -> Vector:
    found = merkle_log.open_checkpoint(vector["note"], vector["origin"], bytes.fromhex(vector["public"]))
    return {"size": found.size, "root": found.root.hex()}


def _proof(vector: Vector, _: Path) -> Vector:
    found = merkle_log.Proof.parse(vector["proof"])
    found.check(vector["entry"].encode(), vector["origin"], bytes.fromhex(vector["public"]))
    assert found.text() == vector["proof"]
    return {}


def _head(vector: Vector, _: Path) -> Vector:
    head = Head(vector["size"], bytes.fromhex(vector["peaks"]), vector["time"], bytes.fromhex(vector["mac"]))
    VaultMac(vector["vault"], bytes.fromhex(vector["tag_key"]), bytes(32)).check(head)
    return {}


def _replay(vector: Vector, _: Path) -> Vector:
    expected = Expected(0, {})
    for entry in vector["entries"]:
        expected.apply(decode_entry(entry.encode()))
    owners = {
        owner: {mark.tag: [mark.digest, mark.shelf] for mark in held.values()}
        for owner, held in expected.owners.items()
        if held
    }
    return {"owners": owners}


KINDS: dict[str, Callable[[Vector, Path], Vector]] = {
    "cobblestone": _cobblestone,
    "context": _context,
    "padding": _padding,
    "line": _line,
    "document": _document,
    "document-locator": _document_locator,
    "text": _text,
    "record": _record,
    "root-id": _root_id,
    "locators": _locators,
    "tag": _tag,
    "vault-secrets": _vault_secrets,
    "actor-document": _actor_document,
    "keyring": _keyring,
    "passphrase": _passphrase,
    "recipient": _recipient,
    "inbox": _inbox,
    "entry": _entry,
    "tree": _tree,
    "bundle": _bundle,
    "tile-paths": _tile_paths,
    "inclusion": _inclusion,
    "consistency": _consistency,
    "verifier-key": _verifier_key,
    "checkpoint": _checkpoint,
    "proof": _proof,
    "head": _head,
    "replay": _replay,
}


@pytest.mark.requirement("project-vectors", "seal-chunks")
@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_vector_does_what_it_says(path: Path, tmp_path: Path) -> None:
    vector = json.loads(path.read_bytes())
    try:
        came_out = KINDS[vector["kind"]](vector, tmp_path)
        reason = "ok"
    except StrongroomError as error:
        came_out, reason = {}, error.reason
    assert reason == vector["expect"], vector["description"]
    assert came_out == {name: vector[name] for name in came_out}, vector["description"]


@pytest.mark.requirement("project-vectors")
def test_no_folder_of_vectors_is_empty_and_every_kind_is_used() -> None:
    assert sorted(path.name for path in VECTORS.iterdir()) == FOLDERS
    for folder in FOLDERS:
        expected = {json.loads(path.read_bytes())["expect"] for path in (VECTORS / folder).glob("*.json")}
        assert len(expected) > 1, f"{folder} needs vectors that pass and vectors that fail"
        assert "ok" in expected
    assert {json.loads(path.read_bytes())["kind"] for path in FILES} == set(KINDS)


@pytest.mark.requirement("project-vectors", "seal-chunks")
def test_chunk_borders_are_among_the_vectors() -> None:
    sealed = [json.loads(path.read_bytes()) for path in (VECTORS / "line").glob("cobblestone-*.json")]
    sizes = {len(_b64(vector["plaintext"])) for vector in sealed if vector["expect"] == "ok"}
    assert {16_383, 16_384, 16_385} <= sizes


@pytest.mark.requirement("project-vectors")
def test_every_vector_regenerates_to_the_same_bytes(tmp_path: Path) -> None:
    make_vectors.write(tmp_path)

    def files(directory: Path) -> dict[str, bytes]:
        return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*.*")}

    assert files(tmp_path) == files(VECTORS)


@pytest.mark.requirement("project-vectors")
def test_writing_again_leaves_no_stale_vector(tmp_path: Path) -> None:
    for folder in FOLDERS:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "stale.json").write_text("{}")
    make_vectors.write(tmp_path)
    assert not list(tmp_path.rglob("stale.json"))
