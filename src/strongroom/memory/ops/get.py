"""The operations `get` and `list`: they return lines that the cap covers, and reveal nothing about other lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, TypeVar

import msgspec

from strongroom import api, model
from strongroom.engines import Ranked
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
from strongroom.memory.ops.explain import Inquiry, cut_to_budget, explain_best, explain_lines
from strongroom.memory.selector import Selector, place_of
from strongroom.model import CERTAIN, Hit, Line, LineDetails, LineId, LineInfo, Listing, Op, Why
from strongroom.store import ANY, Stale, Version

T = TypeVar("T", Hit, Line)
QUERY_LIMIT = 8 * 1024
_DAY = 24 * 3600
_conditions = attrgetter("from_session", *api.LineFilter.__struct_fields__)
"""A function that returns the filters of a call as one tuple. It is fast, because every get calls it."""
_CHARACTER = 4
"""The maximum number of bytes of one character in UTF-8."""


def get(clerk: DecisionRecorder, caller: Caller, call: api.Get) -> Operation[api.Recalled]:
    """The lines that match a query, best first, or exactly the lines named by `ids`.

    One log entry names the lines returned. Lines that are only explained count as returned.
    """
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
    _check_choice(call)
    if call.explain:
        hits = _explained(clerk, grant, shelves, call)
    elif call.ids is not None:
        hits = within_budget([hit_of(line, 1.0) for line in _named(grant, shelves, call.ids)])
    else:
        hits = within_budget(_ranked(clerk, grant, shelves, call))
    yield from clerk.commit(grant, lines=[hit.id for hit in hits], caller=caller, since=since)
    return api.Recalled(tuple(hits))


def _wanted(call: api.Get) -> int | None:
    """The number of lines to ask the gate for. None for k=0, which is always allowed: it only loads lines into RAM."""
    if call.ids is not None:
        return max(len(call.ids), 1)
    return None if _is_none(call.k) else call.k


def _is_none(k: int | None) -> bool:
    return type(k) is int and k == 0


def _check_choice(call: api.Get) -> None:
    """Check the arguments that choose among the lines, and that they go together."""
    if call.ids is not None:
        _check_ids(call)
    if len(call.without) > model.WITHOUT_LIMIT:
        raise TooMany(f"`without` names too many lines: at most {model.WITHOUT_LIMIT} lines can be left out")
    floor = call.min_confidence
    if floor is not None and (type(floor) not in (int, float) or not 0 <= floor <= 1):
        raise InvalidRequest("`min_confidence` must be a number from 0 to 1")
    if type(call.or_newest) is not bool or type(call.explain) is not bool:
        raise InvalidRequest("`or_newest` and `explain` must be true or false")


def _check_ids(call: api.Get) -> None:
    others = {
        "`without`": call.without,
        "filters": _condition(call) is not None,
        "`or_newest`": call.or_newest,
        "`min_confidence`": call.min_confidence is not None and not call.explain,
    }
    for other, is_given in others.items():
        if is_given:
            raise InvalidRequest(f"`ids` and {other} exclude each other: a get by ids returns exactly these lines")


def _condition(call: api.Get) -> Selector | None:
    """The condition that lines must meet, or None if the call has no filter."""
    is_asked = any(one not in (None, ()) for one in _conditions(call))
    return Selector.of(call, session=call.from_session) if is_asked else None


def _ranked(clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], call: api.Get) -> list[Hit]:
    without, condition = model.line_ids(call.without), _condition(call)
    text, moment = _question(clerk, call)
    if _is_none(call.k):
        return []
    cache = clerk.state.shelves
    if not text or text.isspace():  # it asks for no line in particular
        return [hit_of(line, 0.0) for line in cache.newest(shelves, grant.k, without, condition)]
    ranked = cache.rank(shelves, text, grant.k, moment, without, condition)
    if call.min_confidence:
        ranked = _above(ranked, call.min_confidence)
    if call.or_newest and not _has_match(ranked):
        inquiry = Inquiry(cache, shelves, text, moment, condition)
        # Where the lines that match are left out, the newest lines do not take their places.
        if not without or not _has_match(_above(inquiry.rank(grant.k), call.min_confidence or 0.0)):
            ranked = [*ranked, *_newest(inquiry, grant.k, without, ranked)]
    return [hit_of(one.line, one.score, one) for one in ranked]


def _question(clerk: DecisionRecorder, call: api.Get) -> tuple[str, datetime]:
    """The text of the query, and the moment from which it is asked."""
    moment = model.moment(clerk.now()) if call.now is None else call.now
    if call.now is not None:
        model.millis(moment)  # raises an error if `now` is not a datetime with a time zone
    return model.clean_text(call.query, limit=QUERY_LIMIT, what="a query"), moment


def _above(ranked: Sequence[Ranked], floor: float) -> list[Ranked]:
    return [one for one in ranked if one.confidence >= floor]


def _has_match(ranked: Sequence[Ranked]) -> bool:
    """Whether a line matches the query. A standing line may be returned without a match: then its score is 0."""
    return any(one.score for one in ranked)


def _newest(inquiry: Inquiry, k: int, without: frozenset[LineId], others: Sequence[Ranked]) -> list[Ranked]:
    """The newest lines beside `others`, `k` lines in all. They are returned on request if no line matches."""
    without = without.union([one.line.id for one in others])
    lines = inquiry.cache.newest(inquiry.shelves, k - len(others), without, inquiry.condition)
    return [Ranked(line, 0.0, 0.0) for line in lines]


def _explained(clerk: DecisionRecorder, grant: Grant, shelves: Sequence[CachedNamespace], call: api.Get) -> list[Hit]:
    """Every candidate up to k, or exactly the lines named by `ids`, with the reasons."""
    without, condition = model.line_ids(call.without), _condition(call)
    text, moment = _question(clerk, call)
    if not text or text.isspace():
        raise InvalidRequest("`explain` needs a query: it says how lines fit a question")
    floor = call.min_confidence or 0.0
    inquiry = Inquiry(clerk.state.shelves, shelves, text, moment, condition)
    if call.ids is not None:
        # An id that the cap does not cover ends here, before any ranking, like an id that no line has.
        found = explain_lines(inquiry, _named(grant, shelves, call.ids), floor)
    elif _is_none(call.k):
        found = []
    else:
        found = explain_best(inquiry, grant.k, without, floor)
        candidates = [one for one, _ in found]
        if call.or_newest and not _has_match(_above(candidates, floor)):
            found += [(one, Why({}, 0)) for one in _newest(inquiry, grant.k, without, candidates)]
    hits = [hit_of(one.line, one.score, one, why) for one, why in found]
    return cut_to_budget(hits, within_budget([hit for hit in hits if hit.why and not hit.why.cut]))


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
    if type(call.standing) is not bool:
        raise InvalidRequest("`standing` must be true or false")
    among = clerk.state.shelves.standing(shelves) if call.standing else None
    lines = choice.page(shelves, _cursor(call.after), limit + 1, among)
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


def _named(grant: Grant, shelves: Sequence[CachedNamespace], ids: Sequence[str]) -> list[Line]:
    wanted = list(map(model.line_id, ids))
    with hold_still(shelves):
        found = [line for name in wanted for shelf in shelves if (line := shelf.lines.get(name)) is not None]
    if {line.id for line in found} != set(wanted):
        raise LineNotFound("there is no such line")
    if len(found) > grant.most:
        raise CapLimitExceeded(f"the cap allows {grant.most} lines in one call, and these ids name more")
    return found


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


def hit_of(line: Line, score: float, ranked: Ranked | None = None, why: Why | None = None) -> Hit:
    """The hit with which a recall returns a line. `ranked` is what the engine says about the line."""
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
        confidence=CERTAIN if ranked is None or ranked.confidence == CERTAIN else ranked.confidence,
        superseded_by=None if ranked is None else ranked.superseded_by,
        standing=False if ranked is None else ranked.standing,
        why=why,
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
