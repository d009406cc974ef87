"""The requirements of a home's cap: it is for memory, covers every actor of the home, can be narrowed, and does not end
soon.

A cap is only parsed here and not verified. The vault decides whether it is accepted.
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
    """Parse a cap and return the authority that it claims."""
    return effective(chain.parse(token), "")


def read_held(path: Path) -> Token | None:
    """The cap in a file. None if the file is missing or does not hold a cap."""
    try:
        token = cap_file.read(path)
        claims_of(token)
    except (CapMissing, CapMalformed):
        return None
    return token


def own_in(path: Path) -> Token | None:
    """The cap in a home's own file, whatever the file's mode. None if there is no file.

    Raises InvalidRequest if the file holds anything else.
    """
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
        raise KeyUnavailable(f"cannot read the cap file {path}: {error.strerror}") from None


def _no_cap(path: Path) -> InvalidRequest:
    return InvalidRequest(
        f"the file {path} is not a cap",
        hint=f"the cap needs that name: move the file away with `mv {(name := shlex.quote(str(path)))} {name}.broken`",
    )


def fault(token: Token, scope: str, namespaces: Collection[str], now: float) -> str:
    """The reason why a cap is not suitable for a home; empty if it is suitable."""
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
    """Raise InvalidRequest if a cap is not suitable for a home."""
    if found := fault(token, scope, namespaces, now):
        raise InvalidRequest(f"the cap cannot be used: {found}", hint=how_to_mint(scope, namespaces))


def how_to_mint(scope: str, namespaces: Collection[str]) -> str:
    """The hint that says how the owner of a server mints a cap for a home."""
    return f"the vault's owner mints a cap with: {mint_command(scope, namespaces)}"


def mint_command(scope: str, namespaces: Collection[str]) -> str:
    """The command with which a vault's owner mints a cap for a home."""
    names = ",".join(namespaces) or "NAMES"
    asked = f"--scope {scope} --ops {','.join(cap_file.OPS)} --namespaces {names} --ttl 30d --out FILE"
    return f"strongroom cap mint {asked}"


def inbox_of(memory: Memory, token: Token, scope: str) -> str:
    """Ask for the vault's inbox key as the local owner. The answer also shows that the vault accepts the cap."""
    actor = model.actor(f"{scope}{OWNER}")
    return memory.with_cap(attenuate(token, actor=actor, ops=[Op.PUT], ttl=_A_WHILE, delegable=False)).inbox()


def is_standing(vault: Vault, token: Token) -> bool:
    """Whether the vault minted a cap that is still valid: not revoked, and signed with the current issuer key."""
    link = claims_of(token).links[0]
    return any(one.link == link and not one.void for one in vault.caps())


def revoke(vault: Vault, token: Token) -> bool:
    """Revoke a cap, and the caps that it was renewed from. Returns False if there was nothing to revoke."""
    standing = [one.link for one in _line_of(vault, token) if not one.revoked]
    for link in standing:
        vault.revoke(link)
    return bool(standing)


def _line_of(vault: Vault, token: Token) -> list[CapRecord]:
    """The records of a cap and of the caps that it was renewed from. An admin cap that minted it is left out."""
    link = claims_of(token).links[0]
    records = {one.link: one for one in vault.caps()}
    if link not in records:
        return []
    mine = records[link]
    found = [records[one] for one in (*mine.parents, link) if one in records]
    return [one for one in found if (one.actor, one.data_class) == (mine.actor, mine.data_class)]


def read_given(path: Path) -> Token:
    """Read a cap from a file that a person named. Waits if the file is a pipe."""
    try:
        token = cap_file.read(path, waits=True)
    except CapMissing:
        raise InvalidRequest(
            f"there is no cap in the file {path}", hint="name the file that holds the cap with --cap-file"
        ) from None
    claims_of(token)
    return token


def is_later(held: Token, new: Token) -> bool:
    """Whether `held` is a renewal of `new`: the same authority, and no earlier end."""
    one, other = claims_of(held), claims_of(new)
    same = ("actor_scope", "data_class", "ops", "namespaces", "session", "issued")
    is_like = all(getattr(one, name) == getattr(other, name) for name in same)
    return is_like and chain.parse(held).first.aud == chain.parse(new).first.aud and one.exp >= other.exp
