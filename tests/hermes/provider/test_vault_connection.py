"""The way to a vault: one for a place in a process; a server that is out of reach costs a turn nothing for a moment."""

from __future__ import annotations

import gc
import shutil
import socket
import threading
import weakref
from pathlib import Path

import pytest

import strongroom
from strongroom.errors import KeyUnavailable, ServerUnavailable, VaultMissing
from strongroom.hermes.provider import vault_connection as doors
from strongroom.hermes.provider.vault_connection import VaultConnection, open_connection
from strongroom.model import Actor, NewLine
from tests.hermes.provider.conftest import TRIP, Served, Wired, say
from tests.hermes.provider.people import said


def test_agents_of_one_place_share_one_way(wired: Wired) -> None:
    wired.agent("s1")
    wired.agent("s2", platform="telegram", user_id="1", chat_type="dm")
    assert len(doors._doorways) == 1


def test_threads_that_come_at_once_open_one_vault(wired: Wired) -> None:
    way = VaultConnection(wired.home.policy)
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(way.vault())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(one) for one in found}) == 1
    way.vault().close()


def test_memory_of_one_cap_is_not_that_of_another(wired: Wired) -> None:
    wired.agent("s1")
    way, caps = wired.home.way, wired.home.parts.caps
    names = wired.home.policy.namespaces
    one, other = (caps.narrowed(Actor(f"{wired.home.policy.scope}{who}"), names) for who in ("owner", "telegram/1"))
    receipts = way.ask(one, lambda memory: memory.put_many([NewLine(text=TRIP, namespace="travel")]))
    for token, found in ((one, [receipts[0].id]), (other, []), (one, [receipts[0].id])):
        assert [info.id for info in way.ask(token, lambda memory: memory.list()).lines] == found


def test_vault_that_was_put_in_the_place_of_another_is_the_one_that_is_asked(wired: Wired, tmp_path: Path) -> None:
    say(wired.agent("s1"), TRIP)
    way, place = wired.home.way, Path(wired.home.policy.vault)
    token = wired.home.parts.caps.narrowed(Actor(f"{wired.home.policy.scope}owner"), wired.home.policy.namespaces)
    before = weakref.ref(way.vault())
    strongroom.backup(place, tmp_path / "copy")
    more = way.ask(token, lambda memory: memory.put_many([NewLine(text="later", namespace="work")]))
    shutil.move(place, tmp_path / "moved")
    with pytest.raises(VaultMissing):
        way.ask(token, lambda memory: memory.list())
    gc.collect()
    assert before() is None, "a vault that is gone is not held open"
    shutil.copytree(tmp_path / "copy", place)
    found = [info.id for info in way.ask(token, lambda memory: memory.list()).lines]
    assert found
    assert more[0].id not in found


def test_another_place_in_the_policy_is_another_way(remote: Served) -> None:
    first = open_connection(remote.home.policy)
    remote.url = "http://127.0.0.1:1"
    remote.write()
    assert open_connection(remote.home.policy) is not first


def test_server_that_was_out_of_reach_is_not_asked_again_for_a_moment(remote: Served) -> None:
    token = remote.home.parts.caps.narrowed("hermes/default/owner", remote.vault.namespaces)  # type: ignore[arg-type]
    way = VaultConnection(remote.home.policy)
    remote.stop()
    asked: list[int] = []
    with pytest.raises(ServerUnavailable):
        way.ask(token, lambda memory: memory.get("trip"), hasty=True)
    with pytest.raises(ServerUnavailable):
        way.ask(token, lambda memory: asked.append(1))
    assert asked == []
    for one in (way._patient, way._hasty):
        assert one is not None
        one.close()


def test_server_that_never_answers_holds_a_turn_up_no_longer_than_told(remote: Served) -> None:
    """It takes connections and says nothing: the call ends by itself, and the turn waits in the spool."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        remote.url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        remote.write("[recall]\ntimeout = 0.2")
        agent = remote.agent()
        assert agent.prefetch("When is my trip?") == ""
        agent.sync_turn(TRIP, "Nice", session_id="s1")
        assert remote.waiting() == 1
        assert remote.problems()["recall"] == "server_unavailable"


@pytest.mark.parametrize(
    "status", ["500 Oops", "404 Not Found", "400 Bad Request", "200 OK", "301 Moved", "413 Too Large"]
)
def test_another_server_in_the_place_of_ours_loses_no_turn(remote: Served, status: str) -> None:
    def answer(listener: socket.socket) -> None:
        while True:
            try:
                taken, _ = listener.accept()
            except OSError:
                return
            with taken:
                taken.recv(65_536)
                taken.sendall(f"HTTP/1.1 {status}\r\ncontent-length: 5\r\nconnection: close\r\n\r\n<oop>".encode())

    ours = remote.url
    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=answer, args=(listener,))
    thread.start()
    try:
        remote.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        remote.write()
        agent = remote.agent()
        assert say(agent, "one", "first") == ""
        remote.rest()
        assert say(agent, "two", "second") == ""
        assert remote.problems()["keeping"]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()
    assert remote.waiting() == 2
    remote.url = ours
    remote.write()
    remote.agent("s2")
    assert remote.texts() == ["one", "first", "two", "second"]


@pytest.mark.requirement("hermes-spool")
def test_turn_waits_while_the_vault_is_not_there(wired: Wired) -> None:
    """Its disk is not mounted."""
    wired.vault.close()
    away = wired.base / "away"
    shutil.move(wired.base / "vault", away)
    agent = wired.agent()
    assert say(agent, TRIP, "Nice") == ""
    assert wired.problems()["keeping"] == "vault_missing"
    assert wired.waiting() == 1
    assert not (wired.base / "vault").exists()  # and none was made
    shutil.move(away, wired.base / "vault")
    assert "Chengdu" in wired.agent("s2").prefetch("When is my trip to Chengdu?")
    assert wired.waiting() == 0


def test_keys_that_are_gone_are_never_made_anew(wired: Wired) -> None:
    wired.vault.close()
    shutil.move(wired.base / "keys", wired.base / "keys-away")
    agent = wired.agent()
    assert say(agent, TRIP, "Nice") == ""
    assert wired.problems()["recall"] == "key_unavailable"
    assert not (wired.base / "keys").exists()
    assert wired.waiting() == 1
    shutil.move(wired.base / "keys-away", wired.base / "keys")


@pytest.mark.parametrize("place", ["", "/does/not/exist"])
def test_passphrase_that_cannot_be_read_is_named_and_not_asked_for(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STRONGROOM_PASSPHRASE_FILE", place)
    with pytest.raises(KeyUnavailable):
        doors._passphrase()


def test_passphrase_comes_from_the_file_that_the_owner_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "p").write_text("correct horse \n")
    monkeypatch.setenv("STRONGROOM_PASSPHRASE_FILE", str(tmp_path / "p"))
    assert doors._passphrase() == "correct horse "


def test_way_shows_its_place_and_no_cap(wired: Wired) -> None:
    assert "vault" in repr(wired.home.way)
    assert repr(wired.home.parts.caps) == "<caps of a home>"


@pytest.mark.requirement("hermes-durable")
def test_turn_waits_while_the_vault_is_gone_from_its_place(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "one")
    (wired.base / "vault").rename(wired.base / "away")
    say(agent, TRIP)
    assert wired.waiting() == 1
    assert "keeping" in wired.problems()
    (wired.base / "away").rename(wired.base / "vault")
    say(agent, "hello")
    assert wired.waiting() == 0
    assert said(wired) == ["one", TRIP, "hello"]


@pytest.mark.requirement("hermes-durable")
def test_turn_goes_to_the_vault_that_is_at_the_place_now(wired: Wired) -> None:
    agent = wired.agent()
    say(agent, "one")
    shutil.copytree(wired.base / "vault", wired.base / "copy")
    (wired.base / "vault").rename(wired.base / "away")
    (wired.base / "copy").rename(wired.base / "vault")
    say(agent, TRIP)
    say(agent, "hello")
    wired.forget_process()
    assert "Chengdu" in wired.agent("s2").prefetch("When is my trip to Chengdu?")
