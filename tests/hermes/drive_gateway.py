"""Drive Hermes' real gateway, step by step. The steps are described in `rig_gateway`.

Only the platforms' adapters are not Hermes': they hand over what a step says and note what is sent back. The API server
is Hermes' own adapter on a port of its own choosing.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from tests.hermes.drive_steps import Outlet, next_step, settle

_MESSAGES = itertools.count(1)


def _adapter(outlet: Outlet, config: Any, platform: Any) -> Any:
    base = import_module("gateway.platforms.base")

    class Chats(base.BasePlatformAdapter):  # type: ignore[misc, name-defined]
        """A platform without a network."""

        async def connect(self, *, is_reconnect: bool = False) -> bool:
            self._mark_connected()
            return True

        async def disconnect(self) -> None:
            self._mark_disconnected()

        async def send(self, chat_id: str, content: str, reply_to: Any = None, metadata: Any = None) -> Any:
            thread = (metadata or {}).get("thread_id")
            outlet.tell(delivered=content, chat=chat_id, thread=thread, platform=platform.value)
            return base.SendResult(success=True, message_id=f"reply-{next(_MESSAGES)}")

        async def get_chat_info(self, chat_id: str) -> dict[str, Any]:
            return {"name": f"chat-{chat_id}", "type": "dm"}

    return Chats(config, platform)


def _runner(outlet: Outlet) -> Any:
    run = import_module("gateway.run")

    class Runner(run.GatewayRunner):  # type: ignore[misc, name-defined]
        def _create_adapter(self, platform: Any, config: Any) -> Any:
            if platform.value == "api_server":
                return super()._create_adapter(platform, config)
            made = _adapter(outlet, config, platform)
            made.gateway_runner = self
            return made

    return Runner()


class Driver:
    def __init__(self, outlet: Outlet) -> None:
        self._outlet = outlet
        self._runner = _runner(outlet)

    async def start(self) -> None:
        assert await self._runner.start(), "the gateway did not start"
        self._outlet.tell(ready=True, platforms=[one.value for one in self._runner.adapters], port=self._port())

    async def take(self, step: Mapping[str, Any]) -> None:
        messages = step.get("together", [step] if "text" in step else [])
        await asyncio.gather(*[self._hear(one) for one in messages])
        await self._idle()
        await asyncio.to_thread(settle)
        self._outlet.tell(done=step["number"], agents=sorted(self._runner._agent_cache))

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


async def _drive(outlet: Outlet) -> None:
    driver = Driver(outlet)
    await driver.start()
    while (step := await asyncio.to_thread(next_step)) is not None:
        try:
            await driver.take(step)
        except Exception:  # noqa: BLE001 -- the parent hears of it and decides
            outlet.failed()
    await driver.stop()


def main() -> None:
    outlet = Outlet()
    import_module("run_agent")  # Hermes imports it at the first message; better not while a test waits
    asyncio.run(_drive(outlet))
    outlet.leave()


if __name__ == "__main__":
    main()
