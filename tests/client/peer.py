"""A server whose every move is scripted: it can answer for a vault, lie, break off before or after it did its work."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from strongroom import Vault, api, errors

_KINDS = {(kind.method, kind.path): kind for kind in api.CALLS}


@dataclass(frozen=True)
class Seen:
    """A request as it came."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def token(self) -> str:
        return self.headers.get("authorization", "").removeprefix("Bearer ")


@dataclass(frozen=True)
class Reply:
    """What goes back, and what becomes of the connection after it."""

    data: bytes = b""
    hang_up: bool = False
    reset: bool = False
    wait: bool = False
    pieces: tuple[bytes, ...] = ()
    """Sent one by one after `data`, each when `turn` is released, or a little later by itself."""
    turn: threading.Semaphore | None = None


Step = Callable[[Seen], Reply]


class Peer:
    """Takes connections on loopback or on a unix socket. Each request takes the next step, then `then` for good."""

    def __init__(self, steps: Iterable[Step] = (), then: Step | None = None, path: Path | None = None) -> None:
        self.seen: list[Seen] = []
        self.connections = 0
        self.steps = list(steps)
        self.then = then or refuse("server_defect")
        self._guard = threading.Lock()
        self._ended = threading.Event()
        self._sockets: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        if path is None:
            self._listening = socket.create_server(("127.0.0.1", 0))
            self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        else:
            self._listening = socket.socket(socket.AF_UNIX)
            self._listening.bind(str(path))
            self._listening.listen()
            self.url = f"unix://{path}"

    def __enter__(self) -> Peer:
        self._start(self._listen)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._listening.shutdown(socket.SHUT_RDWR)
        with self._guard:
            open_ones = list(self._sockets)
        for one in open_ones:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _start(self, work: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=work, args=args)
        self._threads.append(thread)
        thread.start()

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                taken, _ = self._listening.accept()
            except OSError:
                return
            with self._guard:
                self.connections += 1
                self._sockets.append(taken)
            self._start(self._talk, taken)

    def _talk(self, taken: socket.socket) -> None:
        try:
            with taken, taken.makefile("rb") as lines:
                while (seen := _read(lines)) is not None:
                    with self._guard:
                        self.seen.append(seen)
                        step = self.steps.pop(0) if self.steps else self.then
                    reply = step(seen)
                    taken.sendall(reply.data)
                    for piece in reply.pieces:
                        if reply.turn is not None:
                            reply.turn.acquire(timeout=0.05)
                        taken.sendall(piece)
                    if reply.wait:
                        self._ended.wait(30)
                    if reply.reset:
                        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    if reply.hang_up or reply.reset or reply.wait:
                        return
        except OSError:
            pass
        finally:
            with self._guard:
                self._sockets.remove(taken)


def _read(lines: Any) -> Seen | None:
    start = lines.readline().decode("latin-1").split()
    if not start:
        return None
    headers: dict[str, str] = {}
    while line := lines.readline().decode("latin-1").strip():
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    body = lines.read(int(headers.get("content-length", "0")))
    return Seen(start[0], start[1], headers, body)


def answered(status: int, body: bytes, **headers: str) -> Reply:
    """A whole HTTP answer."""
    told = {"Content-Length": str(len(body)), "Content-Type": "application/json"}
    told |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in told.items())
    return Reply(f"HTTP/1.1 {status} Anything\r\n{head}\r\n".encode() + body)


def always(reply: Reply) -> Step:
    return lambda seen: reply


def answer(status: int, body: bytes = b"", **headers: str) -> Step:
    return always(answered(status, body, **headers))


def given(value: object) -> Step:
    return answer(200, msgspec.json.encode(value))


def refuse(reason: str, **headers: str) -> Step:
    refusal = api.Refusal.of(errors.BY_REASON[reason]("said the peer", hint="a hint"))
    return answer(api.STATUS[reason], msgspec.json.encode(refusal), **headers)


hang_up: Step = always(Reply(hang_up=True))
reset: Step = always(Reply(reset=True))
never: Step = always(Reply(wait=True))


def for_vault(vault: Vault) -> Step:
    """Answers as a server of this vault does."""

    def step(seen: Seen) -> Reply:
        try:
            found = vault.door(seen.token, source="http").call(_call(seen))
        except errors.StrongroomError as error:
            return answered(api.STATUS[error.reason], msgspec.json.encode(api.Refusal.of(error)))
        return answered(200, msgspec.json.encode(found))

    return step


def _call(seen: Seen) -> api.Call[Any]:
    kind = _KINDS[seen.method, seen.path]
    if kind is api.ReadProfile or kind is api.WriteProfile:
        fields: dict[str, Any] = {name: value[0] for name, value in parse_qs(urlsplit(seen.target).query).items()}
        if kind is api.WriteProfile:
            fields |= msgspec.json.decode(seen.body)
            fields["version"] = seen.headers.get("if-match", "").strip('"')
        return msgspec.convert(fields, kind)
    found: api.Call[Any] = msgspec.json.decode(seen.body or b"{}", type=kind)
    return found


def done_but(then: Step, work: Step) -> Step:
    """Do the work, and tell something else."""

    def step(seen: Seen) -> Reply:
        work(seen)
        return then(seen)

    return step
