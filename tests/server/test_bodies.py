"""Bodies that no client of ours would send: each gets the right status and reason, in the one shape, and no more.

The cap comes first: with a cap that does not allow the call, a bad body is refused for the cap.
"""

from __future__ import annotations

import gc
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from strongroom import Token, Vault, model
from strongroom.errors import StrongroomError
from tests.conftest import ALL_OPS, NAMESPACES
from tests.server.conftest import StartThread
from tests.server.running import Running
from tests.server.talking import Answer, request

BAD = (400, "invalid_request")
GET, PUT, FORGET, PROFILE = "/v1/memory/get", "/v1/memory/put", "/v1/memory/forget", "/v1/memory/profile"


def line(**fields: Any) -> bytes:
    return json.dumps({"lines": [{"text": "x", "namespace": "work", **fields}]}).encode()


UNREADABLE = {
    "cut": (GET, b'{"query": "x"'),
    "two values": (GET, b"{}{}"),
    "a list": (GET, b"[]"),
    "null": (GET, b"null"),
    "a text": (GET, b'"x"'),
    "spaces only": (GET, b"   "),
    "a byte order mark": (GET, b"\xef\xbb\xbf{}"),
    "UTF-16": (GET, '{"query": "x"}'.encode("utf-16")),
    "a comment": (GET, b'{"query": "x" /* y */}'),
    "a comma too many": (GET, b'{"query": "x",}'),
    "single quotes": (GET, b"{'query': 'x'}"),
    "a number for a text": (GET, b'{"query": 1}'),
    "a text for a number": (GET, b'{"k": "5"}'),
    "a float for an integer": (GET, b'{"k": 5.5}'),
    "true for an integer": (GET, b'{"k": true}'),
    "a text for a list": (GET, b'{"namespaces": "work"}'),
    "null in a list": (GET, b'{"namespaces": [null]}'),
    "an unknown field": (GET, b'{"filters": {}}'),
    "a field in another case": (GET, b'{"Query": "x"}'),
    "an unknown field of a line": (PUT, line(actor="local/bob")),
    "provenance from outside": (PUT, line(provenance={"source": "owner"})),
    "a missing field": (PUT, b"{}"),
    "nothing to put": (PUT, b'{"lines": []}'),
    "NaN": (GET, b'{"patience": NaN}'),
    "Infinity": (GET, b'{"patience": Infinity}'),
    "a float too large": (GET, b'{"patience": 1e999}'),
    "a float nearly too large": (GET, b'{"patience": 1e308}'),
    "5,000 digits": (GET, b'{"k": ' + b"9" * 5000 + b"}"),
    "5,000 digits for a float": (GET, b'{"patience": ' + b"9" * 5000 + b"}"),
    "100,000 brackets": (GET, b"[" * 100_000),
    "100,000 brackets in a field": (GET, b'{"k": ' + b"[" * 100_000),
    "100,000 braces": (GET, b'{"a":' * 100_000),
    "100,000 brackets in an unknown field": (GET, b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    "a lone surrogate": (GET, b'{"query": "\\ud800"}'),
    "half a pair": (GET, b'{"query": "\\ud800\\u0041"}'),
    "invalid UTF-8": (GET, b'{"query": "\xff"}'),
    "an overlong encoding": (GET, b'{"query": "\xc0\xaf"}'),
    "a surrogate in UTF-8": (GET, b'{"query": "\xed\xa0\x80"}'),
    "invalid UTF-8 in a name": (GET, b'{"\xff": 1}'),
    "a control character": (GET, b'{"query": "\\u0000"}'),
    "a raw control character": (GET, b'{"query": "\x00"}'),
    "a day that is none": (GET, b'{"now": "2026-02-30T00:00:00Z"}'),
    "a time without a zone": (GET, b'{"now": "2026-02-20T00:00:00"}'),
    "the first moment there is": (GET, b'{"now": "0001-01-01T00:00:00+23:59"}'),
    "the last moment there is": (GET, b'{"now": "9999-12-31T23:59:59-23:59"}'),
    "seconds instead of a time": (GET, b'{"now": 1779440000}'),
    "an id that is none": (GET, b'{"ids": ["../keys/root"]}'),
    "a namespace that is none": (GET, b'{"namespaces": ["../personal"]}'),
    "a kind that is none": (PUT, line(kind="secret")),
}


@pytest.mark.requirement("server-bad-bodies")
@pytest.mark.parametrize(("path", "body"), UNREADABLE.values(), ids=UNREADABLE)
def test_body_that_is_no_call_is_an_invalid_request(served: Running, alice: Token, path: str, body: bytes) -> None:
    answer = served.ask("POST", path, alice, raw=body)
    assert answer.outcome == BAD
    assert not leaks(answer, body)


@pytest.mark.requirement("server-bad-bodies", "server-audit")
def test_body_that_is_no_call_is_on_record_under_its_own_op(served: Running, alice: Token) -> None:
    size = served.vault.audit.size()
    served.ask("POST", PUT, alice, raw=b"{", headers={"X-Request-Id": "unreadable"})
    (entry,) = (entry for _, entry in served.vault.audit.entries(size) if entry is not None)
    assert (entry.request, entry.op, entry.decision, entry.reason) == ("unreadable", "put", "deny", "invalid_request")
    assert entry.data_class == "memory"


@pytest.mark.requirement("server-bad-bodies", "gate-order")
@pytest.mark.parametrize(("path", "body"), UNREADABLE.values(), ids=UNREADABLE)
def test_cap_is_refused_before_the_body(served: Running, module_vault: Vault, path: str, body: bytes) -> None:
    other = module_vault.mint(actor="local/alice", ops=["list"], namespaces=["work"], ttl=3600)
    assert served.ask("POST", path, other, raw=body).outcome == (403, "cap_op_mismatch")
    assert served.ask("POST", path, "garbage", raw=body).outcome == (401, "cap_malformed")
    assert served.ask("POST", path, None, raw=body).outcome == (401, "cap_missing")


@pytest.mark.requirement("server-bad-bodies")
def test_too_much_of_something_is_named(served: Running, alice: Token) -> None:
    for path, body, reason in (
        (GET, {"k": 21}, "too_many"),
        (GET, {"k": 10**100}, "too_many"),
        (GET, {"query": "x" * 9000}, "line_too_large"),
        ("/v1/memory/list", {"limit": 10**30}, "too_many"),
        (PUT, {"lines": [{"text": "x" * (model.LINE_LIMIT + 1), "namespace": "work"}]}, "line_too_large"),
        (PUT, {"lines": [{"text": "x", "namespace": "work"}] * 257}, "too_many"),
    ):
        assert served.ask("POST", path, alice, body).outcome == (400, reason)


@pytest.mark.requirement("server-bad-bodies")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        (GET, b'{"query": "x", "query": "y"}'),
        (GET, b'{"query": "x", "k": 1, "\\u0071uery": "x"}'),
        (PUT, b'{"lines": [{"text": "x", "namespace": "work", "namespace": "travel"}]}'),
        (PUT, b'{"lines": [{"text": "' + b"x" * 70_000 + b'"}, {"text": "y", "text": "z"}]}'),
        (FORGET, b'{"ids": null, "ids": null}'),
    ],
)
def test_body_with_a_key_twice_is_refused_by_its_name(served: Running, alice: Token, path: str, body: bytes) -> None:
    size = served.vault.audit.size()
    answer = served.ask("POST", path, alice, raw=body)
    assert answer.outcome == BAD
    assert re.search("`(query|namespace|text|ids)`", answer.json["message"])
    (entry,) = (entry for _, entry in served.vault.audit.entries(size) if entry is not None)
    assert (entry.decision, entry.reason) == ("deny", "invalid_request")


@pytest.mark.requirement("server-bad-bodies")
def test_profile_with_its_text_twice_is_refused(served: Running, alice: Token) -> None:
    body = b'{"text": "one", "text": "other"}'
    assert served.ask("PUT", f"{PROFILE}?namespace=work", alice, raw=body).outcome == BAD


@pytest.mark.requirement("server-bad-bodies")
@pytest.mark.parametrize("first", [True, False])
def test_doubled_key_is_refused_whichever_the_cap_allows(served: Running, module_vault: Vault, first: bool) -> None:
    """Of two readers one may take the first and the other the last: nobody reads it, whichever the cap allows."""
    cap = module_vault.mint(actor="local/alice", ops=["list"], namespaces=["travel"], ttl=3600)
    served.vault.memory(module_vault.mint(actor="local/alice", ops=["put"], namespaces=["personal"])).put("secret")
    names = ['["personal"]', '["travel"]']
    one, other = names if first else reversed(names)
    answer = served.ask("POST", "/v1/memory/list", cap, raw=f'{{"namespaces": {one}, "namespaces": {other}}}'.encode())
    assert answer.outcome == BAD


@pytest.mark.requirement("server-bad-bodies")
def test_empty_body_is_a_call_without_fields(served: Running, alice: Token) -> None:
    assert served.ask("POST", GET, alice).outcome == (200, "")
    assert served.ask("POST", "/v1/memory/snapshot", alice, headers={"Content-Type": "text/plain"}).status == 200
    assert served.ask("POST", PUT, alice).outcome == BAD
    assert served.ask("PUT", f"{PROFILE}?namespace=work", alice).outcome == BAD


@pytest.mark.requirement("server-bad-bodies")
@pytest.mark.parametrize("method", ["GET"])
@pytest.mark.parametrize("path", [f"{PROFILE}?namespace=work", "/healthz", "/openapi.json"])
def test_get_with_a_body_is_refused(served: Running, alice: Token, method: str, path: str) -> None:
    assert served.ask(method, path, alice, {}).outcome == BAD


@pytest.mark.requirement("server-bad-bodies")
@pytest.mark.parametrize(
    "kind",
    [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/json-patch+json",
        "text/json",
        "json",
        "",
        "application/jsonx",
        "text/plain, application/json",
    ],
)
def test_body_of_another_type_is_refused(served: Running, alice: Token, kind: str) -> None:
    assert served.ask("POST", GET, alice, {}, headers={"Content-Type": kind}).outcome == (415, "media_type_refused")


@pytest.mark.requirement("server-bad-bodies")
def test_json_is_taken_by_any_of_its_spellings(served: Running, alice: Token) -> None:
    for kind in ("application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;x=y"):
        assert served.ask("POST", GET, alice, {}, headers={"Content-Type": kind}).status == 200


@pytest.mark.requirement("server-bad-bodies")
def test_packed_body_is_not_unpacked(served: Running, alice: Token) -> None:
    import gzip

    packed = gzip.compress(b'{"query": "' + b"a" * 1_000_000 + b'"}')
    answer = served.ask("POST", GET, alice, raw=packed, headers={"Content-Encoding": "gzip"})
    assert answer.outcome in (BAD, (415, "media_type_refused"))


@pytest.mark.requirement("server-bad-bodies")
@pytest.mark.parametrize(
    "query",
    [
        "namespace=work&namespace=travel",
        "namespace=work&actor=local/bob",
        "actor=local/bob",
        "Namespace=work",
        "namespace",
        "work",
        "namespace=work;namespace=travel",
        "namespace=%ff",
        "namespace=work%00",
        "namespace=",
        "&" * 5000,
    ],
)
def test_query_says_at_most_one_namespace(served: Running, alice: Token, query: str) -> None:
    assert served.ask("GET", f"{PROFILE}?{query}", alice).outcome == BAD
    assert served.ask("PUT", f"{PROFILE}?{query}", alice, {"text": "x"}).outcome == BAD


@pytest.mark.requirement("server-bad-bodies")
def test_other_routes_take_no_query(served: Running, alice: Token) -> None:
    assert served.ask("POST", f"{GET}?query=x", alice, {}).outcome == BAD


@pytest.mark.requirement("server-bad-bodies", "profile-cas")
@pytest.mark.parametrize(
    "tag", ["*", "x", '"x"', "0" * 32, f'W/"{"0" * 32}"', f'"{"0" * 32}", "{"1" * 32}"', f'"{"G" * 32}"', '""']
)
def test_if_match_that_is_no_single_etag_is_refused(served: Running, alice: Token, tag: str) -> None:
    given = {"If-Match": tag}
    assert served.ask("PUT", f"{PROFILE}?namespace=work", alice, {"text": "x"}, headers=given).outcome == BAD


@pytest.mark.requirement("profile-cas")
def test_profile_is_written_by_its_etag_only(start: StartThread, cap: Token) -> None:
    running, where = start(), f"{PROFILE}?namespace=work"
    assert "etag" not in running.ask("GET", where, cap).headers
    first = running.ask("PUT", where, cap, {"text": "one"}, headers={"If-None-Match": "*"})
    etag = first.headers["etag"]
    assert etag == f'"{first.json["version"]}"' == running.ask("GET", where, cap).headers["etag"]
    for stale in ({}, {"If-None-Match": "*"}, {"If-Match": f'"{"0" * 32}"'}):
        refused = running.ask("PUT", where, cap, {"text": "two"}, headers=stale)
        assert refused.outcome == (412, "version_conflict")
        assert "etag" not in refused.headers
    assert running.ask("PUT", where, cap, {"text": "two"}, headers={"If-None-Match": etag}).outcome == BAD
    assert running.ask("PUT", where, cap, {"text": "two"}, headers={"If-Match": etag}).status == 200
    assert running.ask("GET", where, cap).json["text"] == "two"


# Sizes.


@pytest.mark.requirement("server-body-limit")
def test_body_that_says_it_is_too_large_is_refused_unread(start: StartThread, cap: Token) -> None:
    running = start(body_limit=1000)
    for size in (1001, 10**9, 2**62):
        with running.connect() as connection:
            connection.send(request("POST", GET, cap, headers={"Content-Length": str(size)}))
            answer = connection.answer()
            assert answer.outcome == (413, "body_too_large")
            assert connection.ended()


@pytest.mark.requirement("server-body-limit")
def test_body_at_the_limit_is_read(start: StartThread, cap: Token) -> None:
    running = start(body_limit=1000)
    body = b"{}" + b" " * 998
    assert running.ask("POST", GET, cap, raw=body).status == 200
    assert running.ask("POST", GET, cap, raw=body + b" ").outcome == (413, "body_too_large")


def chunked(cap: str, *chunks: bytes) -> bytes:
    head = request("POST", GET, cap, headers={"Content-Length": None, "Transfer-Encoding": "chunked"})  # type: ignore[dict-item]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)


@pytest.mark.requirement("server-body-limit")
@pytest.mark.parametrize("chunks", [[b" " * 1001], [b" " * 501] * 2, [b" "] * 1001], ids=["one", "two", "many"])
def test_chunked_body_over_the_limit_is_refused(start: StartThread, cap: Token, chunks: list[bytes]) -> None:
    running = start(body_limit=1000)
    with running.connect() as connection:
        connection.send(chunked(cap, *chunks) + b"0\r\n\r\n")
        assert connection.answer().outcome == (413, "body_too_large")


@pytest.mark.requirement("server-body-limit")
def test_endless_chunked_body_is_cut_off(start: StartThread, cap: Token) -> None:
    running = start(body_limit=1_000_000)
    with running.connect() as connection:
        connection.send(chunked(cap, *[b" " * 50_000] * 100))
        assert connection.answer().outcome == (413, "body_too_large")
        assert connection.ended()


@pytest.mark.requirement("server-body-limit")
@pytest.mark.parametrize("token", [None, "garbage"])
def test_body_without_a_valid_cap_is_read_only_a_little(start: StartThread, token: str | None) -> None:
    running = start(unproven_limit=1000, body_limit=10**9)
    expected = (401, "cap_missing" if token is None else "cap_malformed")
    with running.connect() as connection:
        connection.send(request("POST", PUT, token, headers={"Content-Length": "1000000"}) + b"{" * 10)
        assert connection.answer().outcome == expected
    with running.connect() as connection:
        connection.send(chunked(token or "", b" " * 200_000, b" " * 200_000))
        assert connection.answer().outcome[0] == 401


@pytest.mark.requirement("server-body-limit")
def test_largest_batch_there_is_fits(served: Running, alice: Token) -> None:
    lines = [{"text": chr(233) * (model.LINE_LIMIT // 2), "namespace": "work"}] * 100
    assert served.ask("POST", PUT, alice, raw=json.dumps({"lines": lines}, ensure_ascii=False).encode()).status == 200


def leaks(answer: Answer, body: bytes) -> bool:
    """Whether an answer repeats a piece of what was sent, or names a class or a module of ours."""
    said = answer.body.decode()
    return any(word in said for word in ("msgspec", "Struct", "Error", "/site-packages/", "strongroom.")) or (
        len(body) > 20 and body[2:22].decode("latin-1") in said
    )


@pytest.fixture
def _no_collection() -> Iterator[None]:
    """Only what nothing refers to is freed. A server with much in RAM looks for cycles rarely."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.requirement("server-memory")
@pytest.mark.usefixtures("_no_collection")
@pytest.mark.parametrize(
    ("path", "body"),
    [(PUT, {"lines": "none"}), (PUT, {"lines": []}), (GET, {"query": "q" * 100_000})],
    ids=["no call", "refused at once", "refused on a slow thread"],
)
def test_refused_body_is_let_go_of_at_once(served: Running, alice: Token, path: str, body: Any) -> None:
    """Each that stays costs up to 16 MiB. The error of a refusal leads to the frames that hold its body."""
    before = _errors()
    with served.connect() as connection:
        for _ in range(5):
            connection.send(request("POST", path, alice, body))
            assert 400 <= connection.answer().status < 500
        served.ask("GET", "/healthz")
        assert _errors() == before


def _errors() -> int:
    # By its type: an object that another test has left may raise where `isinstance` asks it for its class.
    return sum(issubclass(type(one), StrongroomError) for one in gc.get_objects())


@pytest.mark.requirement("server-bad-bodies")
def test_erasure_without_a_body_is_refused(start: StartThread, vault: Vault) -> None:
    token = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    vault.memory(token).put("a line", namespace="travel")
    running = start()
    assert running.ask("POST", "/v1/memory/erase", token).outcome == (400, "invalid_request")
    assert running.ask("POST", "/v1/memory/erase", token, {}).status == 200


@pytest.mark.requirement("server-memory")
def test_large_bodies_share_a_bound(start: StartThread, cap: Token) -> None:
    running = start(bodies_limit=100_000, unproven_limit=1000)
    big = {"query": "x" * 7000}
    assert running.ask("POST", "/v1/memory/get", cap, big).status == 200
    too_big = request("POST", "/v1/memory/get", cap, headers={"Content-Length": "150000"})
    with running.connect() as connection:
        connection.send(too_big)
        assert connection.answer().outcome == (503, "server_unavailable")
    assert [running.ask("POST", "/v1/memory/get", cap, big).status for _ in range(20)] == [200] * 20


@pytest.mark.requirement("server-memory", "server-fair")
def test_one_caps_large_bodies_leave_room_for_anothers(start: StartThread, vault: Vault, cap: Token) -> None:
    other = vault.mint(actor="local/bob", ops=["get"], namespaces=["work"], ttl=3600)
    running = start(bodies_limit=100_000, unproven_limit=1000)
    large = {"Content-Length": "45000", "Content-Type": "application/json"}
    with running.connect() as held, running.connect() as second, running.connect() as third:
        held.send(request("POST", "/v1/memory/get", cap, headers=large))
        while not running.app._calls._room._taken:
            pass
        second.send(request("POST", "/v1/memory/get", cap, headers=large))
        assert second.answer().outcome == (503, "server_unavailable")
        third.send(request("POST", "/v1/memory/get", other, raw=b'{"query": "x"' + b" " * 44_986 + b"}"))
        assert third.answer().status == 200
    while running.app._calls._room._taken:
        pass
    assert running.ask("POST", "/v1/memory/get", cap, raw=b'{"query": "x"' + b" " * 44_986 + b"}").status == 200
