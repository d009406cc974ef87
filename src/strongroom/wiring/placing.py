"""Where what is said in a runtime goes: the owner's mappings first, then the rules. Pure; the gate has the last word.

A chat that the owner mapped decides for itself; then the profile's own namespace, where one is set; then the ordered
rules, those of the policy before those of the configuration file; then their default.
"""

from __future__ import annotations

from strongroom import routing
from strongroom.routing import Route, Rules
from strongroom.wiring.policy import Policy

BY_CHAT = "[chats]"
"""The rule of a route that the owner's mapping of one chat decided."""
BY_PROFILE = "namespace ="
"""The rule of a route that the profile's own namespace decided."""


def placed(policy: Policy, rules: Rules, text: str, platform: str | None = None, chat: str | None = None) -> Route:
    """The namespace for a text said in a place; `rules` are those of the configuration file."""
    key = f"{platform}:{chat}"
    if platform and chat and key in policy.chats:
        return Route(policy.chats[key], BY_CHAT, key)
    if policy.namespace is not None:
        return Route(policy.namespace, BY_PROFILE, policy.profile)
    return routing.route(text, policy.rules or rules, platform=platform, chat=chat)
