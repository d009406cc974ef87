"""What an operator sees of a server: health, readiness, figures, its log, request ids. None of it holds a secret."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import strongroom
from strongroom import FileKeys, Token, Vault
from strongroom.server.listen import ListenPlace
from tests.conftest import ALL_OPS, NAMESPACES
from tests.server.conftest import StartProcess, StartThread
from tests.server.running import Child, Running

GET, PUT, LIST = "/v1/memory/get", "/v1/memory/put", "/v1/memory/list"
LINE = {"lines": [{"text": "a trip", "namespace": "travel"}]}
Labels = tuple[tuple[str, str], ...]


def figures(server: Running | Child) -> dict[tuple[str, Labels], float]:
    """Every figure of /metrics by its name and labels."""
    text = server.ask("GET", "/metrics").body.decode()
    families = text_string_to_metric_families(text)
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def counted(server: Running | Child, outcome: str) -> float:
    """How many requests ended so, whatever they were for."""
    found = figures(server).items()
    return sum(
        v for (name, labels), v in found if name == "strongroom_requests_total" and ("outcome", outcome) in labels
    )


# Health.


@pytest.mark.requirement("server-ready")
def test_server_without_its_keys_is_not_ready_but_healthy(start: StartThread, tmp_path: Path) -> None:
    running = start()
    shutil.rmtree(tmp_path / "keys")
    for _ in range(3):
        answer = running.ask("GET", "/readyz")
        assert answer.outcome == (503, "key_unavailable")
        assert int(answer.headers["retry-after"]) >= 1
        assert running.ask("GET", "/healthz").status == 200


@pytest.mark.requirement("server-ready")
def test_server_without_its_store_is_not_ready_but_healthy(start: StartThread, vault: Vault, cap: Token) -> None:
    running = start()
    vault._state.store.close()
    assert running.ask("GET", "/readyz").outcome == (503, "store_unavailable")
    assert running.ask("POST", GET, cap, {}).status == 503
    assert running.ask("GET", "/healthz").status == 200


@pytest.mark.requirement("server-ready")
def test_server_whose_log_was_cut_is_not_ready(
    start: StartThread, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, head = start(), vault._state.store.head()
    monkeypatch.setattr(vault._state.store, "head", lambda: type(head)(**{**_fields(head), "mac": b"\0" * 32}))
    answer = running.ask("GET", "/readyz")
    assert answer.status in (500, 503)
    assert answer.reason in ("tampered", "audit_unavailable", "store_unavailable")


def _fields(value: Any) -> dict[str, Any]:
    names = getattr(value, "__struct_fields__", None) or value.__dataclass_fields__
    return {name: getattr(value, name) for name in names}


@pytest.mark.requirement("server-ready")
def test_server_that_has_all_it_needs_is_ready(start: StartThread) -> None:
    running = start()
    assert running.ask("GET", "/readyz").json == {"status": "ready"}
    assert running.ask("GET", "/healthz").json == {"status": "ok"}


@pytest.mark.requirement("server-ready")
def test_asking_for_health_leaves_nothing_in_the_log(start: StartThread, vault: Vault) -> None:
    running, size = start(), vault.audit.size()
    for path in ("/healthz", "/readyz", "/metrics", "/openapi.json"):
        assert running.ask("GET", path).status == 200
    assert vault.audit.size() == size


# Figures.


@pytest.mark.requirement("server-metrics")
def test_figures_are_for_this_machine_only(start: StartThread, cap: Token) -> None:
    running = start(ListenPlace(port=0, trusted_proxies=("127.0.0.1",)))
    for address in ("192.0.2.1", "10.0.0.1", "2001:db8::1", "127.0.0.1, 192.0.2.1", "nonsense"):
        answer = running.ask("GET", "/metrics", cap, headers={"X-Forwarded-For": address})
        assert answer.outcome == (404, "unknown_route")
        assert "127.0.0.1" in answer.json["hint"], "where they can be had, and not a list that has them"
    assert running.ask("GET", "/metrics").status == 200


@pytest.mark.requirement("server-metrics")
def test_peer_cannot_say_that_it_is_this_machine(start: StartThread) -> None:
    """A proxy adds the address that it saw behind whatever the peer has written, and that one counts."""
    running = start(ListenPlace(port=0, trusted_proxies=("127.0.0.1",)))
    for said in ("127.0.0.1, ", "::1, ", "localhost, ", "127.0.0.1, 127.0.0.1, ", ", "):
        answer = running.ask("GET", "/metrics", headers={"X-Forwarded-For": said + "192.0.2.1"})
        assert answer.outcome == (404, "unknown_route")


@pytest.mark.requirement("server-metrics")
def test_outcomes_are_counted_by_their_reason(start: StartThread, vault: Vault, cap: Token) -> None:
    running = start()
    other = vault.mint(actor="local/bob", ops=["list"], namespaces=["work"], ttl=3600)
    asked: tuple[tuple[str, str, str | None, Any, str], ...] = (
        ("POST", GET, cap, {}, "ok"),
        ("POST", GET, None, {}, "cap_missing"),
        ("POST", GET, "garbage", {}, "cap_malformed"),
        ("POST", GET, other, {}, "cap_op_mismatch"),
        ("POST", LIST, other, {"namespaces": ["personal"]}, "cap_namespace_denied"),
        ("POST", GET, cap, {"k": 21}, "too_many"),
        ("POST", GET, cap, {"x": 1}, "invalid_request"),
        ("GET", "/nowhere", None, None, "unknown_route"),
        ("DELETE", GET, None, None, "method_refused"),
    )
    for method, path, shown, body, outcome in asked:
        before = counted(running, outcome)
        running.ask(method, path, shown, body)
        # A look at the figures is a request, too.
        assert counted(running, outcome) == before + (2 if outcome == "ok" else 1), outcome


@pytest.mark.requirement("server-metrics")
def test_every_refusal_of_the_protocol_is_shaped_and_none_makes_a_new_label(start: StartThread) -> None:
    running = start()
    before = {labels for name, labels in figures(running) if name == "strongroom_requests_total"}
    for number in range(20):
        running.ask("GET", f"/nowhere-{number}")
        running.ask("POST", GET, f"garbage-{number}", {})
    after = {labels for name, labels in figures(running) if name == "strongroom_requests_total"}
    assert len(after - before) <= 3


@pytest.mark.requirement("server-metrics")
def test_vaults_own_figures_are_there(start: StartThread, cap: Token) -> None:
    running = start()
    for _ in range(3):
        running.ask("POST", PUT, cap, LINE)
    running.ask("POST", GET, cap, {"query": "trip"})
    running.ask("POST", GET, cap, {"query": "trip"})
    running.ask("POST", GET, "garbage", {})
    running.vault.audit.checkpoint()
    found = {name: value for (name, labels), value in figures(running).items() if not labels}
    assert found["strongroom_shelves"] >= 1
    assert found["strongroom_shelf_bytes"] > 0
    assert found["strongroom_shelf_hits_total"] >= 1
    assert found["strongroom_shelf_misses_total"] >= 1
    assert found["strongroom_log_entries"] == running.vault.audit.size()
    assert found["strongroom_garbage_tokens_total"] == 1
    assert found["strongroom_checkpoint_age_seconds"] >= 0
    assert found["strongroom_commit_group_size_count"] >= 5
    assert found["strongroom_commit_group_size_sum"] >= found["strongroom_commit_group_size_count"]


@pytest.mark.requirement("server-metrics")
def test_time_of_each_op_is_counted(start: StartThread, cap: Token) -> None:
    running = start()
    running.ask("POST", PUT, cap, LINE)
    counts = {labels: value for (name, labels), value in figures(running).items() if name.endswith("seconds_count")}
    assert counts[("op", "memory.put"),] == 1


# Request ids.


@pytest.mark.requirement("server-request-id")
@pytest.mark.parametrize("given", ["a", "A-b.c_9", "0" * 64])
def test_request_id_is_taken_returned_and_logged(start: StartThread, vault: Vault, cap: Token, given: str) -> None:
    running, size = start(), vault.audit.size()
    answer = running.ask("POST", GET, cap, {}, headers={"X-Request-Id": given})
    assert answer.headers["x-request-id"] == given
    assert [entry.request for _, entry in vault.audit.entries(size) if entry is not None] == [given]


@pytest.mark.requirement("server-request-id")
@pytest.mark.parametrize("given", ["", " ", "a b", "a" * 65, "a/b", "a:b", "caf\xe9", "<script>", "a\tb", "a,b", '"a"'])
def test_malformed_request_id_is_replaced(start: StartThread, vault: Vault, cap: Token, given: str) -> None:
    running, size = start(), vault.audit.size()
    answers = [running.ask("POST", GET, cap, {}, headers={"X-Request-Id": given}) for _ in range(2)]
    made = [answer.headers["x-request-id"] for answer in answers]
    assert len({*made, given}) == 3
    assert all(re.fullmatch(r"[A-Za-z0-9._-]{1,64}", one) for one in made)
    assert [entry.request for _, entry in vault.audit.entries(size) if entry is not None] == made


@pytest.mark.requirement("server-request-id")
def test_every_refusal_has_a_request_id(start: StartThread) -> None:
    running = start()
    for method, path, cap in (("GET", "/nowhere", None), ("PUT", "/healthz", None), ("POST", GET, "garbage")):
        answer = running.ask(method, path, cap, headers={"X-Request-Id": "mine"})
        assert answer.headers["x-request-id"] == "mine"


@pytest.mark.requirement("server-request-id")
def test_every_answer_may_be_kept_by_nobody(start: StartThread, cap: Token) -> None:
    running = start()
    for answer in (running.ask("POST", GET, cap, {}), running.ask("POST", GET, None), running.ask("GET", "/healthz")):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert "server" not in answer.headers


# The log.

MARK = "zzmark"
ACTOR, NAMESPACE = f"local/{MARK}-actor", f"{MARK}-space"


@pytest.fixture
def marked(tmp_path: Path) -> Token:
    """A vault in which everything secret holds a mark; and a cap for all of it."""
    place = tmp_path / "disk"
    place.mkdir()
    with strongroom.create(place / "vault", keys=FileKeys(place / "keys")) as made:
        made.add_namespace(NAMESPACE)
        ops = [*ALL_OPS, "renew"]
        names = [*NAMESPACES, NAMESPACE]
        return made.mint(actor=ACTOR, ops=ops, namespaces=names, ttl=3600, session=None, label=f"{MARK} label")


def drive_everything(server: Child, cap: Token) -> None:
    """Good and bad requests of every kind, all of them marked."""
    line = {"text": f"{MARK} text", "namespace": NAMESPACE, "session": f"{MARK}-session", "author": f"{MARK}-author"}
    id_ = server.ask("POST", PUT, cap, {"lines": [line]}).json["receipts"][0]["id"]
    again = {"lines": [{**line, "text": f"{MARK} other", "id": id_}]}
    asked: tuple[tuple[str, str, str | None, Any], ...] = (
        ("POST", PUT, cap, again),
        ("POST", PUT, cap, {"lines": [{**line, "kind": MARK}]}),
        ("POST", PUT, cap, {"lines": [{**line, "text": MARK * 10_000}]}),
        ("POST", GET, cap, {"query": f"{MARK} query"}),
        ("POST", GET, cap, {"namespaces": [f"{MARK}-none"]}),
        ("POST", GET, cap, {MARK: MARK}),
        ("POST", GET, cap, {"k": MARK}),
        ("POST", GET, cap, {"ids": [f"{MARK}-id"]}),
        ("POST", LIST, cap, {"session": f"{MARK}-session"}),
        ("POST", "/v1/memory/snapshot", cap, {}),
        ("PUT", f"/v1/memory/profile?namespace={NAMESPACE}", cap, {"text": f"{MARK} profile"}),
        ("PUT", f"/v1/memory/profile?namespace={NAMESPACE}", cap, {"text": f"{MARK} profile"}),
        ("GET", f"/v1/memory/profile?namespace={NAMESPACE}", cap, None),
        ("GET", f"/v1/memory/profile?{MARK}={MARK}", cap, None),
        ("POST", "/v1/caps/renew", cap, {}),
        ("POST", "/v1/caps/mint", cap, {"ops": ["get"], "namespaces": [NAMESPACE], "actor": ACTOR}),
        ("POST", "/v1/memory/forget", cap, {"ids": [id_]}),
        ("POST", "/v1/memory/erase", cap, {"namespaces": [NAMESPACE]}),
        ("POST", GET, f"{MARK}.{MARK}.{MARK}~{MARK}", {}),
        ("POST", GET, cap + MARK, {}),
        ("GET", f"/{MARK}?{MARK}", cap, None),
        (MARK, "/healthz", cap, None),
    )
    for method, path, shown, body in asked:
        server.ask(method, path, shown, body)
    for headers in ({"Host": f"{MARK}.example"}, {"Origin": f"https://{MARK}"}, {f"X-{MARK}": MARK}, {"X(": MARK}):
        server.ask("POST", GET, cap, {}, headers=headers)
    with server.connect() as connection:
        connection.send(f"GET /{MARK}\0{MARK} HTTP/1.1\r\n\r\n".encode())
        connection.answer()


@pytest.mark.requirement("server-logs", "secrets-hidden")
@pytest.mark.parametrize("log_requests", [True, False])
def test_log_and_figures_hold_no_secret(marked: Token, start_process: StartProcess, log_requests: bool) -> None:
    server = start_process(log_requests=log_requests)
    drive_everything(server, marked)
    shown = server.ask("GET", "/metrics").body.decode()
    server.stop()
    said = server.stderr + shown
    assert server.events()
    secrets = [MARK, *re.split(r"[.~]", marked), NAMESPACE, ACTOR]
    assert not [secret for secret in secrets if secret in said]


@pytest.mark.requirement("server-logs")
def test_each_line_of_the_log_is_one_json_object(on_disk: Token, start_process: StartProcess) -> None:
    server = start_process(log_requests=True)
    server.ask("POST", GET, on_disk, {}, headers={"X-Request-Id": "seen"})
    server.ask("POST", GET, "garbage", {}, headers={"X-Request-Id": "refused"})
    server.ask("GET", "/", headers={"Connection": "Upgrade", "Upgrade": "websocket"})
    server.stop()
    events = server.events()
    assert all({"time", "level", "event"} <= set(event) for event in events)
    by_id = {event["request"]: event for event in events if event["event"] == "request"}
    assert (by_id["seen"]["op"], by_id["seen"]["outcome"], by_id["seen"]["status"]) == ("memory.get", "ok", 200)
    assert (by_id["refused"]["outcome"], by_id["refused"]["status"]) == ("cap_malformed", 401)
    assert events[0]["event"] == "listening"
    assert events[-1]["event"] == "stopped"


@pytest.mark.requirement("server-logs")
def test_defect_is_named_by_its_kind_alone(
    start: StartThread, vault: Vault, cap: Token, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever a foreign exception says stays where it is: not in the answer, not in the log, not on stderr."""
    running = start()

    def broken(*_: Any, **__: Any) -> Any:
        raise RuntimeError(f"{MARK} in a message")

    monkeypatch.setattr(vault._state.gate, "admit", broken)
    answer = running.ask("POST", GET, cap, {}, headers={"X-Request-Id": "defect"})
    monkeypatch.undo()
    assert answer.outcome == (500, "server_defect")
    assert MARK not in answer.body.decode()
    fields = [getattr(record, "fields", {}) for record in caplog.records if record.getMessage() == "defect"]
    assert [(one["kind"], one["request"]) for one in fields] == [("RuntimeError", "defect")]
    assert MARK not in caplog.text
    assert running.ask("POST", GET, cap, {}).status == 200
