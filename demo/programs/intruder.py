"""A process of the agent's user that tries to get at what the server's user has. Run as a program of its own.

It takes ways and paths, `read PATH`, `list PATH` or `database PATH`, and says for each what it got: the name of the
error, or how much it could read. It shows nothing of what it read.
"""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import apsw


def read(path: str) -> str:
    with Path(path).open("rb") as file:
        return f"{len(file.read(64))} bytes"


def listing(path: str) -> str:
    return f"{len(os.listdir(path))} names"


def database(path: str) -> str:
    with closing(apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)) as opened:
        ((count,),) = opened.execute("SELECT count(*) FROM objects").fetchall()
    return f"{count} objects"


WAYS: dict[str, Callable[[str], str]] = {"read": read, "list": listing, "database": database}


def tried(way: str, path: str) -> str:
    """What came of one attempt."""
    try:
        return WAYS[way](path)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    except apsw.Error as error:
        return type(error).__name__


if __name__ == "__main__":
    pairs = zip(sys.argv[1::2], sys.argv[2::2], strict=True)
    sys.stdout.write(json.dumps([tried(way, path) for way, path in pairs]))
