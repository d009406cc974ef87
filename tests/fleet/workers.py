"""The workers of a simulated fleet: each a whole vault, with a clock of its own, that dies and is started anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from strongroom import Vault
from strongroom.errors import Unavailable
from strongroom.model import Actor, Millis
from strongroom.store.s3 import S3Store
from strongroom.store.s3.compaction import Compactor
from tests.fleet.rules import Rule
from tests.fleet.simulated import Died

if TYPE_CHECKING:
    from tests.fleet.simulation import World

ACTORS = ("fleet/alice", "fleet/bob")
SKEW = 14_000
"""The most, in ms, that a clock is off: two of them differ by less than the leeway that caps have."""
_OPENINGS = 100
_SETTLED = 10_000
"""The age in ms from which lines are packed: longer than any request of a simulated bucket is under way."""


class Worker:
    """A process of the fleet: a vault, open or not."""

    def __init__(self, world: World, name: str) -> None:
        self._world = world
        self.name = name
        self._starts = 0
        self._skew = world.random.randrange(-SKEW, SKEW)
        self.bucket = world.bucket(name)
        self.vault: Vault | None = None

    def clock(self) -> Millis:
        return Millis(self._world.scheduler.now + self._skew)

    def start(self) -> None:
        """Begin anew, as often as it takes: the store may be out of reach."""
        self._starts += 1
        self.bucket = self._world.bucket(f"{self.name}.{self._starts}")
        own = self.bucket
        for _ in range(_OPENINGS):
            try:
                vault = self._world.open(self)
            except Unavailable:
                self._world.scheduler.pause(100)
                continue
            except Died:
                return
            if self.bucket is own:
                self.vault = vault
            return
        self._world.history.note(Rule.NO_START, self.name)

    def compacts(self) -> None:
        """Now and then, beside all else, until the clients are done."""
        while self._world.left:
            self._world.scheduler.pause(self._world.random.randrange(300, 6000))
            self.compact()

    def compact(self) -> None:
        """Pack whatever is old enough, of every actor that this worker knows."""
        vault, scheduler = self.vault, self._world.scheduler
        if vault is None or not isinstance(vault.store, S3Store):
            return
        compactor = Compactor(vault.store.reader, self._world.bytes, settled=_SETTLED, least=2)

        def rest() -> bool:
            scheduler.pause(1500)
            return True

        for actor in ACTORS:
            try:
                self._world.packed += compactor.compact(vault._state.slots.actor(Actor(actor)), rest).lines
            except (Unavailable, Died):
                return
            except Exception as error:  # noqa: BLE001 - a defect, which is reported with the seed
                self._world.history.note(Rule.COMPACTION, f"{type(error).__name__}: {error}")

    def sweeps(self) -> None:
        """Forget what has ended, now and then, beside all else, until the clients are done."""
        while self._world.left:
            self._world.scheduler.pause(self._world.random.randrange(2000, 12_000))
            self.sweep()

    def sweep(self) -> None:
        """Forget what has ended: of the shelves in RAM, or of all that is stored."""
        vault = self.vault
        try:
            if vault is not None and self._world.random.random() < 0.5:
                vault.settle()
            elif vault is not None and (swept := vault.ended.forget()).damaged:
                self._world.history.note(Rule.FALSE_ALARM, f"{self.name} swept {swept}")
        except (Unavailable, Died):
            return
        except Exception as error:  # noqa: BLE001 - a defect, which is reported with the seed
            self._world.history.note(Rule.DEFECT, f"sweep of {self.name}: {type(error).__name__}: {error}")

    def kill(self) -> None:
        self._world.server.note(self.bucket.worker, "dies")
        self.bucket.is_dead = True
        self.vault = None
