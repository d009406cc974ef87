"""The scripted model server, which is the demonstration's."""

from demo.model_server import (
    ModelServer,
    Reply,
    Request,
    Rule,
    Script,
    ToolCall,
    Usage,
    by_rules,
    last_user_text,
    text_of,
)

__all__ = [
    "ModelServer",
    "Reply",
    "Request",
    "Rule",
    "Script",
    "ToolCall",
    "Usage",
    "by_rules",
    "last_user_text",
    "text_of",
]
