"""The real server over a vault of this process, on a unix socket or a free port, in a thread of its own."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from strongroom import Vault
from strongroom.server import listen
from strongroom.server.listen import ListenPlace
from strongroom.server.server_options import Options

QUIET = Options(holder_rate=0, address_rate=0, checkpoint_seconds=0, mcp=False, stop_seconds=5)


@contextmanager
def served(
    vault: Vault, *, unix: bool = True, options: Options = QUIET, tls: tuple[Path, Path] | None = None
) -> Iterator[str]:
    """The URL of a server that runs until the end of the block."""
    home = Path(tempfile.mkdtemp(prefix="sr-"))  # short: the path of a unix socket holds about 100 bytes
    cert, key = tls or (None, None)
    place = ListenPlace(unix=home / "s") if unix else ListenPlace(port=0, tls_cert=cert, tls_key=key)
    server = listen.server_for(vault, place, options)
    bound = listen.listen(place)
    # Connections wait in the listening socket until the server takes them: nobody need wait for it to start.
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        yield place.url(bound)
    finally:
        server.should_exit = True
        thread.join()
        bound.close()
        shutil.rmtree(home)
