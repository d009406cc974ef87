"""The keys below the root: random, sealed by the one above, and of use in one place only."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
from collections.abc import Callable

import pytest

from strongroom.crypto.hmac_state import HmacState, context
from strongroom.errors import KeyUnavailable, StrongroomError, Tampered
from strongroom.keys import ActorKeys, Keyring, Slots, VaultSecrets
from strongroom.keys.hierarchy import tag
from strongroom.model import Actor, Namespace
from tests.crypto.test_chunked_aead import flips, spec_open

VAULT = "0123456789abcdef"
ALICE, BOB = Actor("local/alice"), Actor("local/bob")
TRAVEL, WORK = Namespace("travel"), Namespace("work")
RING = Keyring.of(bytes(range(32)))
NAME_KEY = bytes(range(32, 64))
SLOTS = Slots(NAME_KEY)


class Dice:
    """Random bytes that are remembered, so that a key can be told from anything computed."""

    def __init__(self, seed: int = 0) -> None:
        self._numbers = itertools.count(seed * 1000)
        self.given: list[bytes] = []

    def __call__(self, size: int) -> bytes:
        made = hashlib.shake_256(b"dice %d" % next(self._numbers)).digest(size)
        self.given.append(made)
        return made


def alice(dice: Dice) -> ActorKeys:
    """Alice with keys for travel and work."""
    keys = ActorKeys.new(VAULT, ALICE, dice)
    for namespace in (TRAVEL, WORK):
        keys = keys.with_namespace(SLOTS.namespace(ALICE, namespace), dice)
    return keys


def reopened(body: bytes, *, vault: str = VAULT, actor: Actor = ALICE, ring: Keyring = RING) -> ActorKeys:
    return ActorKeys.open(body, vault, SLOTS, SLOTS.actor(actor), ring)


def all_keys(keys: ActorKeys) -> list[bytes]:
    shelves = [key for epochs in keys.namespaces.values() for key in epochs.values()]
    return [keys.actor_key, keys.tag_key, *shelves]


def _reason(attempt: Callable[..., object], *arguments: object, **named: object) -> str:
    with pytest.raises(StrongroomError) as raised:
        attempt(*arguments, **named)
    return raised.value.reason


# Random, not derived.


@pytest.mark.requirement("keys-random")
def test_same_actor_made_twice_has_different_keys() -> None:
    one, two = alice(Dice(1)), alice(Dice(2))
    assert not set(all_keys(one)) & set(all_keys(two))


@pytest.mark.requirement("keys-random")
def test_every_key_is_random_bytes_as_drawn_and_nothing_is_computed() -> None:
    dice = Dice()
    keys = alice(dice).rotated(dice)
    secrets = VaultSecrets.new({}, dice)
    made = [*all_keys(keys), secrets.log_seed, secrets.name_key, secrets.tag_key, secrets.record_key]
    assert set(made) <= set(dice.given)
    assert len(set(made)) == len(made) == 6 + 4


@pytest.mark.requirement("keys-random")
def test_no_usual_derivation_from_the_root_gives_a_key() -> None:
    """A guess at what a derivation would look like. The test above shows why none can succeed."""
    (root,) = RING.keys.values()
    names = ["", ALICE, TRAVEL, VAULT, f"{ALICE}/{TRAVEL}", SLOTS.actor(ALICE), SLOTS.namespace(ALICE, TRAVEL)]
    inputs = [text.encode() for text in names] + [context(ALICE), context(ALICE, TRAVEL), context("actor", ALICE)]
    derived = {hmac.digest(root, data + tail, "sha256") for data in inputs for tail in (b"", b"\x01")}
    derived |= {hashlib.sha256(root + data).digest() for data in inputs}
    assert not derived & set(all_keys(alice(Dice())))


@pytest.mark.requirement("keys-random")
def test_reopened_keys_are_the_same_and_sealing_draws_nothing_but_salts() -> None:
    keys = alice(Dice(1))
    dice = Dice(2)
    body = keys.sealed(RING, dice)
    assert reopened(body) == keys
    assert {len(drawn) for drawn in dice.given} == {24}
    assert len(set(dice.given)) == len(dice.given) == 5
    assert keys.sealed(RING, Dice(3)) != body


def test_document_names_neither_actor_nor_namespace_nor_any_key() -> None:
    dice = Dice()
    body = alice(dice).sealed(RING, dice)
    for hidden in (b"alice", b"travel", b"work", *(base64.b64encode(key)[:-2] for key in all_keys(alice(Dice())))):
        assert hidden not in body


def test_document_opens_by_its_specification() -> None:
    """docs/spec/keys.md, followed by hand."""
    (root,) = RING.keys.values()
    keys = alice(Dice())
    document = json.loads(keys.sealed(RING, Dice(1)))
    assert list(document) == ["v", "epoch", "root", "actor", "actor_key", "tag_key", "namespaces"]
    assert (document["v"], document["epoch"], document["root"]) == (1, 1, RING.active)

    def opened(key: bytes, text: str, *parts: str | int) -> bytes:
        return spec_open(key, base64.b64decode(text), context(*parts))

    assert opened(root, document["actor"], "strongroom/actor-name/v1", VAULT, RING.active) == ALICE.encode()
    actor_key = opened(root, document["actor_key"], "strongroom/actor-key/v1", VAULT, ALICE, 1, RING.active)
    tag_key = opened(actor_key, document["tag_key"], "strongroom/tag-key/v1", VAULT, ALICE, 1)
    assert (actor_key, tag_key) == (keys.actor_key, keys.tag_key)
    for locator, epochs in document["namespaces"].items():
        (one,) = epochs
        place = ("strongroom/namespace-key/v1", VAULT, ALICE, 1, locator, one["epoch"])
        assert opened(actor_key, one["sealed"], *place) == keys.namespaces[locator][1]


# Growing, shrinking, rotating.


def test_new_namespace_gets_a_key_of_its_own_at_epoch_one() -> None:
    keys = alice(Dice())
    travel, work = SLOTS.namespace(ALICE, TRAVEL), SLOTS.namespace(ALICE, WORK)
    assert keys.newest(travel)[0] == keys.newest(work)[0] == 1
    assert keys.newest(travel)[1] != keys.newest(work)[1]


@pytest.mark.requirement("erase-keys")
def test_keys_without_a_namespace_hold_nothing_of_it_any_more() -> None:
    dice = Dice()
    keys, travel = alice(dice), SLOTS.namespace(ALICE, TRAVEL)
    gone = keys.namespaces[travel][1]
    left = keys.without_namespace(travel)
    assert gone not in all_keys(reopened(left.sealed(RING, dice)))
    assert list(left.namespaces) == [SLOTS.namespace(ALICE, WORK)]
    again = left.with_namespace(travel, dice)
    assert again.namespaces[travel] != keys.namespaces[travel]


@pytest.mark.requirement("keys-rotate-actor")
def test_rotation_adds_an_epoch_and_keeps_the_old_ones() -> None:
    dice = Dice()
    keys, travel = alice(dice), SLOTS.namespace(ALICE, TRAVEL)
    turned = keys.rotated(dice).rotated(dice)
    assert turned.epoch == 3
    assert turned.actor_key != keys.actor_key
    assert turned.tag_key == keys.tag_key, "tags must go on, or the log would lose track of a live actor"
    assert sorted(turned.namespaces[travel]) == [1, 2, 3]
    assert turned.namespaces[travel][1] == keys.namespaces[travel][1]
    assert turned.newest(travel) == (3, turned.namespaces[travel][3])
    assert len(set(turned.namespaces[travel].values())) == 3
    assert reopened(turned.sealed(RING, dice)) == turned


@pytest.mark.requirement("keys-rotate-actor")
def test_old_actor_key_opens_nothing_of_the_new_document_after_rotation() -> None:
    dice = Dice()
    keys = alice(dice)
    document = json.loads(keys.rotated(dice).sealed(RING, dice))
    sealed = [document["tag_key"], *(one["sealed"] for epochs in document["namespaces"].values() for one in epochs)]
    assert len(sealed) == 5
    for text in sealed:
        # The commitment would match for one context only under the right key, so compare it for all of them.
        for epoch, number in itertools.product((1, 2), (1, 2)):
            for locator in document["namespaces"]:
                place = context("strongroom/namespace-key/v1", VAULT, ALICE, epoch, locator, number)
                with pytest.raises(AssertionError):
                    spec_open(keys.actor_key, base64.b64decode(text), place)


# Places.


@pytest.mark.requirement("seal-slot", "keys-never-new")
def test_actors_document_moved_to_another_actor_is_refused() -> None:
    dice = Dice()
    body = alice(dice).sealed(RING, dice)
    assert _reason(reopened, body, actor=BOB) == "tampered"


@pytest.mark.requirement("seal-slot")
def test_actors_document_copied_to_another_vault_of_the_same_root_is_refused() -> None:
    dice = Dice()
    body = alice(dice).sealed(RING, dice)
    assert _reason(reopened, body, vault="fedcba9876543210") == "tampered"


@pytest.mark.requirement("keys-never-new")
def test_document_of_an_unknown_root_is_unavailable_and_not_tampered() -> None:
    dice = Dice()
    body = alice(dice).sealed(RING, dice)
    assert _reason(reopened, body, ring=Keyring.of(bytes(32))) == "key_unavailable"


def _with(body: bytes, **changed: object) -> bytes:
    return json.dumps(json.loads(body) | changed).encode()


@pytest.mark.requirement("seal-slot")
def test_parts_of_two_documents_do_not_mix() -> None:
    dice = Dice()
    body = alice(dice).sealed(RING, dice)
    bobs = ActorKeys.new(VAULT, BOB, dice).with_namespace(SLOTS.namespace(BOB, TRAVEL), dice).sealed(RING, dice)
    for field in ("actor", "actor_key", "tag_key", "namespaces"):
        assert _reason(reopened, _with(body, **{field: json.loads(bobs)[field]})) == "tampered"


@pytest.mark.requirement("seal-slot")
def test_keys_swapped_between_namespaces_or_epochs_are_refused() -> None:
    dice = Dice()
    body = alice(dice).rotated(dice).sealed(RING, dice)
    travel, work = json.loads(body)["namespaces"].items()
    crossed = {travel[0]: work[1], work[0]: travel[1]}
    assert _reason(reopened, _with(body, namespaces=crossed)) == "tampered"
    first, second = travel[1]
    swapped = [{"epoch": 1, "sealed": second["sealed"]}, {"epoch": 2, "sealed": first["sealed"]}]
    assert _reason(reopened, _with(body, namespaces={travel[0]: swapped})) == "tampered"
    assert _reason(reopened, _with(body, tag_key=first["sealed"])) == "tampered"


@pytest.mark.parametrize(
    "changed",
    [
        {"v": 2},
        {"epoch": 2},
        {"epoch": -1},
        {"epoch": 2**64},
        {"epoch": "1"},
        {"more": 1},
        {"actor": ""},
        {"actor_key": "?"},
        {"namespaces": {"x": [{"epoch": 1, "sealed": ""}]}},
        {"namespaces": {"x": [{"epoch": -1, "sealed": ""}]}},
        {"namespaces": None},
    ],
    ids=str,
)
def test_edited_document_is_refused(changed: dict[str, object]) -> None:
    dice = Dice()
    body = alice(dice).sealed(RING, dice)
    assert reopened(_with(body)) == alice(Dice())
    assert _reason(reopened, _with(body, **changed)) == "tampered"


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b"null", b"\xff", b'{"v":1}'])
def test_non_document_is_refused(body: bytes) -> None:
    assert _reason(reopened, body) == "tampered"
    assert _reason(VaultSecrets.open, body, VAULT, RING) == "tampered"


@pytest.mark.requirement("keys-never-new")
@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.long)])
def test_flipped_bit_in_a_document_never_gives_other_keys(step: int) -> None:
    keys = alice(Dice())
    body = keys.sealed(RING, Dice(1))
    refused = tried = 0
    for edited in flips(body, step):
        tried += 1
        try:
            assert reopened(edited) == keys
        except (Tampered, KeyUnavailable):
            refused += 1
    assert refused > tried - 40  # base64's spare bits, at most four for each of the sealed values


# The vault's secrets.


def test_vault_secrets_open_in_their_vault_with_their_root() -> None:
    dice = Dice()
    secrets = VaultSecrets.new({"ab": bytes(32)}, dice)
    body = secrets.sealed(VAULT, RING, dice)
    assert VaultSecrets.open(body, VAULT, RING) == secrets
    assert _reason(VaultSecrets.open, body, "fedcba9876543210", RING) == "tampered"
    assert _reason(VaultSecrets.open, body, VAULT, Keyring.of(bytes(32))) == "key_unavailable"
    for key in (secrets.log_seed, secrets.name_key, secrets.tag_key, secrets.record_key):
        assert key not in body
        assert base64.b64encode(key)[:-2] not in body


def test_vault_secrets_open_by_their_specification() -> None:
    (root,) = RING.keys.values()
    secrets = VaultSecrets.new({"ab": bytes(32)}, Dice())
    wrapped = json.loads(secrets.sealed(VAULT, RING, Dice(1)))
    assert list(wrapped) == ["v", "root", "sealed"]
    place = context("strongroom/vault-secrets/v1", VAULT, RING.active)
    plain = json.loads(spec_open(root, base64.b64decode(wrapped["sealed"]), place))
    assert plain["v"] == 1
    assert {name: base64.b64decode(plain[name]) for name in ("log_seed", "name_key", "tag_key", "record_key")} == {
        "log_seed": secrets.log_seed,
        "name_key": secrets.name_key,
        "tag_key": secrets.tag_key,
        "record_key": secrets.record_key,
    }
    assert plain["issuers"] == {"ab": base64.b64encode(bytes(32)).decode()}


def test_secrets_sealed_under_one_root_cannot_be_relabelled_with_another() -> None:
    dice = Dice()
    ring = RING.adding(bytes(32))
    body = VaultSecrets.new({}, dice).sealed(VAULT, RING, dice)
    assert VaultSecrets.open(body, VAULT, ring)
    assert _reason(VaultSecrets.open, _with(body, root=ring.active), VAULT, ring) == "tampered"


# Locators and tags.


def test_locators_are_keyed_and_differ_for_each_actor_and_namespace() -> None:
    made = [SLOTS.actor(ALICE), SLOTS.actor(BOB), SLOTS.namespace(ALICE, TRAVEL), SLOTS.namespace(ALICE, WORK)]
    made += [SLOTS.namespace(BOB, TRAVEL), Slots(bytes(32)).actor(ALICE), Slots(bytes(32)).namespace(ALICE, TRAVEL)]
    assert len(set(made)) == len(made)
    assert all(len(locator) == 32 and int(locator, 16) >= 0 for locator in made)
    expected = hmac.digest(NAME_KEY, context("actor", ALICE), "sha256")[:16].hex()
    assert SLOTS.keys(ALICE) == f"actors/{expected}/keys"
    assert SLOTS.shelf(ALICE, TRAVEL) == f"actors/{expected}/memory/{SLOTS.namespace(ALICE, TRAVEL)}/"


@pytest.mark.requirement("audit-unlinkable")
def test_tags_of_one_thing_under_two_keys_have_nothing_in_common() -> None:
    one, two = alice(Dice(1)), alice(Dice(2))
    assert one.actor_tag() != two.actor_tag()
    assert one.object_tag("name") != two.object_tag("name")
    assert one.namespace_tag("name") != two.namespace_tag("name")
    assert one.actor_tag() == one.rotated(Dice(3)).actor_tag()
    assert len(base64.urlsafe_b64decode(one.actor_tag() + "==")) == 16


def test_tags_of_two_things_differ_and_parts_do_not_run_together() -> None:
    key = HmacState(bytes(32))
    tags = [tag(key), tag(key, ""), tag(key, "ab", "c"), tag(key, "a", "bc"), tag(key, "abc")]
    assert len(set(tags)) == len(tags)
    keys = alice(Dice())
    key = HmacState(keys.tag_key)
    assert keys.actor_tag() == tag(key, "actor")
    assert keys.namespace_tag("x") == tag(key, "namespace", "x")
    assert keys.object_tag("x") == tag(key, "object", "x")


@pytest.mark.requirement("secrets-hidden")
def test_no_keys_show_themselves() -> None:
    dice = Dice()
    keys, secrets = alice(dice), VaultSecrets.new({}, dice)
    shown = repr(keys) + repr(secrets) + repr(SLOTS)
    for key in (*all_keys(keys), secrets.log_seed, secrets.record_key, NAME_KEY):
        assert repr(key) not in shown
        assert key.hex() not in shown
    assert "alice" not in shown
