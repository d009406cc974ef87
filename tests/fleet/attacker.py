"""Somebody who writes to a simulated bucket and has no keys: undoes what a worker has just acknowledged.

The worker idles, goes on, or is killed, by the seed. Another one has seen it, and does not go back. Whatever it was has
to be named by the next verification; and but for a put, which may be acknowledged a moment before its log says so, it
has to be a flaw and no mere doubt. Or an object is planted where the worker's log goes on: then it goes on elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from strongroom import NewLine, Vault
from strongroom.audit import VerificationReport
from strongroom.memory import Memory
from tests.fleet.asking import Asking
from tests.fleet.history import Call, Cap
from tests.fleet.rules import Rule
from tests.fleet.workers import ACTORS

if TYPE_CHECKING:
    from tests.fleet.simulation import World
    from tests.fleet.workers import Worker

_OVER = 120_000
"""In ms: what was begun before is over, and older than any two clocks differ."""
_PLANTS = 0.15
"""How often a bundle is planted, and nothing undone."""
_MAY_BE_SAID_LATER = ("put", "set_profile")
"""What creates an object and replaces none."""
_VOID = ("cap_revoked", "tampered")
_REFUSED: dict[str, tuple[str, ...]] = dict.fromkeys(("put", "forget", "erase", "set_profile"), ("tampered",))
_REFUSED |= {"revoke": _VOID, "revoke_actor": _VOID, "erase_actor": _VOID}
"""What a worker may say to a cap once something that it has seen was undone."""
Objects = Mapping[str, tuple[bytes, int] | None]


class Attacker(Asking):
    """Undoes an acknowledged effect when nobody else asks for anything."""

    def __init__(self, world: World) -> None:
        super().__init__(world, "attacker")

    def run(self) -> None:
        worker, other = self.random.sample(self.world.workers, 2)
        actor = self.random.choice(ACTORS)
        if other.vault is None:
            return  # it could not be opened, and that is written down
        held = self.mint(worker, actor, ("travel",))
        if held is None or not self.with_cap(worker, held, "put", _puts).is_ok:
            return
        self.world.scheduler.pause(_OVER)
        self._verify(other)
        self._verify(other)  # settles what was begun and never said done before
        if not (before := self._verify(other)).ok:
            self.world.history.note(Rule.UNSETTLED, _named(before))
            return
        if self.random.random() < _PLANTS:
            self._plant(worker, other, held)
        else:
            self._undoes(worker, other, held)

    def _undoes(self, worker: Worker, other: Worker, held: Cap) -> None:
        op, do = self.random.choice(list(self._acts(held).items()))
        self._look(other, held)
        call, changed = self._acknowledged(worker, op, held, do)
        if not call.is_ok:
            return
        fate = self._fate(worker)
        self.world.scheduler.pause(self.random.choice([0, 1000, 5000, 60_000]))
        self._look(other, held)
        self._undo(changed)
        if (seen := self._look(other, held)).outcome not in _REFUSED[op]:
            self.world.history.note(Rule.WENT_BACK, f"from {op}: {seen}")
        self.world.scheduler.pause(_OVER)
        report = self._verify(other)
        if not (report.findings or (op in _MAY_BE_SAID_LATER and report.doubtful)):
            self.world.history.note(Rule.UNNAMED, f"{op}, its worker {fate}: {call}")

    def _plant(self, worker: Worker, other: Worker, held: Cap) -> None:
        """Write a bundle in the place of a worker's next one, and take it away again when all has been looked at."""
        assert worker.vault is not None
        objects = self.world.server.objects
        own = sorted(name for name in objects if name.startswith(f"logs/{worker.vault.store.worker}/"))  # type: ignore[attr-defined]
        place = f"{own[-1][:-12]}{int(own[-1][-12:]) + 1:012d}"
        body = self.random.choice([b"planted", objects[own[-1]][0]])
        self.world.server.note(self.name, "plants", place)
        objects[place] = body, self.world.scheduler.now
        call = self.with_cap(worker, held, "put", _puts)
        if not call.is_ok:
            self.world.history.note(Rule.STOPPED, call)
        elif self.world.taken_logs != 1:
            self.world.history.note(Rule.NO_ALARM, f"{self.world.taken_logs} of them")
        if not self._verify(other).findings:
            self.world.history.note(Rule.UNNAMED_BUNDLE, place)
        del objects[place]

    def _acts(self, held: Cap) -> dict[str, Callable[[Vault, Call], object]]:
        def memory(vault: Vault) -> Memory:
            return vault.memory(held.token)

        def forget(vault: Vault, _: Call) -> None:
            memory(vault).forget(ids=[one.id for one in memory(vault).list().lines][:2])

        def profile(vault: Vault, _: Call) -> None:
            memory(vault).set_profile("the attacker's", version=memory(vault).profile().version)

        return {
            "put": lambda vault, _: _put(memory(vault), "what will be undone"),
            "forget": forget,
            "revoke": lambda vault, _: vault.revoke(held.link),
            "revoke_actor": lambda vault, _: vault.revoke_actor(held.actor),
            "erase": lambda vault, _: _erase(memory(vault)),
            "erase_actor": lambda vault, _: _erase_actor(vault, held.actor),
            "set_profile": profile,
        }

    def _look(self, worker: Worker, held: Cap) -> Call:
        def ask(vault: Vault, _: Call) -> None:
            vault.memory(held.token).list()

        return self.call(worker, "look", held.actor, ask)

    def _acknowledged(
        self, worker: Worker, op: str, held: Cap, do: Callable[[Vault, Call], object]
    ) -> tuple[Call, Objects]:
        """What came of a call, and what was there before of all that it changed, but for the logs."""
        before = dict(self.world.server.objects)

        def ask(vault: Vault, call: Call) -> None:
            do(vault, call)

        call = self.call(worker, f"undone {op}", held.actor, ask)
        after = self.world.server.objects
        changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
        return call, {name: before.get(name) for name in changed if not name.startswith(("logs/", "roster/"))}

    def _fate(self, worker: Worker) -> str:
        fate = self.random.choice(["idles", "goes on", "is killed"])
        if fate == "is killed":
            worker.kill()
        elif fate == "idles":
            self.world.scheduler.pause(2000)
        else:
            self.mint(worker, ACTORS[0], ("travel",))
        return fate

    def _undo(self, before: Objects) -> None:
        for name, body in sorted(before.items()):
            self.world.server.note(self.name, "undoes", name)
            self.world.server.objects.pop(name, None)
            if body is not None:
                self.world.server.objects[name] = body

    def _verify(self, worker: Worker) -> VerificationReport:
        assert worker.vault is not None
        return worker.vault.audit.verify(first=True)


def _named(report: VerificationReport) -> str:
    return ", ".join([*(one.flaw.value for one in report.findings), *(one.op for one in report.doubtful)])


def _puts(memory: Memory, _: Call) -> None:
    _put(memory, "what will be forgotten")


def _put(memory: Memory, text: str) -> None:
    memory.put_many([NewLine(text=text, namespace="travel")])


def _erase(memory: Memory) -> None:
    memory.erase(["travel"])


def _erase_actor(vault: Vault, actor: str) -> None:
    vault.erase(actor)
