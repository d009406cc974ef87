"""Where root and issuer keys come from. A source never makes up a key, and never touches one that it cannot read."""

from __future__ import annotations

import base64
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from strongroom import EnvironmentKeys, FileKeys, PassphraseKeys
from strongroom.errors import KeyUnavailable
from strongroom.keys.sources import Keyring, default_directory, root_id
from tests.crypto.test_chunked_aead import flips

FILES = ["issuer.key", "root.keyring"]


class CheapKeys(PassphraseKeys):
    """A passphrase stretched little, so that many tries take no time. The floor moves with it."""

    TIME_COST, MEMORY_KIB, LANES = 2, 64, 2


def _tree(directory: Path) -> dict[str, bytes]:
    """Everything in a directory: to compare before and after."""
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def _reason(attempt: Callable[[], object]) -> str:
    with pytest.raises(KeyUnavailable) as raised:
        attempt()
    return raised.value.reason


def _made(directory: Path) -> FileKeys:
    keys = FileKeys(directory)
    keys.create()
    return keys


# Files.


@pytest.mark.requirement("keys-sources", "keys-permissions")
def test_key_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    keys = _made(tmp_path / "below" / "keys")
    assert stat.S_IMODE(keys.directory.stat().st_mode) == 0o700
    assert sorted(_tree(keys.directory)) == FILES
    for name in FILES:
        assert stat.S_IMODE((keys.directory / name).stat().st_mode) == 0o600


@pytest.mark.requirement("keys-permissions")
def test_every_directory_made_for_keys_is_for_the_owner_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        _made(tmp_path / "data" / "strongroom" / "keys" / "id")
    finally:
        os.umask(before)
    made = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o700}
    assert len(made) == 4


@pytest.mark.requirement("keys-sources")
def test_file_keys_read_back_what_they_made(tmp_path: Path) -> None:
    keys = _made(tmp_path / "keys")
    ring = keys.load()
    assert ring == FileKeys(tmp_path / "keys").load()
    assert list(ring.keys) == [ring.active] == [root_id(ring.keys[ring.active])]
    assert len(ring.keys[ring.active]) == len(keys.issuer()) == 32
    assert keys.issuer() != ring.keys[ring.active]


def test_two_key_directories_hold_different_keys(tmp_path: Path) -> None:
    one, two = _made(tmp_path / "one"), _made(tmp_path / "two")
    assert one.load().active != two.load().active
    assert one.issuer() != two.issuer()


@pytest.mark.requirement("keys-never-new")
@pytest.mark.parametrize("present", [FILES, ["root.keyring"], ["issuer.key"]])
def test_create_refuses_to_touch_keys_that_are_there(tmp_path: Path, present: list[str]) -> None:
    for name in present:
        (tmp_path / name).write_bytes(b"what was here before")
        (tmp_path / name).chmod(0o600)
    before = _tree(tmp_path)
    assert _reason(FileKeys(tmp_path).create) == "key_unavailable"
    assert _tree(tmp_path) == before


@pytest.mark.requirement("keys-never-new")
@pytest.mark.parametrize("name", FILES)
def test_create_does_not_follow_a_link_to_somewhere_else(tmp_path: Path, name: str) -> None:
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys" / name).symlink_to(tmp_path / "elsewhere")
    assert _reason(FileKeys(tmp_path / "keys").create) == "key_unavailable"
    assert not (tmp_path / "elsewhere").exists()


def test_create_in_a_place_that_cannot_be_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert _reason(FileKeys(tmp_path / "file").create) == "key_unavailable"
    assert _reason(FileKeys(tmp_path / "file" / "below").create) == "key_unavailable"
    assert sorted(_tree(tmp_path)) == ["file"]


@pytest.mark.requirement("keys-permissions")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644, 0o620, 0o601, 0o777])
def test_key_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    keys = _made(tmp_path)
    ring, seed = keys.load(), keys.issuer()
    for name in FILES:
        (tmp_path / name).chmod(mode)
    assert _reason(keys.load) == _reason(keys.issuer) == "key_unavailable"
    for name in FILES:
        (tmp_path / name).chmod(0o600)
    assert (keys.load(), keys.issuer()) == (ring, seed)


@pytest.mark.requirement("keys-never-new")
def test_missing_key_file_is_unavailable_and_stays_missing(tmp_path: Path) -> None:
    keys = FileKeys(tmp_path / "keys")
    assert _reason(keys.load) == _reason(keys.issuer) == "key_unavailable"
    assert list(tmp_path.iterdir()) == []


def _ring_text(**changed: object) -> bytes:
    key = bytes(range(32))
    file = {"v": 1, "active": root_id(key), "keys": {root_id(key): base64.b64encode(key).decode()}}
    return json.dumps(file | changed).encode()


def test_keyring_file_written_by_hand_is_read(tmp_path: Path) -> None:
    (tmp_path / "root.keyring").write_bytes(_ring_text())
    (tmp_path / "root.keyring").chmod(0o600)
    assert FileKeys(tmp_path).load() == Keyring.of(bytes(range(32)))


OTHER = base64.b64encode(bytes(32)).decode()


@pytest.mark.requirement("keys-never-new")
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n",
        b"\0" * 64,
        b"not a keyring",
        b"\xff\xfe",
        b"[]",
        b"{}",
        _ring_text()[:-1],
        _ring_text()[: len(_ring_text()) // 2],
        _ring_text() + b"{}",
        _ring_text(v=2),
        _ring_text(active="0" * 16),
        _ring_text(active=""),
        _ring_text(keys={}),
        _ring_text(keys={root_id(bytes(range(32))): OTHER}),
        _ring_text(keys={root_id(bytes(range(32))): "AAAA"}),
        _ring_text(keys={root_id(bytes(range(32))): "?" * 44}),
        _ring_text(keys={root_id(bytes(range(32))): 7}),
        _ring_text(comment="one field more"),
    ],
)
def test_damaged_or_foreign_keyring_is_unavailable_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    _made(tmp_path)
    (tmp_path / "root.keyring").write_bytes(content)
    before = _tree(tmp_path)
    assert _reason(FileKeys(tmp_path).load) == "key_unavailable"
    assert _tree(tmp_path) == before


@pytest.mark.requirement("keys-never-new")
@pytest.mark.parametrize("content", [b"", b"\n", b"AAAA", b"?" * 44, b"\xff" * 44, b"A" * 43, b"A" * 88])
def test_damaged_issuer_key_is_unavailable_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    _made(tmp_path)
    (tmp_path / "issuer.key").write_bytes(content)
    before = _tree(tmp_path)
    assert _reason(FileKeys(tmp_path).issuer) == "key_unavailable"
    assert _tree(tmp_path) == before


@pytest.mark.requirement("keys-never-new")
def test_flipped_bit_in_the_keyring_never_gives_another_key(tmp_path: Path) -> None:
    """A key's id is a hash of it. Spare bits of base64 may change the text, never the key."""
    keys = _made(tmp_path)
    ring, path = keys.load(), tmp_path / "root.keyring"
    refused = 0
    for edited in flips(path.read_bytes()):
        path.write_bytes(edited)
        try:
            assert keys.load() == ring
        except KeyUnavailable:
            refused += 1
    assert refused > len(path.read_bytes()) * 8 - 8


@pytest.mark.requirement("keys-rotate-root", "keys-permissions")
def test_replaced_keyring_is_whole_and_still_for_the_owner_alone(tmp_path: Path) -> None:
    keys = _made(tmp_path)
    ring = keys.load().adding(bytes(32))
    keys.replace(ring)
    assert keys.load() == ring
    assert ring.active == root_id(bytes(32))
    assert len(ring.keys) == 2
    keys.replace(ring.only_active())
    assert keys.load() == Keyring.of(bytes(32))
    assert stat.S_IMODE((tmp_path / "root.keyring").stat().st_mode) == 0o600
    assert sorted(_tree(tmp_path)) == FILES


def test_replacing_a_keyring_in_a_directory_that_is_gone_is_unavailable(tmp_path: Path) -> None:
    keys = FileKeys(tmp_path / "gone")
    assert _reason(lambda: keys.replace(Keyring.of(bytes(32)))) == "key_unavailable"
    assert _reason(lambda: keys.replace_issuer(bytes(32))) == "key_unavailable"
    assert list(tmp_path.iterdir()) == []


def test_key_that_the_keyring_does_not_hold_is_unavailable() -> None:
    assert _reason(lambda: Keyring.of(bytes(32)).key("0" * 16)) == "key_unavailable"


# A passphrase.


@pytest.mark.requirement("keys-sources")
def test_passphrase_keys_open_with_their_passphrase_alone(tmp_path: Path) -> None:
    keys = PassphraseKeys(tmp_path, "correct horse")
    keys.create()
    ring = keys.load()
    assert PassphraseKeys(tmp_path, lambda: "correct horse").load() == ring
    before = _tree(tmp_path)
    for wrong in ("correct hors", "Correct horse", "correct horse ", ""):
        assert _reason(PassphraseKeys(tmp_path, wrong).load) == "key_unavailable"
    assert _reason(PassphraseKeys(tmp_path, "wrong").issuer) == "key_unavailable"
    assert _tree(tmp_path) == before


@pytest.mark.requirement("keys-sources", "keys-permissions")
def test_passphrase_files_hold_no_key_in_clear_and_are_for_the_owner_alone(tmp_path: Path) -> None:
    keys = CheapKeys(tmp_path, "correct horse")
    keys.create()
    (secret,) = keys.load().keys.values()
    for name in FILES:
        content = (tmp_path / name).read_bytes()
        for one in (secret, keys.issuer()):
            assert one not in content
            assert one.hex().encode() not in content
            assert base64.b64encode(one) not in content
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600
    salts = {json.loads((tmp_path / name).read_text())["salt"] for name in FILES}
    assert len(salts) == 2


def test_parameters_are_those_of_rfc_9106_and_stand_in_the_file(tmp_path: Path) -> None:
    assert (PassphraseKeys.TIME_COST, PassphraseKeys.MEMORY_KIB, PassphraseKeys.LANES) == (3, 65_536, 4)
    CheapKeys(tmp_path, "p").create()
    file = json.loads((tmp_path / "root.keyring").read_text())
    assert [file[name] for name in ("v", "kdf", "time_cost", "memory_kib", "lanes")] == [1, "argon2id", 2, 64, 2]
    assert len(base64.b64decode(file["salt"])) == 16


class NoWork(CheapKeys):
    """Fails the test as soon as any stretching is begun."""

    def _stretch(self, salt: bytes, time_cost: int, memory_kib: int, lanes: int) -> bytes:
        pytest.fail("work was begun for parameters that must be refused")


@pytest.mark.requirement("keys-sources")
@pytest.mark.parametrize(
    "changed",
    [
        {"time_cost": 1},
        {"time_cost": 0},
        {"time_cost": -3},
        {"memory_kib": 63},
        {"memory_kib": 0},
        {"lanes": 1},
        {"lanes": 0},
        {"time_cost": 65},
        {"time_cost": 2**31},
        {"memory_kib": 4 * 1024 * 1024 + 1},
        {"memory_kib": 2**62},
        {"lanes": 65},
        {"lanes": 2**24},
        {"kdf": "argon2i"},
        {"kdf": "scrypt"},
        {"v": 2},
        {"salt": base64.b64encode(bytes(15)).decode()},
        {"salt": ""},
    ],
    ids=str,
)
def test_weaker_or_absurd_parameters_in_the_file_are_refused_before_any_work(
    tmp_path: Path, changed: dict[str, object]
) -> None:
    CheapKeys(tmp_path, "p").create()
    path = tmp_path / "root.keyring"
    path.write_text(json.dumps(json.loads(path.read_text()) | changed))
    before = _tree(tmp_path)
    assert _reason(NoWork(tmp_path, "p").load) == "key_unavailable"
    assert _tree(tmp_path) == before


def test_stronger_parameters_in_the_file_are_used(tmp_path: Path) -> None:
    class Stronger(CheapKeys):
        TIME_COST, MEMORY_KIB, LANES = 3, 128, 4

    Stronger(tmp_path, "p").create()
    assert CheapKeys(tmp_path, "p").load() == Stronger(tmp_path, "p").load()


@pytest.mark.requirement("keys-never-new")
@pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.long)])
def test_flipped_bit_in_a_passphrase_file_never_gives_another_key(tmp_path: Path, step: int) -> None:
    keys = CheapKeys(tmp_path, "p")
    keys.create()
    ring, path = keys.load(), tmp_path / "root.keyring"
    tried = refused = 0
    for edited in flips(path.read_bytes(), step):
        path.write_bytes(edited)
        tried += 1
        try:
            assert keys.load() == ring
        except KeyUnavailable:
            refused += 1
    assert refused >= tried - 8  # base64's spare bits


@pytest.mark.requirement("keys-never-new")
def test_files_with_and_without_a_passphrase_are_not_taken_for_each_other(tmp_path: Path) -> None:
    plain = _made(tmp_path / "plain")
    hidden = CheapKeys(tmp_path / "hidden", "p")
    hidden.create()
    before = _tree(tmp_path)
    assert _reason(CheapKeys(plain.directory, "p").load) == "key_unavailable"
    assert _reason(CheapKeys(plain.directory, "p").issuer) == "key_unavailable"
    assert _reason(FileKeys(hidden.directory).load) == "key_unavailable"
    assert _reason(FileKeys(hidden.directory).issuer) == "key_unavailable"
    assert _tree(tmp_path) == before


def test_issuer_file_cannot_stand_in_for_the_keyring(tmp_path: Path) -> None:
    keys = CheapKeys(tmp_path, "p")
    keys.create()
    (tmp_path / "root.keyring").write_bytes((tmp_path / "issuer.key").read_bytes())
    assert _reason(keys.load) == "key_unavailable"


@pytest.mark.requirement("keys-rotate-root")
def test_replaced_passphrase_keyring_is_sealed_anew(tmp_path: Path) -> None:
    keys = CheapKeys(tmp_path, "p")
    keys.create()
    before = json.loads((tmp_path / "root.keyring").read_text())
    keys.replace(Keyring.of(bytes(32)))
    after = json.loads((tmp_path / "root.keyring").read_text())
    assert keys.load() == Keyring.of(bytes(32))
    assert before["salt"] != after["salt"]


# The environment.


@pytest.mark.requirement("keys-sources")
def test_environment_keys_are_read_from_their_variables() -> None:
    values = EnvironmentKeys.generate()
    keys = EnvironmentKeys(values)
    keys.create()
    assert sorted(values) == ["STRONGROOM_ISSUER_KEY", "STRONGROOM_ROOT_KEY"]
    assert keys.load() == Keyring.of(base64.b64decode(values["STRONGROOM_ROOT_KEY"]))
    assert keys.issuer() == base64.b64decode(values["STRONGROOM_ISSUER_KEY"])
    assert EnvironmentKeys.generate() != values


def test_environment_keys_follow_the_process_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    values = EnvironmentKeys.generate()
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    assert EnvironmentKeys().load() == EnvironmentKeys(values).load()


@pytest.mark.requirement("keys-never-new")
@pytest.mark.parametrize("value", [None, "", "short", "?" * 44, base64.b64encode(bytes(31)).decode(), "é" * 44])
def test_missing_or_damaged_variable_is_unavailable(value: str | None) -> None:
    for name in ("STRONGROOM_ROOT_KEY", "STRONGROOM_ISSUER_KEY"):
        values = EnvironmentKeys.generate()
        del values[name]
        if value is not None:
            values[name] = value
        before = dict(values)
        assert _reason(EnvironmentKeys(values).create) == "key_unavailable"
        assert values == before


def test_environment_keys_cannot_be_replaced() -> None:
    keys = EnvironmentKeys(EnvironmentKeys.generate())
    assert _reason(lambda: keys.replace(Keyring.of(bytes(32)))) == "key_unavailable"
    assert _reason(lambda: keys.replace_issuer(bytes(32))) == "key_unavailable"


# Common.


def test_default_directory_is_outside_the_vault_and_can_be_moved(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("STRONGROOM_KEYS", str(tmp_path))
    assert default_directory("0123456789abcdef") == tmp_path / "0123456789abcdef"
    monkeypatch.delenv("STRONGROOM_KEYS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert default_directory("0123456789abcdef").is_relative_to(tmp_path)
    assert default_directory("0123456789abcdef") != default_directory("fedcba9876543210")


@pytest.mark.requirement("secrets-hidden")
def test_no_source_or_keyring_shows_its_secrets(tmp_path: Path) -> None:
    values = EnvironmentKeys.generate()
    files = _made(tmp_path)
    ring = files.load()
    (secret,) = ring.keys.values()
    shown = " ".join(map(repr, [ring, files, EnvironmentKeys(values), PassphraseKeys(tmp_path, "open sesame")]))
    for hidden in (repr(secret), secret.hex(), base64.b64encode(secret).decode(), *values.values(), "open sesame"):
        assert hidden not in shown
