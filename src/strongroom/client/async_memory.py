"""An asynchronous adapter for any Memory: each call runs in a thread of the event loop's default pool.

Every method calls the method of the same name in Memory, and has its arguments and its answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, TypeVar

from strongroom.memory import Memory

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(
    method: Callable[Concatenate[Memory, P], R],
) -> Callable[Concatenate[AsyncMemory, P], Coroutine[Any, Any, R]]:
    @wraps(method)
    async def call(self: AsyncMemory, /, *args: P.args, **kwargs: P.kwargs) -> R:
        import asyncio  # loaded already in an asynchronous program, slow to load for all others

        return await asyncio.to_thread(method, self.memory, *args, **kwargs)

    return call


class AsyncMemory:
    """The methods of `memory` as coroutines. The memory may be of a vault in this process or on a server.

    Cancelling an await does not cancel the call: a call that has begun is carried out.
    """

    def __init__(self, memory: Memory) -> None:
        self.memory = memory

    def __repr__(self) -> str:
        return "<memory behind a cap, to be awaited>"

    async def __aenter__(self) -> AsyncMemory:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def with_cap(self, token: str) -> AsyncMemory:
        """The memory that another cap for the same vault gives. This is no coroutine, because nothing is sent yet."""
        return AsyncMemory(self.memory.with_cap(token))

    put = _awaited(Memory.put)
    put_many = _awaited(Memory.put_many)
    inbox = _awaited(Memory.inbox)
    deliver = _awaited(Memory.deliver)
    observe = _awaited(Memory.observe)
    get = _awaited(Memory.get)
    list = _awaited(Memory.list)
    snapshot = _awaited(Memory.snapshot)
    profile = _awaited(Memory.profile)
    set_profile = _awaited(Memory.set_profile)
    document = _awaited(Memory.document)
    write_document = _awaited(Memory.write_document)
    documents = _awaited(Memory.documents)
    delete_document = _awaited(Memory.delete_document)
    rename_document = _awaited(Memory.rename_document)
    document_history = _awaited(Memory.document_history)
    forget = _awaited(Memory.forget)
    replace = _awaited(Memory.replace)
    history = _awaited(Memory.history)
    erase = _awaited(Memory.erase)
    renew = _awaited(Memory.renew)
    close = _awaited(Memory.close)
