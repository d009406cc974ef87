"""The parts of Strongroom that are installed only where they are needed, and what to say where they are not."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from strongroom.errors import InvalidRequest

MODULES = {
    "client": ("httpx",),
    "server": ("uvicorn", "uvloop", "httptools", "starlette", "prometheus_client", "httpx"),
    "mcp": ("mcp", "mcp_types", "httpx"),
}
"""What each extra brings, by the names that are imported."""

USES = {"client": "--url", "server": "`strongroom serve`", "mcp": "MCP"}


def is_installed(extra: str) -> bool:
    """Whether everything of an extra is there."""
    return all(find_spec(name) is not None for name in MODULES[extra])


def missing(extra: str) -> InvalidRequest:
    """What to raise where an extra is needed."""
    return InvalidRequest(f"{USES[extra]} needs parts that are not installed", hint=install(extra))


def install(extra: str) -> str:
    """How to get an extra."""
    return f'pip install "strongroom[{extra}]"'


@contextmanager
def needed(extra: str) -> Iterator[None]:
    """Import what an extra brings; where that is not there, say how to get it. Any other fault is passed on."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.partition(".")[0] == "strongroom":
            raise
        raise missing(extra) from None
