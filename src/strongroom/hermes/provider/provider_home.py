"""One Hermes home in this process: its policy, caps, spool, conversations and problems, shared by all its agents.

Agents come and go, some without being shut down, so no agent owns anything here. Background work runs on two threads
that all homes share.
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
"""The name of the recorded problem if turns were set aside."""
_ONCE_IN_A_SESSION = ("loading", "the profile")
"""Kinds of work that are not retried in a session. Their problems are cleared at the next answer of the gate."""
_workers: dict[int, Workers] = {}
_homes: dict[tuple[int, str], ProviderHome] = {}
_guard = threading.Lock()


def millis() -> Millis:
    return Millis(time.time_ns() // 1_000_000)


class ProviderHome:
    """The state of one home, shared by the home's agents. Thread-safe."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._policy = Watched(policies.path_of(path), policies.read)
        self._config = Watched(settings.config_path(), settings.rules_in)
        self._parts: dict[Path, Parts] = {}
        self._known: tuple[Policy, Parts] | None = None
        """The last policy and its parts, reused until the policy changes."""
        self._good: Policy | None = None
        self._lock = threading.Lock()
        self.tended = -math.inf
        """The time of the last check of this home after a turn, by the monotonic clock."""

    @property
    def look(self) -> HomeView:
        """The home as it is now. A hook takes this view once and passes it down, so an edit takes effect between two
        hooks.
        """
        return HomeView(self, self.policy)

    @property
    def policy(self) -> Policy:
        """The owner's policy as it is now."""
        try:
            return self._policy.value
        except InvalidRequest:
            # A new process that meets a faulty policy uses the last good one of an earlier process.
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
        """Store the policy if it has no fault, for use while the file has a fault later. Otherwise report the fault."""
        if not self.policy.is_wired:
            return
        if self.broken:
            error = InvalidRequest(
                f"strongroom.toml has an error: {self.broken}",
                hint="correct the file; its last valid version is in use",
            )
            self.parts.status.failed("reading the policy", error, warn)
            return
        self.parts.status.worked("reading the policy")
        with suppress(OSError):
            now, kept = policies.path_of(self.path).read_bytes(), self.path / policies.GOOD
            if not kept.is_file() or kept.read_bytes() != now:
                write_file(kept, now, new=False)

    @property
    def broken(self) -> str:
        """The fault that keeps the policy file from being used; empty if there is none."""
        return self._policy.broken

    @property
    def parts(self) -> Parts:
        """The files and caches in the state directory that the policy names."""
        return self.look.parts

    def parts_of(self, policy: Policy) -> Parts:
        known = self._known
        if known is not None and known[0] is policy:
            return known[1]
        if not policy.is_wired:
            raise InvalidRequest("this Hermes home is not wired", hint=f"run `{hermes_homes.wire_command(self.path)}`")
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
        """Find the actor whose memory a conversation opens."""
        look = self.look
        return who(look.policy, said, look.parts.accounts)

    def _has_lines(self, platform: str, person: str) -> bool | None:
        """Whether an actor has lines under the name that version 0.1 gave it. None if this cannot be found out now."""
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
        """The rules that choose a text's namespace: the policy's, or else those of the configuration file."""
        return policy.rules or self._config.value

    def later(self, work: Callable[[], object]) -> None:
        """Run work on a shared thread. A failure is recorded and not raised."""

        def run() -> None:
            try:
                work()
            except StrongroomError as error:
                with suppress(StrongroomError):  # the policy itself may be gone
                    self.parts.status.failed("background work", error)

        _at_work().submit(run)


class Grounds(NamedTuple):
    """Everything that decides the namespace of a text, for comparison: equal values give the same namespace."""

    policy: Policy
    rules: Rules
    """The policy's rules, or those of the configuration file if the policy has none."""
    allowed: frozenset[Namespace]
    """The namespaces in which lines may be stored."""


class HomeView:
    """A home at one moment. Each part is looked up on first use, and stays the same afterwards.

    The view is passed down through one hook, so that functions need not look things up again. Passing it down saves 7 %
    of a recall's CPU time at 2,000 lines, and keeps the policy from changing during a hook.
    """

    def __init__(self, home: ProviderHome, policy: Policy) -> None:
        self.policy = policy
        self._home = home
        self._runtime: RuntimeCap | None = None

    @cached_property
    def parts(self) -> Parts:
        """The files and caches in the state directory that the policy names."""
        return self._home.parts_of(self.policy)

    @cached_property
    def way(self) -> VaultConnection:
        return open_connection(self.policy)

    @cached_property
    def grounds(self) -> Grounds:
        """Everything that decides the namespace of a text."""
        known = frozenset(self.policy.namespaces)
        with suppress(StrongroomError):  # while the cap is unreadable, the policy's: the gate judges later
            known &= self.runtime()[1].namespaces
        return Grounds(self.policy, self._home.rules_of(self.policy), known)

    @cached_property
    def phrases(self) -> Phrases:
        """The phrases that take a turn off the record: the policy's, or else the built-in phrases."""
        said, usual = self.policy.off_the_record, Phrases()
        return Phrases(
            turn=usual.turn if said.turn is None else said.turn,
            off=usual.off if said.off is None else said.off,
            on=usual.on if said.on is None else said.on,
        )

    def runtime(self) -> RuntimeCap:
        """The home's cap and its authority. An error is not cached."""
        if self._runtime is None:
            self._runtime = self.parts.caps.runtime()
        return self._runtime

    def token_for(self, actor: Actor, *, keeps: bool = True) -> Token:
        """A cap for one actor and a few minutes. An expired cap of the home is replaced first if that is allowed."""
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
        """Call the gate with a cap for one actor of this home."""
        answer = self.way.ask(self.token_for(actor, keeps=keeps), use, hasty=hasty)
        status = self.parts.status
        if status.problems:
            status.worked(*_ONCE_IN_A_SESSION)
        return answer


class Parts:
    """The files and caches in one state directory."""

    def __init__(self, policy: Policy, has_lines: HasLines) -> None:
        self.directory = policy.state
        self.accounts = Accounts(policy.state, has_lines)
        self.caps = ActorCaps(policy.cap)
        self.spool = Spool(policy.spool, policy.keep.spool_bytes)
        self.sessions = Sessions(policy.state / "sessions", lambda: self.id_key)
        self.status = ProblemLog(policy.state, millis)

    def settle(self) -> None:
        """Clear the problem of turns that were set aside if no such turn is left."""
        if SET_ASIDE in self.status.problems and not self.spool.aside():
            self.status.worked(SET_ASIDE)

    def follow(self, policy: Policy) -> None:
        """Apply a change of the policy to the cap's path and to the spool's size."""
        if self.caps.path is not policy.cap and self.caps.path != policy.cap:
            self.caps = ActorCaps(policy.cap)
        self.spool.most = policy.keep.spool_bytes

    @cached_property
    def id_key(self) -> bytes:
        """The key for the ids of this home's lines. It is created once, and never replaced if it cannot be read."""
        path = self.directory / ID_KEY
        try:
            make_directory(self.directory)
            if not path.exists():
                self.accounts.begin()
                _write_new(path)
            found = read_file(path, ID_KEY_SIZE)
        except OSError as error:
            raise KeyUnavailable(f"cannot read the key file {path}: {error.strerror}") from None
        if len(found) != ID_KEY_SIZE:
            raise KeyUnavailable(
                f"the key file {path} is damaged",
                hint="remove the file; a turn that Hermes reports twice may then be stored twice",
            )
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
    """The background threads of this process. A forked process gets its own."""
    with _guard:
        return _workers.setdefault(os.getpid(), Workers("strongroom-provider", most=2, spare=2))


def home_of(path: Path) -> ProviderHome:
    """The object for a home, shared by the whole process."""
    key = (os.getpid(), os.path.realpath(path))
    with _guard:
        if key not in _homes:
            _homes[key] = ProviderHome(path)
        return _homes[key]
