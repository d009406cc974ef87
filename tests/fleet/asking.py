"""Asking: a client's calls of a simulated fleet, and how what it heard is written down."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from strongroom import Vault
from strongroom.caps import chain
from strongroom.errors import StrongroomError
from strongroom.memory import Memory
from strongroom.model import Kind
from tests.conftest import ALL_OPS
from tests.fleet.history import DEAD, OK, Call, Cap, Key
from tests.fleet.simulated import Died

if TYPE_CHECKING:
    from tests.fleet.simulation import World
    from tests.fleet.workers import Worker

_TTL = 100_000
DOCUMENT = "notes/the-one.md"
"""The key of every document."""


class Asking:
    """Makes calls on a worker, and keeps what became of them."""

    def __init__(self, world: World, name: str) -> None:
        self.world = world
        self.name = name
        self.random = Random(f"{name}/{world.seed}")
        self._worker: Worker | None = None

    def any_worker(self) -> Worker | None:
        """A worker that is open; mostly the same one."""
        alive = [worker for worker in self.world.workers if worker.vault is not None]
        if self._worker not in alive or self.random.random() < 0.4:
            self._worker = self.random.choice(alive) if alive else None
        return self._worker

    def call(self, worker: Worker, op: str, actor: str, do: Callable[[Vault, Call], None], **known: object) -> Call:
        history, scheduler = self.world.history, self.world.scheduler
        call = Call(len(history.calls), self.name, worker.bucket.worker, op, actor, began=scheduler.tick(), **known)  # type: ignore[arg-type]
        call.clock = worker.clock()
        history.calls.append(call)
        self.world.server.note(self.name, "asks", call.number, op, worker.bucket.worker)
        bucket, vault = worker.bucket, worker.vault
        outcome = DEAD
        try:
            if vault is not None:
                do(vault, call)
                outcome = OK
        except StrongroomError as error:
            outcome = error.reason
            self.world.server.note(self.name, "is told", call.number, error.message)
        except Died:
            pass
        except Exception as error:  # noqa: BLE001 - a defect, which the checker reports
            outcome = f"{type(error).__name__}: {error}"
        call.outcome = DEAD if bucket.is_dead else outcome
        call.ended, call.over = scheduler.tick(), scheduler.now
        self.world.server.note(self.name, "hears", call.number, call.outcome)
        return call

    def with_cap(self, worker: Worker, held: Cap, op: str, do: Callable[[Memory, Call], None], **known: object) -> Call:
        known.setdefault("namespaces", held.namespaces)

        def ask(vault: Vault, call: Call) -> None:
            do(vault.memory(held.token, request=call.request), call)

        return self.call(worker, op, held.actor, ask, cap=held, **known)

    # Calls that several sorts of clients make.

    def mint(self, worker: Worker, actor: str, namespaces: tuple[str, ...]) -> Cap | None:
        found: list[str] = []

        def ask(vault: Vault, call: Call) -> None:
            token = vault.mint(actor=actor, ops=ALL_OPS, namespaces=namespaces, ttl=_TTL)
            found.append(token)
            call.link = chain.parse(token).links[-1].id

        call = self.call(worker, "mint", actor, ask)
        if not call.is_ok:
            return None
        made = Cap(found[0], call.link, actor, namespaces, call)
        self.world.history.caps.append(made)
        return made

    def list(self, worker: Worker, held: Cap) -> Call:
        def ask(memory: Memory, call: Call) -> None:
            listing = memory.list(limit=1000)
            keys = [(one.namespace, one.id) for one in listing.lines]
            call.shown, call.is_whole = dict.fromkeys(keys), listing.next is None
            call.twice = len(keys) - len(call.shown)

        return self.with_cap(worker, held, "list", ask)

    def get(self, worker: Worker, held: Cap, keys: tuple[Key, ...]) -> Call:
        """Exactly these lines, or the newest lines if there are none."""

        def ask(memory: Memory, call: Call) -> None:
            hits = memory.get(ids=[line for _, line in keys]) if keys else memory.get("", k=20)
            hits = [hit for hit in hits if hit.kind != Kind.DOCUMENT]
            call.shown = {(hit.namespace, hit.id): hit.text for hit in hits}
            call.twice = len(hits) - len(call.shown)

        return self.with_cap(worker, held, "get", ask, wanted=keys)

    def snapshot(self, worker: Worker, held: Cap) -> Call:
        def ask(memory: Memory, call: Call) -> None:
            call.shown = {(one.namespace, "profile"): one.text for one in memory.snapshot().profiles}

        def recall(memory: Memory, call: Call) -> None:
            """The documents: as a recall finds them, or by their key."""
            if self.random.random() < 0.5:
                hits = memory.get("", kind="document", k=20)
                found = [(hit.namespace, hit.text) for hit in hits if hit.text not in self.world.history.ends]
            else:
                listed = memory.documents(DOCUMENT).documents
                found = [(one.namespace, memory.document(one.key, namespace=one.namespace).text) for one in listed]
            call.shown = {(namespace, "profile"): text for namespace, text in found}

        return self.with_cap(worker, held, "snapshot", recall if self.world.has_documents else ask)
