"""The mapping from a platform's users to a provider's peers (its names for people). Settings and rule are here.

The rule takes the first of these that is known:

- the pin: everybody is `peer_name`;
- an alias of the user's id, or else of the user's second id;
- the user's id behind the prefix, or else the second id;
- `peer_name`, or else the session's key, if the runtime knows no user.

A peer matches `[A-Za-z0-9_-]{1,100}`. Names that the owner wrote (`peer_name`, `ai_peer`, aliases) stay as written if
they consist of such characters with single dashes between. A user's id stays as it is if it has only digits and
lower-case letters. Every other name or id gets a hash, as session names do. Under one set of settings:

- Two ids never become one peer, except by an alias or the pin.
- An id that equals a name of the owner's does not become that name: a stranger who is called like the owner, or like
  the assistant, gets a hash. Only an alias maps an id to such a name, even if they are spelt alike.
- A user with only a second id never becomes `peer_name`, and never becomes the user who has that text as a first id.

Several runtimes that write to one provider may use different prefixes. The prefix `tg_` with the id `7` gives another
peer than the id `tg_7`. The prefix `a_` with the id `b_1` gives another peer than `a_b_` with `1`. A prefix must end
with `_` or `-`; otherwise each of its peers gets a hash. A name in one runtime and an id in another runtime are equal
if they are spelt alike, because neither runtime sees the other's settings.

The module is pure. `strongroom.host.cache.settings_file` reads the settings from a file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from strongroom.errors import InvalidRequest
from strongroom.host.agent_session import AgentSession
from strongroom.host.session_name import LENGTH, hash_name

KEYS = ("peer_name", "ai_peer", "pin_user_peer", "user_peer_aliases", "runtime_peer_prefix")
"""The names of the settings."""

_SPELLINGS = {
    **{key: key for key in KEYS},
    "peerName": "peer_name",
    "aiPeer": "ai_peer",
    "pinUserPeer": "pin_user_peer",
    "pinPeerName": "pin_user_peer",
    "userPeerAliases": "user_peer_aliases",
    "runtimePeerPrefix": "runtime_peer_prefix",
}
_NAME = re.compile(r"[A-Za-z0-9_]+(-[A-Za-z0-9_]+)*")
_ID = re.compile(r"[a-z0-9]+")
_PREFIX = re.compile(r"[a-z0-9]+([_-][a-z0-9]+)*[_-]")


@dataclass(frozen=True, slots=True)
class Identity:
    """The settings that map users to peers."""

    peer_name: str = ""
    """The owner's name. The owner is the speaker if no user is known."""
    ai_peer: str = "hermes"
    pin_user_peer: bool = False
    """Treat every user as the owner. For a runtime that only one person uses."""
    user_peer_aliases: Mapping[str, str] = field(default_factory=dict, hash=False)
    runtime_peer_prefix: str = ""

    def __post_init__(self) -> None:
        aliases = _checked_aliases(self.user_peer_aliases)
        object.__setattr__(self, "user_peer_aliases", MappingProxyType(dict(sorted(aliases.items()))))
        for key in ("peer_name", "ai_peer", "runtime_peer_prefix"):
            _check_name(key, getattr(self, key))
        if not isinstance(self.pin_user_peer, bool):
            raise InvalidRequest("pin_user_peer must be true or false")
        if self.pin_user_peer and not self.peer_name:
            raise InvalidRequest("pin_user_peer is set without a peer_name", hint="set peer_name to the owner's name")
        if self.ai_peer and self.ai_peer in (self.peer_name, *aliases.values()):
            raise InvalidRequest("ai_peer is also the name of a person", hint="give the assistant another name")

    @classmethod
    def parse(cls, settings: Mapping[str, Any]) -> Identity:
        """Read settings from a file's table. Both spellings (`peer_name`, `peerName`) count; another key raises
        InvalidRequest.
        """
        if not isinstance(settings, Mapping):
            raise InvalidRequest("identity settings must be a table of keys and values")
        found: dict[str, Any] = {}
        for spelling, value in settings.items():
            key = _key(spelling)
            if key in found:
                raise InvalidRequest(
                    f"the setting {key} is set twice, in two spellings", hint=f"keep {key} and drop the other"
                )
            found[key] = value
        return cls(**found)

    def peer(self, user_id: str = "", user_id_alt: str = "", *, session_key: str = "") -> str:
        """The peer of a user, or of a session whose user is unknown."""
        if self.pin_user_peer:
            return _named(self.peer_name)
        if alias := self.user_peer_aliases.get(user_id) or self.user_peer_aliases.get(user_id_alt):
            return _named(alias)
        if user_id:
            return self._of_id(user_id)
        if user_id_alt:
            return hash_name("alt", user_id_alt, shown=user_id_alt, peer=self.runtime_peer_prefix)
        if self.peer_name:
            return _named(self.peer_name)
        if not session_key:
            raise InvalidRequest("neither a user nor a session key is known", hint="set peer_name to the owner's name")
        return hash_name("unknown", session_key, shown=session_key)

    def peer_of(self, session: AgentSession) -> str:
        """The peer of the user whom an agent serves."""
        key = session.gateway_session_key or session.id
        return self.peer(session.user_id, session.user_id_alt, session_key=key)

    def assistant(self) -> str:
        """The peer of the assistant. Empty if it has none. It is never the peer of a person."""
        return _named(self.ai_peer) if self.ai_peer else ""

    def signature(self, provider: str) -> dict[str, Any]:
        """The `cache_busting_signature` of a provider with this identity: the five settings as JSON values."""
        values = {key: getattr(self, key) for key in KEYS}
        values["user_peer_aliases"] = [[user, name] for user, name in self.user_peer_aliases.items()]
        return {f"{provider}.{key}": value for key, value in values.items()}

    def _of_id(self, user_id: str) -> str:
        prefix = self.runtime_peer_prefix
        is_plain = _ID.fullmatch(user_id) and (not prefix or _PREFIX.fullmatch(prefix))
        name = f"{prefix}{user_id}"
        if is_plain and len(name) <= LENGTH and name not in self._written():
            return name
        return hash_name("user", user_id, shown=user_id, peer=prefix)

    def _written(self) -> set[str]:
        """The names that the owner wrote, in lower case, because a provider may ignore case."""
        return {
            _named(name).lower() for name in (self.peer_name, self.ai_peer, *self.user_peer_aliases.values()) if name
        }


def _named(name: str) -> str:
    """The peer for a name that the owner wrote. A plain name has no `--`, so it never equals a hashed name."""
    return name if len(name) <= LENGTH and _NAME.fullmatch(name) else hash_name("name", name, shown=name)


def _key(spelling: object) -> str:
    if not isinstance(spelling, str) or spelling not in _SPELLINGS:
        raise InvalidRequest(
            f"{str(spelling)[:80]!r} is not an identity setting", hint=f"the identity settings are {', '.join(KEYS)}"
        )
    return _SPELLINGS[spelling]


def _checked_aliases(aliases: object) -> dict[str, str]:
    if not isinstance(aliases, Mapping):
        raise InvalidRequest("user_peer_aliases must be a table of user ids and names")
    for user_id, name in aliases.items():
        if not isinstance(user_id, str) or not user_id:
            raise InvalidRequest("user_peer_aliases has a user id that is not text", hint="put the id in quotes")
        if not isinstance(name, str) or not name.strip():
            raise InvalidRequest("user_peer_aliases has a user without a name", hint="drop the entry, or name the user")
    return dict(aliases)


def _check_name(key: str, name: object) -> None:
    if not isinstance(name, str) or (name and not name.strip()):
        raise InvalidRequest(f"the setting {key} must be text", hint="put a number in quotes, or leave the key out")
