"""Get and list: what a cap may see, and nothing that hints at the rest."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime

from strongroom import model
from strongroom.errors import CapLimitExceeded, InvalidRequest, LineNotFound, TooMany
from strongroom.gate import Ask
from strongroom.memory.choosing import Choice
from strongroom.memory.clerk import Clerk
from strongroom.model import Hit, Line, LineInfo, Listing, Op
from strongroom.shelves import Shelf, reading

QUERY_LIMIT = 8 * 1024
_DAY = 24 * 3600


def get(
    clerk: Clerk,
    token: str,
    query: str,
    *,
    k: int | None = None,
    ids: Sequence[str] | None = None,
    namespaces: Collection[str] | None = None,
    session: str | None = None,
    now: datetime | None = None,
    patience: float | None = None,
    request: str = "",
) -> list[Hit]:
    """The best lines for a query, or exactly the lines named by `ids`. One log entry names what is returned."""
    if isinstance(ids, str):
        raise InvalidRequest("ids is a list of line ids, not one text")
    ids = None if ids is None else list(ids)
    wanted = k if ids is None else max(len(ids), 1)
    grant = clerk.admit(token, Ask.of(Op.GET, namespaces, session=session, k=wanted), request)
    with clerk.recording(grant, request):
        _check_patience(patience)
        shelves = clerk.shelves(grant, None if ids is not None else patience)
        if ids is None:
            moment = model.moment(clerk.now()) if now is None else now
            model.millis(moment)  # refuses what is no moment
            text = model.clean_text(query, limit=QUERY_LIMIT, what="a query")
            ranked = clerk.state.shelves.rank(shelves, text, grant.k, moment)
            hits = [_hit(one.line, one.score) for one in ranked]
        else:
            hits = [_hit(line, 1.0) for line in _named(shelves, ids)]
            if len(hits) > grant.most:
                raise CapLimitExceeded(f"the cap allows {grant.most} lines, and these ids name more")
        hits = _within_budget(hits)
        clerk.commit(grant, lines=[hit.id for hit in hits], request=request)
    return hits


def _check_patience(patience: float | None) -> None:
    if patience is not None and (type(patience) not in (int, float) or not 0 <= patience <= _DAY):
        raise InvalidRequest("patience is a number of seconds from 0 to 86400")


def list_lines(
    clerk: Clerk,
    token: str,
    *,
    namespaces: Collection[str] | None = None,
    session: str | None = None,
    kind: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    limit: int = 100,
    after: str | None = None,
    request: str = "",
) -> Listing:
    """One page of what there is, without texts, in id order."""
    grant = clerk.admit(token, Ask.of(Op.LIST, namespaces, session=session), request)
    with clerk.recording(grant, request):
        if type(limit) is not int or not 1 <= limit <= model.LIST_LIMIT:
            raise TooMany(f"a page holds 1 to {model.LIST_LIMIT} lines")
        choice = Choice.of(session=session, kind=kind, since=since, until=until)
        start = _cursor(after)
        shelves = clerk.shelves(grant)
        lines = sorted(choice.among(shelves), key=_place)
        lines = [line for line in lines if _place(line) > start][: limit + 1]
        page = lines[:limit]
        clerk.commit(grant, count=len(page), request=request)
    more = ".".join(_place(page[-1])) if len(lines) > limit else None
    return Listing(tuple(map(_info, page)), more)


def _place(line: Line) -> tuple[str, str]:
    """Where a line stands in a listing. An id is unique within a namespace only."""
    return line.id, line.namespace


def _cursor(after: str | None) -> tuple[str, str]:
    if after is None:
        return "", ""
    line, _, namespace = model.plain(after).partition(".")
    return model.line_id(line), model.namespace(namespace)


def _named(shelves: Sequence[Shelf], ids: Sequence[str]) -> list[Line]:
    wanted = list(map(model.line_id, ids))
    with reading(shelves):
        found = [line for name in wanted for shelf in shelves if (line := shelf.lines.get(name)) is not None]
    if {line.id for line in found} != set(wanted):
        raise LineNotFound("there is no such line")
    return found


def _within_budget(hits: Sequence[Hit]) -> list[Hit]:
    """As many hits, best first, as the answer's bytes allow; the first always."""
    room = model.ANSWER_LIMIT
    kept: list[Hit] = []
    for hit in hits:
        room -= len(hit.text.encode())
        if room < 0 and kept:
            break
        kept.append(hit)
    return kept


def _hit(line: Line, score: float) -> Hit:
    return Hit(
        id=line.id,
        namespace=line.namespace,
        text=line.text,
        time=model.moment(line.time),
        kind=line.kind,
        session=line.session,
        author=line.author,
        score=score,
        provenance=line.provenance,
    )


def _info(line: Line) -> LineInfo:
    return LineInfo(
        id=line.id,
        namespace=line.namespace,
        time=model.moment(line.time),
        kind=line.kind,
        session=line.session,
        author=line.author,
        size=len(line.text.encode()),
        provenance=line.provenance,
    )
