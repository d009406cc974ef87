"""Names for a provider's sessions: a name keeps one chat together and never joins two.

`resolve_session` uses the first of these sources that is known:

- A title that the user set, under every strategy. Callers leave out automatic titles, which arrive in the middle of a
  chat and would split it. Equal titles deliberately share one session, wherever they come from. If several people are
  served, turn the peer prefix on; otherwise one person's title opens another's session. Titles are compared in NFC and
  without blanks around them.
- The gateway key, which stays with a chat through `/new` and restarts. It is compared exactly.
- The source that the strategy names: the session's id, the repository's root, the directory, or the workspace. If that
  source is unknown, a narrower source is used, and never a wider source: first the repository, then the directory, then
  the id.

A name matches `[A-Za-z0-9_-]{1,100}` and has one of two forms:

- plain: a gateway key of two or more segments in lower case (`agent:main:telegram:dm:8439114563` becomes
  `agent-main-telegram-dm-8439114563`), and a session id without dashes, which stays as it is;
- hashed: every other source, as `readable--0123456789abcdef`. The hash is over peer, branch (title, key, or one of the
  strategies' sources) and exact source. The part before the hash is for people and decides nothing.

A peer prefix stands before both forms as `peer--`, on every branch, and is part of the hash. With a prefix, a name is
plain only if the peer is in lower case and without dashes.

Two requests with a different peer, branch or source never get one name, not even when case is ignored. A request
without a peer differs from each request with one. Plain segments are not empty and contain no dash, so `--` occurs in a
plain name only after a peer. The rest of a plain name is never 16 hex digits, while a hashed name always ends in `--`
and 16 hex digits. So no plain name is a hashed name, and a plain name can be read back. Equal hashed names have equal
hashes of 64 bits (SHA-256). Somebody who may choose keys needs about 2**64 attempts to get the name of a given chat.

A directory that was moved counts as another directory. The module is pure, except for `repository_of`.
"""

from __future__ import annotations

import os
import re
import unicodedata
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path, PurePath

from strongroom.errors import InvalidRequest

LENGTH = 100
HASH_DIGITS = 16
_PEER_LENGTH = 32
_SEPARATOR = "--"
_NORMALISED = 1000
"""Longest title that is normalised to NFC, in characters. Composing many combining characters takes quadratic time."""

_SEGMENT = re.compile(r"[a-z0-9_]+")
_GATEWAY_KEY = re.compile(r"[a-z0-9_]+(:[a-z0-9_]+)+")
_HASH = re.compile(r"[0-9a-f]{16}")
_UNREADABLE = re.compile(r"[^A-Za-z0-9_]+")


class Strategy(StrEnum):
    """The rule that decides which conversations share a session, if there is neither a title nor a gateway key."""

    PER_SESSION = "per-session"
    """Each run of the agent has a session of its own."""
    PER_REPO = "per-repo"
    """All runs in one repository share a session."""
    PER_DIRECTORY = "per-directory"
    """All runs in one directory share a session."""
    GLOBAL = "global"
    """All runs of one workspace share a session."""


@dataclass(frozen=True, slots=True)
class SessionSettings:
    """Settings for the names of sessions. The defaults are the ones that Hermes documents."""

    strategy: Strategy = Strategy.PER_DIRECTORY
    peer_prefix: bool = False
    """True if each name begins with `peer_name`, where `peer_name` is set."""
    peer_name: str = ""
    workspace: str = "hermes"


@dataclass(frozen=True, slots=True)
class _Source:
    """The source of a name: its branch, the exact text, the readable part, and the plain form if it has one."""

    branch: str
    exact: str
    shown: str
    plain: str = ""


def resolve_session(
    settings: SessionSettings,
    *,
    session_id: str,
    title: str = "",
    gateway_key: str = "",
    directory: PurePath | None = None,
    repository: PurePath | None = None,
) -> str:
    """The name of the provider's session. `title` is a title that the user set; paths are absolute."""
    peer = settings.peer_name if settings.peer_prefix else ""
    if set_by_user := _normal(title):
        source = _Source("title", set_by_user, set_by_user)
    elif gateway_key:
        source = _Source("chat", gateway_key, gateway_key, _plain_key(gateway_key))
    else:
        source = _by_strategy(settings, session_id, directory, repository)
    return _plain(peer, source.plain) or hash_name(source.branch, source.exact, shown=source.shown, peer=peer)


def hash_name(branch: str, exact: str, *, shown: str, peer: str = "") -> str:
    """A readable name, followed by 16 digits of a hash of `branch`, `exact` and `peer`."""
    before = f"{_readable(peer, _PEER_LENGTH) or 'peer'}{_SEPARATOR}" if peer else ""
    room = LENGTH - len(before) - len(_SEPARATOR) - HASH_DIGITS
    return f"{before}{_readable(shown, room) or branch}{_SEPARATOR}{digest(peer, branch, exact)[:HASH_DIGITS]}"


def repository_of(directory: Path) -> Path | None:
    """The root of the repository that holds `directory`: the nearest parent with a `.git` (a file, in a work tree)."""
    real = Path(os.path.realpath(directory))
    return next((one for one in (real, *real.parents) if os.path.exists(one / ".git")), None)


def _by_strategy(
    settings: SessionSettings, session_id: str, directory: PurePath | None, repository: PurePath | None
) -> _Source:
    if settings.strategy is Strategy.GLOBAL:
        return _Source("workspace", _known("workspace", settings.workspace), settings.workspace)
    if settings.strategy is Strategy.PER_REPO and repository is not None:
        return _place("repository", repository)
    if settings.strategy is not Strategy.PER_SESSION and directory is not None:
        return _place("directory", directory)
    return _Source("session", _known("session", session_id), session_id, _plain_id(session_id))


def _known(branch: str, text: str) -> str:
    # An empty source would be shared by all sessions without one.
    if not text:
        raise InvalidRequest(f"the {branch} has no name", hint="give each session an id, and the workspace a name")
    return text


def _place(branch: str, path: PurePath) -> _Source:
    # "." is a different place in each process, and would be one name for all of them.
    if not path.is_absolute():
        raise InvalidRequest(f"the {branch} must be an absolute path", hint="pass Path.cwd(), not Path('.')")
    return _Source(branch, str(path), path.name)


def _plain(peer: str, body: str) -> str:
    """The plain form of a name. Empty if the name has none."""
    if not peer or not body:
        return body if len(body) <= LENGTH else ""
    fits = len(peer) <= _PEER_LENGTH and len(peer) + len(_SEPARATOR) + len(body) <= LENGTH
    return f"{peer}{_SEPARATOR}{body}" if fits and _SEGMENT.fullmatch(peer) else ""


def _plain_key(key: str) -> str:
    # A single segment could be a session's id.
    return key.replace(":", "-") if _GATEWAY_KEY.fullmatch(key) else ""


def _plain_id(session_id: str) -> str:
    # 16 hex digits after a peer would look like a hash.
    return session_id if _SEGMENT.fullmatch(session_id) and not _HASH.fullmatch(session_id) else ""


def _normal(title: str) -> str:
    stripped = title.strip()
    return unicodedata.normalize("NFC", stripped) if len(stripped) <= _NORMALISED else stripped


def _readable(text: str, room: int) -> str:
    return _UNREADABLE.sub("-", text[: 4 * LENGTH]).strip("-")[:room].rstrip("-")


def digest(*parts: str) -> str:
    """One hash of several texts, 64 hex digits. Each part is prefixed by its length, so no two lists collide.

    Half a surrogate pair is hashed as itself.
    """
    data = [part.encode("utf-8", "surrogatepass") for part in parts]
    return sha256(b"".join(len(one).to_bytes(8, "big") + one for one in data)).hexdigest()
