"""serve: what it refuses first, then how it says where it listens, what it takes over from its options, how it ends."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import httpx
import pytest

from strongroom import Vault
from strongroom.cli import installed_extras
from strongroom.errors import ServerUnavailable
from strongroom.server import listen
from strongroom.server.listen import ListenPlace
from strongroom.server.server_options import Options
from tests.cli.conftest import Cli, Done, environment, opened
from tests.cli.serving import PATIENCE, certificate, peer, serve

Caps = Callable[..., Path]


def minted(**more: Any) -> str:
    with opened() as vault:
        return vault.mint(
            **{"actor": "local/owner", "ops": ["put", "get"], "namespaces": ["travel"], "ttl": 600, **more}
        )


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose name leaves room: a unix socket's path has an end."""
    with tempfile.TemporaryDirectory(prefix="sr-") as place:
        yield Path(place)


@pytest.fixture
def handed(monkeypatch: pytest.MonkeyPatch) -> list[tuple[ListenPlace, Options]]:
    """What the command hands to the server, which does not run."""
    found: list[tuple[ListenPlace, Options]] = []

    def record(_: Vault, place: ListenPlace, options: Options, *, started: Callable[[str], None]) -> None:
        found.append((place, options))
        started("http://127.0.0.1:1")

    monkeypatch.setattr(listen, "serve", record)
    return found


# Refusals.


@pytest.mark.requirement("cli-serve")
@pytest.mark.parametrize("address", ["0.0.0.0:8765", "192.0.2.7:8765", "[::]:8765", "memory.example.org:8765"])
def test_public_address_without_tls_is_refused_before_any_key_is_touched(cli: Cli, home: Path, address: str) -> None:
    done = cli("serve", "--listen", address, "--json")
    assert (done.code, done.reason) == (2, "invalid_request"), "and not vault_missing: there is none"
    told = cli("serve", "--help").out
    named = [word.strip(",.") for word in done.error["hint"].split() if word.startswith("--")]
    assert named == ["--tls-cert", "--tls-key", "--plain-public"]
    assert all(word in told for word in named)


@pytest.mark.requirement("cli-serve")
def test_half_of_what_tls_needs_and_files_that_are_none_are_refused(cli: Cli, vault: None, home: Path) -> None:
    assert cli("serve", "--tls-cert", "cert.pem", "--json").reason == "invalid_request"
    assert cli("serve", "--tls-key", "key.pem", "--json").reason == "invalid_request"
    cert, _ = certificate(home)
    for one, key in ((cert, "nowhere.pem"), ("nowhere.pem", cert), (cert, cert)):
        done = cli("serve", "--listen", "127.0.0.1:0", "--tls-cert", one, "--tls-key", key, "--json")
        told = json.loads(done.err.splitlines()[-1])
        assert (done.code, told["reason"]) == (2, "invalid_request")
        assert ("nowhere.pem" in told["message"]) == ("nowhere.pem" in (one, key))


@pytest.mark.requirement("cli-serve")
@pytest.mark.parametrize(
    "words",
    [
        ["--socket", "s", "--listen", "127.0.0.1:0"],
        ["--socket", "s", "--tls-cert", "c", "--tls-key", "k"],
        ["--socket-mode", "0660"],
        ["--socket", "s", "--socket-mode", "0777"],
        ["--listen", "8765"],
        ["--listen", "127.0.0.1:99999"],
        ["--listen", "::1:8765"],
        ["--origin", "https://console.example.org/"],
        ["--origin", "*"],
        ["--trusted-proxy", "proxy.example.org"],
        ["--trusted-proxy", "*"],
        ["--checkpoint-every", "often"],
        ["--stop-within", "9w"],
        ["--holder-rate", "-1"],
        ["--host-name", "https://memory.example.org"],
        ["--host-name", "memory.example.org:8765"],
        ["--host-name", "127.0.0.1:8765"],
        ["--host-name", "memory.example.org/"],
        ["--host-name", "memory example"],
        ["--host-name", "[::1]"],
        ["--host-name", ""],
    ],
    ids=" ".join,
)
def test_options_that_make_no_sense_are_refused(cli: Cli, vault: None, words: list[str]) -> None:
    done = cli("serve", *words, "--json")
    assert (done.code, done.reason) == (2, "usage")


@pytest.mark.requirement("cli-serve")
def test_serve_without_a_vault_or_with_a_server_named_is_refused(
    cli: Cli, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert cli("serve", "--json").reason == "vault_missing"
    assert cli("serve", "--url", "http://127.0.0.1:1", "--json").reason == "invalid_request"
    monkeypatch.setenv("STRONGROOM_URL", "http://127.0.0.1:1")
    assert cli("serve", "--json").reason == "invalid_request"


@pytest.mark.requirement("cli-serve")
def test_place_that_is_taken_is_unavailable(process: Cli, vault: None, home: Path, short: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = process("serve", "--listen", f"127.0.0.1:{taken.getsockname()[1]}", "--json")
        assert done.code == 7
        assert json.loads(done.err.splitlines()[-1])["reason"] == "server_unavailable"
    (short / "file").write_text("mine")
    assert process("serve", "--socket", str(short / "file")).code == 2
    assert (short / "file").read_text() == "mine"


@pytest.mark.requirement("cli-serve")
@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["--socket", "nowhere/socket"], "make the directory nowhere"),
        (["--socket", "file/socket"], "make the directory file"),
        (["--socket", "x" * 200], "shorter"),
        (["--listen", "192.0.2.7:0", "--plain-public"], "one of its own"),
    ],
    ids=["no directory", "a file", "long", "no address"],
)
def test_hint_says_why_nothing_can_listen(cli: Cli, vault: None, home: Path, words: list[str], hint: str) -> None:
    (home / "file").touch()
    told = json.loads(cli("serve", *words, "--json").err.splitlines()[0])
    assert told["reason"] == "server_unavailable"
    assert hint in told["hint"]


@pytest.mark.requirement("cli-serve")
@pytest.mark.parametrize(
    "place", [ListenPlace(unix=Path("there/socket")), ListenPlace(port=80)], ids=["socket", "port"]
)
def test_hint_about_a_place_that_may_not_be_listened_on_does_not_blame_another_server(
    monkeypatch: pytest.MonkeyPatch, place: ListenPlace
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(listen, "_listen_unix", refuse)
    monkeypatch.setattr(listen, "_listen_tcp", refuse)
    with pytest.raises(ServerUnavailable) as refused:
        listen.listen(place)
    assert "another server" not in refused.value.hint


@pytest.mark.requirement("cli-serve")
@pytest.mark.parametrize(("option", "zero"), [("--checkpoint-every", "for never"), ("--stop-within", "to not wait")])
def test_option_help_says_what_no_time_means(cli: Cli, vault: None, option: str, zero: str) -> None:
    assert zero in cli("serve", option, "soon", "--json").error["message"]


# What is not installed.


def without(*modules: str, words: list[str]) -> Done:
    """A command line in a process where some modules are not installed."""
    script = f"import sys\nfor name in {modules!r}: sys.modules[name] = None\nfrom strongroom.cli import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-c", script, *words],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return Done(done.returncode, done.stdout, done.stderr)


@pytest.mark.requirement("cli-extras")
@pytest.mark.parametrize(
    ("module", "words", "extra"),
    [
        ("uvicorn", ["serve"], "server"),
        ("uvloop", ["serve"], "server"),
        ("prometheus_client", ["serve"], "server"),
        ("mcp", ["serve", "--mcp", "--listen", "127.0.0.1:0"], "mcp"),
        ("mcp", ["mcp"], "mcp"),
        ("httpx", ["get", "x", "--url", "http://127.0.0.1:1", "--cap-file", "agent.cap"], "client"),
    ],
    ids=lambda words: " ".join(words[:2]) if isinstance(words, list) else words,
)
def test_missing_package_is_named_with_how_to_get_it(caps: Caps, module: str, words: list[str], extra: str) -> None:
    caps("agent.cap", minted())
    done = without(module, words=[*words, "--json"])
    assert (done.code, done.reason) == (2, "invalid_request")
    assert done.error["hint"] == installed_extras.install(extra)


@pytest.mark.requirement("cli-extras", "cli-doctor-server")
def test_doctor_without_httpx_names_what_to_install_and_skips_what_needs_it(home: Path) -> None:
    done = without("httpx", words=["doctor", "--url", "http://127.0.0.1:9", "--json"])
    assert (done.code, done.err) == (7, "")
    states = {check["name"]: check["state"] for check in done.json["checks"]}
    assert states.pop("cap") == "warn", "none was given"
    assert states.pop("Python") == "ok"
    assert states.pop("client") == "fail"
    assert set(states.values()) == {"skip"}
    assert installed_extras.install("client") in done.out.replace('\\"', '"')


@pytest.mark.requirement("cli-extras")
def test_command_line_works_without_any_extra(home: Path, vault: None) -> None:
    every = sorted({name for modules in installed_extras.MODULES.values() for name in modules})
    told = without(*every, words=["--help"])
    assert told.code == 0
    assert "serve" in told.out
    for words in (["serve", "--help"], ["mcp", "--help"], ["put", "a trip", "-n", "travel"], ["doctor"]):
        done = without(*every, words=words)
        assert done.code == 0, done.err
    assert ".[client,server,mcp,s3]" in done.out


# What it is told.


@pytest.mark.requirement("cli-serve")
def test_serve_takes_the_servers_own_defaults(cli: Cli, vault: None, handed: list[tuple[ListenPlace, Options]]) -> None:
    assert cli("serve").code == 0
    assert handed == [(ListenPlace(), Options())]


@pytest.mark.requirement("cli-serve", "cli-help")
def test_help_names_the_servers_own_defaults(cli: Cli) -> None:
    told = " ".join(cli("serve", "--help").out.split())
    usual = Options()
    assert f"by default {ListenPlace().address}:{ListenPlace().port}." in told
    assert f"with one cap; by default {usual.holder_rate:.0f}," in told
    assert f"without a valid cap; by default {usual.address_rate:.0f}," in told
    assert f"open at once; by default {usual.connections}." in told
    assert f"when stopping; by default {usual.stop_seconds}s." in told
    assert f"a checkpoint of the log; by default {usual.checkpoint_seconds / 3600:.0f}h." in told


@pytest.mark.requirement("cli-serve")
def test_every_option_reaches_the_server(cli: Cli, vault: None, handed: list[tuple[ListenPlace, Options]]) -> None:
    done = cli(
        *("serve", "--listen", "[::1]:0", "--tls-cert", "c.pem", "--tls-key", "k.pem", "--plain-public"),
        *("--trusted-proxy", "10.0.0.5", "--trusted-proxy", "10.1.0.0/16", "--host-name", "Memory.example.org"),
        *("--host-name", "memory", "--origin", "https://console.example.org", "--holder-rate", "7"),
        *("--address-rate", "0", "--connections", "9", "--checkpoint-every", "0", "--stop-within", "5s"),
        *("--no-mcp", "--log-requests"),
    )
    assert done.code == 0, done.err
    ((place, options),) = handed
    assert place == ListenPlace(
        "::1", 0, None, 0o600, Path("c.pem"), Path("k.pem"), True, trusted_proxies=("10.0.0.5", "10.1.0.0/16")
    )
    assert options == Options(
        hosts=Options().hosts | {"memory.example.org", "memory"},
        origins=frozenset({"https://console.example.org"}),
        holder_rate=7,
        address_rate=0,
        connections=9,
        checkpoint_seconds=0,
        stop_seconds=5,
        mcp=False,
        log_requests=True,
    )
    changed = {one.name for one in fields(Options) if getattr(options, one.name) != getattr(Options(), one.name)}
    assert len(changed) == 9, "each of them is another than the default"


@pytest.mark.requirement("cli-serve")
def test_server_for_everybody_that_has_no_name_says_so(
    cli: Cli, vault: None, handed: list[tuple[ListenPlace, Options]]
) -> None:
    public = ("serve", "--listen", "0.0.0.0:0", "--plain-public")
    assert "--host-name" in cli(*public).err
    over_tls = cli("serve", "--listen", "0.0.0.0:0", "--tls-cert", "c.pem", "--tls-key", "k.pem").err
    assert "421" in over_tls
    for name in ("memory.example.org", "192.0.2.7", "2001:db8::7"):
        assert "warning" not in cli(*public, "--host-name", name).err
    assert "warning" not in cli("serve").err


@pytest.mark.requirement("cli-extras")
def test_server_without_the_parts_for_mcp_serves_the_rest_and_a_note_says_so(
    cli: Cli, vault: None, handed: list[tuple[ListenPlace, Options]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(installed_extras, "is_installed", lambda extra: extra != "mcp")
    assert installed_extras.install("mcp") in cli("serve").err
    assert cli("serve", "--json").json["mcp"] is None
    assert cli("serve", "--no-mcp").err.count("note:") == 0
    assert [options.mcp for _, options in handed] == [False] * 3


# Running.


@pytest.mark.requirement("cli-serve")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_it_well_and_what_was_put_is_there(cli: Cli, caps: Caps, home: Path, how: int) -> None:
    cap = str(caps("agent.cap", minted()))
    with serve(home, "--mcp") as server:
        assert server.told.keys() == {"url", "mcp", "vault", "pid"}
        assert (server.told["pid"], server.told["mcp"]) == (server.process.pid, f"{server.url}/mcp")
        assert cli("put", "a trip", "--url", server.url, "--cap-file", cap).code == 0
        assert server.stop(how) == 0
        assert [one["event"] for one in server.events()] == ["listening", "stopped"]
    assert cli("get", "trip", "--json").json["hits"][0]["text"] == "a trip"
    assert cli("audit", "verify").code == 0


@pytest.mark.requirement("cli-serve")
def test_stderr_without_a_terminal_holds_json_alone_which_says_where(home: Path, vault: None) -> None:
    command = [sys.executable, "-W", "error", "-m", "strongroom", "serve", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, env=environment(), stdout=-1, stderr=-1, text=True) as running:
        assert running.stderr is not None
        first = json.loads(running.stderr.readline())
        assert first["event"] == "listening"
        assert httpx.get(f"{first['url']}/readyz", trust_env=False).status_code == 200
        running.send_signal(signal.SIGTERM)
        out, rest = running.communicate(timeout=PATIENCE)
    assert (running.returncode, out) == (0, "")
    assert [json.loads(line)["event"] for line in rest.splitlines()] == ["stopped"]


@pytest.mark.requirement("cli-serve")
def test_terminal_is_told_where_and_what_to_do_in_one_line(home: Path, vault: None) -> None:
    command = [sys.executable, "-W", "error", "-m", "strongroom", "serve", "--listen", "127.0.0.1:0"]
    ours, theirs = os.openpty()
    with (
        os.fdopen(ours) as terminal,
        subprocess.Popen(command, env=environment(), stdout=-1, stderr=theirs, text=True) as running,
    ):
        os.close(theirs)
        lines = [terminal.readline(), terminal.readline()]
        running.send_signal(signal.SIGTERM)
        assert running.wait(PATIENCE) == 0
    (url,) = [json.loads(line)["url"] for line in lines if line.startswith("{")]
    (said,) = [line for line in lines if line.startswith("strongroom: ")]
    assert url in said
    assert "strongroom cap mint" in said


@pytest.mark.requirement("cli-serve")
@pytest.mark.parametrize("mode", ["0600", "0660"])
def test_socket_has_the_mode_that_was_said_and_goes_with_the_server(
    cli: Cli, caps: Caps, home: Path, short: Path, mode: str
) -> None:
    cap = str(caps("agent.cap", minted()))
    place = short / "socket"
    more = [] if mode == "0600" else ["--socket-mode", mode]
    with serve(home, "--socket", str(place), *more) as server:
        assert server.url == f"unix://{place}"
        assert server.told["mcp"] is None
        assert oct(stat.S_IMODE(place.stat().st_mode)) == oct(int(mode, 8))
        assert cli("get", "x", "--url", server.url, "--cap-file", cap, "--json").json == {"hits": []}
    assert not place.exists()


@pytest.mark.requirement("cli-serve")
def test_tls_is_spoken_and_its_ca_can_be_named(cli: Cli, caps: Caps, home: Path) -> None:
    cap = str(caps("agent.cap", minted()))
    cert, key = certificate(home)
    with serve(home, "--tls-cert", cert, "--tls-key", key) as server:
        assert server.url.startswith("https://")
        ask = ("get", "x", "--url", server.url, "--cap-file", cap, "--json")
        refused = cli(*ask)
        assert (refused.code, refused.reason) == (7, "server_unavailable")
        assert "--ca-file" in refused.error["hint"]
        assert cli(*ask, "--ca-file", cert).json == {"hits": []}
        assert cli(*ask, "--ca-file", "nowhere.pem").reason == "invalid_request"


@pytest.mark.requirement("cli-serve")
def test_keys_behind_a_passphrase_open_by_file_and_never_by_guessing(process: Cli, home: Path) -> None:
    (home / "secret").touch(mode=0o600)
    (home / "secret").write_text("several words that nobody guesses\n")
    assert process("init", "--passphrase-file", "secret").code == 0
    refused = process("serve", "--listen", "127.0.0.1:0", "--json")
    assert (refused.code, refused.reason) == (7, "key_unavailable")
    with serve(home, "--passphrase-file", "secret") as server:
        assert server.url


@pytest.mark.requirement("cli-serve", "secrets-hidden")
def test_log_of_every_request_holds_no_cap_text_or_query(cli: Cli, caps: Caps, home: Path) -> None:
    token = minted()
    cap = str(caps("agent.cap", token))
    with serve(home, "--log-requests") as server:
        assert cli("put", "wolverine", "--url", server.url, "--cap-file", cap).code == 0
        assert cli("get", "aardvark", "--url", server.url, "--cap-file", cap).code == 0
        assert cli("get", "aardvark", "-n", "personal", "--url", server.url, "--cap-file", cap).code == 3
        server.stop()
        asked = [one for one in server.events() if one["event"] == "request" and one["op"].startswith("memory.")]
        seen = [one["outcome"] for one in asked]
        assert seen == ["ok", "ok", "cap_namespace_denied"]
        log = server.log.read_text()
    for secret in ("wolverine", "aardvark", "travel", "local/owner", *token.split("~")):
        assert secret not in log


@pytest.mark.requirement("cli-serve")
def test_server_that_cannot_start_is_unavailable_and_not_denied(
    cli: Cli, vault: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        sys.exit(3)

    monkeypatch.setattr(listen._Server, "run", fail)
    told = cli("serve", "--json", "--listen", "127.0.0.1:0").err.splitlines()[-1]
    assert json.loads(told)["reason"] == "server_unavailable"


# What a client is told that comes to the wrong door.


def told_at(cli: Cli, cap: str, url: str, *more: str) -> str:
    done = cli("get", "x", "--url", url, "--cap-file", cap, *more, "--json")
    assert (done.code, done.reason) == (7, "server_unavailable")
    return str(done.error["hint"])


@pytest.mark.requirement("client-answers")
def test_server_that_is_not_strongroom_is_unavailable_and_no_defect(cli: Cli, caps: Caps) -> None:
    cap = str(caps("agent.cap", minted()))
    for status in (200, 404):
        with peer(status, b"<html>welcome</html>") as other:
            assert "URL" in told_at(cli, cap, other.url)


@pytest.mark.requirement("cli-serve")
def test_tls_where_there_is_none_and_another_name_are_told_apart_with_where_to_look(
    cli: Cli, caps: Caps, home: Path
) -> None:
    cap = str(caps("agent.cap", minted()))
    cert, key = certificate(home, address=None)
    with serve(home, "--tls-cert", cert, "--tls-key", key) as server:
        other_name = told_at(cli, cap, server.url, "--ca-file", cert)
        plain = told_at(cli, cap, server.url.replace("https", "http"))
    with peer() as other:
        no_tls = told_at(cli, cap, other.url.replace("http", "https"))
    assert "name in its certificate" in other_name
    assert "--ca-file" not in other_name
    assert "https://" in plain
    assert "http://" in no_tls
    assert all(hint.endswith("`strongroom doctor --url ...` shows more") for hint in (other_name, plain, no_tls))
