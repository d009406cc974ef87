"""The owner's policy for one Hermes home: `strongroom.toml` in that home, written by `strongroom wire hermes`.

It says where the vault, the cap and the spool are, who is who, how much is recalled, what is stored and in which
namespace. It holds no secret, because Hermes' backups include it. It is read again whenever it changes, so an edit
takes effect at the next turn. A fault in it is named, and the last good policy stays in use. Pure, except for
`path_of`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import msgspec

from strongroom import model, routing
from strongroom.crypto import inbox
from strongroom.errors import InvalidRequest
from strongroom.hermes import policy_errors
from strongroom.host.session_name import SessionSettings, Strategy
from strongroom.host.user_identity import Identity
from strongroom.model import DEFAULT_NAMESPACES, Namespace
from strongroom.routing import Rules

FILE = "strongroom.toml"
GOOD = ".strongroom.last-good.toml"
"""In the same directory: the last policy without a fault."""
OWNER = "owner"
"""The last segment of the local owner's actor."""
LINES_LIMIT = 20
PHRASES_LIMIT = 256
PHRASE_LIMIT = 64
"""Longest phrase, in characters."""
SENSITIVITY = ("personal", "family", "work", "travel")
_KEYS = "correct it: the keys are in docs/hermes.md, The policy"
_ACCOUNT = re.compile(r"[a-z0-9_.-]{1,32}:\S.{0,255}")

_Lines = Annotated[int, msgspec.Meta(ge=0, le=LINES_LIMIT)]
_Characters = Annotated[int, msgspec.Meta(ge=200, le=20_000)]
_Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=7.0)]


class Tools(StrEnum):
    """The sets of tools for the model."""

    NONE = "none"
    FORGET = "forget"
    RECALL = "recall"
    FULL = "full"


class Recall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How much is shown to the model, and how long it may take."""

    lines: _Lines = 5
    characters: _Characters = 2000
    patience: _Seconds = 0.3
    """Seconds to wait for lines to be read from disk."""
    timeout: Annotated[float, msgspec.Meta(ge=0.05, le=7.0)] = 2.0
    """Seconds to wait for a server."""
    unrelated: bool = False
    """Whether the newest lines are shown if none fits the question."""


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is stored."""

    turns: bool = True
    replies: bool = True
    delegations: bool = True
    memory_writes: bool = True
    import_files: bool = True
    mask_secrets: bool = True
    forget_requests: bool = False
    """Whether a turn that asks to forget something is stored."""
    spool_bytes: Annotated[int, msgspec.Meta(ge=1 << 16, le=1 << 34)] = 64 << 20


class OffTheRecord(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is not stored: by phrase (None: the built-in ones), by chat, by platform."""

    turn: tuple[str, ...] | None = None
    off: tuple[str, ...] | None = None
    on: tuple[str, ...] | None = None
    chats: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()


class People(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Accounts, as `platform:id`: the owner's own, and those of other people who have several."""

    me: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ("irc", "raft")
    """Platforms on which anybody may take another's id. In their direct chats there is no memory."""
    aliases: dict[str, tuple[str, ...]] = {}


class ApiServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The memory of requests without a session key: none, except if a name is given here."""

    shared_as: str = ""


class SessionPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How an agent's runs share sessions. With `per-session` no memory files are imported."""

    strategy: Strategy = Strategy.PER_DIRECTORY


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    profile: str = "default"
    vault: str = ""
    url: str = ""
    ca_file: str = ""
    cap: str = ""
    state: str = ""
    inbox: str = ""
    namespaces: tuple[str, ...] = SENSITIVITY
    namespace: str = ""
    tools: Tools = Tools.NONE
    recall: Recall = Recall()
    keep: Keep = Keep()
    off_the_record: OffTheRecord = OffTheRecord()
    people: People = People()
    api_server: ApiServer = ApiServer()
    session: SessionPolicy = SessionPolicy()
    chats: dict[str, str] = {}
    routing: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Policy:
    """A checked policy. `vault` or `url` is set if the home is wired, never both."""

    profile: str
    vault: str
    url: str
    ca_file: str
    cap: Path
    state: Path
    inbox: str
    namespaces: tuple[Namespace, ...]
    """From the most sensitive to the least."""
    namespace: Namespace | None
    """The namespace of everything in this profile, if the owner set one."""
    tools: Tools
    recall: Recall
    keep: Keep
    off_the_record: OffTheRecord
    identity: Identity
    unproven: frozenset[str]
    shared_api: str
    session: SessionSettings
    chats: Mapping[str, Namespace] = field(default_factory=dict)
    rules: Rules | None = None
    """None: the rules of the configuration file."""
    digest: str = field(default="", compare=False)
    """The digest of its text: another digest may be another policy."""

    @property
    def scope(self) -> str:
        """The actors of this home, as a cap names them."""
        return f"{model.actor_path('hermes', self.profile)}/"

    @property
    def is_wired(self) -> bool:
        return bool(self.vault or self.url)

    @property
    def spool(self) -> Path:
        """The directory of turns that could not be put yet, sealed."""
        return self.state / "spool"


def path_of(home: Path) -> Path:
    """The path of a home's policy."""
    return home / FILE


def read(text: str, place: str = "") -> Policy:
    """Check a policy. An empty text is that of a home that is not wired. `place` begins the message of a fault."""
    try:
        return _checked(_parsed(text), sha256(text.encode()).hexdigest()[:16])
    except InvalidRequest as error:
        where = f"{place}: " if place else ""
        raise InvalidRequest(f"{where}{error.message}", hint=error.hint or _KEYS) from None


_CHOICES = {"tools": tuple(Tools), "session.strategy": tuple(Strategy)}


def _parsed(text: str) -> _File:
    try:
        return msgspec.convert(tomllib.loads(text), _File, strict=True)
    except (ValueError, RecursionError) as error:  # raised for bad TOML and bad fields
        raise InvalidRequest(policy_errors.plain(str(error), _CHOICES)) from None


def _checked(found: _File, digest: str) -> Policy:
    if found.vault and found.url:
        raise InvalidRequest("both a vault and a url are named", hint="keep one of them")
    if (found.vault or found.url) and not (found.cap and found.state):
        raise InvalidRequest("the policy lacks `cap` or `state`", hint="run `strongroom wire hermes` again")
    names = tuple(map(model.namespace, found.namespaces))
    return Policy(
        profile=_field(found.profile, "profile") or "default",
        vault=found.vault,
        url=found.url,
        ca_file=found.ca_file,
        cap=Path(found.cap),
        state=Path(found.state),
        inbox=_inbox(found.inbox),
        namespaces=names,
        namespace=_reached(found.namespace, names, "namespace") if found.namespace else None,
        tools=found.tools,
        recall=found.recall,
        keep=found.keep,
        off_the_record=_phrased(found.off_the_record),
        identity=_identity(found.people),
        unproven=frozenset(found.people.unproven),
        shared_api=_field(found.api_server.shared_as, "api_server.shared_as"),
        session=SessionSettings(strategy=found.session.strategy),
        chats={_account(chat, "chats"): _reached(name, names, f"chats: {chat}") for chat, name in found.chats.items()},
        rules=None if found.routing is None else _known(routing.rules(found.routing), names),
        digest=digest,
    )


def _reached(name: str, names: tuple[Namespace, ...], what: str) -> Namespace:
    """A target namespace. It must be one that Hermes reaches, or all lines sent there would be lost."""
    if (found := model.namespace(name)) not in names:
        raise InvalidRequest(f"{what}: Hermes does not reach {found}", hint=f"`namespaces` has {_listed(names)}")
    return found


def _known(rules: Rules, names: tuple[Namespace, ...]) -> Rules:
    """Check the rules' namespaces. They may be out of Hermes' reach, to leave lines out, but must not be unknown."""
    for name in (rules.default, *(rule.namespace for rule in rules.rules)):
        if name not in names and name not in DEFAULT_NAMESPACES:
            raise InvalidRequest(f"routing: there is no namespace {name}", hint=f"`namespaces` has {_listed(names)}")
    return rules


def _listed(names: tuple[Namespace, ...]) -> str:
    return ", ".join(names) or "none"


def _inbox(text: str) -> str:
    if text and not inbox.is_recipient(text):
        raise InvalidRequest(
            "inbox: this is not a vault's public key", hint="remove that line and run `strongroom wire hermes`"
        )
    return text


def _field(text: str, what: str) -> str:
    return model.clean_field(text, what).strip()


def _phrased(said: OffTheRecord) -> OffTheRecord:
    for phrases in (said.turn or (), said.off or (), said.on or ()):
        if len(phrases) > PHRASES_LIMIT or not all(1 <= len(one.strip()) <= PHRASE_LIMIT for one in phrases):
            raise InvalidRequest(
                "off_the_record: a phrase is too long or empty, or there are too many",
                hint=f"at most {PHRASES_LIMIT} of a kind, of 1 to {PHRASE_LIMIT} characters each",
            )
    return said


def _identity(people: People) -> Identity:
    """The owner's aliases by `platform:id`, so that the same number on two platforms is two people."""
    aliases = {_account(account, "people.me"): OWNER for account in people.me}
    for name, accounts in people.aliases.items():
        for account in accounts:
            if aliases.setdefault(_account(account, "people.aliases"), name) != name:
                raise InvalidRequest(f"{account} is given to two people", hint="an account belongs to one person")
    for account in aliases:
        if account.partition(":")[0] in people.unproven:
            raise InvalidRequest(
                f"{account} is on a platform that proves no one's id",
                hint="anyone can take that name there; to trust the platform anyway, remove it from people.unproven",
            )
    return Identity(peer_name=OWNER, user_peer_aliases=aliases)


def _account(text: str, what: str) -> str:
    if not _ACCOUNT.fullmatch(text):
        raise InvalidRequest(f"{what}: {text[:80]!r} is not an account", hint="write it as platform:id, telegram:12345")
    return text
