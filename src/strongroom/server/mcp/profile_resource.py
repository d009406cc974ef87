"""The profile as an MCP resource, for clients in which a person chooses which texts a model gets."""

from __future__ import annotations

import mcp_types as types

from strongroom import api
from strongroom.model import Snapshot
from strongroom.server.mcp import tool_answers

PROFILE = "strongroom://profile"
_TEXT = "text/plain"
_ABOUT = "Background about the owner, written or approved by them"


def list_resources() -> list[types.Resource]:
    """The resources with a fixed address. There is one: the profiles of all namespaces that the cap covers."""
    about = f"{_ABOUT}, for every namespace that the cap covers."
    return [types.Resource(uri=PROFILE, name="profile", title="Profile", description=about, mime_type=_TEXT)]


def templates() -> list[types.ResourceTemplate]:
    """The resource templates. A client fills in a namespace to get the address of a resource."""
    return [
        types.ResourceTemplate(
            uri_template=PROFILE + "/{namespace}",
            name="namespace-profile",
            title="Profile of one namespace",
            description=f"{_ABOUT}, for one namespace.",
            mime_type=_TEXT,
        )
    ]


def call_for(uri: str) -> api.TakeSnapshot | None:
    """The call that reads the resource at this address; None if there is no such resource."""
    if uri == PROFILE:
        return api.TakeSnapshot()
    if uri.startswith(PROFILE + "/"):
        return api.TakeSnapshot(namespaces=(uri.removeprefix(PROFILE + "/"),))
    return None


def contents(uri: str, snapshot: Snapshot, mark: str) -> types.ReadResourceResult:
    """The text of the resource. It is fenced, so that a model sees where the profile ends."""
    text = tool_answers.profile_text(snapshot, mark)
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=_TEXT, text=text)])
