"""The steps against a server process, over HTTP: the client in Python, and the command line with --url.

Each uses the story's vault as it stands, and leaves what later steps count as it was: lines go to `family` and `work`.
"""

from __future__ import annotations

import json
import secrets
import signal
import sys
from typing import Any

from ulid import ULID

from demo import talk
from demo.partner import Partner
from demo.report import Skipped
from demo.stage import Stage
from strongroom.cli import extras
from strongroom.cli.demo_stage import Unexpected, answered, expect, refused

_LISTEN = ("serve", "--json", "--listen", "127.0.0.1:0")
_CONNECTED, _OWNERS = "connected", "owners-client"
_MADE_OF = {"server": ("server", "client")}
"""The extra `server` brings a client with it."""


def needs(stage: Stage, *parts: str) -> None:
    """Without the parts of an extra the step is left out, or fails where they have to be there."""
    for extra in ("server", *parts):
        if all(extras.is_installed(one) for one in _MADE_OF.get(extra, (extra,))):
            continue
        if stage.require_extras:
            raise Unexpected(f"strongroom[{extra}] to be installed", f"it is not: {extras.install(extra)}")
        raise Skipped(f"no_{extra}_extra")


def url_of(stage: Stage) -> str:
    """Where the server listens; without its parts the step is left out."""
    needs(stage)
    if not stage.url:
        raise Unexpected("a server that runs", "none")
    return stage.url


def start(stage: Stage) -> None:
    """Start a server, and go on when it has said where it listens."""
    told = stage.beside("server", [sys.executable, "-m", "strongroom", *_LISTEN]).hear()
    stage.url, stage.mcp_url = told["url"], told["mcp"] or ""


def ask(partner: Partner, call: str, **arguments: Any) -> Any:
    """What a client got for a call; it has to succeed."""
    came = partner.ask(json.dumps([call, arguments]))
    expect(f"{call} to be answered", "", came["reason"])
    return came["answer"]


def denied(reason: str, partner: Partner, call: str, **arguments: Any) -> None:
    """A client is refused a call with this reason."""
    expect(f"{call} to be refused, {reason}", reason, partner.ask(json.dumps([call, arguments]))["reason"])


def connected(stage: Stage, cap: str) -> Partner:
    """A client in a process of its own that stays connected."""
    return stage.beside(_CONNECTED, stage.program("visitor", "ask", url_of(stage), cap))


def owners(stage: Stage) -> Partner:
    """The owner's client, which stays connected from step to step."""
    command = stage.program("visitor", "ask", url_of(stage), stage.owner_cap)
    return stage.partners.get(_OWNERS) or stage.beside(_OWNERS, command)


# The steps.


def a_server_serves_the_vault(stage: Stage) -> None:
    needs(stage)
    start(stage)
    found = stage.answer("doctor", "--url", url_of(stage), cap="travel.cap")
    bad = [f"{check['name']}: {check['message']}" for check in found["checks"] if check["state"] == "fail"]
    expect("doctor to find it well", (True, []), (found["ok"], bad))


def it_recalls_as_the_vault_does(stage: Stage) -> None:
    """By the command line and by the client: the same lines in the same order with the same scores."""
    url, now = url_of(stage), stage.now.isoformat()
    question = ("get", talk.QUESTION, "--now", now)
    here, there = stage.at_once(question, (*question, "--url", url), cap="travel.cap")
    hits = answered(there)["hits"]
    expect(f"{talk.TRIP!r} first", [talk.TRIP], [hit["text"] for hit in hits][:1])
    expect("the same answer as without a server", answered(here)["hits"], hits)
    client = connected(stage, stage.file("travel.cap"))
    texts = [hit["text"] for hit in ask(client, "get", query=talk.QUESTION, now=now)]
    expect("the same to the client in Python", [hit["text"] for hit in hits], texts)
    client.end()


def it_denies_as_the_vault_does(stage: Stage) -> None:
    server = ("--url", url_of(stage))
    attempts = stage.at_once(
        ("get", "peanuts", "--namespace", "personal"),
        ("get", "peanuts", "--namespace", "personal", *server),
        ("list", "--namespace", "personal", *server),
        ("get", "peanuts", "--namespace", "no-such-namespace", *server),
        cap="travel.cap",
    )
    refused("cap_namespace_denied", *attempts)
    expect("the words of the vault, whether or not it exists", 1, len({attempt.err for attempt in attempts}))


def it_refuses_what_the_vault_refuses(stage: Stage) -> None:
    """The caps of the steps before, which were forged, widened, stripped, ended, or of another class."""
    names = ("forged", "widened", "stripped", "expired", "travel")
    came = stage.visit("knock", url_of(stage), *(stage.file(f"{name}.cap") for name in names))
    wrong = ["cap_signature_invalid"] * 2 + ["cap_holder_proof", "cap_expired", ""]
    expect("the reasons of the vault, and none for the good one", wrong, came)
    attempt = ("put", "a password", "--namespace", "travel", "--url", url_of(stage))
    refused("cap_data_class_mismatch", stage.strongroom(*attempt, cap="credentials.cap"))


def a_revoked_cap_is_refused_there(stage: Stage) -> None:
    """The owner revokes it at the vault, while its holder is connected to the server."""
    url_of(stage)
    cap = stage.file("guest.cap")
    stage.answer("cap", "mint", "--ops", "get", "--namespaces", "travel", "--ttl", "10m", "--out", cap)
    client = connected(stage, cap)
    ask(client, "get", query="where is the trip?")
    stage.answer("cap", "revoke", cap="guest.cap")
    denied("cap_revoked", client, "get", query="where is the trip?")
    client.end()


def a_session_cap_stays_in_its_session(stage: Stage) -> None:
    url_of(stage)
    cap = stage.file("session.cap")
    stage.answer("cap", "attenuate", "--namespaces", "family", "--ops", "put,get", "--session", "reunion",
                 "--ttl", "10m", "--out", cap)  # fmt: skip
    client = connected(stage, cap)
    kept = ask(client, "put", text="Aunt Rosa brings the cake")["id"]
    (line,) = ask(client, "get", ids=[kept])
    expect("its line in its session", ("family", "reunion"), (line["namespace"], line["session"]))
    denied("cap_limit_exceeded", client, "put", text="elsewhere", session="another")
    denied("cap_namespace_denied", client, "put", text="elsewhere", namespace="personal")
    client.end()


def a_repeated_put_is_written_once(stage: Stage) -> None:
    client = owners(stage)
    line = {"id": str(ULID()), "namespace": "work", "session": "repeated"}
    first, second = (ask(client, "put", text="the report is due", **line) for _ in range(2))
    expect("once new, once there already", (False, True), (first["duplicate"], second["duplicate"]))
    expect("one line", 1, len(ask(client, "list", session="repeated")["lines"]))
    denied("line_conflict", client, "put", text="the report is late", **line)


def a_forget_is_seen_by_the_next_get(stage: Stage) -> None:
    """One client has read the line; another process forgets it, where there are two servers at the other one; and a
    third looks at the vault."""
    client = owners(stage)
    text = "the neighbour feeds the heron"
    line = ask(client, "put", text=text, namespace="family")["id"]
    expect("recalled before", True, text in _texts(ask(client, "get", query="heron")))
    done = stage.answer("forget", line, "--url", stage.other_url, "--cap-file", stage.owner_cap)
    expect("forgotten", [line], done["ids"])
    expect("not recalled by the next get", False, text in _texts(ask(client, "get", query="heron")))
    denied("not_found", client, "get", ids=[line])
    refused("not_found", stage.strongroom("get", "--id", line))


def the_log_has_the_request_ids(stage: Stage) -> None:
    url, cap = url_of(stage), stage.file("travel.cap")
    read, refusal = (f"demo-{secrets.token_hex(8)}" for _ in range(2))
    came = stage.visit("named", url, cap, read, "travel", refusal, "personal")
    told = [[200, "", read], [403, "cap_namespace_denied", refusal]]
    expect("an answer and a refusal, each with its id", told, came)
    shown = stage.answer("audit", "show", "--limit", "10")["entries"]
    found = {entry["request"]: (entry["decision"], entry["reason"], entry["cap"]) for entry in shown}
    expect("the read on record", ("allow", "", "owner +1"), found.get(read))
    expect("the denial on record", ("deny", "cap_namespace_denied", "owner +1"), found.get(refusal))


def an_acknowledged_put_outlives_the_server(stage: Stage) -> None:
    """kill -9 right after the acknowledgement; another server takes over."""
    client = owners(stage)
    line = ask(client, "put", text="the spare key is with Mei", namespace="family")["id"]
    expect("the server killed", -signal.SIGKILL, stage.partners["server"].end(signal.SIGKILL))
    client.end()
    stage.url = stage.mcp_url = ""
    start(stage)
    (found,) = stage.answer("get", "--id", line, "--url", stage.url, "--cap-file", stage.owner_cap)["hits"]
    expect("the line there", "the spare key is with Mei", found["text"])
    verified = stage.answer("audit", "verify")
    expect("no finding in the log", (True, []), (verified["ok"], verified["findings"]))


def a_server_stops_in_order(stage: Stage) -> None:
    url_of(stage)
    expect("exit 0 after SIGTERM", 0, stage.partners["server"].end(signal.SIGTERM))
    events = [json.loads(line)["event"] for line in (stage.scratch / "server.log").read_text().splitlines()]
    expect("its log to end with it", "stopped", events[-1])
    stage.url = stage.mcp_url = ""


def _texts(hits: Any) -> list[str]:
    return [hit["text"] for hit in hits]
