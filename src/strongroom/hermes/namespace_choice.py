"""Choose the namespace of a text that a person says to Hermes. Pure: the gate checks the choice later.

The first of these decides:

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
"""The name that stands in place of a rule if the owner's mapping of a chat decided."""
BY_PROFILE = "namespace ="
"""The name that stands in place of a rule if the profile's own namespace decided."""


def route_text(policy: Policy, rules: Rules, text: str, platform: str | None = None, chat: str | None = None) -> Route:
    """Choose the namespace for a text on a platform, in a chat. `rules` are the rules of the configuration file."""
    key = f"{platform}:{chat}"
    if platform and chat and key in policy.chats:
        return Route(policy.chats[key], BY_CHAT, key)
    if policy.namespace is not None:
        return Route(policy.namespace, BY_PROFILE, policy.profile)
    return routing.route(text, policy.rules or rules, platform=platform, chat=chat, order=policy.namespaces)


def overruled_routes(
    policy: Policy, rules: Rules, text: str, platform: str | None = None, chat: str | None = None
) -> list[Route]:
    """List the rules that also fit a text but did not decide. Empty if a chat's mapping or the profile's namespace
    decided.
    """
    if route_text(policy, rules, text, platform, chat).rule in (BY_CHAT, BY_PROFILE):
        return []
    return routing.matching_routes(text, policy.rules or rules, platform=platform, chat=chat, order=policy.namespaces)[
        1:
    ]
