"""The parts of Strongroom that are installed only where they are needed, and what to say where they are not."""

from __future__ import annotations

from importlib.util import find_spec

from strongroom.client.connect import how_to_install as install
from strongroom.errors import InvalidRequest

__all__ = ["MODULES", "USES", "install", "is_installed", "require"]

MODULES = {
    "client": ("httpx",),
    "server": ("uvicorn", "uvloop", "httptools", "prometheus_client"),
    "mcp": ("mcp", "mcp_types", "starlette"),
    "s3": ("obstore",),
}
"""What is imported of each extra, at the top or later on."""

USES = {"client": "--url", "server": "`strongroom serve`", "mcp": "MCP", "s3": "a vault in a bucket"}


def is_installed(extra: str) -> bool:
    """Whether everything of an extra is there."""
    return all(find_spec(name) is not None for name in MODULES[extra])


def require(extra: str) -> None:
    """Refuse to go on without an extra, and say how to get it."""
    if not is_installed(extra):
        raise InvalidRequest(f"{USES[extra]} needs parts that are not installed", hint=install(extra))
