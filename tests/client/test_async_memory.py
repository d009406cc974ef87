"""The asynchronous adapter: the same methods, awaited, over either kind of memory."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import assert_type

import pytest

import strongroom
from strongroom import AsyncMemory, Memory, NewLine, Token, Vault, errors
from strongroom.api import A, Call, Transport
from strongroom.crypto import inbox
from strongroom.memory.document_methods import DocumentMethods
from strongroom.model import Erased, Forgotten, Hit, Listing, Profile, Receipt, Snapshot
from tests.client.served import served
from tests.conftest import ALL_OPS, NAMESPACES, Clock

pytestmark = pytest.mark.requirement("client-async")


@pytest.fixture(params=["embedded", "served"])
def memory(request: pytest.FixtureRequest, vault: Vault, clock: Clock) -> Iterator[Memory]:
    cap = vault.mint(actor="local/alice", ops=[*ALL_OPS, "renew"], namespaces=NAMESPACES)
    with ExitStack() as stack:
        if request.param == "embedded":
            yield vault.memory(cap)
        else:
            yield stack.enter_context(strongroom.connect(stack.enter_context(served(vault)), cap, now=clock))


def test_every_method_can_be_awaited_and_keeps_its_types(memory: Memory) -> None:
    async def steps() -> None:
        async with AsyncMemory(memory) as later:
            receipt = assert_type(await later.put("Trip to Chengdu", namespace="travel"), Receipt)
            assert_type(await later.put_many([NewLine(text="x", namespace="work")]), list[Receipt])
            recipient = assert_type(await later.inbox(), str)
            line = NewLine(text="y", namespace="work", id="01JABCDEFGHJKMNPQRSTVWXYZ0")
            bundle = inbox.seal(recipient, inbox.Bundle("local/alice", (line,)))
            assert_type(await later.deliver(bundle), list[Receipt])
            await later.observe("terminal", "0" * 64)
            hits = assert_type(await later.get("chengdu", namespaces=["travel"]), list[Hit])
            assert [hit.id for hit in hits] == [receipt.id]
            assert len(assert_type(await later.list(limit=5), Listing).lines) == 3
            written = assert_type(await later.set_profile("likes trains", namespace="work"), Profile)
            assert assert_type(await later.profile("work"), Profile) == written
            assert assert_type(await later.snapshot(), Snapshot).profiles == (written,)
            assert assert_type(await later.forget(ids=[receipt.id]), Forgotten).ids == (receipt.id,)
            assert_type(await later.renew(), Token)
            assert_type(await later.erase(["work"]), Erased)
            with pytest.raises(errors.CapNamespaceDenied):
                await later.get("x", namespaces=["nowhere"])

    asyncio.run(steps())


def test_calls_run_beside_each_other_and_off_the_loop(vault: Vault, cap: Token) -> None:
    meeting = threading.Barrier(3, timeout=20)

    class Meeting:
        def call(self, call: Call[A]) -> A:
            meeting.wait()
            return vault.door(cap).call(call)

        def with_cap(self, token: str) -> Transport:
            raise NotImplementedError

    async def steps() -> list[list[Hit]]:
        later = AsyncMemory(Memory(Meeting()))
        return await asyncio.gather(*(later.get("x") for _ in range(3)))

    assert asyncio.run(steps()) == [[], [], []]


def test_wrong_argument_is_a_type_error_for_both_readers(vault: Vault, cap: Token) -> None:
    later = AsyncMemory(vault.memory(cap))
    with pytest.raises(TypeError):
        asyncio.run(later.get("x", actor="local/bob"))  # type: ignore[call-arg]


def test_async_memory_has_each_method_of_memory_with_the_same_signature() -> None:
    for name, method in {**vars(DocumentMethods), **vars(Memory)}.items():
        if not name.startswith("_") and name != "with_cap" and callable(method):
            twin = vars(AsyncMemory)[name]
            assert inspect.signature(twin) == inspect.signature(method)
            assert inspect.iscoroutinefunction(twin)
            assert twin.__doc__ == method.__doc__


def test_async_memory_with_another_cap_is_another_async_memory(vault: Vault, cap: Token) -> None:
    travel = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=["travel"])
    later = assert_type(AsyncMemory(vault.memory(cap)).with_cap(travel), AsyncMemory)
    assert asyncio.run(later.put("x")).namespace == "travel"


def test_repr_shows_no_cap(vault: Vault, cap: Token) -> None:
    assert cap not in repr(AsyncMemory(vault.memory(cap)))
