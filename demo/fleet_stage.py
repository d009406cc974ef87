"""The stage of the fleet: the same story with its memory in a bucket, and several workers that serve it.

What is asked of memory goes to the workers in turn, each time to another; what the owner does with the keys goes to the
bucket. So steps that were written for a vault on a disk can be made here as they are. The place is a new one below what
`--store` names, and is removed with the stage. The login comes from where any command finds it, and goes to these
processes by their environment.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

from demo.chapters.http_server import needs
from demo.partner import Partner
from demo.report import Skipped
from demo.stage import Stage
from strongroom.cli.demo_stage import Done, Unexpected, expect

Shown = tuple[str, ...] | None

_ASKED = ("get", "put", "list", "snapshot", "profile", "forget")
"""The commands that a worker answers."""
_AT_ONCE = 3
_SERVE = ("serve", "--json", "--no-mcp", "--listen", "127.0.0.1:0", "--store")
_NETWORK = ("HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR")
_VARIABLES = {
    "access_key_id": "AWS_ACCESS_KEY_ID",
    "secret_access_key": "AWS_SECRET_ACCESS_KEY",
    "session_token": "AWS_SESSION_TOKEN",
    "region": "AWS_REGION",
    "endpoint": "AWS_ENDPOINT_URL",
}


class Fleet(Stage):
    """A part of another stage, in a directory of that one's, whose processes have the bucket's login."""

    has_pages = False

    def __init__(self, outer: Stage, name: str, vault: str) -> None:
        (outer.scratch / name).mkdir()
        super().__init__(outer.scratch / name, outer.today, require_extras=outer.require_extras, tell=outer.tell)
        self.vault = vault
        self.workers: dict[str, str] = {}
        """Where each worker that runs listens, by the name of its process."""
        self.logs: list[str] = []
        """The names under which the workers that ever ran write their logs."""
        self._login = _login(outer.store)
        self._turns = count()

    @property
    def other_url(self) -> str:
        return next((url for url in self.workers.values() if url != self.url), "")

    def begin(self, name: str) -> Partner:
        """Start a worker. Whoever needs it waits until it has said where it listens."""
        return self.beside(name, [sys.executable, "-m", "strongroom", *_SERVE, self.vault])

    def joined(self, name: str) -> str:
        """Where a worker listens; from now on it has its turn."""
        self.workers[name] = str(self.partners[name].hear()["url"])
        self.url = next(iter(self.workers.values()))
        return self.workers[name]

    def left(self, name: str) -> None:
        """A worker has ended."""
        del self.workers[name]
        self.url = next(iter(self.workers.values()), "")

    def strongroom(self, *arguments: str, cap: str = "", stdin: str = "") -> Done:
        return super().strongroom(*arguments, *self._worker(arguments, cap), cap=cap, stdin=stdin)

    def _worker(self, arguments: tuple[str, ...], cap: str) -> tuple[str, ...]:
        """The next worker, and the owner's cap where none is given: a worker finds none for itself."""
        if not self.workers or arguments[0] not in _ASKED or "--url" in arguments:
            return ()
        urls = list(self.workers.values())
        given = cap or "--cap-file" in arguments
        return "--url", urls[next(self._turns) % len(urls)], *(() if given else ("--cap-file", self.owner_cap))

    def environment(self) -> dict[str, str]:
        return {**super().environment(), **self._login}


def _login(place: str) -> dict[str, str]:
    """Who asks, as variables: the home of these processes has no AWS files."""
    from strongroom.store.s3.location import access

    known = access(place.removeprefix("s3://")).known
    given = {name: value for name, value in os.environ.items() if name.startswith("AWS_") and name != "AWS_PROFILE"}
    network = {name: os.environ[name] for name in _NETWORK if name in os.environ}
    return {**network, **given, **{_VARIABLES[name]: value for name, value in known.items()}}


def place_of(stage: Stage) -> str:
    """Where in the bucket the demonstration has its own; without a bucket, or its extra, the step is left out."""
    if not stage.store:
        raise Skipped("no_bucket")
    needs(stage, "s3")
    return f"{stage.store.rstrip('/')}/{stage.scratch.name}"


def made(stage: Stage) -> Fleet:
    """The fleet's stage, in a place where nothing is; what it writes there is removed in the end."""
    place = place_of(stage)
    fleet = Fleet(stage, "fleet", f"{place}/room")
    expect("a place where nothing is", [], fleet.play("below", place))
    if not stage.keep:
        stage.closing.callback(_clear, fleet, place)
    stage.closing.callback(fleet.close)
    return fleet


def _clear(fleet: Fleet, place: str) -> None:
    """However the story ended. What cannot be removed is told; it is no reason to hide that end."""
    try:
        fleet.play("clear", place)
    except Unexpected as error:
        fleet.tell(f"{place} could not be removed: {error.came}")


def fleet_of(stage: Stage) -> Fleet:
    """The fleet that an earlier step has made."""
    place_of(stage)
    if stage.fleet is None:
        raise Unexpected("a vault in the bucket", "none")
    return stage.fleet


def in_fleet(*attempts: Callable[[Fleet], Shown], at_once: bool = False) -> Callable[[Stage], Shown]:
    """A step in the fleet: one attempt, or several with one sentence, by default in their order."""

    def attempt(stage: Stage) -> Shown:
        fleet = fleet_of(stage)
        with ThreadPoolExecutor(_AT_ONCE if at_once else 1) as pool:
            return tuple(line for shown in pool.map(lambda one: one(fleet), attempts) for line in shown or ())

    return attempt


def moved(stage: Stage) -> Fleet:
    """The laptop's own vault, with a copy of its keys: what was last seen of a copy must not be taken for its own."""
    found = Fleet(stage, "moved", stage.vault)
    shutil.copytree(stage.scratch / "keys", found.scratch / "keys")
    found.keys = found.scratch / "keys" / Path(stage.keys).name
    return found
