"""The owner's policy for one Hermes home: `strongroom.toml` in that home, written by `strongroom wire hermes`.

The policy says where the vault, the cap and the spool are, and who is who. It also says how much is recalled, and which
texts are stored in which namespace. It holds no secret, because Hermes' backups include it.

The policy is read again whenever it changes, so an edit takes effect at the next turn. A fault in the policy is
reported, and the last good policy stays in use. Pure, except for `path_of`.
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
"""The file with the last policy that had no fault, in the same directory as the policy."""
OWNER = "owner"
"""The last segment of the local owner's actor."""
LINES_LIMIT = 20
PHRASES_LIMIT = 256
PHRASE_LIMIT = 64
"""The maximum length of a phrase, in characters."""
SENSITIVITY = ("personal", "family", "work", "travel")
_KEYS = "correct it: the keys are in docs/hermes.md, The policy"
_ACCOUNT = re.compile(r"[a-z0-9_.-]{1,32}:\S.{0,255}")

_Lines = Annotated[int, msgspec.Meta(ge=0, le=LINES_LIMIT)]
_Characters = Annotated[int, msgspec.Meta(ge=200, le=20_000)]
_Seconds = Annotated[float, msgspec.Meta(ge=0.0, le=7.0)]


class Tools(StrEnum):
    """The sets of tools that the model can be given."""

    NONE = "none"
    FORGET = "forget"
    RECALL = "recall"
    FULL = "full"


class Recall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many lines and characters are shown to the model, and how long a recall may take."""

    lines: _Lines = 3
    characters: _Characters = 2000
    patience: _Seconds = 0.3
    """Seconds to wait for lines to be read from disk."""
    timeout: Annotated[float, msgspec.Meta(ge=0.05, le=7.0)] = 2.0
    """Seconds to wait for a server."""
    min_confidence: Annotated[float, msgspec.Meta(ge=0.0, le=1.0)] = 0.02
    """The confidence with which a line must answer to be shown. 0 shows every line that matches."""
    neighbours: bool = False
    """Whether lines are shown that share no word with the question, but were said near a line that does."""
    standing: Annotated[int, msgspec.Meta(ge=0, le=5)] = 1
    """The maximum number of standing instructions beside the lines that match."""
    unrelated: bool = False
    """Whether the newest lines are shown if no line fits the question."""


class Keep(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which texts are stored, with or without masked secrets, and how many bytes may wait in the spool."""

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
    """The phrases, chats and platforms that keep turns from being stored.

    If a list of phrases is None, the built-in phrases are used.
    """

    turn: tuple[str, ...] | None = None
    off: tuple[str, ...] | None = None
    on: tuple[str, ...] | None = None
    chats: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()


class People(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which accounts belong to the same person. An account is written `platform:id`.

    `me` has the owner's accounts; `aliases` has the accounts of other people.
    """

    me: tuple[str, ...] = ()
    unproven: tuple[str, ...] = ("irc", "raft")
    """Platforms on which anybody may take another person's id. In direct chats there, nothing is stored or recalled."""
    aliases: dict[str, tuple[str, ...]] = {}


class ApiServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The shared memory for API requests without a session key, under the name given here.

    Without a name, such requests have no memory.
    """

    shared_as: str = ""


class SessionPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the runs of an agent share sessions.

    With the strategy `per-session`, Hermes' `MEMORY.md`, `USER.md` and `SOUL.md` are not imported: each run would put
    them into a session to which nobody returns.
    """

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
    """A checked policy. For a wired home either `vault` or `url` is set, never both."""

    profile: str
    vault: str
    url: str
    ca_file: str
    cap: Path
    state: Path
    inbox: str
    namespaces: tuple[Namespace, ...]
    """The namespaces, from the most to the least sensitive."""
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
    """The policy's own routing rules. None: the rules of the configuration file are used."""
    digest: str = field(default="", compare=False)
    """The digest of the policy's text, by which an edit is noticed."""

    @property
    def scope(self) -> str:
        """The prefix of the paths of this home's actors, as a cap names it."""
        return f"{model.actor_path('hermes', self.profile)}/"

    @property
    def is_wired(self) -> bool:
        return bool(self.vault or self.url)

    @property
    def spool(self) -> Path:
        """The directory of the sealed turns that could not be stored yet."""
        return self.state / "spool"


def path_of(home: Path) -> Path:
    """The path of a home's policy."""
    return home / FILE


def read(text: str, place: str = "") -> Policy:
    """Parse and check the text of a policy. An empty text is the policy of a home that is not wired.

    `place` is put before the message of a fault.
    """
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
        raise InvalidRequest("the policy names both a vault and a url", hint="remove `vault` or `url` from the policy")
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
    """Return a target namespace. It must be one that Hermes may use; otherwise all lines sent there would be lost."""
    if (found := model.namespace(name)) not in names:
        raise InvalidRequest(
            f"{what}: Hermes may not use the namespace {found}", hint=f"the policy's `namespaces` are {_listed(names)}"
        )
    return found


def _known(rules: Rules, names: tuple[Namespace, ...]) -> Rules:
    """Check that the rules' namespaces are known.

    A rule may name a namespace that Hermes may not use. Texts that fit such a rule are not stored, as the owner wants.
    """
    for name in (rules.default, *(rule.namespace for rule in rules.rules)):
        if name not in names and name not in DEFAULT_NAMESPACES:
            raise InvalidRequest(
                f"routing: there is no namespace {name}", hint=f"the policy's `namespaces` are {_listed(names)}"
            )
    return rules


def _listed(names: tuple[Namespace, ...]) -> str:
    return ", ".join(names) or "none"


def _inbox(text: str) -> str:
    if text and not inbox.is_recipient(text):
        raise InvalidRequest(
            "inbox: the value is not a vault's public key",
            hint="remove the `inbox` line and run `strongroom wire hermes`",
        )
    return text


def _field(text: str, what: str) -> str:
    return model.clean_field(text, what).strip()


def _phrased(said: OffTheRecord) -> OffTheRecord:
    for phrases in (said.turn or (), said.off or (), said.on or ()):
        if len(phrases) > PHRASES_LIMIT or not all(1 <= len(one.strip()) <= PHRASE_LIMIT for one in phrases):
            raise InvalidRequest(
                "off_the_record: a phrase is too long or empty, or there are too many phrases",
                hint=f"write at most {PHRASES_LIMIT} phrases of a kind, of 1 to {PHRASE_LIMIT} characters each",
            )
    return said


def _identity(people: People) -> Identity:
    """Map each account to a person. Accounts keep their platform: the same number on two platforms is two people."""
    aliases = {_account(account, "people.me"): OWNER for account in people.me}
    for name, accounts in people.aliases.items():
        for account in accounts:
            if aliases.setdefault(_account(account, "people.aliases"), name) != name:
                raise InvalidRequest(
                    f"the account {account} is given to two people", hint="keep the account under one of the two names"
                )
    for account in aliases:
        if account.partition(":")[0] in people.unproven:
            raise InvalidRequest(
                f"the account {account} is on a platform that does not prove ids",
                hint="anyone can take that id there; to trust the platform anyway, remove it from people.unproven",
            )
    return Identity(peer_name=OWNER, user_peer_aliases=aliases)


def _account(text: str, what: str) -> str:
    if not _ACCOUNT.fullmatch(text):
        raise InvalidRequest(
            f"{what}: {text[:80]!r} is not an account",
            hint="write the account as platform:id, for example telegram:12345",
        )
    return text
