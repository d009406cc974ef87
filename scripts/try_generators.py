"""Generate clients from the OpenAPI document with two generators, and use what they made.

`openapi-typescript` needs node and npm, `openapi-python-client` a virtual environment: both are installed, at the
versions below, into a temporary directory, so this needs a package index. `make generators` runs it. What it found
once is held by tests/server/test_openapi.py, which needs neither.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import strongroom
from strongroom import FileKeys
from strongroom.server.http import openapi
from strongroom.server.listen import ListenPlace, listen, server_for
from strongroom.server.server_options import Options

NODE = ("openapi-typescript@7.13.0", "typescript@5.9.3")
PYTHON = "openapi-python-client==0.29.1"

TYPESCRIPT = """\
import type { components } from "./strongroom";
type Of<Name extends keyof components["schemas"]> = components["schemas"][Name];
export const question: Of<"Get"> = { query: "where is the trip?" };
export const everything: Of<"List"> = {};
export const words: Of<"Put"> = { lines: [{ text: "Trip to Chengdu" }] };
export const scrubbed: (answer: Of<"Forgotten">) => boolean = (answer) => answer.scrubbed;
// @ts-expect-error: a line has a text
export const nothing: Of<"Put"> = { lines: [{ kind: "note" }] };
"""

ASKING = """\
import sys
from strongroom_client import AuthenticatedClient
from strongroom_client.api.memory import get, put
from strongroom_client.models import Get, NewLine, Put

assert Get(query="trip").to_dict() == {"query": "trip"}
with AuthenticatedClient(base_url=sys.argv[1], token=sys.stdin.read().strip()) as client:
    kept = put.sync(client=client, body=Put(lines=[NewLine(text="Trip to Chengdu")]))
    assert kept.receipts[0].duplicate is False
    found = get.sync(client=client, body=Get(query="trip"))
    assert [hit.text for hit in found.lines] == ["Trip to Chengdu"]
"""


def run(*command: str | Path, cwd: Path, given: str | None = None) -> None:
    """Run a command; the script ends where it fails."""
    subprocess.run([str(part) for part in command], cwd=cwd, input=given, text=True, check=True, stdout=sys.stderr)


def typescript(scratch: Path, document: Path) -> None:
    """Types by openapi-typescript, and a file that uses them as a caller would, under `tsc --strict`."""
    run("npm", "install", "--silent", "--no-audit", "--no-fund", *NODE, cwd=scratch)
    run("npx", "--no-install", "openapi-typescript", document, "-o", "strongroom.d.ts", cwd=scratch)
    (scratch / "calls.ts").write_text(TYPESCRIPT)
    run("npx", "--no-install", "tsc", "--strict", "--noEmit", "--skipLibCheck", "calls.ts", cwd=scratch)


def python(scratch: Path, document: Path) -> None:
    """A client by openapi-python-client, which then asks a real server."""
    run(sys.executable, "-m", "venv", "venv", cwd=scratch)
    run("venv/bin/python", "-m", "pip", "install", "--quiet", PYTHON, cwd=scratch)
    made = scratch / "made"
    run("venv/bin/openapi-python-client", "generate", "--path", document, "--output-path", made, cwd=scratch)
    (made / "asking.py").write_text(ASKING)
    with _served(scratch) as (url, token):
        run(scratch / "venv/bin/python", "asking.py", url, cwd=made, given=token)


@contextmanager
def _served(scratch: Path) -> Iterator[tuple[str, str]]:
    """A server of a new vault, as its URL, and a cap."""
    with strongroom.create(scratch / "vault", keys=FileKeys(scratch / "keys")) as vault:
        token = vault.mint(actor="local/alice", ops=["put", "get"], namespaces=["travel"], ttl=600)
        place = ListenPlace(port=0)
        bound = listen(place)
        server = server_for(vault, place, Options(mcp=False))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()  # a request waits in the socket's queue until the server takes it
        try:
            yield place.url(bound), token
        finally:
            server.should_exit = True
            thread.join()


def main(arguments: Sequence[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="strongroom-") as directory:
        scratch = Path(directory)
        document = scratch / "openapi.json"
        document.write_bytes(openapi.encode_document())
        for chosen in (typescript, python):
            if not arguments or chosen.__name__ in arguments:
                chosen(scratch, document)
                print(f"{chosen.__name__}: ok")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
