"""The optional extras: the packages of each extra, whether they are installed, and the error if they are not."""

from __future__ import annotations

from importlib.util import find_spec

from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install as install

__all__ = ["MODULES", "USES", "install", "is_installed", "require"]

MODULES = {
    "client": ("httpx",),
    "server": ("uvicorn", "uvloop", "httptools", "prometheus_client"),
    "mcp": ("mcp", "mcp_types", "starlette"),
    "s3": ("obstore",),
}
"""The packages that the code of each extra imports."""

USES = {"client": "--url", "server": "`strongroom serve`", "mcp": "MCP", "s3": "a vault in a bucket"}


def is_installed(extra: str) -> bool:
    """True if all packages of an extra are installed."""
    return all(find_spec(name) is not None for name in MODULES[extra])


def require(extra: str) -> None:
    """Raise `InvalidRequest` if an extra is not installed. The hint is the command that installs the extra."""
    if not is_installed(extra):
        raise InvalidRequest(f"{USES[extra]} needs packages that are not installed", hint=install(extra))
