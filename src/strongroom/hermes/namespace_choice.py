"""The namespace of what is said in a runtime: the owner's mappings first, then the rules. Pure; the gate decides.

A chat that the owner mapped decides for itself; then the profile's own namespace, if one is set; then the rules, the
policy's instead of the configuration file's; then their default. Of several rules that fit, the one with the most
sensitive namespace decides, by the order of the policy's `namespaces`.
"""

from __future__ import annotations

from strongroom import routing
from strongroom.hermes.policy import Policy
from strongroom.routing import Route, Rules

BY_CHAT = "[chats]"
"""The rule of a route decided by the owner's mapping of a chat."""
BY_PROFILE = "namespace ="
"""The rule of a route decided by the profile's own namespace."""


def route_text(policy: Policy, rules: Rules, text: str, platform: str | None = None, chat: str | None = None) -> Route:
    """The namespace for a text said in a place. `rules` are those of the configuration file."""
    key = f"{platform}:{chat}"
    if platform and chat and key in policy.chats:
        return Route(policy.chats[key], BY_CHAT, key)
    if policy.namespace is not None:
        return Route(policy.namespace, BY_PROFILE, policy.profile)
    return routing.route(text, policy.rules or rules, platform=platform, chat=chat, order=policy.namespaces)


def overruled_routes(
    policy: Policy, rules: Rules, text: str, platform: str | None = None, chat: str | None = None
) -> list[Route]:
    """The other rules that fit a text, if rules decide."""
    if route_text(policy, rules, text, platform, chat).rule in (BY_CHAT, BY_PROFILE):
        return []
    return routing.matching_routes(text, policy.rules or rules, platform=platform, chat=chat, order=policy.namespaces)[
        1:
    ]
