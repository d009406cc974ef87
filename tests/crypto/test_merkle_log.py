"""The log's arithmetic against a second implementation (tests/audit/rfc.py), and against every edit of its texts."""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Iterator, Sequence
from functools import cache

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.caps import chain
from strongroom.crypto import merkle_log
from strongroom.errors import Tampered
from tests.audit import rfc
from tests.crypto.test_chunked_aead import flips

SEED = bytes(range(32))
PUBLIC = chain.public_key(SEED)
OTHER_SEED = bytes(range(1, 33))
ORIGIN = "strongroom/0123456789abcdef"
SIZES = range(71)


def entry(number: int) -> bytes:
    return b"entry %d" % number


@cache
def grown(size: int) -> rfc.Tree:
    return rfc.Tree([entry(number) for number in range(size)])


def _short(text: str) -> str:
    return ascii(text)[-60:]


def _refused(attempt: Callable[..., object], *arguments: object) -> bool:
    try:
        attempt(*arguments)
    except Tampered as error:
        return error.reason == "tampered"
    return False


def _edited(proof: Sequence[bytes]) -> Iterator[list[bytes]]:
    """A proof with each hash changed in a bit, left out, doubled or swapped with its neighbour, and one too many."""
    for at, one in enumerate(proof):
        bit = at * 37 % 256
        flipped = bytearray(one)
        flipped[bit // 8] ^= 1 << bit % 8
        yield [*proof[:at], bytes(flipped), *proof[at + 1 :]]
        yield [*proof[:at], *proof[at + 1 :]]
        yield [*proof[:at], one, *proof[at:]]
    for at in range(len(proof) - 1):
        yield [*proof[:at], proof[at + 1], proof[at], *proof[at + 2 :]]
    yield [*proof, bytes(32)]
    yield [bytes(32), *proof]


# The tree.


@pytest.mark.requirement("audit-prove")
def test_roots_of_every_size_are_those_of_rfc_6962() -> None:
    assert grown(0).root() == merkle_log.EMPTY_ROOT
    edge = merkle_log.Range()
    for size in SIZES:
        assert edge.size == size
        assert edge.root() == grown(size).root() == merkle_log.tree_hash(grown(size).leaves)
        edge.append(merkle_log.leaf_hash(entry(size)))


def test_leaf_and_a_node_over_the_same_bytes_differ() -> None:
    left, right = merkle_log.leaf_hash(b"a"), merkle_log.leaf_hash(b"b")
    assert merkle_log.leaf_hash(left + right) != merkle_log.node_hash(left, right)
    assert merkle_log.leaf_hash(b"\x01" + left + right) != merkle_log.node_hash(left, right)


def test_range_goes_on_from_its_packed_form() -> None:
    for size in SIZES:
        edge = merkle_log.Range()
        for number in range(size):
            edge.append(merkle_log.leaf_hash(entry(number)))
        again = merkle_log.Range.of(size, edge.packed())
        assert again.root() == edge.root()
        again.append(merkle_log.leaf_hash(entry(size)))
        assert again.root() == grown(size + 1).root()


def test_packed_range_that_does_not_fit_its_size_is_refused() -> None:
    edge = merkle_log.Range()
    for number in range(7):
        edge.append(merkle_log.leaf_hash(entry(number)))
    for size in (0, 6, 8):
        assert _refused(merkle_log.Range.of, size, edge.packed())
    assert _refused(merkle_log.Range.of, 7, edge.packed()[:-32])
    assert _refused(merkle_log.Range.of, 7, edge.packed()[:-1])
    assert _refused(merkle_log.Range.of, 7, edge.packed() + bytes(1))


@pytest.mark.requirement("audit-prove")
def test_every_inclusion_proof_is_that_of_rfc_6962_and_leads_to_the_root() -> None:
    for size in SIZES:
        tree = grown(size)
        for index in range(size):
            proof = merkle_log.inclusion_proof(tree.mth, index, size)
            assert proof == tree.path(index, 0, size)
            assert merkle_log.root_from_inclusion(tree.leaves[index], index, size, proof) == tree.root()


@pytest.mark.requirement("audit-prove")
def test_every_edited_inclusion_proof_is_refused() -> None:
    def check(leaf: bytes, index: int, size: int, proof: Sequence[bytes]) -> None:
        if merkle_log.root_from_inclusion(leaf, index, size, proof) != grown(size).root():
            raise Tampered("another root")

    for size in range(1, 40):
        tree = grown(size)
        for index in range(size):
            proof = tree.path(index, 0, size)
            assert not _refused(check, tree.leaves[index], index, size, proof)
            assert all(_refused(check, tree.leaves[index], index, size, edited) for edited in _edited(proof))
            for other in {0, size // 2, size - 1, size, index + 1, -1} - {index}:
                assert _refused(check, tree.leaves[index], other, size, proof)
            assert size == 1 or _refused(check, tree.leaves[index - 1], index, size, proof)


@pytest.mark.requirement("audit-prove")
def test_every_consistency_proof_is_that_of_rfc_6962_and_checks() -> None:
    for new in SIZES:
        tree = grown(new)
        for old in range(1, new + 1):
            proof = merkle_log.consistency_proof(tree.mth, old, new)
            assert proof == tree.proof(old, new)
            merkle_log.check_consistency(old, tree.root(old), new, tree.root(), proof)


@pytest.mark.requirement("audit-prove")
def test_every_edited_consistency_proof_is_refused() -> None:
    for new in range(1, 34):
        tree = grown(new)
        for old in range(1, new + 1):
            roots = tree.root(old), tree.root()
            proof = tree.proof(old, new)
            for edited in _edited(proof):
                assert _refused(merkle_log.check_consistency, old, roots[0], new, roots[1], edited)
            assert _refused(merkle_log.check_consistency, old, bytes(32), new, roots[1], proof)
            assert _refused(merkle_log.check_consistency, old, roots[0], new, bytes(32), proof)


def test_consistency_with_an_empty_or_larger_tree_is_refused() -> None:
    tree = grown(8)
    assert _refused(merkle_log.check_consistency, 0, merkle_log.EMPTY_ROOT, 8, tree.root(), [])
    assert _refused(merkle_log.check_consistency, 8, tree.root(), 4, tree.root(4), tree.proof(4, 8))
    assert _refused(merkle_log.check_consistency, 4, tree.root(4), 8, tree.root(), [])
    merkle_log.check_consistency(0, merkle_log.EMPTY_ROOT, 0, merkle_log.EMPTY_ROOT, [])
    assert _refused(merkle_log.check_consistency, 8, tree.root(), 8, tree.root(), [bytes(32)])


@pytest.mark.parametrize("index", [-1, 5, 6])
def test_no_inclusion_proof_is_made_for_what_is_not_there(index: int) -> None:
    with pytest.raises(ValueError):
        merkle_log.inclusion_proof(grown(5).mth, index, 5)


@pytest.mark.parametrize(("old", "new"), [(0, 5), (6, 5), (-1, 5)])
def test_no_consistency_proof_is_made_from_an_empty_or_larger_tree(old: int, new: int) -> None:
    with pytest.raises(ValueError):
        merkle_log.consistency_proof(grown(5).mth, old, new)


@pytest.mark.requirement("audit-prove")
@pytest.mark.parametrize("rounds", [6, pytest.param(200, marks=pytest.mark.long)])
def test_proofs_in_large_trees_are_those_of_rfc_6962(rounds: int) -> None:
    dice = random.Random(7)
    for _ in range(rounds):
        size = dice.randrange(71, 3000)
        tree = grown(size)
        assert merkle_log.tree_hash(tree.leaves) == tree.root()
        for _ in range(20):
            index, old = dice.randrange(size), dice.randrange(1, size + 1)
            proof = merkle_log.inclusion_proof(tree.mth, index, size)
            assert proof == tree.path(index, 0, size)
            assert merkle_log.root_from_inclusion(tree.leaves[index], index, size, proof) == tree.root()
            assert rfc.root_of_path(tree.leaves[index], index, size, proof) == tree.root()
            steps = merkle_log.consistency_proof(tree.mth, old, size)
            assert steps == tree.proof(old, size)
            merkle_log.check_consistency(old, tree.root(old), size, tree.root(), steps)
            for edited in _edited(steps):
                assert _refused(merkle_log.check_consistency, old, tree.root(old), size, tree.root(), edited)


# Checkpoints.


def checkpoint(size: int = 21) -> merkle_log.Checkpoint:
    return merkle_log.Checkpoint(ORIGIN, size, grown(size).root())


def note(size: int = 21) -> str:
    return merkle_log.sign_checkpoint(checkpoint(size), SEED)


def _sign(text: str, name: str = ORIGIN, seed: bytes = SEED) -> str:
    """Sign any text as a note, to see what is refused although its signature is right."""
    signature = Ed25519PrivateKey.from_private_bytes(seed).sign(text.encode())
    encoded = base64.b64encode(merkle_log.key_hash(name, chain.public_key(seed)) + signature).decode()
    return f"{text}\n\u2014 {name} {encoded}\n"


def test_signed_checkpoint_opens_here_and_by_the_second_reading() -> None:
    assert note() == _sign(checkpoint().text())
    assert merkle_log.open_checkpoint(note(), ORIGIN, PUBLIC) == checkpoint()
    assert rfc.open_note(note(), merkle_log.verifier_key(ORIGIN, PUBLIC)) == rfc.SignedHead(
        ORIGIN, 21, grown(21).root()
    )


def test_extension_lines_are_read_where_they_are_asked_for_and_signed_with_the_rest() -> None:
    made = merkle_log.Checkpoint(ORIGIN, 3, grown(3).root(), ("there 1.0", "missing 2.0"))
    signed = merkle_log.sign_checkpoint(made, SEED)
    assert merkle_log.open_checkpoint(signed, ORIGIN, PUBLIC, extended=True) == made
    assert merkle_log.open_checkpoint(note(), ORIGIN, PUBLIC, extended=True) == checkpoint()
    assert _refused(merkle_log.open_checkpoint, signed, ORIGIN, PUBLIC)
    with pytest.raises(Tampered):
        merkle_log.open_checkpoint(signed.replace("there 1.0", "there 1.1"), ORIGIN, PUBLIC, extended=True)


def test_checkpoint_text_reads_back() -> None:
    for size in (0, 1, 9, 10, 2**63):
        made = merkle_log.Checkpoint(ORIGIN, size, bytes(32))
        assert merkle_log.Checkpoint.parse(made.text()) == made


ROOT = base64.b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n\n",
        f"{ORIGIN}\n1\n{ROOT}",
        f"{ORIGIN}\n1\n{ROOT}\n\n",
        f"{ORIGIN}\n1\n{ROOT}\nextension\n",
        f"\n1\n{ROOT}\n",
        f"{ORIGIN}\n01\n{ROOT}\n",
        f"{ORIGIN}\n+1\n{ROOT}\n",
        f"{ORIGIN}\n-1\n{ROOT}\n",
        f"{ORIGIN}\n 1\n{ROOT}\n",
        f"{ORIGIN}\n1_0\n{ROOT}\n",
        f"{ORIGIN}\n\u0661\n{ROOT}\n",
        f"{ORIGIN}\n\n{ROOT}\n",
        f"{ORIGIN}\n{'9' * 5000}\n{ROOT}\n",
        f"{ORIGIN}\n1\n\n",
        f"{ORIGIN}\n1\n{ROOT} \n",
        f"{ORIGIN}\n1\n{ROOT[:-1]}\n",
        f"{ORIGIN}\n1\n{base64.b64encode(bytes(31)).decode()}\n",
        f"{ORIGIN}\n1\n{base64.b64encode(bytes(33)).decode()}\n",
        f"{ORIGIN}\n1\n{ROOT[:-2]}B=\n",
        f"{ORIGIN}\r\n1\r\n{ROOT}\r\n",
    ],
    ids=_short,
)
def test_checkpoint_that_is_not_written_in_the_one_way_is_refused(text: str) -> None:
    assert _refused(merkle_log.Checkpoint.parse, text)
    assert _refused(merkle_log.open_checkpoint, _sign(text), ORIGIN, PUBLIC)


@pytest.mark.requirement("audit-bits")
def test_every_flipped_bit_of_a_signed_checkpoint_is_refused() -> None:
    read = 0
    for edited in flips(note().encode()):
        try:
            text = edited.decode()
        except UnicodeDecodeError:
            continue  # not a text at all
        read += 1
        assert _refused(merkle_log.open_checkpoint, text, ORIGIN, PUBLIC)
    assert read > 1000


@pytest.mark.requirement("audit-bits")
def test_signed_checkpoint_cut_at_any_length_is_refused() -> None:
    assert all(_refused(merkle_log.open_checkpoint, note()[:length], ORIGIN, PUBLIC) for length in range(len(note())))


def test_checkpoint_of_another_log_or_another_key_is_refused() -> None:
    assert _refused(merkle_log.open_checkpoint, note(), "strongroom/other", PUBLIC)
    assert _refused(merkle_log.open_checkpoint, note(), ORIGIN, chain.public_key(OTHER_SEED))
    assert _refused(merkle_log.open_checkpoint, merkle_log.sign_checkpoint(checkpoint(), OTHER_SEED), ORIGIN, PUBLIC)
    # Signed with the right key and name, but the text is about another log.
    other = merkle_log.Checkpoint("strongroom/other", 1, bytes(32))
    assert _refused(merkle_log.open_checkpoint, _sign(other.text()), ORIGIN, PUBLIC)


def test_signatures_of_others_are_left_alone() -> None:
    cosigned = note() + f"\u2014 witness.example/w1 {base64.b64encode(bytes(76)).decode()}\n"
    assert merkle_log.open_checkpoint(cosigned, ORIGIN, PUBLIC) == checkpoint()
    # The same name with another key hash is another key.
    renamed = note() + f"\u2014 {ORIGIN} {base64.b64encode(bytes(68)).decode()}\n"
    assert merkle_log.open_checkpoint(renamed, ORIGIN, PUBLIC) == checkpoint()


def test_checkpoint_signed_by_others_alone_or_twice_by_the_log_is_refused() -> None:
    text, signature = note().split("\n\n")
    assert _refused(
        merkle_log.open_checkpoint, f"{text}\n\n\u2014 w {base64.b64encode(bytes(68)).decode()}\n", ORIGIN, PUBLIC
    )
    assert _refused(merkle_log.open_checkpoint, f"{text}\n\n{signature}{signature}", ORIGIN, PUBLIC)
    assert _refused(merkle_log.open_checkpoint, f"{text}\n\n", ORIGIN, PUBLIC)
    assert _refused(merkle_log.open_checkpoint, f"{text}\n\n\n{signature}", ORIGIN, PUBLIC)
    assert _refused(merkle_log.open_checkpoint, f"{text}\n{signature}", ORIGIN, PUBLIC)
    assert _refused(merkle_log.open_checkpoint, text + "\n", ORIGIN, PUBLIC)


def test_verifier_key_is_name_hash_and_typed_key() -> None:
    name, number, encoded = merkle_log.verifier_key(ORIGIN, PUBLIC).split("+", 2)
    assert name == ORIGIN
    assert base64.b64decode(encoded) == b"\x01" + PUBLIC
    assert bytes.fromhex(number) == merkle_log.key_hash(ORIGIN, PUBLIC)
    assert len(number) == 8
    assert number == number.lower()
    assert merkle_log.key_hash("strongroom/other", PUBLIC) != merkle_log.key_hash(ORIGIN, PUBLIC)


# Proof files.


def proof(index: int = 13, size: int = 21) -> merkle_log.Proof:
    return merkle_log.Proof(index, tuple(grown(size).path(index, 0, size)), note(size))


@pytest.mark.requirement("audit-prove")
@pytest.mark.parametrize(("index", "size"), [(0, 1), (0, 2), (1, 2), (0, 21), (13, 21), (20, 21), (63, 64), (64, 65)])
def test_proof_reads_back_and_checks_here_and_by_the_second_reading(index: int, size: int) -> None:
    text = proof(index, size).text()
    assert merkle_log.Proof.parse(text) == proof(index, size)
    assert merkle_log.Proof.parse(text).check(entry(index), ORIGIN, PUBLIC) == checkpoint(size)
    assert rfc.check_proof(text, entry(index), merkle_log.verifier_key(ORIGIN, PUBLIC)).size == size


def test_proof_of_another_entry_log_or_key_is_refused() -> None:
    made = proof()
    assert _refused(made.check, entry(12), ORIGIN, PUBLIC)
    assert _refused(made.check, entry(13) + b" ", ORIGIN, PUBLIC)
    assert _refused(made.check, entry(13), "strongroom/other", PUBLIC)
    assert _refused(made.check, entry(13), ORIGIN, chain.public_key(OTHER_SEED))


def _checked(text: str, data: bytes) -> None:
    merkle_log.Proof.parse(text).check(data, ORIGIN, PUBLIC)


@pytest.mark.requirement("audit-bits", "audit-prove")
@pytest.mark.parametrize(("index", "size"), [(0, 1), (13, 21)])
def test_every_flipped_bit_of_a_proof_is_refused(index: int, size: int) -> None:
    text = proof(index, size).text()
    _checked(text, entry(index))
    read = 0
    for edited in flips(text.encode()):
        try:
            decoded = edited.decode()
        except UnicodeDecodeError:
            continue
        read += 1
        assert _refused(_checked, decoded, entry(index)), decoded
    assert read > 1000


@pytest.mark.requirement("audit-prove")
def test_every_edited_or_cut_proof_is_refused() -> None:
    made = proof()
    for hashes in _edited(made.hashes):
        assert _refused(_checked, merkle_log.Proof(13, tuple(hashes), made.note).text(), entry(13))
    assert all(_refused(_checked, made.text()[:length], entry(13)) for length in range(len(made.text())))
    for index in (0, 12, 14, 20, 21, 22, 10**30):
        assert _refused(_checked, merkle_log.Proof(index, made.hashes, made.note).text(), entry(13))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("index 13", "index 013"),
        ("index 13", "index +13"),
        ("index 13", "index  13"),
        ("index 13", "13"),
        ("index 13", "index \u0661\u0663"),
        ("index 13", f"index {'9' * 5000}"),
        ("index 13", "extra AAAA\nindex 13"),
        ("proof@v1", "proof@v2"),
        ("index 13\n", "index 13\r\n"),
        ("index 13\n", "index 13\n\n"),
        ("index 13\n", "index 13\nAAAA\n"),
    ],
    ids=_short,
)
def test_proof_that_is_not_written_in_the_one_way_is_refused(old: str, new: str) -> None:
    assert old in proof().text()
    assert _refused(_checked, proof().text().replace(old, new, 1), entry(13))


# Tiles and bundles.


@pytest.mark.parametrize(
    ("number", "path"),
    [
        (0, "000"),
        (7, "007"),
        (999, "999"),
        (1000, "x001/000"),
        (1234, "x001/234"),
        (999_999, "x999/999"),
        (1_000_000, "x001/x000/000"),
        (1_234_067, "x001/x234/067"),
    ],
)
def test_tile_paths_are_those_of_tlog_tiles(number: int, path: str) -> None:
    assert merkle_log.tile_path(number) == path == rfc.tile_name(number, 256)


@settings(deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=20))
def test_bundle_gives_back_its_entries_and_shows_every_cut(entries: list[bytes]) -> None:
    packed = merkle_log.bundle(entries)
    assert merkle_log.unbundle(packed) == entries
    borders = {sum(2 + len(one) for one in entries[:count]): count for count in range(len(entries) + 1)}
    for length in range(len(packed)):
        if length in borders:
            assert merkle_log.unbundle(packed[:length]) == entries[: borders[length]]
        else:
            assert _refused(merkle_log.unbundle, packed[:length])


def test_bundle_holds_entries_of_the_largest_size() -> None:
    entries = [bytes(65_535), b"", bytes(65_534)]
    assert merkle_log.unbundle(merkle_log.bundle(entries)) == entries
