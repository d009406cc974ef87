"""What the story needs and the command line has no verb for, in Python. Run as a program of its own.

`store` puts many lines with times of their own, `backdate` makes a cap that has ended, `lines` says all that is kept of
everybody, `read` keeps a vault open and answers one question per line of stdin, as a second agent would. The vault is
the one that the environment names. `below` says what lies below a place in a bucket, and `clear` removes it.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from strongroom import cap, settings
from strongroom.errors import KeyUnavailable, StrongroomError
from strongroom.files import write_file
from strongroom.model import BATCH_LIMIT, K_LIMIT, Hit, NewLine
from strongroom.vault.owner import Vault

if TYPE_CHECKING:
    from strongroom.store.s3.bucket import S3Bucket

_HOUR = 3600


def store(cap_file: str) -> None:
    """Put the lines that stdin holds as one JSON document, and say how many were kept."""
    lines = msgspec.json.decode(sys.stdin.buffer.read(), type=list[NewLine])
    kept = 0
    with _opened() as vault:
        memory = vault.memory(_cap(cap_file), source="demo")
        for start in range(0, len(lines), BATCH_LIMIT):
            kept += len(memory.put_many(lines[start : start + BATCH_LIMIT]))
    _say(kept)


def backdate(target: str) -> None:
    """Sign a cap that ended almost an hour ago. Nobody can wait for one, and the vault mints none."""
    with _opened() as vault:
        token = cap.mint(
            issuer_seed=settings.keys_of(vault.id, _no_passphrase).issuer(),
            audience=vault.id,
            jti=bytes(16),
            holder_seed=None,
            now=int(time.time()) - _HOUR,
            ttl=60,
            actor="local/owner",
            ops=["get"],
            namespaces=["travel"],
        )
    write_file(Path(target), token.encode(), new=True)


def read(cap_file: str) -> None:
    """Answer questions with the texts that are recalled, or the reason why not, until stdin ends."""
    with _opened() as vault:
        memory = vault.memory(_cap(cap_file), source="demo")
        for question in sys.stdin:
            try:
                _say({"texts": [hit.text for hit in memory.get(question.strip(), k=20)], "reason": ""})
            except StrongroomError as error:
                _say({"texts": [], "reason": error.reason})


def lines() -> None:
    """Say every line, of every actor: whose it is, where, and what."""
    with _opened() as vault:
        _say([{"actor": actor, **_told(hit)} for actor in map(str, vault.actors()) for hit in _hits(vault, actor)])


def clear(place: str) -> None:
    """Remove every object below a place in a bucket."""
    bucket = _bucket(place)
    while found := bucket.list(""):
        bucket.delete([one.name for one in found])


def below(place: str) -> None:
    """Say the names of all objects below a place in a bucket."""
    _say([one.name for one in _bucket(place).list("")])


def _bucket(place: str) -> S3Bucket:
    from strongroom.store.s3.access import access
    from strongroom.store.s3.bucket import S3Bucket

    return S3Bucket(access(place.removeprefix("s3://")))


def _hits(vault: Vault, actor: str) -> Iterator[Hit]:
    memory = vault.memory(vault.mint(actor=actor, ops=["get", "list"], namespaces=vault.namespaces, ttl=60))
    after: str | None = None
    while True:
        page = memory.list(limit=K_LIMIT, after=after)
        if page.lines:
            yield from memory.get(ids=[info.id for info in page.lines])
        if (after := page.next) is None:
            return


def _told(hit: Hit) -> dict[str, str]:
    names = ("id", "namespace", "session", "author", "kind", "text")
    return {name: str(getattr(hit, name)) for name in names}


def _opened() -> Vault:
    return settings.open_vault(settings.find(), _no_passphrase)


def _no_passphrase() -> str:
    raise KeyUnavailable("the demonstration's keys have no passphrase")


def _cap(cap_file: str) -> str:
    return Path(cap_file).read_text().strip()


def _say(answer: object) -> None:
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


VERBS: dict[str, Callable[..., None]] = {verb.__name__: verb for verb in (store, backdate, lines, read, below, clear)}

if __name__ == "__main__":
    VERBS[sys.argv[1]](*sys.argv[2:])
