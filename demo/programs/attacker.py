"""An attacker with the vault's files and other people's caps, and without any key. Run as a program of its own.

Where the vault is in a bucket, it has the bucket's login, from the environment. It knows Strongroom only from outside:
SQLite, S3, JSON and base64. Usage: `python attacker.py VERB ARGUMENT...`; what it found goes to stdout as JSON.
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import apsw

_AT_ONCE = 16
_LOOKS = 20
_PIECE = 32
"""Bytes that are looked for at a time: a piece of a sealed line is as telling as the whole."""


# Caps.


def flip(source: str, target: str) -> None:
    """One bit of the last link's signature is another."""
    *links, seed = _token(source)
    head, payload, signature = links[-1].split(".")
    raw = bytearray(_decoded(signature))
    raw[0] ^= 1
    _write_cap(target, [*links[:-1], f"{head}.{payload}.{_encoded(bytes(raw))}", seed])


def widen(source: str, target: str) -> None:
    """`personal` is written into the claims of the last link."""
    *links, seed = _token(source)
    head, payload, signature = links[-1].split(".")
    claims = json.loads(_decoded(payload))
    claims["namespaces_allowed"] = ["personal", "travel"]
    wider = _encoded(json.dumps(claims, separators=(",", ":")).encode())
    _write_cap(target, [*links[:-1], f"{head}.{wider}.{signature}", seed])


def strip(source: str, bare: str, with_seed: str) -> None:
    """The last link is taken off: once with nothing, once with the seed that the bearer has."""
    *links, seed = _token(source)
    _write_cap(bare, links[:-1])
    _write_cap(with_seed, [*links[:-1], seed])


def _token(source: str) -> list[str]:
    return Path(source).read_text().strip().split("~")


def _write_cap(target: str, parts: list[str]) -> None:
    path = Path(target)
    path.touch(mode=0o600)
    path.write_text("~".join(parts) + "\n")


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


# Where a vault lies.


class Files:
    """A vault on a disk: one database, in which objects are rows."""

    def __init__(self, place: str) -> None:
        self.place = Path(place)

    def raw(self) -> dict[str, bytes]:
        """Every file there is."""
        files = (path for path in self.place.rglob("*") if path.is_file())
        return {str(path.relative_to(self.place)): path.read_bytes() for path in files}

    def objects(self, *patterns: str) -> dict[str, bytes]:
        """The objects that have a body and a name like one of these, in which * is anything."""
        query = "SELECT name, body FROM objects WHERE name GLOB ? AND length(body) > 0"
        return {name: bytes(body) for pattern in patterns for name, body in self.read(query, pattern)}

    def write(self, name: str, body: bytes) -> None:
        self.change("UPDATE objects SET body = ? WHERE name = ?", body, name)

    def rename(self, old: str, new: str) -> None:
        self.change("UPDATE objects SET name = ? WHERE name = ?", new, old)

    def read(self, query: str, *values: str | int) -> list[tuple[Any, ...]]:
        with closing(apsw.Connection(f"{self.place}/vault.db")) as database:
            return database.execute(query, values).fetchall()

    def change(self, query: str, *values: str | bytes | int) -> None:
        with closing(apsw.Connection(f"{self.place}/vault.db")) as database:
            database.execute(query, values)
            if database.changes() != 1:
                raise LookupError("there was not exactly one row to change")


class Bucket:
    """A vault in a bucket. Its lines must not be packed yet."""

    def __init__(self, place: str) -> None:
        from obstore.store import S3Store

        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        plain = os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
        region = os.environ.get("AWS_REGION", "us-east-1")
        self.store = S3Store(bucket, prefix=prefix, region=region, client_options={"allow_http": plain})

    def names(self) -> list[str]:
        return [one["path"] for page in self.store.list() for one in page]

    def raw(self) -> dict[str, bytes]:
        """Every object there is. Whoever sees the bytes sees the name, too."""
        return {name: name.encode() + b"\n" + body for name, body in self._bodies("*").items()}

    def objects(self, *patterns: str) -> dict[str, bytes]:
        """The objects that have a body and a name like one of these."""
        return {name: body for name, body in self._bodies(*patterns).items() if body}

    def write(self, name: str, body: bytes) -> None:
        self.store.put(name, body)

    def rename(self, old: str, new: str) -> None:
        self.store.rename(old, new)

    def _bodies(self, *patterns: str) -> dict[str, bytes]:
        """One look at the bucket. A worker may remove an object between the list and its get; then it is listed anew,
        since what the object held may be in another one now."""
        for _ in range(_LOOKS):
            found = [name for name in self.names() if any(fnmatchcase(name, one) for one in patterns)]
            with suppress(FileNotFoundError), ThreadPoolExecutor(_AT_ONCE) as pool:
                bodies = pool.map(lambda name: bytes(self.store.get(name).bytes()), found)
                return dict(zip(found, bodies, strict=True))
        raise LookupError("the bucket kept changing")


def _at(vault: str) -> Files | Bucket:
    return Bucket(vault) if vault.startswith("s3://") else Files(vault)


def names(vault: str) -> list[str]:
    """What the files, or the objects, are called."""
    place = _at(vault)
    return sorted(place.names() if isinstance(place, Bucket) else place.raw())


# Lines and log.


def move(vault: str, line: str, beside: str) -> None:
    """A sealed line stands in the namespace of another from now on."""
    place = _at(vault)
    place.rename(_name(place, line), _name(place, beside).rpartition("/")[0] + "/" + line)


def move_back(vault: str, line: str, name: str) -> None:
    """A line that was moved stands where it was."""
    place = _at(vault)
    place.rename(_name(place, line), name)


def where(vault: str, line: str) -> str:
    """The object in which a line is sealed."""
    return _name(_at(vault), line)


def swap(vault: str, line: str, other: str) -> None:
    """Two sealed lines, each in the other's place."""
    place = _at(vault)
    first, second = _name(place, line), _name(place, other)
    bodies = place.objects(first, second)
    place.write(first, bodies[second])
    place.write(second, bodies[first])


def rewrite_entry(vault: str, number: str, old: str, new: str) -> None:
    """One word of one log entry is another."""
    place = Files(vault)
    ((entry,),) = place.read("SELECT entry FROM entries WHERE number = ?", int(number))
    edited = bytes(entry).replace(old.encode(), new.encode())
    if edited == entry:
        raise LookupError("the entry does not hold that word")
    place.change("UPDATE entries SET entry = ? WHERE number = ?", edited, int(number))


def rewrite(vault: str, target: str, pattern: str, old: str, new: str) -> int:
    """One word of the objects of a bucket is another, of the same length. Keep what they were; say how many."""
    place = Bucket(vault)
    found = {name: body for name, body in place.objects(pattern).items() if old.encode() in body}
    _keep(target, found)
    for name, body in found.items():
        place.write(name, body.replace(old.encode(), new.encode()))
    return len(found)


def steal(vault: str, target: str, *patterns: str) -> int:
    """Keep the objects of a bucket that are called like these, remove them, and say how many there were."""
    place = Bucket(vault)
    found = place.objects(*patterns)
    _keep(target, found)
    for name in found:
        place.store.delete(name)
    return len(found)


def restore(vault: str, target: str) -> None:
    """What was stolen or rewritten is as it was."""
    place = Bucket(vault)
    for name, body in json.loads(Path(target).read_text()).items():
        place.write(name, _decoded(body))


def copy(source: str, target: str) -> None:
    """All files of a vault, in another's place."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


# Looking for what is left.


def take(vault: str, target: str, *patterns: str) -> int:
    """Keep the objects that are called like these, and say how many there are."""
    found = _at(vault).objects(*patterns)
    _keep(target, found)
    return len(found)


def find(vault: str, taken: str) -> int:
    """How many pieces of the bodies that were taken lie in any file of the vault."""
    bodies = [_decoded(text) for text in json.loads(Path(taken).read_text()).values()]
    pieces = {body[at : at + _PIECE] for body in bodies for at in range(0, len(body) - _PIECE + 1, _PIECE)}
    found: set[bytes] = set()
    for data in _at(vault).raw().values():
        found |= {piece for at in range(len(data) - _PIECE + 1) if (piece := data[at : at + _PIECE]) in pieces}
    return len(found)


def find_words(vault: str, *words: str) -> int:
    """How many of these texts lie in any file of the vault, in clear."""
    files = _at(vault).raw().values()
    forms = [form for word in words for form in (word.encode(), word.encode("utf-16-le"))]
    return sum(any(form in data for data in files) for form in forms)


def _keep(target: str, found: dict[str, bytes]) -> None:
    Path(target).write_text(json.dumps({name: _encoded(body) for name, body in found.items()}))


def _name(place: Files | Bucket, line: str) -> str:
    (name,) = place.objects(f"*/lines/{line}")
    return name


_VERBS = (flip, widen, strip, names, move, move_back, where, swap, rewrite_entry, rewrite, steal, restore, copy, take,
          find, find_words)  # fmt: skip
VERBS: dict[str, Callable[..., object]] = {verb.__name__: verb for verb in _VERBS}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(VERBS[sys.argv[1]](*sys.argv[2:])))
