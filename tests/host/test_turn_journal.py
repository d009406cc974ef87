"""The journal: what is acknowledged comes back, what is not was never there, and no bytes can be read or moved."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.errors import JournalUnavailable, KeyUnavailable, StrongroomError
from strongroom.host.turn_journal import journal as module
from strongroom.host.turn_journal import left_behind as remains_of
from strongroom.host.turn_journal import record_format as format_of
from strongroom.host.turn_journal.journal import Journal, open_key
from strongroom.host.turn_journal.left_behind import find_left_behind
from strongroom.host.turn_journal.record_format import Turn, pack_messages, unpack_messages
from tests.host.doubles import PATIENCE

KEY = bytes(range(32))
MOST = 1 << 28
HEAD = 16
SECRET = "plum-harbour-7731"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "memory-journal"


def turn(user: str = "hello", session: str = "s1", provider: str = "p", **more: Any) -> Turn:
    return Turn(provider, session, {"platform": "cli"}, user, f"re: {user}", session, **more)


def opened(place: Path, run: str = "run1", most: int = MOST) -> Journal:
    return Journal(place, KEY, run, most)


def crash(journal: Journal) -> None:
    """What a kill does: the file stays as it is, its lock goes."""
    with suppress(OSError):
        os.close(journal._file)
    journal._file = -1


def left(place: Path, key: bytes = KEY) -> list[str]:
    """What users said in the turns left, in order. Takes none of them."""
    with find_left_behind(place, key) as found:
        return [one.user for remains in found for one in remains.turns.values()]


def damages(place: Path) -> list[bool]:
    with find_left_behind(place, KEY) as found:
        return [remains.damage is not None for remains in found]


def file_of(place: Path, run: str = "run1") -> Path:
    return place / f"{run}.journal"


def frames(data: bytes) -> list[bytes]:
    """The frames of a file by the lengths in their heads, as the specification has them."""
    found = []
    while data:
        end = HEAD + int.from_bytes(data[:4], "big")
        found.append(data[:end])
        data = data[end:]
    return found


def kept(place: Path, *users: str, run: str = "run1") -> Path:
    """The file of a host that was killed with these turns in it."""
    journal = opened(place, run)
    for user in users:
        journal.append(turn(user))
    crash(journal)
    return file_of(place, run)


# What a crash leaves


@pytest.mark.requirement("host-sync-durable")
def test_turns_of_a_killed_host_come_back_in_order(place: Path) -> None:
    kept(place, *map(str, range(30)))
    assert left(place) == list(map(str, range(30)))


@pytest.mark.requirement("host-sync-durable")
def test_every_part_of_a_turn_comes_back(place: Path) -> None:
    whole = Turn("p", "s1", {"platform": "x", "user_id": "ü"}, "話す", "\x00", "s2", b"\x91\xc0")
    journal = opened(place)
    journal.append(whole)
    crash(journal)
    with find_left_behind(place, KEY) as found:
        assert list(found[0].turns.values()) == [whole]


def test_turns_that_were_taken_do_not_come_back(place: Path) -> None:
    journal = opened(place)
    numbers = [journal.append(turn(str(number))) for number in range(5)]
    for number in (numbers[1], numbers[3], numbers[3], 999):
        journal.taken(number)
    crash(journal)
    assert left(place) == ["0", "2", "4"]


def test_journal_with_nothing_left_leaves_no_file(place: Path) -> None:
    journal = opened(place)
    journal.taken(journal.append(turn()))
    journal.close()
    journal.close()
    assert list(place.iterdir()) == []


def test_closed_journal_refuses_turns_and_keeps_those_it_has(place: Path) -> None:
    journal = opened(place)
    number = journal.append(turn("kept"))
    journal.close()
    with pytest.raises(JournalUnavailable):
        journal.append(turn("refused"))
    journal.taken(number)
    assert left(place) == ["kept"]


def test_turn_handed_over_from_remains_does_not_come_again(place: Path) -> None:
    kept(place, "a", "b", "c")
    with find_left_behind(place, KEY) as found:
        found[0].taken(2)
    assert left(place) == ["a", "c"]
    with find_left_behind(place, KEY) as found:
        for number in list(found[0].turns):
            found[0].taken(number)
    assert list(place.iterdir()) == []


def test_crash_in_the_middle_of_handing_over_forgets_no_mark(place: Path) -> None:
    kept(place, "a", "b", "c")
    with suppress(RuntimeError), find_left_behind(place, KEY) as found:
        found[0].taken(1)
        raise RuntimeError("killed")
    assert left(place) == ["b", "c"]


@pytest.mark.requirement("host-sync-durable")
def test_turn_cut_short_at_any_byte_costs_only_itself(place: Path) -> None:
    file = kept(place, "a", "b")
    data = file.read_bytes()
    first = len(frames(data)[0])
    for end in range(len(data)):
        file.write_bytes(data[:end])
        assert left(place) == (["a"] if end >= first else []), end
        if end < first:
            assert not file.exists()


@pytest.mark.parametrize("zeros", [1, 15, 16, 17, 4096])
def test_zeros_that_a_power_failure_left_are_no_damage(place: Path, zeros: int) -> None:
    file = kept(place, "a", "b")
    file.write_bytes(file.read_bytes() + bytes(zeros))
    assert damages(place) == [False]
    assert left(place) == ["a", "b"]


def test_turns_taken_after_a_torn_tail_are_marked_where_they_can_be_read(place: Path) -> None:
    file = kept(place, "a", "b", "c")
    file.write_bytes(file.read_bytes()[:-5])
    with find_left_behind(place, KEY) as found:
        assert found[0].damage is None
        found[0].taken(1)
    assert left(place) == ["b"]


def test_turns_of_several_hosts_come_back_oldest_host_first(place: Path) -> None:
    for run in ("01B", "01A", "01C"):
        kept(place, run, run=run)
    assert left(place) == ["01A", "01B", "01C"]


# Damage and attack


def test_flipped_bit_anywhere_never_changes_or_adds_a_turn(place: Path) -> None:
    file = kept(place, "a", "b")
    data = file.read_bytes()
    for place_of_bit in range(0, len(data) * 8, 5):
        flipped = bytearray(data)
        flipped[place_of_bit // 8] ^= 1 << place_of_bit % 8
        file.write_bytes(flipped)
        with find_left_behind(place, KEY) as found:
            users = [one.user for one in found[0].turns.values()]
            assert users in (["a"], ["b"], []), place_of_bit
            assert found[0].damage is not None, place_of_bit
        aside = file.with_suffix(".damaged")
        if aside.exists():
            aside.unlink()


def test_damaged_journal_is_set_aside_and_never_deleted(place: Path) -> None:
    file = kept(place, "a")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert left(place) == []
    assert file.with_suffix(".damaged").read_bytes() == data
    assert not file.exists()


def test_turns_in_front_of_damage_come_back(place: Path) -> None:
    file = kept(place, "a", "b", "c")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert left(place) == ["a", "b"]
    assert file.exists()


def test_turns_taken_from_a_damaged_journal_do_not_come_at_every_start(place: Path) -> None:
    file = kept(place, "a", "b", "c")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    with find_left_behind(place, KEY) as found:
        found[0].taken(1)
    assert left(place) == ["b"]


@pytest.mark.requirement("host-sync-durable")
def test_damaged_journal_that_cannot_be_set_aside_stays_whole_and_holds_up_no_other(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = kept(place, "a", "b", run="01")
    kept(place, "other", run="02")
    data = bytearray(file.read_bytes())
    data[data.index(frames(bytes(data))[1])] ^= 1  # in a head: what comes after cannot be found
    file.write_bytes(data)

    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(remains_of, "write_file", fail)
        assert "other" in left(place)
    assert file.read_bytes() == data
    assert left(place) == ["a", "other"]
    assert file.with_suffix(".damaged").read_bytes() == data


@pytest.mark.requirement("host-sync-durable")
def test_second_damage_destroys_nothing_that_was_not_set_aside(place: Path) -> None:
    file = kept(place, "a", "b", "c", "d")
    whole = file.read_bytes()
    heads = [whole.index(frame) for frame in frames(whole)]
    for head, turns in ((heads[3], ["a", "b", "c"]), (heads[2], ["a", "b"])):
        data = bytearray(file.read_bytes())
        data[head] ^= 1
        file.write_bytes(data)
        assert left(place) == turns
    aside = [one.read_bytes() for one in place.iterdir() if one != file]
    assert len(aside) == 2
    assert all(any(frame[20:] in one for one in aside) for frame in frames(whole)[2:])


def test_record_that_does_not_open_costs_no_later_turn(place: Path) -> None:
    file = kept(place, "a", "b", "c")
    data = file.read_bytes()
    spoilt = data.index(frames(data)[1]) + 40
    file.write_bytes(data[:spoilt] + bytes([data[spoilt] ^ 1]) + data[spoilt + 1 :])
    assert left(place) == ["a", "c"]
    with find_left_behind(place, KEY) as found:
        for number in list(found[0].turns):
            found[0].taken(number)
    assert left(place) == []
    assert data[spoilt + 1 :] in file.with_suffix(".damaged").read_bytes()


@pytest.mark.requirement("host-sync-durable")
@pytest.mark.parametrize("kind", ["directory", "pipe", "link", "nowhere"])
def test_non_file_holds_up_no_other(place: Path, tmp_path: Path, kind: str) -> None:
    kept(place, "a", run="02")
    odd = file_of(place, "01")
    if kind == "directory":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    else:
        (tmp_path / "link").touch()
        odd.symlink_to(tmp_path / kind)
    assert left(place) == ["a"]


def test_journal_that_cannot_be_removed_holds_up_no_other(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for run in ("01", "02"):
        kept(place, run, run=run)
    real = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path.name == "01.journal":
            raise OSError(errno.EACCES, "no")
        real(path, missing_ok=missing_ok)

    monkeypatch.setattr(Path, "unlink", unlink)
    with suppress(OSError), find_left_behind(place, KEY) as found:
        for remains in found:
            remains.taken(1)
    assert not file_of(place, "02").exists()
    monkeypatch.undo()
    assert left(place) == []


@pytest.mark.requirement("host-journal-sealed")
def test_swapped_frames_are_found(place: Path) -> None:
    file = kept(place, "a", "b", "c")
    first, second, third = frames(file.read_bytes())
    file.write_bytes(first + third + second)
    with find_left_behind(place, KEY) as found:
        assert found[0].damage is not None
        assert [one.user for one in found[0].turns.values()] in (["a"], ["a", "c"])


@pytest.mark.requirement("host-journal-sealed")
def test_turn_copied_behind_its_mark_does_not_come_again(place: Path) -> None:
    journal = opened(place)
    journal.taken(journal.append(turn("once")))
    journal.append(turn("other"))
    crash(journal)
    file = file_of(place)
    once, *rest = frames(file.read_bytes())
    file.write_bytes(b"".join((once, *rest, once)))
    assert left(place) == ["other"]


@pytest.mark.requirement("host-journal-sealed")
def test_frames_of_another_file_do_not_open(place: Path) -> None:
    ours, theirs = kept(place, "ours"), kept(place, "x", "theirs", run="run2")
    ours.write_bytes(ours.read_bytes() + frames(theirs.read_bytes())[1])
    theirs.unlink()
    with find_left_behind(place, KEY) as found:
        assert [one.user for one in found[0].turns.values()] == ["ours"]
        assert found[0].damage is not None


@pytest.mark.requirement("host-journal-sealed")
def test_file_under_another_name_does_not_open(place: Path) -> None:
    kept(place, "a").rename(file_of(place, "run9"))
    assert left(place) == []


@pytest.mark.requirement("host-journal-sealed")
def test_another_key_opens_nothing_and_deletes_nothing(place: Path) -> None:
    data = kept(place, "a").read_bytes()
    assert left(place, bytes(32)) == []
    assert [file.read_bytes() for file in place.iterdir()] == [data]


def test_record_of_another_form_is_damage(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(format_of, "_encode", lambda _: b"\xc1")
    kept(place, "a")
    assert damages(place) == [True]


@pytest.mark.requirement("host-journal-sealed")
def test_no_part_of_a_turn_is_in_the_file_as_clear_text(place: Path) -> None:
    journal = opened(place)
    said = pack_messages([{"content": SECRET, SECRET: "机密"}], MOST)
    assert said is not None
    assert SECRET.encode() in said
    number = journal.append(Turn(SECRET, SECRET, {"user_id": SECRET}, SECRET, SECRET, SECRET, said))
    assert not _shows(place)
    journal.taken(number)
    assert not _shows(place)
    crash(journal)


def _shows(place: Path) -> list[str]:
    planted = [SECRET.encode(), SECRET.encode("utf-16-le"), "机密".encode(), b"platform"]
    return [file.name for file in place.iterdir() if any(word in file.read_bytes() for word in planted)]


def test_files_are_for_the_owner_alone_whatever_the_umask(place: Path) -> None:
    before = os.umask(0)
    try:
        journal = opened(place)
        _fill_and_shrink(journal)
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in place.iterdir()} == {0o600}
    journal.close()


# Locks


def test_host_that_lives_keeps_its_turns_to_itself(place: Path) -> None:
    journal = opened(place)
    journal.append(turn())
    assert left(place) == []
    _fill_and_shrink(journal)
    assert left(place) == []
    crash(journal)
    assert "hello" in left(place)


def test_only_one_of_two_finds_what_was_left(place: Path) -> None:
    kept(place, "a")
    with find_left_behind(place, KEY) as first, find_left_behind(place, KEY) as second:
        assert [len(first), len(second)] == [1, 0]


def test_name_that_is_taken_is_refused(place: Path) -> None:
    kept(place, "a")
    with pytest.raises(JournalUnavailable):
        opened(place)
    assert left(place) == ["a"]


@pytest.mark.requirement("host-sync-durable")
def test_host_that_recovers_while_another_starts_does_not_take_its_new_file(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = fcntl.flock
    meanwhile = [True]

    def flock(file: int, how: int) -> None:
        if meanwhile:
            meanwhile.clear()
            assert left(place) == []
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    journal = opened(place)
    journal.append(turn("acknowledged"))
    assert not meanwhile
    crash(journal)
    assert left(place) == ["acknowledged"]


# Shrinking


def _fill_and_shrink(journal: Journal) -> None:
    """Append and take until the file was replaced by a smaller one."""
    size = 0
    while journal._size >= size:
        size = journal._size
        journal.taken(journal.append(turn("x" * 100_000)))


@pytest.mark.requirement("host-sync-durable")
def test_shrinking_keeps_what_nobody_has_taken_and_its_order(place: Path) -> None:
    journal = opened(place)
    waiting = [journal.append(turn(f"early {number}")) for number in range(3)]
    _fill_and_shrink(journal)
    journal.append(turn("late"))
    assert file_of(place).stat().st_size < 10_000
    journal.taken(waiting[1])
    crash(journal)
    assert left(place) == ["early 0", "early 2", "late"]


def test_shrinking_many_times_loses_nothing(place: Path) -> None:
    journal = opened(place)
    journal.append(turn("first"))
    for _ in range(3):
        _fill_and_shrink(journal)
    journal.append(turn("last"))
    crash(journal)
    assert left(place) == ["first", "last"]


def test_kill_in_the_middle_of_shrinking_loses_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(place)
    journal.append(turn("waiting"))

    def die(*_: object) -> None:
        raise SystemExit

    monkeypatch.setattr(Path, "rename", die)
    with pytest.raises(SystemExit):
        _fill_and_shrink(journal)
    monkeypatch.undo()
    assert len(list(place.iterdir())) == 2
    crash(journal)
    assert left(place)[0] == "waiting"
    with find_left_behind(place, KEY) as found:
        for number in list(found[0].turns):
            found[0].taken(number)
    assert list(place.iterdir()) == []


def test_shrink_that_fails_is_tried_again_and_costs_no_turn(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(place)
    journal.append(turn("waiting"))

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        for _ in range(15):
            journal.taken(journal.append(turn("x" * 100_000)))
    assert journal._size > 1 << 20
    _fill_and_shrink(journal)
    crash(journal)
    assert left(place) == ["waiting"]


@pytest.mark.requirement("host-sync-durable")
def test_directory_that_does_not_sync_costs_no_turn(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(place)
    journal.append(turn("waiting"))
    real = os.fsync

    def fail(file: int) -> None:
        if stat.S_ISDIR(os.fstat(file).st_mode):
            raise OSError(errno.EIO, "no")
        real(file)

    monkeypatch.setattr(os, "fsync", fail)
    for _ in range(15):
        with suppress(JournalUnavailable):
            journal.taken(journal.append(turn("x" * 100_000)))
    journal.append(turn("acknowledged"))
    monkeypatch.undo()
    assert left(place) == []
    crash(journal)
    users = left(place)
    assert [users[0], users[-1]] == ["waiting", "acknowledged"]


@pytest.mark.requirement("host-faults-isolated")
def test_mark_never_raises(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(place)
    numbers = [journal.append(turn("x" * 100_000)) for _ in range(15)]

    def fail(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "no")

    monkeypatch.setattr(Path, "unlink", fail)
    for number in numbers:
        journal.taken(number)
    monkeypatch.undo()
    journal.close()


# A disk that is full, a limit that is reached


def _writes(monkeypatch: pytest.MonkeyPatch, room: int) -> Callable[[int], None]:
    """Let `os.write` take so many bytes more and then fail; returns how to change that."""
    real, left_over = os.write, [room]

    def write(file: int, data: Any) -> int:
        count = min(len(data), left_over[0])
        if not count and len(data):
            raise OSError(errno.ENOSPC, "No space left on device")
        left_over[0] -= count
        return real(file, bytes(data[:count]))

    def room_for(count: int) -> None:
        left_over[0] = count

    monkeypatch.setattr(os, "write", write)
    return room_for


@pytest.mark.requirement("host-sync-durable")
@pytest.mark.parametrize("room", [0, 1, 15, 16, 40, 100])
def test_full_disk_refuses_a_turn_and_hides_no_later_one(
    place: Path, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    journal = opened(place)
    journal.append(turn("before"))
    room_for = _writes(monkeypatch, room)
    with pytest.raises(JournalUnavailable):
        journal.append(turn("refused"))
    room_for(1 << 20)
    journal.append(turn("after"))
    crash(journal)
    assert left(place) == ["before", "after"]


@pytest.mark.requirement("host-sync-durable")
def test_half_frame_that_could_not_be_removed_hides_no_later_turn(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(place)
    room_for = _writes(monkeypatch, 40)

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "ftruncate", fail)
        with pytest.raises(JournalUnavailable):
            journal.append(turn("refused"))
        room_for(1 << 20)
        acknowledged = []
        with suppress(JournalUnavailable):
            journal.append(turn("next"))
            acknowledged.append("next")
    journal.append(turn("last"))
    crash(journal)
    assert left(place) == [*acknowledged, "last"]


def test_disk_that_does_not_sync_acknowledges_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(place)

    def fail(_: int) -> None:
        raise OSError(errno.EIO, "no")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(JournalUnavailable):
            journal.append(turn("refused"))
    journal.append(turn("taken"))
    crash(journal)
    assert left(place)[-1] == "taken"


def test_write_in_small_pieces_is_whole(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda file, data: real(file, bytes(data[:7])))
    kept(place, "a", "b")
    monkeypatch.undo()
    assert left(place) == ["a", "b"]


def test_journal_at_its_limit_refuses_and_keeps_what_it_has(place: Path) -> None:
    journal = opened(place, most=5000)
    users = _filled(journal)
    assert 0 < len(users) < 100
    assert file_of(place).stat().st_size <= 5000
    crash(journal)
    assert left(place) == users


def _filled(journal: Journal) -> list[str]:
    users: list[str] = []
    with suppress(JournalUnavailable):
        while True:
            journal.append(turn(f"turn {len(users)}"))
            users.append(f"turn {len(users)}")
    return users


@pytest.mark.requirement("host-sync-durable")
@pytest.mark.parametrize("most", [5000, 3 << 20])
def test_full_journal_takes_turns_again_once_the_provider_has_caught_up(place: Path, most: int) -> None:
    journal = opened(place, most=most)
    numbers = []
    with suppress(JournalUnavailable):
        while True:
            numbers.append(journal.append(turn("x" * (most // 20))))
    for number in numbers:
        journal.taken(number)
    journal.append(turn("room again"))
    crash(journal)
    assert left(place)[-1] == "room again"


@pytest.mark.requirement("host-sync-durable")
def test_marks_on_a_full_journal_still_count(place: Path) -> None:
    journal = opened(place, most=5000)
    users = _filled(journal)
    for number in range(1, len(users)):
        journal.taken(number)
    crash(journal)
    assert left(place) == users[-1:]


# What is on disk when


def _synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is brought to disk from here on, in order: a file, or a directory."""
    order: list[str] = []
    for name in ("fsync", "fdatasync"):
        real = getattr(os, name)

        def sync(file: int, real: Any = real) -> None:
            order.append("directory" if stat.S_ISDIR(os.fstat(file).st_mode) else "file")
            real(file)

        monkeypatch.setattr(os, name, sync)
    return order


@pytest.mark.requirement("host-sync-durable")
def test_name_of_a_journal_is_on_disk_before_a_turn_is_acknowledged(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = _synced(monkeypatch)
    journal = opened(place)
    journal.append(turn())
    assert sorted(set(order)) == ["directory", "file"]
    crash(journal)


@pytest.mark.requirement("host-sync-durable")
def test_shrunk_journal_has_its_name_on_disk(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(place)
    numbers = [journal.append(turn("x" * 100_000)) for _ in range(15)]
    order = _synced(monkeypatch)
    for number in numbers:
        journal.taken(number)
    assert file_of(place).stat().st_size < 1 << 20
    assert order[:2] == ["file", "directory"]
    crash(journal)


@pytest.mark.requirement("host-sync-durable")
def test_turns_of_many_threads_are_all_on_disk_when_they_are_acknowledged(place: Path) -> None:
    journal = opened(place)

    def write(name: int) -> None:
        for number in range(20):
            user = f"{name} {number}"
            mine = journal.append(turn(user, session=str(name)))
            if number % 3 == 0:
                journal.taken(mine)

    threads = [threading.Thread(target=write, args=(name,)) for name in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    crash(journal)
    users = left(place)
    for name in range(8):
        mine = [user for user in users if user.startswith(f"{name} ")]
        assert mine == [f"{name} {number}" for number in range(20) if number % 3]


# Messages


@pytest.mark.parametrize("messages", [None, [], [{"role": "user", "content": "話す"}], [{"n": [1, 1.5, None, b"x"]}]])
def test_messages_come_back_as_they_were(messages: list[Any] | None) -> None:
    assert unpack_messages(pack_messages(messages, MOST)) == messages


@pytest.mark.parametrize("messages", [[object()], [2**70], ["\ud800"], [{1, object()}], ["x" * 1000]])
def test_messages_that_cannot_be_written_or_are_too_long_are_left_out(messages: list[Any]) -> None:
    assert pack_messages(messages, 500) is None


@pytest.mark.parametrize("data", [b"", b"\xc1", b"\x91", b"\x01", b"\xc0"])
def test_messages_that_cannot_be_read_are_left_out(data: bytes) -> None:
    assert unpack_messages(data) is None


# The key


def _key(tmp_path: Path, place: Path, random: bytes = KEY) -> bytes:
    return open_key(tmp_path / "keys", place, random)


def test_key_is_made_once_and_for_the_owner_alone(tmp_path: Path, place: Path) -> None:
    assert _key(tmp_path, place) == KEY
    assert _key(tmp_path, place, bytes(32)) == KEY
    assert stat.S_IMODE((tmp_path / "keys" / "journal.key").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "keys").stat().st_mode) == 0o700


@pytest.mark.requirement("host-journal-sealed")
def test_missing_key_is_not_made_anew_where_turns_wait(tmp_path: Path, place: Path) -> None:
    _key(tmp_path, place)
    kept(place, "a")
    (tmp_path / "keys" / "journal.key").unlink()
    with pytest.raises(KeyUnavailable) as caught:
        _key(tmp_path, place, bytes(32))
    assert caught.value.reason == "key_unavailable"
    assert not (tmp_path / "keys" / "journal.key").exists()
    assert left(place) == ["a"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_key_that_others_can_read_is_refused(tmp_path: Path, place: Path, mode: int) -> None:
    _key(tmp_path, place)
    (tmp_path / "keys" / "journal.key").chmod(mode)
    with pytest.raises(KeyUnavailable) as caught:
        _key(tmp_path, place)
    assert caught.value.reason == "key_unavailable"


@pytest.mark.parametrize("size", [0, 31, 33])
def test_key_of_another_size_is_refused(tmp_path: Path, place: Path, size: int) -> None:
    _key(tmp_path, place)
    (tmp_path / "keys" / "journal.key").write_bytes(bytes(size))
    with pytest.raises(KeyUnavailable):
        _key(tmp_path, place)


def test_second_of_two_hosts_that_start_at_once_uses_the_first_ones_key(tmp_path: Path, place: Path) -> None:
    class Meanwhile(type(place)):  # type: ignore[misc]
        def glob(self, pattern: str) -> Iterator[Path]:
            _key(tmp_path, place)
            kept(place, "a")
            return place.glob(pattern)

    assert open_key(tmp_path / "keys", Meanwhile(place), bytes(32)) == KEY


# Any sequence


class Book:
    """A journal and what was promised of it, with crashes in between."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._runs = 0
        self._said = 0
        self.waiting: list[tuple[int, str]] = []
        self.promised: list[str] = []
        """Turns that must come back."""
        self.possible: set[str] = set()
        """Turns that may: those that were taken, whose mark need not be on disk."""
        self._open()

    def append(self, size: int) -> None:
        user = f"turn {self._said} " + "x" * size
        self._said += 1
        self.waiting.append((self._journal.append(turn(user)), user))
        self.promised.append(user)

    def take(self, which: int) -> None:
        if self.waiting:
            number, user = self.waiting.pop(which % len(self.waiting))
            self._journal.taken(number)
            self.promised.remove(user)
            self.possible.add(user)

    def crash(self, cut: int) -> None:
        """Kill it while another turn is being written, of which only `cut` bytes reach the file."""
        file = file_of(self._place, self._run)
        whole = file.stat().st_size
        self._journal.append(turn("never acknowledged"))
        end = min(whole + cut, file.stat().st_size - 1)
        crash(self._journal)
        os.truncate(file, end)
        self._check()
        self._open()

    def _check(self) -> None:
        with find_left_behind(self._place, KEY) as found:
            assert [one.damage for one in found] == [None] * len(found)
            users = [one.user for remains in found for one in remains.turns.values()]
            assert [user for user in users if user in self.promised] == self.promised
            assert set(users) <= {*self.promised, *self.possible}
            for remains in found:
                for number in list(remains.turns):
                    remains.taken(number)
        assert left(self._place) == []
        self.waiting, self.promised = [], []

    def _open(self) -> None:
        self._runs += 1
        self._run = f"run{self._runs:04}"
        self._journal = opened(self._place, self._run)

    def close(self) -> None:
        crash(self._journal)
        self._check()


_STEP = st.one_of(
    st.tuples(st.just("append"), st.sampled_from([0, 1, 500, 40_000])),
    st.tuples(st.just("take"), st.integers(0, 9)),
    st.tuples(st.just("crash"), st.integers(0, 400)),
)


@pytest.mark.requirement("host-sync-durable")
@settings(max_examples=60, deadline=None)
@given(steps=st.lists(_STEP, max_size=25), threshold=st.sampled_from([600, 1 << 20]))
def test_no_sequence_loses_an_acknowledged_turn_or_invents_one(steps: list[tuple[str, int]], threshold: int) -> None:
    with TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SHRINK_BYTES", threshold)
        book = Book(Path(directory) / "journal")
        for step, size in steps:
            getattr(book, step)(size)
        book.close()


@given(data=st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_any_bytes_in_the_place_of_a_journal_are_damage_or_nothing(data: bytes) -> None:
    with TemporaryDirectory() as directory:
        place = Path(directory)
        file_of(place).write_bytes(data)
        with find_left_behind(place, KEY) as found:
            assert found[0].turns == {}


@pytest.mark.long
@pytest.mark.requirement("host-journal-sealed")
def test_file_with_every_single_bit_flipped_is_never_believed(place: Path) -> None:
    file = kept(place, "a", "b")
    data = file.read_bytes()
    for bit in range(len(data) * 8):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        file.write_bytes(flipped)
        with find_left_behind(place, KEY) as found:
            assert [one.user for one in found[0].turns.values()] in (["a"], ["b"], [])
        shutil.rmtree(place)
        place.mkdir()


def test_errors_of_the_journal_never_hold_a_text(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = opened(place, most=10)
    with pytest.raises(StrongroomError) as caught:
        journal.append(turn(SECRET))
    assert SECRET not in f"{caught.value!r} {caught.value.message} {caught.value.hint}"
    crash(journal)


@pytest.mark.requirement("host-sync-durable")
def test_sync_that_failed_acknowledges_nothing_and_the_rest_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def turn(user: str) -> Turn:
        return Turn("p", "s", {}, user, "a", "s")

    journal = Journal(tmp_path / "journal", KEY, "run1", 1 << 20)
    journal.append(turn("kept"))
    file = os.stat(journal._path).st_ino
    with monkeypatch.context() as patch:

        def fail(_: int) -> None:
            raise OSError(5, "Input/output error")

        patch.setattr(os, "fdatasync", fail)
        with pytest.raises(JournalUnavailable):
            journal.append(turn("lost"))
    journal.append(turn("next"))
    assert os.stat(journal._path).st_ino != file  # the pages of the old one are not to be trusted
    assert len(journal) == 2
    journal.close()
