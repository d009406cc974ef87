"""Choose the namespace of a text that is said in a runtime. The owner's mappings come first, then the rules. Pure: the
gate decides later.

1. The owner's mapping of the chat, if there is one.
2. The profile's own namespace, if one is set.
3. The rules, with their default. The policy's rules replace those of the configuration file.

If several rules fit, the rule with the most sensitive namespace decides, in the order of the policy's `namespaces`.
"""

from __future__ import annotations

from strongroom import routing
from strongroom.hermes.policy import Policy
from strongroom.routing import Route, Rules

BY_CHAT = "[chats]"
"""The rule name in a route that the owner's mapping of a chat decided."""
BY_PROFILE = "namespace ="
"""The rule name in a route that the profile's own namespace decided."""


def route_text(policy: Policy, rules: Rules, text: str, platform: str | None = None, chat: str | None = None) -> Route:
    """Choose the namespace for a text said on a platform, in a chat. `rules` are those of the configuration file."""
    key = f"{platform}:{chat}"
    if platform and chat and key in policy.chats:
        return Route(policy.chats[key], BY_CHAT, key)
    if policy.namespace is not None:
        return Route(policy.namespace, BY_PROFILE, policy.profile)
    return routing.route(text, policy.rules or rules, platform=platform, chat=chat, order=policy.namespaces)


def overruled_routes(
    policy: Policy, rules: Rules, text: str, platform: str | None = None, chat: str | None = None
) -> list[Route]:
    """List the other rules that fit a text. Empty if a mapping or the profile's namespace decides."""
    if route_text(policy, rules, text, platform, chat).rule in (BY_CHAT, BY_PROFILE):
        return []
    return routing.matching_routes(text, policy.rules or rules, platform=platform, chat=chat, order=policy.namespaces)[
        1:
    ]
