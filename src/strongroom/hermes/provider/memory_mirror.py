"""Mirrors the runtime's built-in memory: a note that is added, replaced or removed there is changed in the vault too.

A note is a line of kind fact, and the line's author names the memory file. A removed note is forgotten. The runtime
names a note by a part of its text, so the mirrored notes are searched for that part: first by a query, then one by one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module

from strongroom.errors import InvalidRequest, StrongroomError
from strongroom.hermes.policy import OWNER
from strongroom.hermes.provider import memory_files, turn_lines, turn_writer, undo
from strongroom.hermes.provider.memory_session import MemorySession, SpeakerView
from strongroom.hermes.provider.speaker import FILES, Nobody
from strongroom.host.memory_file_import import migrate_memory_files
from strongroom.memory import Memory
from strongroom.model import K_LIMIT, LIST_LIMIT, Hit, Kind

_QUERY = 1000
_WORK = "mirroring the built-in memory"


def mirror_write(session: MemorySession, action: str, target: str, content: str, old_text: str) -> None:
    """Mirror a change of the built-in memory. A failure is reported, because the change is not retried."""
    try:
        _written(session, action, target, content, old_text)
    except StrongroomError as error:
        session.failed(_WORK, error)
        raise


def _written(session: MemorySession, action: str, target: str, content: str, old_text: str) -> None:
    view = session.view()
    if isinstance(view, Nobody) or not view.policy.keep.memory_writes:
        return
    author = FILES.get(target, FILES["memory"])
    current = session.turns.current
    is_asked = current is not None and current.is_request
    if action in ("add", "replace") and content.strip() and not is_asked:
        # The new note comes first: an interruption leaves one line too many, not one too few.
        if not turn_writer.is_on_record(view):
            return
        if not turn_writer.note(view, content, author) and not _found(view, author, content):
            return
    gone = old_text or (content if action == "remove" else "")
    if action in ("replace", "remove") and gone.strip():
        stays = memory_files.as_kept(session.home, content) if action == "replace" else None
        old = [hit for hit in _found(view, author, gone) if hit.text != stays]
        _forget(view, old, with_turns=is_asked)
    view.parts.status.worked(_WORK)


def _forget(view: SpeakerView, old: list[Hit], *, with_turns: bool) -> None:
    """Forget a note. If a person asked for this, also forget everything that was written in the note's turn.

    The runtime removes exactly one note. If several notes match, none is forgotten.
    """
    if len({hit.text for hit in old}) > 1:
        raise InvalidRequest(
            "the removed note matches several stored notes, so none was forgotten",
            hint="find the id with `hermes strongroom search WORDS`, then run `hermes strongroom forget ID`",
        )
    if old:
        ids = [hit.id for hit in old]
        if with_turns:
            undo.settle(view, view.ask(lambda memory: turn_lines.forget(memory, ids)))
        else:
            view.ask(lambda memory: memory.forget(ids=ids))
            view.parts.status.count("forgotten", len(old))


def _found(view: SpeakerView, author: str, part: str) -> list[Hit]:
    """The mirrored notes that contain a text. If some notes are equal to the text, only these are returned."""
    masked = memory_files.as_kept(view.session.home, part)
    if not masked:
        return []

    def find(memory: Memory) -> list[Hit]:
        near = [hit for hit in memory.get(masked[:_QUERY], k=K_LIMIT) if _is_note(hit, author, masked)]
        return near or [hit for hit in _notes(memory) if _is_note(hit, author, masked)]

    found = view.ask(find)
    return [hit for hit in found if hit.text == masked] or found


def _is_note(hit: Hit, author: str, part: str) -> bool:
    return hit.kind == Kind.FACT and hit.author == author and part in hit.text


def _notes(memory: Memory) -> Iterator[Hit]:
    after = None
    while True:
        page = memory.list(kind=Kind.FACT, limit=LIST_LIMIT, after=after)
        ids = [info.id for info in page.lines]
        for start in range(0, len(ids), K_LIMIT):
            yield from memory.get(ids=ids[start : start + K_LIMIT])
        after = page.next
        if after is None:
            return


def import_files(session: MemorySession) -> None:
    """Import the owner's memory files, once. They belong to the owner, so no other speaker gets them."""
    view = session.view()
    if isinstance(view, Nobody) or view.speaker.actor != f"{view.policy.scope}{OWNER}":
        return
    policy = view.policy
    if not policy.keep.import_files or not turn_writer.is_on_record(view):
        return
    try:
        # Marked by the vault's own key: another vault has none of the notes, wherever it is.
        into, put = f"{policy.inbox} {view.speaker.actor}", partial(_import, view)
        migrate_memory_files(session.home.path, policy.session, put, into=into, before=view.speaker.actor)
    except StrongroomError as error:
        session.failed("importing the memory files", error)
    else:
        view.parts.status.worked("importing the memory files")


def _import(view: SpeakerView, name: str, text: str) -> None:
    target = name.rpartition("/")[2].removesuffix(".md").lower()
    if target == "soul" and text.strip() == _usual_soul():
        return
    author = FILES.get(target, FILES["memory"])
    there = view.ask(lambda memory: {hit.text for hit in _notes(memory) if hit.author == author})
    for entry in text.split(memory_files.SEPARATOR):
        plain = entry.strip()
        if plain and memory_files.as_kept(view.session.home, plain) not in there:  # after a purge the marker remains
            turn_writer.note(view, plain, author, in_turn=False)


def _usual_soul() -> str:
    """The persona text that the runtime writes into every new home. It is not imported until somebody has edited it."""
    try:
        return str(import_module("hermes_cli.default_soul").DEFAULT_SOUL_MD).strip()
    except (ImportError, AttributeError):
        return ""
