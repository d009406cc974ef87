"""Lines and documents with an end in a simulated fleet: what may be answered, and what may still be stored.

A worker goes by its own clock, or by the log's if that is later. So from the moment on at which its clock has reached
the end of a line, it answers the line no more. Until the clock that is furthest ahead has, the line must be there.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from strongroom import NewLine
from strongroom.memory import Memory
from tests.fleet.asking import Asking
from tests.fleet.history import Call, Cap, History
from tests.fleet.rules import Rule
from tests.fleet.workers import SKEW

if TYPE_CHECKING:
    from tests.fleet.simulation import World
    from tests.fleet.workers import Worker

OVER = 180_000
"""Ms after which everything with a near end has ended by every clock, and no replacement is under way."""
GIVEN_UP = 120_000
"""Ms after which a simulated worker gives up a replacement without its mark."""
_NEAR = (300, 25_000)
_FAR = 100_000_000
FOLDER = "ending/"
"""The keys of documents with an end begin with it."""


class Expiring(Asking):
    """Asks with ends: chooses them, and writes and reads documents that have one."""

    def choose_end(self, text: str) -> None:
        """Give a text an end, now and then: mostly a near one."""
        if self.world.expires and self.random.random() < 0.6:
            near = self.random.random() < 0.8
            self.world.history.ends[text] = self.world.scheduler.now + (self.random.randrange(*_NEAR) if near else _FAR)

    def line(self, text: str, namespace: str, name: str | None) -> NewLine:
        return NewLine(text=text, namespace=namespace, id=name, expires=self.end_of(text))

    def end_of(self, text: str) -> datetime | None:
        ends = self.world.history.ends.get(text)
        return None if ends is None else datetime.fromtimestamp(ends / 1000, UTC)

    def write_ending(self, worker: Worker, held: Cap, text: str) -> None:
        namespace = self.random.choice(held.namespaces)
        self.world.history.ends[text] = self.world.scheduler.now + self.random.randrange(*_NEAR)

        def write(memory: Memory, _: Call) -> None:
            key = FOLDER + text.replace(" ", "-")
            memory.write_document(key, text, namespace=namespace, expires=self.end_of(text))

        self.with_cap(worker, held, "write_ending", write, namespaces=(namespace,), texts={text: (namespace, text)})

    def read_endings(self, worker: Worker, held: Cap) -> None:
        """The documents with an end: as a recall finds them, or by their keys."""

        def read(memory: Memory, call: Call) -> None:
            if self.random.random() < 0.5:
                hits = memory.get("what was written?", kind="document", k=20)
                found = [(hit.namespace, hit.text) for hit in hits if hit.text in self.world.history.ends]
            else:
                listed = memory.documents(FOLDER).documents
                call.is_whole = True
                found = [(one.namespace, memory.document(one.key, namespace=one.namespace).text) for one in listed]
            call.shown = {(namespace, text): text for namespace, text in found}

        self.with_cap(worker, held, "read_endings", read)


def check_answers(history: History) -> Iterator[str]:
    """The answers that show what had ended, and those that lack a document that had not."""
    for call in history.calls:
        for key, text in call.shown.items() if call.is_ok else ():
            for said in [text] if text is not None else _texts_of(history, call, key):
                if history.ends.get(said, call.clock + 1) <= call.clock:
                    yield f"{Rule.EXPIRED}: {said!r} in {call}, {call.clock - history.ends[said]} ms late"
        if call.op == "read_endings" and call.is_ok and call.is_whole:
            yield from _missing(history, call)


def is_surely_there(history: History, text: str, read: Call) -> bool:
    """Whether no clock of the fleet can have reached the end of a text before a call was over."""
    return history.ends.get(text, read.over + SKEW + 1) > read.over + SKEW


def _texts_of(history: History, call: Call, key: tuple[str, str]) -> list[str]:
    puts = history.of(call.actor, "put", "replace")
    return [text for put in puts for text, own in put.texts.items() if own == key]


def _missing(history: History, read: Call) -> Iterator[str]:
    erasures = history.of(read.actor, "erase", "erase_actor")
    for write in history.of(read.actor, "write_ending"):
        ((text, key),) = write.texts.items()
        if not write.is_ok or write.ended >= read.began or key is None or key[0] not in read.namespaces:
            continue
        covering = [one for one in erasures if key[0] in one.namespaces]
        is_erased = any(one.ended > write.began or (history.is_late and not one.is_ok) for one in covering)
        if key not in read.shown and not is_erased and is_surely_there(history, text, read):
            yield f"{Rule.MISSING}: {text!r} of {write} in {read}"


def check_stored(world: World) -> Iterator[str]:
    """The bodies of what has ended that are still in the bucket, and what a sweep would still find."""
    history, objects = world.history, world.server.objects
    held = b"\0".join(body for body, _ in objects.values())
    for name, bodies in sorted(world.server.sealed.items()):
        if _has_ended(world, name) and any(body in held for body in bodies):
            yield f"{Rule.STORED}: {name}"
    for worker in world.workers:
        if worker.vault is not None:
            found = worker.vault.ended.count(most=10)
            if found.lines or found.documents or found.damaged:
                history.note(Rule.STORED, f"{worker.name} finds {found}")


def _has_ended(world: World, name: str) -> bool:
    """Whether an object of this name is of a line or a document that has ended."""
    history, now = world.history, world.scheduler.now - SKEW
    if "/documents/" in name:
        return not world.has_documents  # all that clients write have a near end
    line = name.rsplit("/", 1)[1]
    calls = [call for actor in ("fleet/alice", "fleet/bob") for call in history.of(actor, "put", "replace")]
    texts = {text for call in calls for text, key in call.texts.items() if key is not None and key[1] == line}
    return bool(texts) and all(history.ends.get(text, now + 1) <= now for text in texts)
