"""Write docs/openapi.json, a copy for readers of the document that the server serves; --check compares instead."""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from strongroom.server.http import openapi

COPY = Path(__file__).parents[1] / "docs" / "openapi.json"


def rendered() -> bytes:
    """The served document, laid out for reading."""
    return msgspec.json.format(openapi.encode_document(), indent=2) + b"\n"


def main() -> int:
    if "--check" not in sys.argv[1:]:
        COPY.write_bytes(rendered())
        return 0
    if COPY.exists() and COPY.read_bytes() == rendered():
        return 0
    print("docs/openapi.json has drifted: run scripts/make_openapi.py", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
