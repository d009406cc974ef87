"""Clients of a simulated fleet: what they ask of which worker, by the seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from strongroom import Vault
from strongroom.memory import Memory
from strongroom.model import Receipt
from tests.fleet.asking import DOCUMENT, Asking
from tests.fleet.expiry import OVER, Expiring, check_stored
from tests.fleet.history import Call, Cap, Key
from tests.fleet.rules import Rule
from tests.fleet.workers import ACTORS

if TYPE_CHECKING:
    from tests.fleet.simulation import World
    from tests.fleet.workers import Worker

NAMESPACES = ("personal", "travel")
_EVERY = ("personal", "family", "work", "travel")
_PUTS = ("put", "replace")
_CALLS = 14
_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LONG = 15_000
"""A pause in ms after which lines are old enough to be packed."""


class Owner(Asking):
    """Mints, revokes, and erases actors."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "owner")

    def provide(self) -> None:
        """A first cap for each actor."""
        for actor in ACTORS:
            while (worker := self.any_worker()) is None or self.mint(worker, actor, NAMESPACES) is None:
                self.world.scheduler.pause(100)

    def run(self) -> None:
        for _ in range(_CALLS // 2):
            self.world.scheduler.pause(self.random.randrange(50, 1500))
            worker = self.any_worker()
            if worker is not None:
                actor = self.random.choice(ACTORS)
                what = self.random.choice([self._mint, self._revoke, self._revoke, self._erase, self._erase])
                what(worker, actor)
        self.world.left -= 1

    def _mint(self, worker: Worker, actor: str) -> None:
        self.mint(worker, actor, self.random.choice([NAMESPACES, NAMESPACES, NAMESPACES[1:]]))

    def _revoke(self, worker: Worker, actor: str) -> None:
        """Revoke a cap, trying again elsewhere until it is acknowledged; then mint another."""
        held = self.random.choice([one for one in self.world.history.caps if one.actor == actor])

        def ask(vault: Vault, _: Call) -> None:
            vault.revoke(held.link)

        for _ in range(self.random.randint(1, 4)):
            if self.call(worker, "revoke", actor, ask, link=held.link).is_ok:
                for one in self.world.workers:
                    if one.vault is not None:
                        self.list(one, held)
                break
            worker = self.any_worker() or worker
        self._mint(self.any_worker() or worker, actor)

    def _erase(self, worker: Worker, actor: str) -> None:
        def ask(vault: Vault, _: Call) -> None:
            vault.erase(actor)

        self.call(worker, "erase_actor", actor, ask, namespaces=_EVERY)
        self._mint(self.any_worker() or worker, actor)


class Client(Expiring):
    """An agent that puts, sends again what failed, asks, forgets and erases."""

    def __init__(self, world: World, number: int) -> None:
        super().__init__(world, f"client-{number}")
        self._actor = self.random.choice(ACTORS)
        self._failed: list[Call] = []
        self._count = 0

    def run(self) -> None:
        doing = [self._put] * 8 + [self._again] * 4 + [self._list] * 4 + [self._get] * 4 + [self._query] * 2
        doing += [self._forget] * 4 + [self._erase, self._profile, self._profile, self._snapshot]
        doing += [self._replace] * 8 if self.world.corrects else []
        doing += [self._write_ending, self.read_endings] * 3 if self.world.expires else []
        briefly = 0.7 if self.world.expires else 0.9
        for _ in range(_CALLS):
            self.world.scheduler.pause(self.random.randrange(5, 400) if self.random.random() < briefly else _LONG)
            worker, held = self.any_worker(), self._cap()
            if worker is not None:
                self.random.choice(doing)(worker, held)
        self.world.left -= 1

    def _cap(self) -> Cap:
        """The newest cap as a rule, now and then an old one."""
        caps = [one for one in self.world.history.caps if one.actor == self._actor]
        return self.random.choice(caps) if self.random.random() < 0.15 else caps[-1]

    def _put(self, worker: Worker, held: Cap) -> None:
        texts: dict[str, Key | None] = {}
        namespaces: dict[str, str] = {}
        for _ in range(self.random.choice([1, 1, 1, 1, 4])):
            self._count += 1
            text, namespace = f"{self.name} said {self._count}", self.random.choice(held.namespaces)
            line = "01J" + "".join(self.random.choices(_ALPHABET, k=23))
            texts[text] = (namespace, line) if self.random.random() < 0.6 else None
            namespaces[text] = namespace
            self.choose_end(text)
        self._send(worker, held, texts, namespaces)

    def _send(self, worker: Worker, held: Cap, texts: Mapping[str, Key | None], namespaces: Mapping[str, str]) -> None:
        def ask(memory: Memory, call: Call) -> None:
            lines = [self.line(text, namespaces[text], None if key is None else key[1]) for text, key in texts.items()]
            receipts: list[Receipt] = memory.put_many(lines)
            keys = [(one.namespace, one.id) for one in receipts]
            call.texts = dict(zip(texts, keys, strict=True))
            call.forgotten = frozenset((one.namespace, one.id) for one in receipts if one.forgotten)

        call = self.with_cap(worker, held, "put", ask, texts=dict(texts))
        if not call.is_ok and all(key is not None for key in texts.values()):
            self._failed.append(call)

    def _again(self, worker: Worker, held: Cap) -> None:
        """Send something again, under the same ids: what failed, or else what was acknowledged."""
        sent = [one for one in self.world.history.calls if one.client == self.name and one.op == "put" and one.is_ok]
        before = self._failed.pop(0) if self._failed else self.random.choice(sent) if sent else None
        if before is not None:
            namespaces = {text: key[0] for text, key in before.texts.items() if key is not None}
            if set(namespaces.values()) <= set(held.namespaces):
                self._send(worker, held, before.texts, namespaces)

    def _list(self, worker: Worker, held: Cap) -> None:
        self.list(worker, held)

    def _known(self, held: Cap) -> list[Key]:
        puts = self.world.history.of(held.actor, *_PUTS)
        keys = [key for put in puts for key in put.texts.values()]
        return sorted({key for key in keys if key is not None and key[0] in held.namespaces})

    def _get(self, worker: Worker, held: Cap) -> None:
        known = self._known(held)
        self.get(worker, held, tuple(self.random.sample(known, min(len(known), 2))))

    def _query(self, worker: Worker, held: Cap) -> None:
        self.get(worker, held, ())

    def _snapshot(self, worker: Worker, held: Cap) -> None:
        self.snapshot(worker, held)

    def _forget(self, worker: Worker, held: Cap) -> None:
        known = self._known(held)
        chosen = tuple(self.random.sample(known, min(len(known), self.random.choice([1, 1, 3]))))

        def ask(memory: Memory, call: Call) -> None:
            gone = memory.forget(ids=[line for _, line in chosen]).ids
            call.wanted = tuple(key for key in chosen if key[1] in gone)

        if chosen:
            self.with_cap(worker, held, "forget", ask, wanted=chosen)

    def _replace(self, worker: Worker, held: Cap) -> None:
        """Correct a line; now and then one that somebody else corrects or forgets at the same time."""
        known = self._known(held)
        if not known:
            return
        self._count += 1
        old, text = self.random.choice(known), f"{self.name} said {self._count}, corrected"
        new = (old[0], "01J" + "".join(self.random.choices(_ALPHABET, k=23)))
        self._choose_end_after(old, text, held)

        def ask(memory: Memory, call: Call) -> None:
            memory.replace(old[1], text, namespace=old[0], new_id=new[1], expires=self.end_of(text))

        for _ in range(self.random.choice([1, 2])):  # sent again, it takes effect once
            self.with_cap(worker, held, "replace", ask, wanted=(old,), texts={text: new})

    def _choose_end_after(self, old: Key, text: str, held: Cap) -> None:
        """Give a correction an end; what is given none has that of the line that it replaces."""
        before = [
            one for put in self.world.history.of(held.actor, *_PUTS) for one, key in put.texts.items() if key == old
        ]
        if before and before[0] in self.world.history.ends:
            self.world.history.ends[text] = self.world.history.ends[before[0]]
        self.choose_end(text)

    def _write_ending(self, worker: Worker, held: Cap) -> None:
        self._count += 1
        self.write_ending(worker, held, f"{self.name} wrote {self._count}")

    def _erase(self, worker: Worker, held: Cap) -> None:
        namespace = self.random.choice(held.namespaces)

        def ask(memory: Memory, _: Call) -> None:
            memory.erase([namespace])

        self.with_cap(worker, held, "erase", ask, namespaces=(namespace,))

    def _profile(self, worker: Worker, held: Cap) -> None:
        self._count += 1
        namespace, text = self.random.choice(held.namespaces), f"profile {self._count} of {self.name}"

        def write(memory: Memory, _: Call) -> None:
            held = [one.version for one in memory.documents(DOCUMENT, namespaces=[namespace]).documents]
            memory.write_document(DOCUMENT, text, namespace=namespace, version="".join(held))

        def ask(memory: Memory, _: Call) -> None:
            before = memory.profile(namespace)
            memory.set_profile(text, namespace=namespace, version=before.version)

        do = write if self.world.has_documents else ask
        self.with_cap(worker, held, "set_profile", do, namespaces=(namespace,), profile=text)


class Ending(Asking):
    """Looks at everything through every worker, when nothing fails any more."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "end")

    def run(self) -> None:
        for worker in self.world.workers:
            if worker.vault is None:
                worker.start()
        if self.random.random() < 0.5:
            self.world.scheduler.pause(2 * _LONG)
            for worker in self.world.workers[:2]:
                worker.compact()
        if self.world.expires:
            self._sweep()
        for actor in ACTORS:
            held = self.mint(self.world.workers[0], actor, NAMESPACES)
            if held is not None:
                self._check_same([self._look(worker, held) for worker in self.world.workers], actor)
        for old in list(self.world.history.caps):
            self.list(self.random.choice(self.world.workers), old)
        self._verify(self.random.choice(self.world.workers))

    def _sweep(self) -> None:
        """Whoever sweeps first finds all that has ended, and nothing of it is stored afterwards."""
        self.world.scheduler.pause(OVER)
        worker = self.random.choice(self.world.workers)
        if worker.vault is not None:
            swept = worker.vault.ended.forget()
            if swept.damaged or swept.pending:
                self.world.history.note(Rule.STORED, swept)
        self.world.history.notes += check_stored(self.world)

    def _verify(self, worker: Worker) -> None:
        """The logs, and that nothing is in the bucket but what they speak of."""
        if worker.vault is not None:
            findings = worker.vault.audit.verify().findings
            for one in findings:
                self.world.history.note(Rule.FLAW, f"{one.flaw} {one.object or one.entry or ''}")

    def _look(self, worker: Worker, held: Cap) -> dict[Key, str | None]:
        keys = list(self.list(worker, held).shown)
        self.snapshot(worker, held)
        found: dict[Key, str | None] = {}
        for at in range(0, len(keys), 20):
            found.update(self.get(worker, held, tuple(keys[at : at + 20])).shown)
        if set(found) != set(keys):
            self.world.history.note(Rule.LISTED_NOT_GOT, worker.name)
        return found

    def _check_same(self, seen: list[dict[Key, str | None]], actor: str) -> None:
        if any(one != seen[0] for one in seen):
            self.world.history.note(Rule.DISAGREEING, actor)
