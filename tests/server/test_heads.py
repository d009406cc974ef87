"""Heads of requests as an attacker writes them: smuggling, other Hosts and Origins, strange targets and methods.

What two readers could read in two ways is refused; nothing of it reaches a route.
"""

from __future__ import annotations

import pytest

from strongroom import Token, Vault
from strongroom.server.http.application import Application
from tests.conftest import ALL_OPS, NAMESPACES
from tests.server.conftest import StartThread
from tests.server.running import Running
from tests.server.talking import Answer, Connection, exchange, request

UNREADABLE = (400, "invalid_request")
GET = "/v1/memory/get"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"


def posting(cap: str, extra: bytes, body: bytes = b"{}") -> bytes:
    """A call whose framing the test writes itself."""
    head = (
        f"POST {GET} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {cap}\r\nContent-Type: application/json\r\n"
    )
    return head.encode() + extra + b"\r\n" + body


CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"
FRAMING = {
    "length and chunks": (b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n", CHUNKS),
    "chunks and length": (b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n", CHUNKS),
    "two lengths": (b"Content-Length: 2\r\nContent-Length: 3\r\n", b"{} "),
    "two equal lengths": (b"Content-Length: 2\r\nContent-Length: 2\r\n", b"{}"),
    "a list of lengths": (b"Content-Length: 2, 2\r\n", b"{}"),
    "a length with a sign": (b"Content-Length: +2\r\n", b"{}"),
    "a negative length": (b"Content-Length: -2\r\n", b"{}"),
    "a length in hex": (b"Content-Length: 0x2\r\n", b"{}"),
    "a length of 26 digits": (b"Content-Length: " + b"9" * 26 + b"\r\n", b"{}"),
    "an empty length": (b"Content-Length:\r\n", b"{}"),
    "a length with a space": (b"Content-Length: 2 2\r\n", b"{}"),
    "chunked twice": (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", CHUNKS),
    "chunked not last": (b"Transfer-Encoding: chunked, gzip\r\n", CHUNKS),
    "packed and chunked": (b"Transfer-Encoding: gzip, chunked\r\n", CHUNKS),
    "nearly chunked": (b"Transfer-Encoding: xchunked\r\n", CHUNKS),
    "identity": (b"Transfer-Encoding: identity\r\n", b"{}"),
    "chunked behind a tab": (b"Transfer-Encoding:\tchunked\r\nContent-Length: 2\r\n", CHUNKS),
    "a space before the colon": (b"Transfer-Encoding : chunked\r\n", CHUNKS),
    "a tab before the colon": (b"Content-Length\t: 2\r\n", b"{}"),
    "a folded line": (b"Content-Length: 2\r\nX-A: b\r\n c\r\n", b"{}"),
    "a folded length": (b"Content-Length:\r\n 2\r\n", b"{}"),
    "a bare line feed": (b"Content-Length: 2\nX-A: b\r\n", b"{}"),
    "a bare carriage return": (b"Content-Length: 2\r\nX-A: b\rc\r\n", b"{}"),
    "a NUL": (b"Content-Length: 2\r\nX-A: b\0c\r\n", b"{}"),
    "a line without a colon": (b"Content-Length: 2\r\nNothing\r\n", b"{}"),
    "a header without a name": (b"Content-Length: 2\r\n: x\r\n", b"{}"),
    "a name that is no token": (b"Content-Length: 2\r\nX(A): b\r\n", b"{}"),
    "a chunk size that is none": (b"Transfer-Encoding: chunked\r\n", b"zz\r\n{}\r\n0\r\n\r\n"),
    "a chunk size of 17 digits": (b"Transfer-Encoding: chunked\r\n", b"f" * 17 + b"\r\n{}\r\n0\r\n\r\n"),
    "a negative chunk": (b"Transfer-Encoding: chunked\r\n", b"-2\r\n{}\r\n0\r\n\r\n"),
    "chunks with bare line feeds": (b"Transfer-Encoding: chunked\r\n", b"2\n{}\n0\n\n"),
    "a chunk longer than it says": (b"Transfer-Encoding: chunked\r\n", b"1\r\n{}\r\n0\r\n\r\n"),
}


@pytest.mark.requirement("server-smuggling")
@pytest.mark.parametrize(("extra", "body"), FRAMING.values(), ids=FRAMING)
def test_framing_that_can_be_read_in_two_ways_is_refused(
    served: Running, alice: Token, extra: bytes, body: bytes
) -> None:
    smuggled = HEALTH + b"\r\n"
    with served.connect() as connection:
        connection.send(posting(alice, extra, body) + smuggled)
        assert connection.answer().outcome == UNREADABLE
        assert connection.ended()  # what came behind it is not read as a request


@pytest.mark.requirement("server-smuggling")
def test_chunks_in_a_request_of_http_1_0_are_refused(served: Running, alice: Token) -> None:
    old = posting(alice, b"Transfer-Encoding: chunked\r\n", CHUNKS).replace(b"HTTP/1.1", b"HTTP/1.0")
    assert exchange(served.address, old).outcome == UNREADABLE


@pytest.mark.requirement("server-smuggling")
@pytest.mark.parametrize("trailer", ["Authorization: Bearer {cap}", "Host: localhost", "X-Request-Id: from-a-trailer"])
def test_bytes_behind_the_body_are_no_header(served: Running, alice: Token, trailer: str) -> None:
    """A proxy that checks heads does not look there."""
    lines = ["Host: localhost", f"Authorization: Bearer {alice}"]
    kept = [line for line in lines if line.partition(":")[0] != trailer.partition(":")[0]]
    head = "".join(f"{line}\r\n" for line in [f"POST {GET} HTTP/1.1", *kept, "Content-Type: application/json"])
    tail = f"Transfer-Encoding: chunked\r\n\r\n2\r\n{{}}\r\n0\r\n{trailer.format(cap=alice)}\r\n\r\n"
    answer = exchange(served.address, (head + tail).encode())
    if trailer.startswith("X-"):
        assert answer.headers.get("x-request-id") != "from-a-trailer"
    else:
        assert answer.status in (400, 401, 421)


@pytest.mark.requirement("server-smuggling")
@pytest.mark.parametrize("name", ["Host", "Authorization", "Content-Type", "Origin", "If-Match", "X-Request-Id"])
def test_header_that_counts_comes_once(served: Running, alice: Token, name: str) -> None:
    value = {"Host": "localhost", "Authorization": f"Bearer {alice}", "X-Request-Id": "a"}.get(name, "application/json")
    once = request("POST", GET, alice, {}).replace(f"{name}: {value}\r\n".encode(), b"")
    for one, other in ((name, name), (name, name.swapcase())):
        lines = f"{one}: {value}\r\n{other}: {value}\r\n".encode()
        first, _, rest = once.partition(b"\r\n")
        assert exchange(served.address, first + b"\r\n" + lines + rest).outcome == UNREADABLE


@pytest.mark.requirement("server-smuggling")
def test_pipelined_requests_are_answered_in_order(served: Running, alice: Token) -> None:
    with served.connect() as connection:
        calls = [request("POST", GET, alice, {}, headers={"X-Request-Id": f"p-{n}"}) for n in range(20)]
        connection.send(b"".join(calls))
        assert [connection.answer().headers["x-request-id"] for _ in calls] == [f"p-{n}" for n in range(20)]


@pytest.mark.requirement("server-smuggling")
def test_request_behind_one_that_closes_is_not_answered(served: Running) -> None:
    with served.connect() as connection:
        connection.send(HEALTH + b"Connection: close\r\n\r\n" + HEALTH + b"\r\n")
        assert connection.answer().status == 200
        assert connection.ended()


@pytest.mark.requirement("server-smuggling")
def test_refused_body_is_never_read_as_a_request(served: Running) -> None:
    """The body of a request without a cap looks like a request; nothing may answer it."""
    inner = HEALTH + b"\r\n"
    outer = request("POST", GET, None, raw=inner)
    with served.connect() as connection:
        connection.send(outer + request("GET", "/openapi.json"))
        assert connection.answer().outcome == (401, "cap_missing")
        assert b"openapi" in connection.answer().body[:20]


# Versions, methods, targets.


@pytest.mark.requirement("server-bad-heads")
@pytest.mark.parametrize(
    "line",
    [
        b"GET /healthz",
        b"GET /healthz HTTP/1.2",
        b"GET /healthz HTTP/2.0",
        b"GET /healthz HTTP/3.0",
        b"GET /healthz HTTP/11",
        b"GET /healthz ICY/1.1",
        b"GET /healthz http/1.1",
        b"GET\t/healthz HTTP/1.1",
        b"GET /heal thz HTTP/1.1",
        b" GET /healthz HTTP/1.1",
        b"GET /healthz HTTP/1.1 x",
        b"get /healthz HTTP/1.1",
        b"BREW /healthz HTTP/1.1",
        b"GET healthz HTTP/1.1",
        b"GET \\healthz HTTP/1.1",
        b"GET localhost:80 HTTP/1.1",
        b"CONNECT localhost:80 HTTP/1.1",
        b"GET http:/healthz HTTP/1.1",
        b"GET http:///healthz HTTP/1.1",
        b"GET /\xff HTTP/1.1",
        b"GET /\x00 HTTP/1.1",
        b"PRI * HTTP/2.0",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_request_line_that_is_none_is_refused(served: Running, line: bytes) -> None:
    assert exchange(served.address, line + b"\r\nHost: localhost\r\n\r\n").outcome == UNREADABLE


@pytest.mark.requirement("server-bad-heads")
def test_target_that_names_another_host_is_refused(served: Running) -> None:
    for target in (
        "http://evil.example/healthz",
        "https://evil.example:1/healthz",
        "http://localhost@evil.example/healthz",
    ):
        data = f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
        assert exchange(served.address, data).outcome in (UNREADABLE, (421, "host_refused"))


@pytest.mark.requirement("server-bad-heads")
@pytest.mark.parametrize(
    "path",
    [
        "//healthz",
        "///healthz",
        "/./healthz",
        "/x/../healthz",
        "/%2e/healthz",
        "/x/%2e%2e/healthz",
        "/healthz/",
        "/healthz%2f",
        "/healthz%00",
        "/healthz%",
        "/healthz;x",
        "/HEALTHZ",
        "/%ff",
        "/v1",
        "/v1/memory",
        "/v1/memory/put/",
        "/v1//memory/put",
        "/v1/memory/put%20",
        "/mcp",
        "/docs",
        "//localhost/healthz",
        "/favicon.ico",
    ],
)
def test_path_that_is_no_route_is_unknown(served: Running, alice: Token, path: str) -> None:
    for method, cap in (("GET", None), ("POST", alice), ("OPTIONS", None)):
        answer = served.ask(method, path, cap)
        assert answer.outcome == (404, "unknown_route")
        assert alice not in answer.body.decode()


@pytest.mark.requirement("server-bad-heads")
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "PROPFIND"])
def test_another_method_of_a_route_is_refused_and_the_right_ones_are_named(served: Running, method: str) -> None:
    app: Application = served.app
    for path, methods in app.routes.items():
        if method in methods:
            continue
        answer = served.ask(method, path)
        assert answer.status == 405
        assert method == "HEAD" or answer.reason == "method_refused"
        assert set(answer.headers["allow"].replace(" ", "").split(",")) == set(methods)


@pytest.mark.requirement("server-bad-heads")
@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "X-HTTP-Method", "X-Method-Override"])
def test_header_cannot_change_the_method_or_the_path(served: Running, alice: Token, name: str) -> None:
    answer = served.ask("GET", "/v1/memory/put", alice, headers={name: "POST"})
    assert answer.outcome == (405, "method_refused")
    elsewhere = {"X-Original-URL": GET, "X-Rewrite-URL": GET, "X-Forwarded-Path": GET}
    assert served.ask("GET", "/nowhere", alice, headers=elsewhere).outcome == (404, "unknown_route")


@pytest.mark.requirement("server-bad-heads")
def test_http_1_0_is_answered_once(served: Running) -> None:
    for keep in (b"", b"Connection: keep-alive\r\n"):
        with served.connect() as connection:
            connection.send(b"GET /healthz HTTP/1.0\r\nHost: localhost\r\n" + keep + b"\r\n")
            assert connection.answer().status == 200
            assert connection.ended()


@pytest.mark.requirement("server-bad-heads")
@pytest.mark.parametrize("upgrade", ["websocket", "h2c", "TLS/1.0", "Strongroom"])
def test_upgrade_is_not_made(served: Running, alice: Token, upgrade: str) -> None:
    headers = {"Connection": "Upgrade", "Upgrade": upgrade, "Sec-WebSocket-Key": "x", "Sec-WebSocket-Version": "13"}
    answer = served.ask("POST", GET, alice, {}, headers=headers)
    assert answer.status in (200, 400)
    assert "upgrade" not in answer.headers
    refused = served.ask("POST", GET, None, {}, headers=headers)
    assert refused.status in (400, 401)


@pytest.mark.requirement("server-bad-heads")
def test_body_is_asked_for_only_when_it_is_wanted(served: Running, alice: Token) -> None:
    wanting = {"Expect": "100-continue", "Content-Length": "2"}
    with served.connect() as connection:
        connection.send(request("POST", GET, alice, headers=wanting))
        assert connection.head().startswith(b"HTTP/1.1 100 ")
        connection.send(b"{}")
        assert connection.answer().status == 200
    for headers, cap, status in (({"Content-Length": "99999999"}, alice, 413), ({}, None, 401)):
        with served.connect() as connection:
            connection.send(request("POST", GET, cap, headers={**wanting, **headers}))
            assert connection.head().startswith(f"HTTP/1.1 {status} ".encode())


# Host and Origin.


@pytest.mark.requirement("server-host")
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "",
        "localhost.",
        "localhost.evil.example",
        "evil.example:8765",
        "user@localhost",
        "localhost@evil.example",
        "localhost:80@evil.example",
        "localhost:x",
        "localhost:80:80",
        "localhost/",
        "localhost,evil.example",
        "localhost evil.example",
        "localhost#",
        "[::1",
        "[::1]x",
        "[::1]@evil.example",
        "[localhost]",
        "[127.0.0.1]",
        "::1",
        "127.1",
        "127.0.0.2",
        "0x7f.0.0.1",
        "2130706433",
        "0.0.0.0",
        "loc\xe4lhost",
        "http://localhost",
    ],
)
def test_another_host_is_refused(served: Running, alice: Token, host: str) -> None:
    for path, cap in (("/healthz", None), ("/v1/memory/profile?namespace=work", alice)):
        answer = served.ask("GET", path, cap, headers={"Host": host})
        assert answer.outcome in ((421, "host_refused"), UNREADABLE)


@pytest.mark.requirement("server-host")
def test_request_without_a_host_is_refused(served: Running) -> None:
    for version in (b"1.1", b"1.0"):
        answer = exchange(served.address, b"GET /healthz HTTP/" + version + b"\r\n\r\n")
        assert answer.outcome in ((421, "host_refused"), UNREADABLE)


@pytest.mark.requirement("server-host")
@pytest.mark.parametrize("host", ["localhost", "LocalHost", "localhost:8765", "127.0.0.1:1", "[::1]", "[::1]:8765"])
def test_names_of_this_machine_are_answered(served: Running, host: str) -> None:
    assert served.ask("GET", "/healthz", headers={"Host": host}).status == 200


@pytest.mark.requirement("server-host")
def test_host_is_answered_once_its_operator_named_it(start: StartThread) -> None:
    running = start(hosts=frozenset({"memory.example"}))
    assert running.ask("GET", "/healthz", headers={"Host": "Memory.Example:443"}).status == 200
    assert running.ask("GET", "/healthz", headers={"Host": "localhost"}).outcome == (421, "host_refused")


@pytest.mark.requirement("server-host")
@pytest.mark.parametrize("header", ["X-Forwarded-Host", "Forwarded", "X-Host"])
def test_no_other_header_stands_for_the_host(served: Running, header: str) -> None:
    given = {"Host": "evil.example", header: "localhost"}
    assert served.ask("GET", "/healthz", headers=given).outcome == (421, "host_refused")


@pytest.mark.requirement("server-host")
@pytest.mark.parametrize(
    "origin", ["null", "https://evil.example", "http://localhost", "http://127.0.0.1:8765", "", "file://"]
)
def test_web_page_is_refused_with_any_cap(served: Running, alice: Token, origin: str) -> None:
    for method, path, cap in (("GET", "/healthz", None), ("POST", GET, alice), ("OPTIONS", GET, None)):
        answer = served.ask(method, path, cap, headers={"Origin": origin})
        assert answer.outcome == (403, "origin_refused")
        assert_nothing_for_pages(answer)


@pytest.mark.requirement("server-host")
def test_preflight_gets_nothing_useful(served: Running) -> None:
    asking = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    answer = served.ask("OPTIONS", GET, headers=asking)
    assert answer.outcome == (405, "method_refused")
    assert_nothing_for_pages(answer)


@pytest.mark.requirement("server-host")
def test_origin_is_answered_once_its_operator_named_it(start: StartThread, cap: Token) -> None:
    running = start(origins=frozenset({"https://app.example"}))
    assert running.ask("POST", GET, cap, {}, headers={"Origin": "https://app.example"}).status == 200
    for other in (
        "https://app.example.evil",
        "http://app.example",
        "https://APP.example",
        "https://app.example/",
        "null",
    ):
        assert running.ask("POST", GET, cap, {}, headers={"Origin": other}).outcome == (403, "origin_refused")


def assert_nothing_for_pages(answer: Answer) -> None:
    assert not [name for name in answer.headers if name.startswith("access-control")]


# Sizes of heads.


@pytest.mark.requirement("server-head-limit")
@pytest.mark.parametrize(
    "head",
    [
        HEALTH + b"a: b\r\n" * 20_000 + b"\r\n",
        HEALTH + b"X: " + b"a" * 1_000_000 + b"\r\n\r\n",
        HEALTH + b"X-" + b"a" * 1_000_000 + b": b\r\n\r\n",
        HEALTH + b"Authorization: Bearer " + b"a" * 1_000_000 + b"\r\n\r\n",
        b"GET /" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /healthz?" + b"a" * 1_000_000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        HEALTH + b"X: " + b"a" * 200_000,
        HEALTH + b"a: b\r\n" * 20_000,
        HEALTH + b"X: " + b" " * 200_000,
    ],
    ids=["many", "value", "name", "token", "path", "query", "endless value", "endless headers", "endless spaces"],
)
def test_head_that_is_too_large_is_refused(served: Running, head: bytes) -> None:
    with served.connect() as connection:
        connection.send(head)
        assert connection.answer().outcome == (431, "headers_too_large")
        assert connection.ended()


@pytest.mark.requirement("server-head-limit")
def test_limit_of_a_head_is_exact_enough(start: StartThread) -> None:
    running = start(header_limit=2000)
    for size, status in ((1800, 200), (2100, 431)):
        assert running.ask("GET", "/healthz", headers={"X": "a" * size}).status == status


@pytest.mark.requirement("server-head-limit")
def test_each_request_of_a_connection_has_the_whole_limit(start: StartThread) -> None:
    running = start(header_limit=2000)
    with running.connect() as connection:
        for _ in range(5):
            connection.send(request("GET", "/healthz", headers={"X": "a" * 1500}))
            assert connection.answer().status == 200
        connection.send(request("GET", "/healthz", headers={"X": "a" * 2500}))
        assert connection.answer().outcome == (431, "headers_too_large")


@pytest.mark.requirement("server-bad-heads")
@pytest.mark.parametrize("size", [1, 8192, 8193, 30_000])
def test_garbage_token_of_any_size_is_malformed(served: Running, size: int) -> None:
    for letter in ("a", ".", "~", "\xff", "="):
        assert served.ask("POST", GET, letter * size, {}).outcome == (401, "cap_malformed")


@pytest.mark.requirement("server-bad-heads")
@pytest.mark.parametrize(
    "given", ["Basic x", "bearer", "Bearer", "Bearer ", "Token x", "{cap}", "Bearer  {cap}", "Bearer,{cap}"]
)
def test_cap_comes_as_a_bearer_token_only(served: Running, alice: Token, given: str) -> None:
    answer = served.ask("POST", GET, None, {}, headers={"Authorization": given.format(cap=alice)})
    assert answer.outcome[0] == 401
    assert answer.outcome[1] in ("cap_malformed", "cap_missing")


@pytest.mark.requirement("server-bad-heads")
def test_cap_anywhere_else_is_no_cap(served: Running, alice: Token) -> None:
    for headers in ({"Cookie": f"cap={alice}"}, {"X-Api-Key": alice}, {"Proxy-Authorization": f"Bearer {alice}"}):
        assert served.ask("POST", GET, None, {}, headers=headers).outcome == (401, "cap_missing")
    assert served.ask("POST", f"{GET}?access_token={alice}", None, {}).outcome == (401, "cap_missing")


@pytest.mark.requirement("server-bad-heads")
def test_connection_in_the_middle_of_nothing_hurts_nobody(served: Running, alice: Token) -> None:
    whole = request("POST", GET, alice, {"query": "x"})
    for length in (0, 1, 20, len(whole) // 2, len(whole) - 1, len(whole)):
        with Connection(served.address) as connection:
            connection.send(whole[:length])
    assert served.ask("POST", GET, alice, {}).status == 200


@pytest.mark.requirement("server-smuggling")
@pytest.mark.parametrize("protocol", ["h2c", "websocket", "TLS/1.3", "anything"])
def test_head_that_asks_for_another_protocol_is_refused_and_nothing_is_erased(
    start: StartThread, vault: Vault, protocol: str
) -> None:
    """A parser that stops at such a head drops the body, and a call without one means everything."""
    token = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)
    for namespace in ("personal", "travel"):
        vault.memory(token).put("a line", namespace=namespace)
    running = start()
    upgrade = {"Connection": "Upgrade, HTTP2-Settings", "Upgrade": protocol, "HTTP2-Settings": "AAMAAABk"}
    answer = running.ask("POST", "/v1/memory/erase", token, {"namespaces": ["travel"]}, headers=upgrade)
    assert answer.outcome == (400, "invalid_request")
    assert len(vault.memory(token).list().lines) == 2
