"""Get and list: the lines that a cap covers, without a hint of any others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from strongroom import api, model
from strongroom.errors import (
    CapLimitExceeded,
    InvalidRequest,
    LineNotFound,
    StrongroomError,
    TooMany,
    Unavailable,
)
from strongroom.gate import Ask, Grant
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.line_cache.cache import CachedNamespace, hold_still
from strongroom.memory.operation import AT_ONCE, Operation, SlowStep
from strongroom.memory.selector import Selector, place_of
from strongroom.model import Hit, Line, LineId, LineInfo, Listing, Op
from strongroom.store import ANY, Stale, Version

QUERY_LIMIT = 8 * 1024
_DAY = 24 * 3600
_CHARACTER = 4
"""The most bytes of a character."""


def get(clerk: DecisionRecorder, caller: Caller, call: api.Get) -> Operation[api.Recalled]:
    """The best lines for a query, or exactly the lines named by `ids`. One log entry names the lines returned."""
    wanted = _wanted(call)
    ask = Ask.of(Op.GET, call.namespaces, session=call.session, k=wanted)
    looked: Mapping[str, Version] | None = None
    if since := clerk.known(caller, lines=True):
        grant = yield from clerk.admit(caller, ask, since)
        answer = yield from clerk.recorded(grant, caller, _by_what_is_known(clerk, grant, caller, call, since))
        if isinstance(answer, api.Recalled):
            return answer
        looked = answer or None
    grant, shelves = yield from clerk.readable(caller, ask, _patience(call), looked)
    return (yield from clerk.recorded(grant, caller, _get(clerk, grant, caller, call, shelves)))


def _by_what_is_known(
    clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.Get, since: Mapping[str, Version]
) -> Operation[api.Recalled | Mapping[str, Version]]:
    """Answer from the cache if a read, made during the log's write, shows no change (optimistic concurrency).

    If something changed, returns the versions that were read, or nothing. Never refuses: cached knowledge may be
    out of date, so a refusal is left to the fresh read that follows.
    """
    shelves = clerk.at_hand(grant)
    if shelves is None or (clerk.is_long(shelves) and (yield SlowStep(grant.actor)) is not AT_ONCE):
        return ANY
    try:
        return (yield from _get(clerk, grant, caller, call, shelves, since))
    except Stale as stale:
        return stale.latest
    except Unavailable:
        raise
    except StrongroomError:
        return ANY


def _get(
    clerk: DecisionRecorder,
    grant: Grant,
    caller: Caller,
    call: api.Get,
    shelves: list[CachedNamespace],
    since: Mapping[str, Version] = ANY,
) -> Operation[api.Recalled]:
    _check_patience(call.patience)
    _check_without(call)
    without = model.line_ids(call.without)
    found = _ranked(clerk, grant, shelves, call, without) if call.ids is None else _named(grant, shelves, call.ids)
    hits = _within_budget(found)
    yield from clerk.commit(grant, lines=[hit.id for hit in hits], caller=caller, since=since)
    return api.Recalled(tuple(hits))


def _wanted(call: api.Get) -> int | None:
    """The number of lines to ask the gate for. None for k=0, which is always allowed: it only loads shelves."""
    if call.ids is not None:
        return max(len(call.ids), 1)
    return None if _is_none(call.k) else call.k


def _is_none(k: int | None) -> bool:
    return type(k) is int and k == 0


def _check_without(call: api.Get) -> None:
    if call.without and call.ids is not None:
        raise InvalidRequest("a get by ids returns exactly these: it takes no others to leave out")
    if len(call.without) > model.WITHOUT_LIMIT:
        raise TooMany(f"at most {model.WITHOUT_LIMIT} lines can be left out")


def _ranked(
    clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], call: api.Get, without: frozenset[LineId]
) -> list[Hit]:
    moment = model.moment(clerk.now()) if call.now is None else call.now
    if call.now is not None:
        model.millis(moment)  # raises for what is not a datetime with a zone
    text = model.clean_text(call.query, limit=QUERY_LIMIT, what="a query")
    if _is_none(call.k):
        return []
    ranked = clerk.state.shelves.rank(shelves, text, grant.k, moment, without)
    return [_hit(one.line, one.score) for one in ranked]


def _patience(call: api.Get) -> float | None:
    """How long to wait for shelves. Lines named by ids are always waited for."""
    patience = None if call.ids is not None else call.patience
    return patience if isinstance(patience, int | float) and 0 <= patience <= _DAY else None


def _check_patience(patience: float | None) -> None:
    if patience is not None and (type(patience) not in (int, float) or not 0 <= patience <= _DAY):
        raise InvalidRequest("patience is a number of seconds from 0 to 86400")


def list_lines(clerk: DecisionRecorder, caller: Caller, call: api.List) -> Operation[Listing]:
    """One page of lines without their texts, in id order."""
    ask = Ask.of(Op.LIST, call.namespaces, session=call.session)
    grant, shelves = yield from clerk.readable(caller, ask)
    return (yield from clerk.recorded(grant, caller, _list(clerk, grant, shelves, caller, call)))


def _list(
    clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], caller: Caller, call: api.List
) -> Operation[Listing]:
    limit = call.limit
    if type(limit) is not int or not 1 <= limit <= model.LIST_LIMIT:
        raise TooMany(f"a page holds 1 to {model.LIST_LIMIT} lines")
    choice = Selector.of(session=call.session, kind=call.kind, since=call.since, until=call.until)
    lines = choice.page(shelves, _cursor(call.after), limit + 1)
    page = lines[:limit]
    yield from clerk.commit(grant, count=len(page), caller=caller)
    more = ".".join(place_of(page[-1])) if len(lines) > limit else None
    return Listing(tuple(map(_info, page)), more)


def _cursor(after: str | None) -> tuple[str, str]:
    if after is None:
        return "", ""
    line, _, namespace = model.plain(after).partition(".")
    return model.line_id(line), model.namespace(namespace)


def _named(grant: Grant, shelves: Sequence[CachedNamespace], ids: Sequence[str]) -> list[Hit]:
    wanted = list(map(model.line_id, ids))
    with hold_still(shelves):
        found = [line for name in wanted for shelf in shelves if (line := shelf.lines.get(name)) is not None]
    if {line.id for line in found} != set(wanted):
        raise LineNotFound("there is no such line")
    if len(found) > grant.most:
        raise CapLimitExceeded(f"the cap allows {grant.most} lines, and these ids name more")
    return [_hit(line, 1.0) for line in found]


def _within_budget(hits: Sequence[Hit]) -> list[Hit]:
    """As many hits, best first, as the answer's size limit allows; the first always."""
    room = model.ANSWER_LIMIT
    if sum([len(hit.text) for hit in hits]) * _CHARACTER <= room:
        return list(hits)
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
