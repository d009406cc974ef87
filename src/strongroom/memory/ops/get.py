"""The operations `get` and `list`: they return lines that the cap covers, and reveal nothing about other lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

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
from strongroom.model import Hit, Line, LineDetails, LineInfo, Listing, Op
from strongroom.store import ANY, Stale, Version

T = TypeVar("T", Hit, Line)
QUERY_LIMIT = 8 * 1024
_DAY = 24 * 3600
_conditions = attrgetter("from_session", *api.LineFilter.__struct_fields__)
"""A function that returns the filters of a call as one tuple. It is fast, because every get calls it."""
_CHARACTER = 4
"""The maximum number of bytes of one character in UTF-8."""


def get(clerk: DecisionRecorder, caller: Caller, call: api.Get) -> Operation[api.Recalled]:
    """The best lines for a query, or exactly the lines named by `ids`. One log entry names the lines returned."""
    wanted = _wanted(call)
    ask = Ask.of(Op.GET, call.namespaces, session=call.session, k=wanted)
    looked: Mapping[str, Version] | None = None
    is_filtered = any(_conditions(call))
    if not is_filtered and (since := clerk.known(caller, lines=True)):
        grant = yield from clerk.admit(caller, ask, since)
        answer = yield from clerk.recorded(grant, caller, _by_what_is_known(clerk, grant, caller, call, since))
        if isinstance(answer, api.Recalled):
            return answer
        looked = answer or None
    # A filtered get builds a separate index of the lines that meet the condition, which may take long.
    grant, shelves = yield from clerk.readable(caller, ask, _patience(call), looked, is_long=is_filtered)
    return (yield from clerk.recorded(grant, caller, _get(clerk, grant, caller, call, shelves)))


def _by_what_is_known(
    clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.Get, since: Mapping[str, Version]
) -> Operation[api.Recalled | Mapping[str, Version]]:
    """Answer from the cache, if a read during the commit shows no change (optimistic concurrency).

    If something has changed, returns the versions that were read, or an empty mapping. This never refuses a request:
    the cache may be out of date, so a refusal is left to the read that follows.
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
    found = _named(grant, shelves, call.ids) if call.ids is not None else _ranked(clerk, grant, shelves, call)
    hits = within_budget(found)
    yield from clerk.commit(grant, lines=[hit.id for hit in hits], caller=caller, since=since)
    return api.Recalled(tuple(hits))


def _wanted(call: api.Get) -> int | None:
    """The number of lines to ask the gate for. None for k=0, which is always allowed: it only loads lines into RAM."""
    if call.ids is not None:
        return max(len(call.ids), 1)
    return None if _is_none(call.k) else call.k


def _is_none(k: int | None) -> bool:
    return type(k) is int and k == 0


def _check_without(call: api.Get) -> None:
    if call.without and call.ids is not None:
        raise InvalidRequest("`ids` and `without` exclude each other: a get by ids returns exactly these lines")
    if call.ids is not None and _condition(call) is not None:
        raise InvalidRequest("`ids` and filters exclude each other: a get by ids returns exactly these lines")
    if len(call.without) > model.WITHOUT_LIMIT:
        raise TooMany(f"`without` names too many lines: at most {model.WITHOUT_LIMIT} lines can be left out")


def _condition(call: api.Get) -> Selector | None:
    """The condition that lines must meet, or None if the call has no filter."""
    is_asked = any(one not in (None, ()) for one in _conditions(call))
    return Selector.of(call, session=call.from_session) if is_asked else None


def _ranked(clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], call: api.Get) -> list[Hit]:
    without, condition = model.line_ids(call.without), _condition(call)
    moment = model.moment(clerk.now()) if call.now is None else call.now
    if call.now is not None:
        model.millis(moment)  # raises an error if `now` is not a datetime with a time zone
    text = model.clean_text(call.query, limit=QUERY_LIMIT, what="a query")
    if _is_none(call.k):
        return []
    ranked = clerk.state.shelves.rank(shelves, text, grant.k, moment, without, condition)
    return [hit_of(one.line, one.score) for one in ranked]


def _patience(call: api.Get) -> float | None:
    """How many seconds to wait until lines are loaded. None for a get by ids, which always waits for all lines."""
    patience = None if call.ids is not None else call.patience
    return patience if isinstance(patience, int | float) and 0 <= patience <= _DAY else None


def _check_patience(patience: float | None) -> None:
    if patience is not None and (type(patience) not in (int, float) or not 0 <= patience <= _DAY):
        raise InvalidRequest("`patience` must be a number of seconds from 0 to 86400")


def list_lines(clerk: DecisionRecorder, caller: Caller, call: api.List) -> Operation[Listing]:
    """One page of lines, in the order of their ids. With texts, the cap must allow `get` as well as `list`."""
    ask = Ask.of(Op.LIST, call.namespaces, session=call.session)
    grant, shelves = yield from clerk.readable(caller, ask)
    if call.texts:
        ask = Ask.of(Op.GET, call.namespaces, session=call.session)
        grant, shelves = yield from clerk.readable(caller, ask)
    return (yield from clerk.recorded(grant, caller, _list(clerk, grant, shelves, caller, call)))


def _list(
    clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], caller: Caller, call: api.List
) -> Operation[Listing]:
    limit = call.limit
    if type(limit) is not int or not 1 <= limit <= model.LIST_LIMIT:
        raise TooMany(f"`limit` must be a number from 1 to {model.LIST_LIMIT}: a page has at most so many lines")
    if call.texts and grant.max_k is not None:
        limit = min(limit, grant.max_k)
    choice = Selector.of(call, session=call.session)
    lines = choice.page(shelves, _cursor(call.after), limit + 1)
    page = within_budget(lines[:limit], model.TEXTS_LIMIT) if call.texts else lines[:limit]
    read = [line.id for line in page] if call.texts else ()
    detail = "listed with texts" if call.texts else ""
    yield from clerk.commit(grant, lines=read, count=len(page), caller=caller, detail=detail)
    more = ".".join(place_of(page[-1])) if len(lines) > len(page) else None
    return Listing(tuple([_info(line, with_text=call.texts) for line in page]), more)


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
        raise CapLimitExceeded(f"the cap allows {grant.most} lines in one call, and these ids name more")
    return [hit_of(line, 1.0) for line in found]


def within_budget(found: Sequence[T], room: int = model.ANSWER_LIMIT) -> list[T]:
    """The first lines or hits, as many as have at most `room` bytes of text together, and at least one."""
    if sum([len(one.text) for one in found]) * _CHARACTER <= room:
        return list(found)
    kept: list[T] = []
    for one in found:
        room -= len(one.text.encode())
        if room < 0 and kept:
            break
        kept.append(one)
    return kept


def hit_of(line: Line, score: float) -> Hit:
    """The hit with which a recall returns a line."""
    plain = Hit(
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
    return plain if line.details is None else msgspec.structs.replace(plain, **_members(line.details))


def _info(line: Line, *, with_text: bool) -> LineInfo:
    plain = LineInfo(
        id=line.id,
        namespace=line.namespace,
        time=model.moment(line.time),
        kind=line.kind,
        session=line.session,
        author=line.author,
        size=len(line.text.encode()),
        provenance=line.provenance,
        text=line.text if with_text else None,
    )
    return plain if line.details is None else msgspec.structs.replace(plain, **_members(line.details))


def _members(details: LineDetails) -> dict[str, Any]:
    """The fields of an answer that only a line with details has."""
    return {
        "tags": details.tags,
        "meta": details.meta or None,
        "expires": None if details.expires is None else model.moment(details.expires),
        "replaces": details.replaces,
        "turn": details.turn,
        "document": details.document,
    }
