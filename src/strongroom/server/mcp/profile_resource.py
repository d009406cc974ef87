"""The profile as a resource, for clients in which a person chooses what to give to a model."""

from __future__ import annotations

import mcp_types as types

from strongroom import api
from strongroom.model import Snapshot
from strongroom.server.mcp import tool_answers

PROFILE = "strongroom://profile"
_TEXT = "text/plain"
_ABOUT = "Background about the owner, written or approved by them"


def list_resources() -> list[types.Resource]:
    """The one resource with a fixed address."""
    about = f"{_ABOUT}, for every namespace that the cap covers."
    return [types.Resource(uri=PROFILE, name="profile", title="Profile", description=about, mime_type=_TEXT)]


def templates() -> list[types.ResourceTemplate]:
    """The resources that a client can address by namespace."""
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
    """The call for this address; None if there is no such resource."""
    if uri == PROFILE:
        return api.TakeSnapshot()
    if uri.startswith(PROFILE + "/"):
        return api.TakeSnapshot(namespaces=(uri.removeprefix(PROFILE + "/"),))
    return None


def contents(uri: str, snapshot: Snapshot, mark: str) -> types.ReadResourceResult:
    """The content of the resource. Fenced, so that a model sees where the profile ends."""
    text = tool_answers.profile_text(snapshot, mark)
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=uri, mime_type=_TEXT, text=text)])
