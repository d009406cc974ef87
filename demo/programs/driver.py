"""Drives Hermes' real gateway, step by step. A program for Hermes' own Python: it imports nothing of ours.

Only the platforms' adapters are not Hermes': they hand over what a step says and note what is sent back. The API server
is Hermes' own adapter on a port of its own choosing. Steps come in on standard input as JSON lines, `{"together":
[message, ...]}` or one message; answers go out on what was standard output. A line with `delivered` is written the
moment a person would see the reply; a line with `done` says that the step and the memory writes it caused are over. A
line is one write to a pipe, so it is with the reader even if this process is killed the next moment.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import sys
import threading
import traceback
from collections.abc import Mapping
from importlib import import_module
from typing import Any, NoReturn, Protocol

SETTLE_SECONDS = 60
_MESSAGES = itertools.count(1)


class Tells(Protocol):
    """Where answers go."""

    def tell(self, **line: Any) -> None:
        """Say one line."""

    def failed(self) -> None:
        """Say that the step which is going on ended with an error, and where that comes from."""

    def leave(self) -> NoReturn:
        """End the process."""


class Outlet:
    """Takes over standard output for JSON lines. Hermes prints as it likes: all of that goes to standard error."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pipe = os.dup(1)  # not inherited by what Hermes starts: the reader sees the end when we are gone
        os.dup2(2, 1)

    def tell(self, **line: Any) -> None:
        with self._lock:
            os.write(self._pipe, json.dumps(line).encode() + b"\n")

    def failed(self) -> None:
        self.tell(failed=traceback.format_exc())

    def leave(self) -> NoReturn:
        """End as `hermes` does: threads are not waited for."""
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def next_step() -> dict[str, Any] | None:
    """The next step, or nothing when there are no more."""
    line = sys.stdin.readline()
    return json.loads(line) if line.strip() else None


def settle() -> None:
    """Wait until no memory manager of this process has work left. One with work left is never collected."""
    kind = import_module("agent.memory_manager").MemoryManager
    for manager in [one for one in gc.get_objects() if type(one) is kind]:
        if not manager.flush_pending(timeout=SETTLE_SECONDS):
            raise TimeoutError("the memory worker is stuck")


def _adapter(outlet: Tells, config: Any, platform: Any) -> Any:
    base = import_module("gateway.platforms.base")

    class Chats(base.BasePlatformAdapter):  # type: ignore[misc, name-defined]
        """A platform without a network."""

        async def connect(self, *, is_reconnect: bool = False) -> bool:  # noqa: ARG002
            self._mark_connected()
            return True

        async def disconnect(self) -> None:
            self._mark_disconnected()

        async def send(self, chat_id: str, content: str, reply_to: Any = None, metadata: Any = None) -> Any:  # noqa: ARG002
            thread = (metadata or {}).get("thread_id")
            outlet.tell(delivered=content, chat=chat_id, thread=thread, platform=platform.value)
            return base.SendResult(success=True, message_id=f"reply-{next(_MESSAGES)}")

        async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
            return {"name": f"chat-{chat_id}", "type": "dm"}

    return Chats(config, platform)


def _runner(outlet: Tells) -> Any:
    run = import_module("gateway.run")

    class Runner(run.GatewayRunner):  # type: ignore[misc, name-defined]
        def _create_adapter(self, platform: Any, config: Any) -> Any:
            if platform.value == "api_server":
                return super()._create_adapter(platform, config)
            made = _adapter(outlet, config, platform)
            made.gateway_runner = self
            return made

    return Runner()


class Gateway:
    """The gateway of the home that the environment names."""

    def __init__(self, outlet: Tells) -> None:
        self._outlet = outlet
        self._runner = _runner(outlet)

    async def start(self) -> None:
        if not await self._runner.start():
            raise RuntimeError("the gateway did not start")
        self._outlet.tell(ready=True, platforms=[one.value for one in self._runner.adapters], port=self._port())

    async def take(self, step: Mapping[str, Any]) -> None:
        messages = step.get("together", [step] if "text" in step else [])
        await asyncio.gather(*[self._hear(one) for one in messages])
        await self._idle()
        await asyncio.to_thread(settle)
        self._outlet.tell(done=step.get("number"), agents=sorted(self._runner._agent_cache))

    async def stop(self) -> None:
        await self._runner.stop()

    async def _hear(self, message: Mapping[str, Any]) -> None:
        adapter = self._runner.adapters[_platform(message.get("platform", "telegram"))]
        source = adapter.build_source(
            chat_id=message["chat"],
            chat_name=f"chat-{message['chat']}",
            chat_type=message.get("type", "dm"),
            user_id=message.get("id", message["from"]),
            user_name=message["from"],
            thread_id=message.get("thread"),
            user_id_alt=message.get("alt"),
        )
        event = import_module("gateway.platforms.base").MessageEvent(
            text=message["text"], source=source, message_id=f"message-{next(_MESSAGES)}"
        )
        await adapter.handle_message(event)

    async def _idle(self) -> None:
        """Until no message is being worked on, nor one that waited behind it."""
        while working := [task for one in self._chats() for task in one._session_tasks.values() if not task.done()]:
            await asyncio.wait(working)

    def _chats(self) -> list[Any]:
        return [one for one in self._runner.adapters.values() if hasattr(one, "_session_tasks")]

    def _port(self) -> int:
        server = self._runner.adapters.get(_platform("api_server"))
        return int(server._site._server.sockets[0].getsockname()[1]) if server else 0


def _platform(name: str) -> Any:
    return import_module("gateway.config").Platform(name)


async def _drive(outlet: Tells) -> None:
    gateway = Gateway(outlet)
    await gateway.start()
    while (step := await asyncio.to_thread(next_step)) is not None:
        try:
            await gateway.take(step)
        except Exception:  # noqa: BLE001 - whoever gave the step hears of it and decides
            outlet.failed()
    await gateway.stop()


def main(outlet: Tells | None = None) -> None:
    """Take steps until there are no more."""
    outlet = outlet or Outlet()
    import_module("run_agent")  # Hermes imports it at the first message; better not while somebody waits
    asyncio.run(_drive(outlet))
    outlet.leave()


if __name__ == "__main__":
    main()
