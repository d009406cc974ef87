"""Real processes for tests: one that answers calls on a vault, one that writes until it is killed, and a plain fork."""

from __future__ import annotations

import multiprocessing
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import strongroom
from strongroom import FileKeys, Vault
from strongroom.errors import StrongroomError
from strongroom.model import Millis

CONTEXT = multiprocessing.get_context("forkserver")
# Imported once in the fork server, so that a new process starts in milliseconds. It opens nothing.
CONTEXT.set_forkserver_preload(["__main__", "tests.store.children"])


@dataclass(frozen=True)
class Place:
    """Where a vault and its keys are, and what time it is there."""

    vault: Path
    keys: Path
    millis: int

    def open(self) -> Vault:
        return strongroom.open(self.vault, keys=FileKeys(self.keys), now=lambda: Millis(self.millis))


@dataclass(frozen=True)
class Answer:
    """What a call came to: a value, or the reason of an error."""

    value: Any = None
    reason: str = ""


class Process:
    """A process and the pipe to it."""

    def __init__(self, work: Callable[..., None], *args: object) -> None:
        self.pipe, other = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=work, args=(other, *args), daemon=True)
        self._process.start()
        other.close()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def kill(self) -> list[Any]:
        """SIGKILL. Returns what the process had sent before it died."""
        self._process.kill()
        self._process.join()
        sent: list[Any] = []
        with suppress(EOFError, ConnectionResetError):
            while True:
                sent.append(self.pipe.recv())
        self.pipe.close()
        self._process.close()
        return sent


class Child(Process):
    """Another process with the vault open."""

    def __init__(self, place: Place) -> None:
        super().__init__(_serve, place)
        assert self.pipe.recv() == "open"

    def begin(self, token: str, method: str, *args: object, **named: object) -> None:
        """Start a call on the memory behind `token`, or on the vault if it is empty."""
        self.pipe.send((token, method, args, named))

    def end(self) -> Answer:
        """What the call that was begun came to."""
        answer = self.pipe.recv()
        assert isinstance(answer, Answer)
        return answer

    def ask(self, token: str, method: str, *args: object, **named: object) -> Answer:
        self.begin(token, method, *args, **named)
        return self.end()


@contextmanager
def children(place: Place, count: int) -> Iterator[list[Child]]:
    """So many other processes, gone at the end."""
    made: list[Child] = []
    try:
        for _ in range(count):
            made.append(Child(place))  # noqa: PERF401 - what was made must be killed, also if the next one fails
        yield made
    finally:
        for child in made:
            child.kill()


def _serve(pipe: Connection, place: Place) -> None:
    with place.open() as vault:
        pipe.send("open")
        while True:
            token, method, args, named = pipe.recv()
            target = vault.memory(token) if token else vault
            try:
                answer = Answer(getattr(target, method)(*args, **named))
            except StrongroomError as error:
                answer = Answer(reason=error.reason)
            pipe.send(answer)


def churn(pipe: Connection, place: Place, token: str, name: str, seed: int) -> None:
    """Put and forget until killed, saying what was acknowledged before the next call."""
    chance = random.Random(seed)
    with place.open() as vault:
        memory = vault.memory(token)
        pipe.send(("open", "", ""))
        own: list[str] = []
        number = 0
        while True:
            if own and chance.random() < 0.3:
                line = own.pop(chance.randrange(len(own)))
                pipe.send(("forgetting", line, ""))
                memory.forget(ids=[line])
                pipe.send(("forgot", line, ""))
            else:
                text = f"{name} says {number}"
                line = memory.put(text, namespace="travel").id
                pipe.send(("put", line, text))
                own.append(line)
                number += 1


def commit_for_ever(pipe: Connection, place: Place, token: str) -> None:
    """Wait for a word, then put until killed, saying so each time."""
    with place.open() as vault:
        memory = vault.memory(token)
        pipe.send("open")
        pipe.recv()
        while True:
            memory.put("a line", namespace="travel")
            pipe.send("put")


def in_fork(work: Callable[[], str], *, user: int | None = None) -> str:
    """Run `work` in a forked child, as another user if told, and return what it returned."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the child runs one function and is gone
        child = os.fork()
    if not child:
        try:
            if user is not None:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            os.write(write, work().encode())
        except BaseException as error:  # noqa: BLE001 - the parent has to hear of it
            os.write(write, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read) as answer:
        said = answer.read()
    os.waitpid(child, 0)
    return said


def reason_of(call: Callable[..., object], *args: object, **named: object) -> str:
    """The reason of the error that a call raises, "" if it raises none."""
    try:
        call(*args, **named)
    except StrongroomError as error:
        return error.reason
    return ""


def correct_for_ever(pipe: Connection, place: Place, token: str, first: str) -> None:
    """Replace a line by a newer version again and again, saying before and after each what was done."""
    with place.open() as vault:
        memory = vault.memory(token)
        newest, number = first, 0
        while True:
            number += 1
            pipe.send(("replacing", newest, f"version {number}"))
            newest = memory.replace(newest, f"version {number}").id
            pipe.send(("replaced", newest, f"version {number}"))


def write_for_ever(pipe: Connection, place: Place, token: str, key: str) -> None:
    """Change a document and give it another key, again and again, saying before and after each what was done."""
    with place.open() as vault:
        memory = vault.memory(token)
        held, number = memory.document(key, namespace="travel"), 0
        while True:
            number += 1
            pipe.send(("writing", held.key, f"version {number}"))
            held = memory.write_document(held.key, f"version {number}", namespace="travel", version=held.version)
            pipe.send(("written", held.key, held.text))
            held = memory.rename_document(held.key, f"{key}/{number}", namespace="travel", version=held.version)
            pipe.send(("renamed", held.key, held.text))
