"""Fuzzing what reads bytes from outside: tokens, heads, bodies, and the connection as a whole.

200,000 inputs in `make test-long`, 2,000 in `make test`: none raises anything but an error of ours, and none costs more
than 50 times the median CPU of inputs of its size (`fuzz` says how that is measured).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import msgspec
import pytest

from strongroom import NewLine, Token, api
from strongroom.caps import chain as caps
from strongroom.server.http.request_parser import HttpRequest, Reader, reader_of
from strongroom.server.server_options import Options
from tests.server.conftest import StartThread
from tests.server.fuzz import TOO_DEAR, fuzz, mutated
from tests.server.running import Running
from tests.server.talking import Connection, refusal, request

NORMAL, LONG = 2_000, 200_000
SEED = 20_260_522
NOW = 1_779_440_000


def token(links: int) -> bytes:
    """A cap of so many links, the same each time but for its keys."""
    made = caps.mint(
        issuer_seed=bytes(32),
        audience="vault",
        jti=bytes(16),
        holder_seed=bytes(31) + b"\1",
        now=NOW,
        ttl=3600,
        ops=["get", "put"],
        namespaces=["travel", "work"],
        actor="local/alice",
        session="s-1",
        label="a label",
    )
    for number in range(2, links + 1):
        made = caps.attenuate(made, now=NOW, jti=bytes(16), holder_seed=bytes(31) + bytes([number]), ops=["get"])
    return str.__str__(made).encode()


TOKENS = [token(links) for links in (1, 2, 4, 8)]


# Bodies.

LINE = NewLine(text="a trip to Lisbon — “soon”", namespace="travel", session="s", author="alice", kind="fact")
CALLS: dict[type[api.Call[Any]], api.Call[Any]] = {
    api.Put: api.Put(lines=(LINE, LINE)),
    api.Deliver: api.Deliver(sealed=bytes(range(256))),
    api.Observe: api.Observe(what="terminal", digest="a" * 64),
    api.Get: api.Get(query="where am I going?", k=3, namespaces=("travel",), session="s", patience=0.5),
    api.List: api.List(namespaces=("travel", "work"), kind="fact", limit=10),
    api.TakeSnapshot: api.TakeSnapshot(namespaces=("travel",)),
    api.ReadDocument: api.ReadDocument(key="notes/trip.md", namespace="travel"),
    api.WriteDocument: api.WriteDocument(
        key="notes/trip.md",
        text="x",
        namespace="travel",
        version="01JABCDEFGHJKMNPQRSTVWXYZ0",
        tags=("a",),
        meta={"b": 1},
        unused=True,
    ),
    api.ListDocuments: api.ListDocuments(prefix="notes/", namespaces=("travel",), limit=10, after="travel/notes/a"),
    api.DeleteDocument: api.DeleteDocument(key="notes/trip.md", version="01JABCDEFGHJKMNPQRSTVWXYZ0"),
    api.RenameDocument: api.RenameDocument(key="a", new_key="b", version="01JABCDEFGHJKMNPQRSTVWXYZ0"),
    api.ReadDocumentHistory: api.ReadDocumentHistory(key="notes/trip.md", namespace="travel"),
    api.Replace: api.Replace(id="01JABCDEFGHJKMNPQRSTVWXYZ0", text="x", tags=("a",), forget=True),
    api.ReadHistory: api.ReadHistory(id="01JABCDEFGHJKMNPQRSTVWXYZ0", namespace="travel"),
    api.Forget: api.Forget(ids=("01JABCDEFGHJKMNPQRSTVWXYZ0",), link="a" * 64),
    api.Erase: api.Erase(namespaces=("travel",), everything=True),
    api.Renew: api.Renew(),
    api.Mint: api.Mint(ops=("get",), namespaces=("travel",), actor="local/alice", max_k=3, label="x"),
    api.ListCaps: api.ListCaps(),
    api.Revoke: api.Revoke(link="a" * 64),
    api.ReadEntries: api.ReadEntries(start=1, limit=2),
    api.SignCheckpoint: api.SignCheckpoint(),
    api.Prove: api.Prove(index=3),
    api.ReadStatus: api.ReadStatus(),
}
TIMES = b'{"since":"2026-05-22T08:53:20.123456+02:00","until":"2026-05-23T00:00:00Z","namespaces":["work"]}'


# Reading a request, as far as the gate.

OPTIONS = Options()
GOOD_HEAD = b"\n\n".join(
    (
        b"localhost:8765",
        b"Bearer " + TOKENS[1],
        b"application/json",
        b"12",
        b"namespace=work",
        b'"' + b"0" * 32 + b'"',
        b"id-1",
    )
)
_NAMES = (b"host", b"authorization", b"content-type", b"content-length", b"query", b"if-match", b"x-request-id")


async def nothing() -> dict[str, Any]:
    return {"type": "http.disconnect"}


def read(read_call: Reader, headers: list[tuple[bytes, bytes]], query: bytes, body: bytes) -> object:
    """All that the server does with a request's bytes before it asks the gate, in its order."""
    scope = {"method": "PUT", "path": "/", "query_string": query, "headers": headers, "client": None}
    asked = HttpRequest(scope, nothing)
    asked.check_head(OPTIONS)
    caps.parse(asked.cap())
    asked.check_json()
    return read_call(asked, body)


def head_reader(kind: type[api.Call[Any]]) -> Callable[[bytes], object]:
    """Reads a request whose head is made of the input's parts."""
    read_call = reader_of(kind)

    def target(given: bytes) -> object:
        named = dict(zip(_NAMES, given.split(b"\n\n"), strict=False))
        query = named.pop(b"query", b"")
        return read(read_call, [(name, value) for name, value in named.items() if value], query, b'{"text": "x"}')

    return target


def token_reader(kind: type[api.Call[Any]]) -> Callable[[bytes], object]:
    """Reads a request whose cap is the input."""
    read_call = reader_of(kind)
    return lambda given: read(read_call, [*HEADERS, (b"authorization", b"Bearer " + given)], b"", b"{}")


def body_reader(kind: type[api.Call[Any]]) -> Callable[[bytes], object]:
    """Reads a request whose body is the input."""
    read_call, headers = reader_of(kind), [*HEADERS, (b"authorization", b"Bearer " + TOKENS[1])]
    return lambda given: read(read_call, headers, b"", given)


HEADERS = [(b"host", b"localhost:8765"), (b"content-type", b"application/json"), (b"content-length", b"2")]

TARGETS: dict[str, tuple[Callable[[bytes], object], list[bytes]]] = {
    "token": (token_reader(api.Get), TOKENS),
    "head": (head_reader(api.WriteProfile), [GOOD_HEAD]),
    **{
        kind.__name__: (
            body_reader(kind),
            [msgspec.json.encode(call), b"{}" if kind is api.Get else msgspec.json.encode(call)]
            + ([TIMES] if kind in (api.List, api.Forget) else []),
        )
        for kind, call in CALLS.items()
    },
}


def test_every_call_with_a_body_is_fuzzed() -> None:
    others = {api.ReadProfile, api.WriteProfile, api.ReadInbox}
    assert set(CALLS) == set(api.CALLS) - others
    assert all(type(call) is kind for kind, call in CALLS.items())


@pytest.mark.requirement("server-fuzz")
def test_measure_finds_an_input_that_costs_too_much_and_one_that_breaks() -> None:
    def dear(given: bytes) -> None:
        if b"\xff" in given:
            sum(range(1_000_000))

    def broken(given: bytes) -> None:
        if b"\xff" in given:
            raise UnicodeError

    assert all(b"\xff" in given for _, given in fuzz(dear, [b"a" * 64], 200, SEED).too_dear())
    assert next(fuzz(dear, [b"a" * 64], 200, SEED).too_dear())[0] > TOO_DEAR
    with pytest.raises(UnicodeError):
        fuzz(broken, [b"a" * 64], 200, SEED)


def check(name: str, count: int) -> None:
    target, corpus = TARGETS[name]
    costs = fuzz(target, corpus, count, SEED)
    assert sum(map(len, costs.spent.values())) == count
    assert [(round(ratio), given[:80]) for ratio, given in costs.too_dear()] == []


@pytest.mark.requirement("server-fuzz")
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_raises_anything_else_nor_costs_too_much(name: str) -> None:
    check(name, NORMAL // (1 if name in ("token", "head") else 4))


@pytest.mark.long
@pytest.mark.requirement("server-fuzz")
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_of_very_many_raises_anything_else_nor_costs_too_much(name: str) -> None:
    check(name, LONG if name in ("token", "head") else LONG // 4)


# The whole connection.


def check_connection(running: Running, alice: Token, count: int) -> None:
    """Mutated requests on real connections, 50 at once: an answer of the one shape, or none, and the server lives."""
    corpus = [
        request("POST", "/v1/memory/get", alice, {"query": "x"}),
        request("GET", "/healthz"),
        request("PUT", "/v1/memory/profile?namespace=work", alice, {"text": "x"}, headers={"If-Match": '"x"'}),
        request("POST", "/v1/memory/put", "x").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked")
        + b"0\r\n\r\n",
    ]
    dice, heard = random.Random(SEED), Counter[int]()
    for _ in range(count // 50):
        with ExitStack() as stack:
            connections = [stack.enter_context(running.connect()) for _ in range(50)]
            for connection in connections:
                connection.send(mutated(dice, corpus))
            heard.update(filter(None, map(heard_status, connections)))
    assert min(heard[200], heard[400], heard[401]) > 0
    assert not [status for status in heard if status >= 500]
    assert running.ask("POST", "/v1/memory/get", alice, {}).status == 200


def heard_status(connection: Connection) -> int | None:
    """The status of an answer, whose shape is checked; None where the server hung up."""
    try:
        answer = connection.answer()
    except (EOFError, ConnectionError):
        return None
    if answer.status >= 400 and answer.body:
        refusal(answer.body, answer.status)
    return answer.status


@pytest.mark.requirement("server-fuzz")
def test_mutated_requests_get_an_answer_of_the_one_shape_or_none(start: StartThread, cap: Token) -> None:
    check_connection(start(head_seconds=0.2, body_seconds=0.2, idle_seconds=1), cap, NORMAL // 2)


@pytest.mark.long
@pytest.mark.requirement("server-fuzz")
def test_very_many_mutated_requests_get_an_answer_of_the_one_shape_or_none(start: StartThread, cap: Token) -> None:
    check_connection(start(head_seconds=0.2, body_seconds=0.2, idle_seconds=1), cap, LONG // 10)


@pytest.mark.requirement("server-fuzz")
def test_random_bytes_are_refused_or_hung_up_on(served: Running) -> None:
    for size in (1, 10, 1000, 100_000):
        with Connection(served.address) as connection:
            connection.send(os.urandom(size) + b"\r\n\r\n")
            with suppress(OSError):  # it may have hung up by now
                connection.socket.shutdown(1)
            with suppress(EOFError, ConnectionError):
                assert connection.answer().outcome in ((400, "invalid_request"), (431, "headers_too_large"))
