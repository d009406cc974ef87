"""One Hermes home in this process: its policy, caps, spool, conversations and problems, shared by all its agents.

Agents come and go, some without being shut down, so nothing here belongs to one of them. Work that need not be waited
for runs on two threads that all homes share.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import NamedTuple, TypeVar

from strongroom import model, settings
from strongroom.caps.chain import Token
from strongroom.errors import CapExpired, InvalidRequest, KeyUnavailable, StrongroomError
from strongroom.hermes import hermes_homes
from strongroom.hermes import policy as policies
from strongroom.hermes.policy import Policy
from strongroom.hermes.provider.actor_caps import KEEPS, RECALLS, ActorCaps, RuntimeCap
from strongroom.hermes.provider.conversation import Sessions
from strongroom.hermes.provider.offline_spool import Spool
from strongroom.hermes.provider.privacy_phrases import Phrases
from strongroom.hermes.provider.problem_log import ProblemLog, Warn
from strongroom.hermes.provider.secret_mask import Mask
from strongroom.hermes.provider.speaker import Conversation, Nobody, Speaker, who
from strongroom.hermes.provider.turn_ids import ID_KEY_SIZE
from strongroom.hermes.provider.user_accounts import ID_KEY, Accounts, HasLines
from strongroom.hermes.provider.vault_connection import VaultConnection, open_connection
from strongroom.host.cache.settings_file import Watched
from strongroom.host.worker_pool import Workers
from strongroom.memory import Memory
from strongroom.model import Actor, Millis, Namespace, Op
from strongroom.private_files import make_directory, read_file, write_file
from strongroom.routing import Rules

T = TypeVar("T")
SET_ASIDE = "delivering a turn"
"""The work that failed where a turn was set aside."""
_ONCE_IN_A_SESSION = ("loading", "the profile")
"""Work that is not tried again by itself: what failed at it is over when the gate answers anything."""
_workers: dict[int, Workers] = {}
_homes: dict[tuple[int, str], ProviderHome] = {}
_guard = threading.Lock()


def millis() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


class ProviderHome:
    """What the agents of one home share. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._policy = Watched(policies.path_of(path), policies.read)
        self._config = Watched(settings.config_path(), settings.rules_in)
        self._parts: dict[Path, Parts] = {}
        self._known: tuple[Policy, Parts] | None = None
        """The policy that was seen last, and its parts: the same ones until it is edited."""
        self._good: Policy | None = None
        self._lock = threading.Lock()
        self.tended = -math.inf
        """When it was last looked after because of a turn."""

    @property
    def look(self) -> HomeView:
        """What it is now. A hook looks once and passes it on, so an edit takes effect between two hooks."""
        return HomeView(self, self.policy)

    @property
    def policy(self) -> Policy:
        """The owner's policy as it is now."""
        try:
            return self._policy.value
        except InvalidRequest:
            # A new process meets a policy with a fault: the last good one of the process before it counts.
            if self._good is None:
                self._good = self._last_good()
            if self._good is None:
                raise
            return self._good

    def _last_good(self) -> Policy | None:
        try:
            return policies.read((self.path / policies.GOOD).read_text())
        except (OSError, UnicodeDecodeError, InvalidRequest):
            return None

    def keep_good(self, warn: Warn | None = None) -> None:
        """Keep a policy that is sound for the time when it is not, and say so where it is not."""
        if not self.policy.is_wired:
            return
        if self.broken:
            error = InvalidRequest(f"strongroom.toml is not in use: {self.broken}", hint="the one before it is")
            self.parts.status.failed("reading the policy", error, warn)
            return
        self.parts.status.worked("reading the policy")
        with suppress(OSError):
            now, kept = policies.path_of(self.path).read_bytes(), self.path / policies.GOOD
            if not kept.is_file() or kept.read_bytes() != now:
                write_file(kept, now, new=False)

    @property
    def broken(self) -> str:
        """Why the policy file as it is now is not in use; empty if it is."""
        return self._policy.broken

    @property
    def parts(self) -> Parts:
        """What belongs to the state directory that the policy names."""
        return self.look.parts

    def parts_of(self, policy: Policy) -> Parts:
        known = self._known
        if known is not None and known[0] is policy:
            return known[1]
        if not policy.is_wired:
            raise InvalidRequest("this home is not wired", hint=f"run `{hermes_homes.wire_command(self.path)}`")
        with self._lock:
            if policy.state not in self._parts:
                self._parts[policy.state] = Parts(policy, self._has_lines)
            parts = self._parts[policy.state]
            parts.follow(policy)
            self._known = (policy, parts)
            return parts

    @property
    def way(self) -> VaultConnection:
        return self.look.way

    def whose(self, said: Conversation) -> Speaker | Nobody:
        """Whose memory a conversation opens."""
        look = self.look
        return who(look.policy, said, look.parts.accounts)

    def _has_lines(self, platform: str, person: str) -> bool | None:
        """Whether there are lines under a name that 0.1 gave to somebody; None if nobody answers that now."""
        look = self.look
        policy, parts = look.policy, look.parts
        actor = model.actor_path("hermes", policy.profile, platform, person)
        try:
            if any(entry.actor == actor for entry in parts.spool.entries()):
                return True
            token = parts.caps.narrowed(actor, policy.namespaces, (Op.LIST,))
            return bool(look.way.ask(token, lambda memory: memory.list(limit=1), hasty=True).lines)
        except StrongroomError:
            return None

    def rules_of(self, policy: Policy) -> Rules:
        """The rules by which a text is given a namespace: the policy's, else those of the configuration file."""
        return policy.rules or self._config.value

    def later(self, work: Callable[[], object]) -> None:
        """Have work done on a shared thread. What it fails with is noted, never raised."""

        def run() -> None:
            try:
                work()
            except StrongroomError as error:
                with suppress(StrongroomError):  # the policy itself may be gone
                    self.parts.status.failed("background work", error)

        _at_work().submit(run)


class Grounds(NamedTuple):
    """What decides where a text goes. Comparable: as long as it is the same, a text goes where it went."""

    policy: Policy
    rules: Rules
    """The policy's, else those of the configuration file."""
    allowed: frozenset[Namespace]
    """The namespaces that lines may go to."""


class HomeView:
    """What a home is at one moment. Each part of it is looked for when it is first asked for; once found, it stays.

    Passed down through one hook, instead of each function looking again: a recall at 2,000 lines takes 7 % less CPU
    time by that, and no policy changes in the middle of one.
    """

    def __init__(self, home: ProviderHome, policy: Policy) -> None:
        self.policy = policy
        self._home = home
        self._runtime: RuntimeCap | None = None

    @cached_property
    def parts(self) -> Parts:
        """What belongs to the state directory that the policy names."""
        return self._home.parts_of(self.policy)

    @cached_property
    def way(self) -> VaultConnection:
        return open_connection(self.policy)

    @cached_property
    def grounds(self) -> Grounds:
        """What decides where a text goes."""
        known = frozenset(self.policy.namespaces)
        with suppress(StrongroomError):  # while the cap cannot be read, the policy's: the gate judges later
            known &= self.runtime()[1].namespaces
        return Grounds(self.policy, self._home.rules_of(self.policy), known)

    @cached_property
    def phrases(self) -> Phrases:
        """The phrases that take a turn off the record: the policy's, else the built-in ones."""
        said, usual = self.policy.off_the_record, Phrases()
        return Phrases(
            turn=usual.turn if said.turn is None else said.turn,
            off=usual.off if said.off is None else said.off,
            on=usual.on if said.on is None else said.on,
        )

    def runtime(self) -> RuntimeCap:
        """The runtime's cap; an error is not remembered."""
        if self._runtime is None:
            self._runtime = self.parts.caps.runtime()
        return self._runtime

    def token_for(self, actor: Actor, *, keeps: bool = True) -> Token:
        """A cap for one actor and a few minutes; the runtime's own is made anew if it has ended and may be."""
        ops, names, caps = KEEPS if keeps else RECALLS, self.policy.namespaces, self.parts.caps
        try:
            return caps.narrowed(actor, names, ops, self._runtime)
        except CapExpired:
            if not self.way.is_embedded:
                raise
        caps.renew(self.way)
        self._runtime = None
        return caps.narrowed(actor, names, ops)

    def ask(self, actor: Actor, use: Callable[[Memory], T], *, hasty: bool = False, keeps: bool = True) -> T:
        """Ask the gate as one actor of this home."""
        answer = self.way.ask(self.token_for(actor, keeps=keeps), use, hasty=hasty)
        status = self.parts.status
        if status.problems:
            status.worked(*_ONCE_IN_A_SESSION)
        return answer


class Parts:
    """What one state directory holds."""

    def __init__(self, policy: Policy, has_lines: HasLines) -> None:
        self.directory = policy.state
        self.accounts = Accounts(policy.state, has_lines)
        self.caps = ActorCaps(policy.cap)
        self.spool = Spool(policy.spool, policy.keep.spool_bytes)
        self.sessions = Sessions(policy.state / "sessions", lambda: self.id_key)
        self.status = ProblemLog(policy.state, millis)

    def settle(self) -> None:
        """Let the trouble with turns that the vault would not take be over once none of them is left."""
        if SET_ASIDE in self.status.problems and not self.spool.aside():
            self.status.worked(SET_ASIDE)

    def follow(self, policy: Policy) -> None:
        """Take over what an edit may have changed."""
        if self.caps.path is not policy.cap and self.caps.path != policy.cap:
            self.caps = ActorCaps(policy.cap)
        self.spool.most = policy.keep.spool_bytes

    @cached_property
    def id_key(self) -> bytes:
        """The key of the ids of this home's lines. Made once; if it cannot be read, no other is made."""
        path = self.directory / ID_KEY
        try:
            make_directory(self.directory)
            if not path.exists():
                self.accounts.begin()
                _write_new(path)
            found = read_file(path, ID_KEY_SIZE)
        except OSError as error:
            raise KeyUnavailable(f"cannot read {path}: {error.strerror}") from None
        if len(found) != ID_KEY_SIZE:
            raise KeyUnavailable(f"{path} is damaged", hint="remove it; turns told twice may then be kept twice")
        return found

    @cached_property
    def mask(self) -> Mask:
        return Mask()


def _write_new(path: Path) -> None:
    try:
        write_file(path, os.urandom(ID_KEY_SIZE), new=True)
    except FileExistsError:
        return  # another process was first


def _at_work() -> Workers:
    """The threads of this process: a forked one has none of its parent's."""
    with _guard:
        return _workers.setdefault(os.getpid(), Workers("strongroom-provider", most=2, spare=2))


def home_of(path: Path) -> ProviderHome:
    """The process's own object for a home."""
    key = (os.getpid(), os.path.realpath(path))
    with _guard:
        if key not in _homes:
            _homes[key] = ProviderHome(path)
        return _homes[key]
