"""Whether a history is one that a fleet may have: every rule names the calls that break it.

A call that failed may have happened or not, at any moment until it ended; one made with a cap that was surely void has
not. What must be true is asked for only where no call that is unclear could explain the contrary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tests.fleet.expiry import check_answers, is_surely_there
from tests.fleet.history import DEAD, NEVER, OK, Call, Cap, History, Key
from tests.fleet.rules import Rule

UNAVAILABLE = {"store_unavailable", "audit_unavailable"}
_EXPECTED = {OK, DEAD, "cap_revoked", *UNAVAILABLE}
_ALSO = {
    "attacker": {"tampered"},
    "get": {"not_found"},
    "set_profile": {"version_conflict"},
    "snapshot": {"not_found"},
    "replace": {"not_found", "line_replaced"},
    "write_ending": {"version_conflict"},
    "read_endings": {"not_found"},
}
_READS = ("get", "list")
_GONE = ("forget", "replace", "erase", "erase_actor")
_PUTS = ("put", "replace")
_BY_NAME = ("forget", "replace")
"""Calls after which the lines that they name are gone."""
_REFUSED = ("not_found", "line_replaced")


class Checker:
    """Looks for what no sound fleet does."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._by_actor: dict[str, list[Call]] = {call.actor: [] for call in history.calls}
        for call in history.calls:
            self._by_actor[call.actor].append(call)

    def violations(self) -> Iterator[str]:
        yield from self._history.notes
        for call in self._history.calls:
            yield from self._answered(call)
            yield from self._revoked(call)
            if call.op in _READS and (call.is_ok or call.outcome == "not_found"):
                yield from self._read(call)
            if call.op == "snapshot" and call.is_ok:
                yield from self._profiles(call)
        yield from self._once()
        yield from check_answers(self._history)

    # Answers, and caps.

    def _answered(self, call: Call) -> Iterator[str]:
        if call.outcome == "tampered" and call.client != "attacker":
            yield f"{Rule.FALSE_ALARM}: {call}"
        elif call.outcome == "invalid_request" and any(text in self._history.ends for text in call.texts):
            return  # its end came before it arrived
        elif call.outcome not in _EXPECTED | _ALSO.get(call.op, set()) | _ALSO.get(call.client, set()):
            yield f"{Rule.DEFECT}: {call}"
        if call.client == "end" and call.outcome in UNAVAILABLE:
            yield f"{Rule.NO_ANSWER}: {call}"

    def _revoked(self, call: Call) -> Iterator[str]:
        if call.cap is None:
            return
        if call.is_ok and (voided := self._voided(call.cap, call.began)):
            yield f"{Rule.VOID_CAP}: {call} although {voided}"
        if call.outcome == "cap_revoked" and not self._perhaps_voided(call.cap, call.ended):
            yield f"{Rule.GOOD_CAP}: {call}, minted by {call.cap.minted}"

    def _voided(self, cap: Cap, before: int) -> Call | None:
        """The call that voided a cap before a step for sure."""
        for call in self._by_actor[cap.actor]:
            ended = call.is_ok and call.ended < before
            if ended and call.op == "revoke" and call.link == cap.link:
                return call
            if ended and call.op == "erase_actor" and cap.minted.ended < call.began:
                return call
        return None

    def _perhaps_voided(self, cap: Cap, until: int) -> bool:
        return any(
            call.began < until
            and (
                (call.op == "revoke" and call.link == cap.link)
                # One that failed may be heard of much later: its worker can have died before it said so.
                or (call.op == "erase_actor" and (call.ended > cap.minted.began or not call.is_ok))
            )
            for call in self._by_actor[cap.actor]
        )

    # Lines.

    def _read(self, read: Call) -> Iterator[str]:
        calls = self._by_actor[read.actor]
        puts = [call for call in calls if call.op in _PUTS and call.outcome not in _REFUSED]
        gone = [one for one in calls if one.op in _GONE and one.outcome not in _REFUSED and self._may_act(one)]
        if read.twice:
            yield f"{Rule.TWICE}: {read}"
        for key, text in read.shown.items():
            yield from self._shown(read, key, text, puts, gone)
        if read.is_ok and read.is_whole:
            for key, put in self._lasting(read, puts, gone):
                if key[0] in read.namespaces and key not in read.shown:
                    yield f"{Rule.MISSING}: {key} of {put} in {read}"
        if read.outcome == "not_found" and read.wanted:
            lasting = dict(self._lasting(read, puts, gone))
            if all(key in lasting for key in read.wanted):
                yield f"{Rule.NOT_FOUND}: {read}"

    def _shown(self, read: Call, key: Key, text: str | None, puts: list[Call], gone: list[Call]) -> Iterator[str]:
        sources = [put for put in puts if put.began < read.ended and self._may_act(put) and _says(put, key, text)]
        if not sources:
            yield f"{Rule.INVENTED}: {key} {text!r} in {read}"
            return
        for call in gone:
            if call.is_ok and call.ended < read.began and _covers(call, key):
                again = [put for put in sources if self._may_follow(put, call, key, gone)]
                if not again:
                    yield f"{Rule.BACK}: {key} was gone by {call}, and is in {read}"

    def _may_follow(self, put: Call, call: Call, key: Key, gone: list[Call]) -> bool:
        """Whether a put may have written a line after it was gone."""
        if self._until(put) < call.began:
            return False
        if call.op in _BY_NAME:
            # The id is taken for ever, unless all of the namespace was erased after that.
            erased = [one for one in gone if one.op not in _BY_NAME and _covers(one, key)]
            return any(self._until(one) > call.began and self._until(put) > one.began for one in erased)
        # What a void cap still had on its way must not bring an erased actor back.
        return not (call.op == "erase_actor" and put.cap is not None and put.cap.minted.ended < call.began)

    def _lasting(self, read: Call, puts: list[Call], gone: list[Call]) -> Iterator[tuple[Key, Call]]:
        """The lines that were acknowledged before a read began, and that nothing can have removed since."""
        for put in puts:
            if not put.is_ok or put.ended >= read.began:
                continue
            for text, key in put.texts.items():
                if key is None or key in put.forgotten or not is_surely_there(self._history, text, read):
                    continue
                # A put that is sent again is acknowledged, also of a line that was replaced before: it stays hidden.
                after = [
                    one for one in gone if _covers(one, key) and (one.op == "replace" or self._until(one) > put.began)
                ]
                if all(one.began > read.ended for one in after):
                    yield key, put

    def _until(self, call: Call) -> int:
        """Until when a call may have had its effect."""
        return NEVER if self._history.is_late and not call.is_ok else call.ended

    def _may_act(self, call: Call) -> bool:
        return call.cap is None or self._voided(call.cap, call.began) is None

    def _once(self) -> Iterator[str]:
        """No text under two ids: each was put once, however often it was sent."""
        seen: dict[tuple[str, str], set[Key]] = {}
        for call in self._history.calls:
            for key, text in call.shown.items():
                if text is not None:
                    seen.setdefault((call.actor, text), set()).add(key)
        for (actor, text), keys in seen.items():
            if len(keys) > 1:
                yield f"{Rule.TWO_IDS}: {text!r} of {actor} as {sorted(keys)}"

    # Profiles.

    def _profiles(self, read: Call) -> Iterator[str]:
        calls = self._by_actor[read.actor]
        erased = [call for call in calls if call.op in ("erase", "erase_actor") and self._may_act(call)]
        for namespace in read.namespaces:
            sets = [call for call in calls if call.op == "set_profile" and call.namespaces == (namespace,)]
            yield from self._profile(read, sets, [one for one in erased if namespace in one.namespaces], namespace)

    def _profile(self, read: Call, sets: list[Call], erased: list[Call], namespace: str) -> Iterator[str]:
        text = read.shown.get((namespace, "profile"))
        writing = [one for one in sets if one.profile == text and one.began < read.ended and self._may_act(one)]
        settled = [one for one in sets if one.is_ok and one.ended < read.began]
        if text is not None and not writing:
            yield f"{Rule.INVENTED_PROFILE}: {text!r} in {read}"
        for one in settled:
            again = [other for other in erased if self._until(other) > one.began and other.began < read.ended]
            later = [other for other in sets if other is not one and self._until(other) > one.began]
            if text is None and not again:
                yield f"{Rule.MISSING_PROFILE}: that of {one} in {read}"
            if text is not None and text != one.profile and not any(other.profile == text for other in later):
                yield f"{Rule.OLD_PROFILE}: {text!r} in {read}, although {one}"


def _covers(call: Call, key: Key) -> bool:
    """Whether a forgetting or an erasure is about a line."""
    return key in call.wanted if call.op in _BY_NAME else key[0] in call.namespaces


def _says(put: Call, key: Key, text: str | None) -> bool:
    """Whether a put may be where a line comes from: the same text, under the same id."""
    candidates: Mapping[str, Key | None] = put.texts if text is None else {text: put.texts.get(text, ("", ""))}
    return any(own == key or own is None for own in candidates.values())
