"""Calls to providers with older signatures: a method gets the arguments that it accepts, and no others.

The interface has grown: `sync_turn` got `messages`, `on_memory_write` got `metadata`, and other methods got keyword
arguments. An older provider lacks these parameters. The signature is inspected, and not tried out with a call: a
TypeError can come from inside the provider, which must not be called twice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable
from functools import lru_cache
from inspect import Parameter
from typing import Any

from strongroom.host.provider_interface import MemoryProvider

_OURS = {"turn_id", "turn_journal"}
_NAMED = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
_PLACED = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


def fit_arguments(
    method: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that `method` accepts. Keyword arguments that it does not know are left out.

    `metadata` is passed by position if the method has a free parameter under another name. Arguments that Hermes does
    not pass go only to a method that names them: a method with `**kwargs` may forward them to a function that does not
    accept them.
    """
    function = getattr(method, "__func__", method)
    named, places, any_keyword = (_known_shape if isinstance(function, Hashable) else _shape)(function)
    if any_keyword:
        return args, {name: value for name, value in keywords.items() if name in named or name not in _OURS}
    known = {name: value for name, value in keywords.items() if name in named}
    spare = places - inspect.ismethod(method) - len(args)
    if spare > 0 and not known and "metadata" in keywords:
        return (*args, keywords["metadata"]), {}
    return args, known


def signature_hooks(provider: object) -> list[str]:
    """The signature hooks that a provider overrides, in the order in which the host calls them."""
    found = []
    for name in ("cache_busting_signature", "identity_signature"):
        method = getattr(provider, name, None)
        if method is not None and getattr(method, "__func__", None) is not getattr(MemoryProvider, name):
            found.append(name)
    return found


def _shape(function: Callable[..., Any]) -> tuple[frozenset[str], int, bool]:
    """The names of a function's keyword arguments, how many it takes by position, and whether it has `**kwargs`."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return frozenset(), 0, True  # a C function without a signature gets what the interface says
    named = frozenset(one.name for one in parameters if one.kind in _NAMED)
    places = sum(one.kind in _PLACED for one in parameters)
    return named, places, any(one.kind is Parameter.VAR_KEYWORD for one in parameters)


_known_shape = lru_cache(maxsize=512)(_shape)
