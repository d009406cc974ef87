"""doctor with a server: each thing that can be wrong is found by its check, with what to do, and no cap is shown."""

from __future__ import annotations

import http.client
import json
import shutil
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from strongroom.cli import installed_extras
from strongroom.cli.doctor import server_checks
from strongroom.keys import default_directory
from tests.cli.conftest import Cli, Done, opened
from tests.cli.serving import Server, certificate, peer, serve
from tests.cli.test_doctor import check_of, states
from tests.cli.test_served import backdated, minted

Caps = Callable[..., Path]
NAMES = [name for name, _ in server_checks.SERVER_CHECKS]


@pytest.fixture
def server(home: Path, vault: None) -> Iterator[Server]:
    with serve(home) as running:
        yield running


def first_fail(done: Done) -> dict[str, Any]:
    """The first check that fails: the one to mend. Every check is made, and the exit code says that one failed."""
    assert (done.code, done.json["ok"]) == (7, False)
    assert list(states(done)) == NAMES
    return next(check for check in done.json["checks"] if check["state"] == "fail")


# The address and the way there.


@pytest.mark.requirement("cli-doctor-server")
@pytest.mark.parametrize(
    ("url", "check", "hint"),
    [
        ("memory.example.org", "address", "https://"),
        ("http://192.0.2.1:8765", "address", "--allow-cleartext"),
        ("http://127.0.0.1:9/mcp", "address", "leave out /mcp"),
        ("http://127.0.0.1:9/v1/memory/get", "address", "leave out /v1"),
        ("http://127.0.0.1:9", "connection", "strongroom serve"),
        ("unix:///nowhere/socket", "connection", "--socket PATH"),
    ],
)
def test_address_that_leads_nowhere_is_found(cli: Cli, home: Path, url: str, check: str, hint: str) -> None:
    found = first_fail(cli("doctor", "--url", url, "--json"))
    assert found["name"] == check
    assert hint in found["hint"]
    shown = cli("doctor", "--url", url)
    assert (shown.code, found["message"] in shown.out) == (7, True)


@pytest.mark.requirement("cli-doctor-server")
def test_name_that_no_machine_has_is_found(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    found = first_fail(cli("doctor", "--url", "https://memory.example.org", "--json"))
    assert (found["name"], "DNS" in found["hint"]) == ("connection", True)


@pytest.mark.requirement("cli-doctor-server")
def test_socket_that_a_killed_server_left_is_found(cli: Cli, home: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="sr-") as place:
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(f"{place}/s")
        found = first_fail(cli("doctor", "--url", f"unix://{place}/s", "--json"))
    assert (found["name"], "nothing listens" in found["message"]) == ("connection", True)


@pytest.mark.requirement("cli-doctor-server")
@pytest.mark.parametrize(
    ("made", "trusted", "hint"),
    [
        ({}, False, "--ca-file"),
        ({"address": None}, True, "name"),
        ({"ended": True}, True, "renew"),
    ],
    ids=["untrusted", "another name", "ended"],
)
def test_certificate_fault_is_found(
    cli: Cli, home: Path, vault: None, made: dict[str, Any], trusted: bool, hint: str
) -> None:
    cert, key = certificate(home, **made)
    with serve(home, "--tls-cert", cert, "--tls-key", key) as server:
        more = ["--ca-file", cert] if trusted else []
        found = first_fail(cli("doctor", "--url", server.url, *more, "--json"))
        assert (found["name"], found["reason"]) == ("connection", "server_unavailable")
        assert hint in found["hint"]


@pytest.mark.requirement("cli-doctor-server")
def test_tls_where_there_is_none_and_none_where_there_is_are_found(cli: Cli, home: Path, vault: None) -> None:
    cert, key = certificate(home)
    with serve(home, "--tls-cert", cert, "--tls-key", key) as server:
        found = first_fail(cli("doctor", "--url", server.url.replace("https", "http"), "--json"))
        assert (found["name"], "https://" in found["hint"]) == ("connection", True)
        assert states(cli("doctor", "--url", server.url, "--ca-file", cert, "--json"))["ready"] == "ok"
    with peer() as other:
        found = first_fail(cli("doctor", "--url", other.url.replace("http", "https"), "--json"))
        assert (found["name"], "http://" in found["hint"]) == ("connection", True)


@pytest.mark.requirement("cli-doctor-server")
@pytest.mark.parametrize(
    ("status", "body", "headers", "hint"),
    [
        (404, b"not here", {}, "port"),
        (200, b"<html>welcome</html>", {}, "port"),
        (200, b'{"status":"ok"}', {}, "port"),
        (200, b"[" * 100_000, {}, "port"),
        (301, b"", {"Location": "https://elsewhere.example.org/"}, "https://elsewhere.example.org/"),
    ],
    ids=["404", "page", "imitation", "deep", "redirect"],
)
def test_foreign_server_is_found_and_is_shown_no_cap(
    cli: Cli, caps: Caps, status: int, body: bytes, headers: dict[str, str], hint: str
) -> None:
    cap = str(caps("agent.cap", minted()))
    with peer(status, body, headers) as other:
        found = first_fail(cli("doctor", "--url", other.url, "--cap-file", cap, "--use-cap", "--json"))
    assert found["name"] == "server"
    assert hint in found["hint"]
    assert other.seen
    assert not [path for path, said in other.seen if "authorization" in said]


# The server.


@pytest.mark.requirement("cli-doctor-server")
def test_server_that_is_not_ready_says_why_and_where_to_look(cli: Cli, server: Server, home: Path) -> None:
    with opened() as vault:
        keys = default_directory(vault.id)
    shutil.move(keys / "root.keyring", home / "root.keyring")
    found = first_fail(cli("doctor", "--url", server.url, "--json"))
    assert (found["name"], found["reason"]) == ("ready", "key_unavailable")
    assert "strongroom doctor" in found["hint"]
    shutil.move(home / "root.keyring", keys / "root.keyring")


@pytest.mark.requirement("cli-doctor-server")
def test_server_that_does_not_answer_to_the_name_says_how_its_operator_adds_it(
    cli: Cli, server: Server, home: Path
) -> None:
    port = server.url.rpartition(":")[2]
    done = cli("doctor", "--url", f"http://127.0.0.9:{port}", "--json")
    assert first_fail(done)["name"] == "connection", "it listens on one address of loopback only"
    with serve(home, "--listen", "0.0.0.0:0", "--plain-public") as public:
        port = public.url.rpartition(":")[2]
        found = first_fail(cli("doctor", "--url", f"http://127.0.0.9:{port}", "--json"))
    assert (found["name"], found["reason"]) == ("server", "host_refused")
    assert "--host-name" in found["hint"]


@pytest.mark.requirement("cli-doctor-server")
@pytest.mark.parametrize(("off", "word"), [(3600, "ahead of"), (-3600, "behind")])
def test_clock_that_is_off_is_found(
    cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch, off: int, word: str
) -> None:
    now = time.time()
    monkeypatch.setattr(server_checks, "time", SimpleNamespace(time=lambda: now + off))
    found = check_of(cli("doctor", "--url", server.url, "--json"), "clock")
    assert (found["state"], word in found["message"]) == ("warn", True)


@pytest.mark.requirement("cli-doctor-server")
def test_another_version_is_a_warning(cli: Cli, server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_checks, "version", lambda _: "99.0")
    done = cli("doctor", "--url", server.url, "--json")
    assert (done.code, states(done)["server"]) == (0, "warn")


@pytest.mark.requirement("cli-doctor-server", "cli-extras")
def test_client_that_is_not_installed_is_the_only_fail(cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installed_extras, "is_installed", lambda _: False)
    found = first_fail(cli("doctor", "--url", "http://127.0.0.1:9", "--json"))
    assert (found["name"], found["hint"]) == ("client", installed_extras.install("client"))


@pytest.mark.requirement("cli-doctor-server")
def test_path_that_the_server_does_not_know_is_blamed_on_the_address_and_never_on_the_cap(
    cli: Cli, caps: Caps, server: Server
) -> None:
    cap = str(caps("agent.cap", minted()))
    done = cli("doctor", "--url", f"{server.url}/memory", "--cap-file", cap, "--use-cap", "--json")
    found = first_fail(done)
    assert (found["name"], found["reason"]) == ("server", "unknown_route")
    assert "check the URL" in found["hint"]
    assert states(done)["cap there"] == "skip"


@pytest.mark.requirement("cli-doctor-server")
def test_proxy_that_passes_on_only_what_needs_no_cap_is_blamed_on_the_address(
    cli: Cli, caps: Caps, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_checks, "_allowed", lambda _: SimpleNamespace(method="POST", path="/nowhere"))
    cap = str(caps("agent.cap", minted()))
    found = first_fail(cli("doctor", "--url", server.url, "--cap-file", cap, "--use-cap", "--json"))
    assert (found["name"], found["reason"]) == ("cap there", "unknown_route")
    assert "check the URL" in found["hint"]
    assert "owner" not in found["hint"]


# The cap.


@pytest.mark.requirement("cli-doctor-server", "bad-cap")
def test_cap_fault_is_found_without_showing_it(cli: Cli, caps: Caps, server: Server) -> None:
    tokens = {
        "cap_expired": backdated(7200, 60),
        "cap_not_yet_valid": backdated(-7200, 60),
        "cap_malformed": "rubbish",
    }
    for reason, token in tokens.items():
        done = cli("doctor", "--url", server.url, "--cap-file", str(caps(f"{reason}.cap", token)), "--json")
        assert (first_fail(done)["name"], first_fail(done)["reason"]) == ("cap", reason)
    scope = str(caps("scope.cap", minted(actor=None, actor_scope="team/")))
    done = cli("doctor", "--url", server.url, "--cap-file", scope, "--json")
    (found,) = [one for one in done.json["checks"] if one["name"] == "cap"]
    assert (found["state"], "cap attenuate" in found["hint"], "wire hermes" in found["hint"]) == ("warn", True, True)
    assert states(cli("doctor", "--url", server.url, "--json"))["cap"] == "warn", "none was given"
    ending = str(caps("ending.cap", backdated(29 * 86_400, 30 * 86_400, ops=["get"])))
    assert states(cli("doctor", "--url", server.url, "--cap-file", ending, "--json"))["cap"] == "warn"


@pytest.mark.requirement("cli-doctor-server", "bad-cap")
def test_shown_to_the_server_a_revoked_or_foreign_cap_is_found_in_plain_words(
    cli: Cli, caps: Caps, server: Server
) -> None:
    revoked = minted()
    with opened() as vault:
        vault.revoke(revoked)
    assert cli("init", "second").code == 0
    mint = ("cap", "mint", "--ops", "get", "--namespaces", "work", "--ttl", "1h", "--vault", "second")
    foreign = cli(*mint).out.strip()
    for token, words in ((revoked, "revoked"), (foreign, "another vault")):
        cap = str(caps("agent.cap", token))
        unused = cli("doctor", "--url", server.url, "--cap-file", cap, "--json")
        assert (unused.code, states(unused)["cap there"]) == (0, "skip")
        found = first_fail(cli("doctor", "--url", server.url, "--cap-file", cap, "--use-cap", "--json"))
        assert found["name"] == "cap there"
        assert words in found["hint"]
        assert token not in json.dumps(found)


@pytest.mark.requirement("cli-doctor-server")
@pytest.mark.parametrize(
    ("ops", "data_class"),
    [(["put"], "memory"), (["get"], "memory"), (["erase"], "memory"), (["renew"], "memory"), (["audit"], "admin")],
    ids=lambda value: value if isinstance(value, str) else value[0],
)
def test_good_cap_is_taken_and_nothing_comes_of_showing_it(
    cli: Cli, caps: Caps, server: Server, ops: list[str], data_class: str
) -> None:
    cli("put", "a trip", "-n", "travel")
    cap = caps("agent.cap", minted(ops=ops, data_class=data_class))
    before, caps_before = cap.read_text(), len(cli("cap", "list", "--json").json["caps"])
    done = cli("doctor", "--url", server.url, "--cap-file", str(cap), "--use-cap", "--json")
    assert (done.code, set(states(done).values())) == (0, {"ok"})
    assert len(cli("list", "--json").json["lines"]) == 1
    assert (cap.read_text(), len(cli("cap", "list", "--json").json["caps"])) == (before, caps_before)
    last = cli("audit", "show", "--json").json["entries"]
    assert [one["reason"] for one in last if one["op"] == ops[0] and one["decision"] != "allow"] == ["invalid_request"]


@pytest.mark.requirement("cli-doctor-server")
def test_using_a_cap_is_for_servers(cli: Cli, vault: None) -> None:
    assert cli("doctor", "--use-cap", "--json").reason == "usage"


@pytest.mark.requirement("cli-doctor-server")
def test_environment_names_the_server_too_and_a_vault_outdoes_it(
    cli: Cli, server: Server, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STRONGROOM_URL", server.url)
    assert list(states(cli("doctor", "--json"))) == NAMES
    place = str(home / ".local/share/strongroom/vault")
    assert "key files" in states(cli("doctor", "--vault", place, "--json"))
    plain = http.client.HTTPConnection(server.url.removeprefix("http://"))
    plain.request("GET", "/healthz")
    assert plain.getresponse().status == 200, "it was only looked at"
    plain.close()
