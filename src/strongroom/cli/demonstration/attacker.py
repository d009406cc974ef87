"""An attacker with the vault's files and other people's caps, and without any key. Run as a program of its own.

It knows Strongroom only from outside: SQLite, JSON and base64. Usage: `python attacker.py VERB ARGUMENT...`; what it
found goes to stdout as JSON.
"""

from __future__ import annotations

import base64
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

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


# Lines and log.


def move(vault: str, line: str, beside: str) -> None:
    """A sealed line stands in the namespace of another from now on."""
    old, new = _name(vault, line), _name(vault, beside).rpartition("/")[0] + "/" + line
    _change(vault, "UPDATE objects SET name = ? WHERE name = ?", new, old)


def move_back(vault: str, line: str, name: str) -> None:
    """A line that was moved stands where it was."""
    _change(vault, "UPDATE objects SET name = ? WHERE name = ?", name, _name(vault, line))


def where(vault: str, line: str) -> str:
    """The object in which a line is sealed."""
    return _name(vault, line)


def swap(vault: str, line: str, other: str) -> None:
    """Two sealed lines, each in the other's place."""
    first, second = _name(vault, line), _name(vault, other)
    one, two = _body(vault, first), _body(vault, second)
    _change(vault, "UPDATE objects SET body = ? WHERE name = ?", two, first)
    _change(vault, "UPDATE objects SET body = ? WHERE name = ?", one, second)


def rewrite_entry(vault: str, number: str, old: str, new: str) -> None:
    """One word of one log entry is another."""
    ((entry,),) = _read(vault, "SELECT entry FROM entries WHERE number = ?", int(number))
    edited = bytes(entry).replace(old.encode(), new.encode())
    if edited == entry:
        raise LookupError("the entry does not hold that word")
    _change(vault, "UPDATE entries SET entry = ? WHERE number = ?", edited, int(number))


def copy(source: str, target: str) -> None:
    """All files of a vault, in another's place."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


# Looking for what is left.


def take(vault: str, target: str, *patterns: str) -> int:
    """Keep the bodies of the objects whose names are like these, and say how many there are."""
    bodies = [
        row[0]
        for pattern in patterns
        for row in _read(vault, "SELECT body FROM objects WHERE name LIKE ? AND length(body) > 0", pattern)
    ]
    Path(target).write_text(json.dumps([_encoded(bytes(body)) for body in bodies]))
    return len(bodies)


def find(vault: str, taken: str) -> int:
    """How many pieces of the bodies that were taken lie in any file of the vault."""
    bodies = [_decoded(text) for text in json.loads(Path(taken).read_text())]
    pieces = {body[at : at + _PIECE] for body in bodies for at in range(0, len(body) - _PIECE + 1, _PIECE)}
    found: set[bytes] = set()
    for data in _files(vault):
        found |= {piece for at in range(len(data) - _PIECE + 1) if (piece := data[at : at + _PIECE]) in pieces}
    return len(found)


def find_words(vault: str, *words: str) -> int:
    """How many of these texts lie in any file of the vault, in clear."""
    files = _files(vault)
    forms = [form for word in words for form in (word.encode(), word.encode("utf-16-le"))]
    return sum(any(form in data for data in files) for form in forms)


def _files(vault: str) -> list[bytes]:
    return [path.read_bytes() for path in Path(vault).rglob("*") if path.is_file()]


def _name(vault: str, line: str) -> str:
    ((name,),) = _read(vault, "SELECT name FROM objects WHERE name LIKE ?", f"%/lines/{line}")
    return str(name)


def _body(vault: str, name: str) -> bytes:
    ((body,),) = _read(vault, "SELECT body FROM objects WHERE name = ?", name)
    return bytes(body)


def _read(vault: str, query: str, *values: str | int) -> list[tuple[Any, ...]]:
    with closing(apsw.Connection(f"{vault}/vault.db")) as database:
        return database.execute(query, values).fetchall()


def _change(vault: str, query: str, *values: str | bytes | int) -> None:
    with closing(apsw.Connection(f"{vault}/vault.db")) as database:
        database.execute(query, values)
        if database.changes() != 1:
            raise LookupError("there was not exactly one row to change")


VERBS: dict[str, Callable[..., object]] = {
    verb.__name__: verb
    for verb in (flip, widen, strip, move, move_back, where, swap, rewrite_entry, copy, take, find, find_words)
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(VERBS[sys.argv[1]](*sys.argv[2:])))
