"""The requirements of a runtime's cap: for memory, for every actor of the home, narrowable, and not about to end.

Nothing is verified here: a cap is only parsed. The vault decides whether it is accepted.
"""

from __future__ import annotations

import shlex
import stat
from collections.abc import Collection
from pathlib import Path

from strongroom import model
from strongroom.caps import chain
from strongroom.caps.authority import effective
from strongroom.caps.chain import Cap, Token
from strongroom.errors import CapMalformed, CapMissing, InvalidRequest, KeyUnavailable
from strongroom.hermes import cap_file
from strongroom.hermes.policy import OWNER
from strongroom.memory import Memory
from strongroom.model import CapRecord, DataClass, Op
from strongroom.private_files import open_file
from strongroom.vault.create_open import attenuate
from strongroom.vault.vault import Vault

NEEDED = frozenset((Op.PUT, Op.GET, Op.LIST, Op.SNAPSHOT, Op.FORGET))
_A_WHILE = 300


def claims_of(token: Token) -> Cap:
    """The authority that a cap claims."""
    return effective(chain.parse(token), "")


def read_held(path: Path) -> Token | None:
    """The cap in a file; None if there is no file, or it does not hold a cap."""
    try:
        token = cap_file.read(path)
        claims_of(token)
    except (CapMissing, CapMalformed):
        return None
    return token


def own_in(path: Path) -> Token | None:
    """The cap in a home's own file, whatever its mode. None without a file; InvalidRequest for anything else."""
    body = _body_of(path)
    if not body:
        return None
    token = Token(body.decode("ascii", "replace"))
    try:
        claims_of(token)
    except CapMalformed:
        raise _no_cap(path) from None
    return token


def _body_of(path: Path) -> bytes:
    """The content of a file, without following a link or waiting for a pipe."""
    try:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise _no_cap(path)
        with open_file(path, follow=False) as file:
            return file.read(cap_file.LIMIT).strip()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise KeyUnavailable(f"cannot read {path}: {error.strerror}") from None


def _no_cap(path: Path) -> InvalidRequest:
    return InvalidRequest(
        f"{path} exists and is not a cap",
        hint=f"the cap needs that name: `mv {(name := shlex.quote(str(path)))} {name}.broken`",
    )


def fault(token: Token, scope: str, namespaces: Collection[str], now: float) -> str:
    """Why a cap is not suitable for a home; empty if it is."""
    said = claims_of(token)
    if said.data_class is not DataClass.MEMORY:
        return f"it is for {said.data_class}, and not for memory"
    if said.actor_scope is None or not scope.startswith(said.actor_scope):
        return f"it does not cover the actors below {scope}"
    if said.session is not None:
        return "it is for one conversation only"
    if lacks := sorted(NEEDED - said.ops):
        return f"it does not allow {', '.join(lacks)}"
    if not namespaces:
        return "it covers no namespace"
    if lacking := sorted(set(namespaces) - said.namespaces):
        return f"it does not cover {', '.join(lacking)}"
    if chain.parse(token).seed is None or said.depth_left < 1:
        return "it cannot be narrowed to one person"
    return "it has ended" if said.exp <= now else ""


def check(token: Token, scope: str, namespaces: Collection[str], now: float) -> None:
    """Raise InvalidRequest for a cap that is not suitable for a home."""
    if found := fault(token, scope, namespaces, now):
        raise InvalidRequest(f"the cap cannot be used: {found}", hint=how_to_mint(scope, namespaces))


def how_to_mint(scope: str, namespaces: Collection[str]) -> str:
    """What a server's owner must do to give a home its cap."""
    return f"its owner makes one: {mint_command(scope, namespaces)}"


def mint_command(scope: str, namespaces: Collection[str]) -> str:
    """The command with which a vault's owner mints a cap for a home."""
    names = ",".join(namespaces) or "NAMES"
    asked = f"--scope {scope} --ops {','.join(cap_file.OPS)} --namespaces {names} --ttl 30d --out FILE"
    return f"strongroom cap mint {asked}"


def inbox_of(memory: Memory, token: Token, scope: str) -> str:
    """The vault's inbox key, read as the local owner, which also shows that the cap is accepted."""
    actor = model.actor(f"{scope}{OWNER}")
    return memory.with_cap(attenuate(token, actor=actor, ops=[Op.PUT], ttl=_A_WHILE, delegable=False)).inbox()


def is_standing(vault: Vault, token: Token) -> bool:
    """Whether the vault minted a cap, and it is not void: neither revoked, nor signed with a replaced issuer key."""
    link = claims_of(token).links[0]
    return any(one.link == link and not one.void for one in vault.caps())


def revoke(vault: Vault, token: Token) -> bool:
    """Revoke a cap and those that it was renewed from. False if there was none to revoke."""
    standing = [one.link for one in _line_of(vault, token) if not one.revoked]
    for link in standing:
        vault.revoke(link)
    return bool(standing)


def _line_of(vault: Vault, token: Token) -> list[CapRecord]:
    """The record of a cap, and of those that it was renewed from; never of an admin cap that minted it."""
    link = claims_of(token).links[0]
    records = {one.link: one for one in vault.caps()}
    if link not in records:
        return []
    mine = records[link]
    found = [records[one] for one in (*mine.parents, link) if one in records]
    return [one for one in found if (one.actor, one.data_class) == (mine.actor, mine.data_class)]


def read_given(path: Path) -> Token:
    """The cap in a file that a person named."""
    try:
        token = cap_file.read(path, waits=True)
    except CapMissing:
        raise InvalidRequest(f"there is no cap in {path}", hint="name the file that holds it with --cap-file") from None
    claims_of(token)
    return token


def is_later(held: Token, new: Token) -> bool:
    """Whether a cap is a renewal of another: the same authority, and no earlier end."""
    one, other = claims_of(held), claims_of(new)
    same = ("actor_scope", "data_class", "ops", "namespaces", "session", "issued")
    is_like = all(getattr(one, name) == getattr(other, name) for name in same)
    return is_like and chain.parse(held).first.aud == chain.parse(new).first.aud and one.exp >= other.exp
