"""Export lines, profiles and documents from a memory and import them into one, only through `Memory`.

The gate decides about every page and every batch, and the log names the lines. An import is idempotent: lines that the
vault has are skipped, forgotten lines stay forgotten, and a batch is written completely or not at all. So an
interrupted import can be run again. `document_transfer` does the same for documents.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from strongroom import model
from strongroom.archive.archive_format import ARCHIVE_LIMIT, Archive, ArchivedLine, ArchivedProfile, Header
from strongroom.archive.document_transfer import Named, list_documents, read_documents, write_documents
from strongroom.archive.import_result import ImportResult
from strongroom.errors import BodyTooLarge, InvalidRequest, LineConflict, LineNotFound, LineTooLarge, VersionConflict
from strongroom.memory import Memory
from strongroom.model import Hit, LineId, LineInfo, Millis, Namespace, NewLine

Progress = Callable[[int, int], None]
Renamed = Mapping[str, str]


def _silent(*_: int) -> None:
    pass


# Out.


def export_lines(
    memory: Memory,
    *,
    vault: str,
    actor: str,
    now: Millis,
    namespaces: Collection[str] | None = None,
    page: int = model.K_LIMIT,
    profiles: bool = True,
    progress: Progress = _silent,
) -> Archive:
    """Collect all lines that the cap may list and get, and all profiles.

    Lines are read `page` at a time: at most 20, and at most the cap's `max_k`. `profiles` needs the operation
    `snapshot`. Of a document, only the present version is read. Lines and documents that are written or
    forgotten during the export may be included or not.
    """
    known = list(_listed(memory, namespaces))
    documents = list(list_documents(memory, namespaces))
    if sum(info.size for info in known) + sum(info.size for info in documents) > ARCHIVE_LIMIT:
        raise BodyTooLarge(f"an archive is at most {ARCHIVE_LIMIT} bytes", hint="export one namespace at a time")
    lines: list[ArchivedLine] = []
    tell = _teller(progress, len(known) + len(documents))
    for namespace, ids in _pages(known, min(page, model.K_LIMIT)):
        lines += [_archived(hit) for hit in _got(memory, namespace, ids)]
        tell(len(ids))
    lines.sort(key=lambda line: (line.id, line.namespace))
    read = tuple(read_documents(memory, documents, lambda: tell(1)))
    found = _profiles(memory, namespaces) if profiles else ()
    return Archive(Header(vault=vault, actor=actor, exported=now), tuple(lines), tuple(found), read)


def _teller(progress: Progress, whole: int, done: int = 0) -> Callable[[int], None]:
    """A function that takes how much more is done, and reports how much is done of the whole."""

    def tell(more: int) -> None:
        nonlocal done
        done += more
        progress(done, whole)

    tell(0)
    return tell


def _listed(memory: Memory, namespaces: Collection[str] | None) -> Iterator[LineInfo]:
    after: str | None = None
    while True:
        listing = memory.list(namespaces=namespaces, limit=model.LIST_LIMIT, after=after)
        yield from listing.lines
        if listing.next is None:
            return
        after = listing.next


def _pages(known: Iterable[LineInfo], most: int) -> Iterator[tuple[Namespace, list[LineId]]]:
    """Group the ids of lines for gets.

    Each group is of one namespace, since ids are unique only within a namespace. A group has at most as many lines as
    one get returns.
    """
    shelves: dict[Namespace, list[LineInfo]] = {}
    for info in known:
        shelves.setdefault(info.namespace, []).append(info)
    for namespace, infos in shelves.items():
        ids: list[LineId] = []
        room = model.ANSWER_LIMIT
        for info in infos:
            if ids and (len(ids) == most or info.size > room):
                yield namespace, ids
                ids, room = [], model.ANSWER_LIMIT
            ids.append(info.id)
            room -= info.size
        yield namespace, ids


def _got(memory: Memory, namespace: Namespace, ids: Sequence[LineId]) -> list[Hit]:
    """The lines with these ids. Lines that were forgotten since the listing are left out."""
    try:
        return memory.get(ids=ids, namespaces=[namespace])
    except LineNotFound:
        if len(ids) == 1:
            return []
        half = len(ids) // 2
        return _got(memory, namespace, ids[:half]) + _got(memory, namespace, ids[half:])


def _archived(hit: Hit) -> ArchivedLine:
    return ArchivedLine(
        id=hit.id,
        time=model.millis(hit.time),
        kind=hit.kind,
        namespace=hit.namespace,
        session=hit.session,
        author=hit.author,
        text=hit.text,
        provenance=hit.provenance,
        tags=hit.tags,
        meta=hit.meta,
        expires=None if hit.expires is None else model.millis(hit.expires),
        turn=hit.turn,
    )


def _profiles(memory: Memory, namespaces: Collection[str] | None) -> list[ArchivedProfile]:
    """Every profile. Further snapshots are taken if the profiles do not fit into one."""
    found = memory.snapshot(namespaces=namespaces)
    profiles = list(found.profiles)
    for namespace in found.left_out:
        profiles += memory.snapshot(namespaces=[namespace]).profiles
    return sorted((ArchivedProfile(namespace=one.namespace, text=one.text) for one in profiles), key=_namespace)


def _namespace(profile: ArchivedProfile) -> str:
    return profile.namespace


# In.


def import_lines(
    memory: Memory,
    archive: Archive,
    *,
    now: Millis | None = None,
    renamed: Renamed | None = None,
    profiles: bool = True,
    documents: bool = True,
    progress: Progress = _silent,
) -> ImportResult:
    """Put an archive's lines with their ids; `renamed` maps namespaces of the archive to those of the vault.

    Nothing is written if the cap does not cover a namespace, or if the vault's format has no details or documents and
    the archive has some. If the vault has another line with the same id, another profile, or another document under
    the same key, the vault's own is kept and the result names it. Lines and documents that have expired, at `now` or
    for the vault, are skipped. `profiles` needs the operation `profile`; `documents` needs `put` and `get`, and a cap
    without a session.
    """
    names = _checked_names(archive, renamed or {})
    outcome = ImportResult(
        profiles_left=0 if profiles else len(archive.profiles),
        documents_left=0 if documents else len(archive.documents),
    )
    # Read before anything is written, since the gate may refuse a namespace here.
    wanted = [(memory.profile(names(one.namespace)), one) for one in archive.profiles] if profiles else []
    written = archive.documents if documents else ()
    if written:
        memory.get(k=0, namespaces=sorted({names(name) for name in archive.namespaces}))
    lines = [line for line in archive.lines if now is None or line.expires is None or line.expires > now]
    outcome.expired = len(archive.lines) - len(lines)
    tell = _teller(progress, len(archive.lines) + len(written), outcome.expired)
    # Before the lines: a vault that has no documents yet refuses the first of them.
    write_documents(memory, written, names, now, outcome, lambda: tell(1))
    for batch in _batches(_telling_first(lines)):
        _put(memory, [_new(line, names) for line in batch], outcome)
        tell(len(batch))
    for held, given in wanted:
        if held.text == given.text:
            outcome.profiles_there += 1
        elif held.version and held.text:
            outcome.profile_conflicts.append(held.namespace)
        else:
            _set_profile(memory, held.namespace, given.text, held.version, outcome)
    return outcome


def _checked_names(archive: Archive, renamed: Renamed) -> Named:
    names = archive.namespaces
    unknown = sorted(set(renamed) - names)
    if unknown:
        raise InvalidRequest(
            f"the archive has no namespace {unknown[0]}",
            hint=f"the archive's namespaces are {', '.join(sorted(names)) or 'none'}",
        )
    if len(names) > model.BATCH_LIMIT:
        raise InvalidRequest(f"the archive has more than {model.BATCH_LIMIT} namespaces")
    checked = {name: model.namespace(renamed.get(name, name)) for name in names}
    return lambda name: checked[Namespace(name)]


def _telling_first(lines: Sequence[ArchivedLine]) -> list[ArchivedLine]:
    """Order the lines so that a refusal of all lines comes before any write.

    In front are the lines for which all lines might be refused: first a line with details, then one line of each
    namespace, and lines of two sessions.
    """
    detailed = next((line for line in lines if line.is_detailed), None)
    chosen: dict[tuple[str, str], ArchivedLine] = {} if detailed is None else {("details", ""): detailed}
    for line in lines:
        chosen.setdefault(("namespace", line.namespace), line)
        if len({one.session for one in chosen.values()}) < 2:
            chosen.setdefault(("session", line.session), line)
    first = {(line.namespace, line.id): line for line in chosen.values()}
    return [*first.values(), *(line for line in lines if (line.namespace, line.id) not in first)]


def _batches(lines: Iterable[ArchivedLine]) -> Iterator[list[ArchivedLine]]:
    batch: list[ArchivedLine] = []
    room = model.BATCH_BYTES
    for line in lines:
        size = len(line.text.encode())
        if batch and (len(batch) == model.BATCH_LIMIT or size > room):
            yield batch
            batch, room = [], model.BATCH_BYTES
        batch.append(line)
        room -= size
    if batch:
        yield batch


def _new(line: ArchivedLine, names: Named) -> NewLine:
    return NewLine(
        text=line.text,
        namespace=names(line.namespace),
        session=line.session,
        author=line.author,
        kind=line.kind,
        id=line.id,
        time=model.moment(line.time),
        tags=line.tags,
        meta=line.meta,
        expires=None if line.expires is None else model.moment(line.expires),
        turn=line.turn,
    )


def _put(memory: Memory, lines: Sequence[NewLine], outcome: ImportResult) -> None:
    """Put a batch of lines.

    If a line conflicts or has expired for the vault, each half of the batch is put separately, until that line is
    alone.
    """
    try:
        receipts = memory.put_many(lines)
    except (LineConflict, InvalidRequest) as error:
        # Each line was checked when the archive was read: all that a put can still find wrong with one is its expiry.
        is_expiry = isinstance(error, InvalidRequest)
        if is_expiry and all(line.expires is None for line in lines):
            raise
        if len(lines) > 1:
            half = len(lines) // 2
            _put(memory, lines[:half], outcome)
            _put(memory, lines[half:], outcome)
        elif is_expiry:
            outcome.expired += 1
        else:
            outcome.conflicts.append((Namespace(lines[0].namespace or ""), LineId(lines[0].id or "")))
        return
    outcome.there += sum(receipt.duplicate for receipt in receipts)
    outcome.forgotten += sum(receipt.forgotten for receipt in receipts)
    outcome.put += sum(not receipt.duplicate and not receipt.forgotten for receipt in receipts)


def _set_profile(memory: Memory, namespace: Namespace, text: str, version: str, outcome: ImportResult) -> None:
    try:
        memory.set_profile(text, namespace=namespace, version=version)
    except (VersionConflict, LineTooLarge):  # another write came first, or all profiles together would be too long
        outcome.profile_conflicts.append(namespace)
    else:
        outcome.profiles_put += 1
