"""The servers that are measured, each a process of its own: a vault's, the same with its limits on rates or without its
log commit, and an echo.

The echo is the least that an application on this server software can do: read a body, decode it, encode it, send it.
It runs on the same event loop, parser and settings as the vault's server, and is what the others are measured against.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

Kind = Literal["vault", "guarded", "unlogged", "echo"]


@dataclass(frozen=True, slots=True)
class Server:
    """A running server, seen from outside."""

    port: int
    pid: int

    def cpu(self) -> float:
        """Seconds of CPU time so far, user and system, of all threads: the process's clock in the kernel.

        The same figure as utime and stime in /proc/PID/stat, which counts in hundredths of a second.
        """
        return time.clock_gettime((~self.pid << 3) | 2)

    def resident(self) -> int:
        """Bytes of RAM that it takes."""
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def peak(self) -> int:
        """The most bytes of RAM that it ever took."""
        told = Path(f"/proc/{self.pid}/status").read_text()
        return int(told.partition("VmHWM:")[2].split()[0]) * 1024


@contextmanager
def running(kind: Kind, scratch: Path) -> Iterator[Server]:
    """A server of its own process, gone at the end. It listens when this is entered."""
    log = scratch / f"{kind}.log"
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.server", kind, str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        told = process.stdout.readline()
        if not told:
            raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")
        yield Server(int(told), process.pid)
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _serve_vault(scratch: Path, started: Callable[[str], None], kind: Kind) -> None:
    from bench import vaults
    from strongroom.server import json_log
    from strongroom.server.listen import ListenPlace, serve
    from strongroom.server.server_options import Options

    json_log.to_stderr()
    with vaults.reopen(scratch) as vault:
        if kind == "unlogged":
            _leave_out_commits(vault)
        options = Options(checkpoint_seconds=0)
        if kind != "guarded":
            options = replace(options, holder_rate=0, address_rate=0)
        serve(vault, ListenPlace(port=0), options, started=started)


def _leave_out_commits(vault: Any) -> None:
    """Have the store say that it has committed. Everything up to there is done: entries are made and encoded."""
    from strongroom.store import ANY, Commit

    store = vault._clerk.state.store
    store.commit = lambda entries, effects, time, *, accept_clock=False, since=ANY: Commit(0, 0)  # noqa: ARG005
    store.commit_all = lambda pending: [Commit(0, 0)] * len(pending)


def _serve_echo(started: Callable[[str], None]) -> None:
    import uvicorn

    from strongroom.server.listen import ListenPlace, listen

    config = uvicorn.Config(
        _echo(),
        http="httptools",
        ws="none",
        loop="uvloop",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
    )
    place = ListenPlace(port=0)
    bound = listen(place)
    started(place.url(bound))
    uvicorn.Server(config).run(sockets=[bound])


def _echo() -> Callable[..., Any]:
    import msgspec

    class Question(msgspec.Struct):
        query: str = ""
        k: int | None = None

    decode, encode = msgspec.json.Decoder(Question).decode, msgspec.json.Encoder().encode

    async def app(scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG001 - an ASGI application
        message = await receive()
        body = message["body"]
        while message["more_body"]:
            message = await receive()
            body += message["body"]
        answer = encode(decode(body))
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(answer)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": answer})

    return app


def _end_with_stdin() -> None:
    """Stop as a service is told to stop, once whoever started this is gone or says so."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)


def main(kind: Kind, scratch: Path) -> None:
    threading.Thread(target=_end_with_stdin, daemon=True).start()

    def started(url: str) -> None:
        print(url.rpartition(":")[2], flush=True)

    if kind == "echo":
        _serve_echo(started)
    else:
        _serve_vault(scratch, started, kind)


if __name__ == "__main__":
    main(cast(Kind, sys.argv[1]), Path(sys.argv[2]))
