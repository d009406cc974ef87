"""Reads and writes profiles. A profile is a text for a system prompt that the owner approved for one namespace.

A profile is replaced by compare-and-swap, so that no concurrent change is lost.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from strongroom import api, model
from strongroom.crypto import line_encryption
from strongroom.crypto.line_encryption import LinePlace
from strongroom.errors import LineTooLarge, StoreUnavailable, VersionConflict
from strongroom.gate import Ask, Grant
from strongroom.memory.decision_recorder import Caller, DecisionRecorder
from strongroom.memory.operation import Operation
from strongroom.memory.ops.put import keys_for, only_namespace
from strongroom.memory.replica import Replica
from strongroom.memory.stored_lines import open_object
from strongroom.model import Namespace, Op, Profile, Snapshot
from strongroom.store import Lost, Object, PutNew, Swap, Version

_PROFILE = "profile"
_TRIES = 64


def snapshot(clerk: DecisionRecorder, caller: Caller, call: api.TakeSnapshot) -> Operation[Snapshot]:
    """The profiles of the granted namespaces, most sensitive namespace first. Together they have at most 8 KiB."""
    grant = yield from clerk.admit(caller, Ask.of(Op.SNAPSHOT, call.namespaces))
    return (yield from clerk.recorded(grant, caller, _snapshot(clerk, grant, caller)))


def _snapshot(clerk: DecisionRecorder, grant: Grant, caller: Caller) -> Operation[Snapshot]:
    found = [_read_profile(clerk.state, grant, name)[0] for name in clerk.in_order(grant.namespaces)]
    kept: list[Profile] = []
    left_out: list[Namespace] = []
    room = model.PROFILE_LIMIT
    for profile in found:
        size = len(profile.text.encode())
        if size > room:
            left_out.append(profile.namespace)
        elif size:
            kept.append(profile)
            room -= size
    yield from clerk.commit(grant, count=len(kept), caller=caller)
    return Snapshot(tuple(kept), tuple(left_out))


def profile(clerk: DecisionRecorder, caller: Caller, call: api.ReadProfile) -> Operation[Profile]:
    """The profile of one namespace, with its version."""
    grant = yield from clerk.admit(caller, _ask(call.namespace))
    return (yield from clerk.recorded(grant, caller, _profile(clerk, grant, caller)))


def _profile(clerk: DecisionRecorder, grant: Grant, caller: Caller) -> Operation[Profile]:
    found, _ = _read_profile(clerk.state, grant, only_namespace(grant))
    yield from clerk.commit(grant, count=1, caller=caller)
    return found


def set_profile(clerk: DecisionRecorder, caller: Caller, call: api.WriteProfile) -> Operation[Profile]:
    """Write the profile of a namespace if its present version is `version`, which is "" if there is no profile yet."""
    for _ in range(_TRIES):
        grant, since = yield from clerk.admit_to_seal(caller, _ask(call.namespace))
        written = yield from clerk.recorded(grant, caller, _write(clerk, grant, caller, call, since))
        if written is not None:
            return written
    raise StoreUnavailable("the vault is too busy: other processes kept changing the same keys")


def _write(
    clerk: DecisionRecorder, grant: Grant, caller: Caller, call: api.WriteProfile, since: Mapping[str, Version]
) -> Operation[Profile | None]:
    """Write a profile. Returns None if another process changed something meanwhile, so that it must be tried again."""
    state, name = clerk.state, only_namespace(grant)
    clean = model.clean_text(call.text, limit=model.PROFILE_LIMIT, what="a profile")
    _check_total(state, grant, name, clean)
    current, stored = _read_profile(state, grant, name)
    if current.version != call.version:
        raise VersionConflict(
            "the present version of the profile is not the given one",
            hint="read the profile again, then repeat the change",
        )
    try:
        keys, effects = keys_for(state, grant, {name})
    except Lost:
        return None
    epoch, key = keys.newest(state.slots.namespace(grant.actor, name))
    place = LinePlace(state.vault_id, grant.actor, name)
    body = line_encryption.seal_text(clean, _PROFILE, place, epoch, key, state.random(24))
    slot = _slot(state, grant, name)
    effects.append(PutNew(slot, body) if stored is None else Swap(slot, body, stored.version))
    try:
        yield from clerk.commit(grant, effects, keys=keys, count=1, caller=caller, since=since)
    except Lost:
        return None
    return Profile(name, clean, _etag(body))


def _ask(namespace: str | None) -> Ask:
    return Ask.of(Op.PROFILE, None if namespace is None else [namespace])


def _slot(state: Replica, grant: Grant, namespace: Namespace) -> str:
    return state.slots.shelf(grant.actor, namespace) + _PROFILE


def _read_profile(state: Replica, grant: Grant, namespace: Namespace) -> tuple[Profile, Object | None]:
    stored = state.store.get(_slot(state, grant, namespace))
    place = LinePlace(state.vault_id, grant.actor, namespace)

    def opened(body: bytes, keys: Mapping[int, bytes]) -> Profile:
        return Profile(namespace, line_encryption.open_text(body, _PROFILE, place, keys), _etag(body))

    found = None if stored is None else open_object(state, grant.actor, namespace, stored, opened)
    return (Profile(namespace, "", ""), None) if found is None else (found, stored)


def _etag(body: bytes) -> str:
    # The store's version is not used, because it counts changes in every other namespace too.
    return hashlib.sha256(body).hexdigest()[:32]


def _check_total(state: Replica, grant: Grant, namespace: Namespace, text: str) -> None:
    """Refuse a text that would not fit into a snapshot together with the other profiles that this cap covers.

    Profiles outside the cap do not count, because this cap's holder must not learn their size. If a snapshot under
    another cap becomes too large, it leaves out profiles.
    """
    others = grant.allowed - {namespace}
    total = len(text.encode()) + sum(len(_read_profile(state, grant, name)[0].text.encode()) for name in others)
    if total > model.PROFILE_LIMIT:
        raise LineTooLarge(
            f"with this text, the profiles of the cap's namespaces would exceed {model.PROFILE_LIMIT} bytes together"
        )
