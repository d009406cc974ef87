"""What the rigs share: a home that is wired to the scripted model, and a child process that takes steps.

A rig drives the real Hermes in a process of its own, because Hermes has its own environment. Steps go in as JSON lines;
what comes out are JSON lines too. A line with `delivered` is written the moment a person would see the reply, before
Hermes' memory worker is waited for; a line with `done` says that the step and the memory writes it caused are over. A
line that was written can be read after `kill -9`.

    with Model() as model:
        rig = rigs.make(tmp_path / "home", model, wire=lambda rig: rig.command("strongroom", "wire", "hermes"))
        model.answers("Hello", "Hi.")
        with rig_agent.start(rig) as agent: ...
        model.seen("Hello").recalled
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.hermes import homes
from tests.hermes.rig_model import Model

ANSWER_SECONDS = 120
"""How long a rig may be silent. Nothing is to take so long: it ends a run that hangs."""
_XDG = ("config", "data", "state", "cache", "runtime")

Line = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """What a surface needs in the configuration and in the environment."""

    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)


_BASE = Settings({"approvals": {"destructive_slash_confirm": False}})
"""Nobody is there to confirm `/new`."""


@dataclass(frozen=True, slots=True)
class Rig:
    """A home, the model that it is wired to, and what its processes find in their environment."""

    home: homes.Home
    model: Model
    more: Mapping[str, str] = field(default_factory=dict)

    def environment(self, **more: str) -> dict[str, str]:
        private = {f"XDG_{name.upper()}_HOME": str(self.home.root / "user" / name) for name in _XDG[:-1]}
        private["XDG_RUNTIME_DIR"] = str(self.home.root / "user" / "runtime")
        private["PATH"] = f"{homes.PYTHON.parent}{os.pathsep}{os.environ['PATH']}"
        return {**self.home.environment(**private), **self.more, **more}

    def command(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a command of Hermes' environment in this home, such as `strongroom` or `hermes`, to its end."""
        _require_hermes()
        environment = self.environment()
        del environment["PYTHONPATH"]  # a user's command does not see the tests
        done = subprocess.run(
            [homes.PYTHON.parent / words[0], *words[1:]],
            cwd=self.home.work,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_SECONDS,
            check=False,
        )
        if check:
            assert done.returncode == 0, f"{words[0]} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done

    def configure(self, changes: Mapping[str, Any]) -> None:
        """Change the home's configuration. To be called before the home is wired: comments would not survive."""
        path = self.home.hermes / "config.yaml"
        path.write_text(json.dumps(_merged(json.loads(path.read_text()), changes), indent=1))


def make(
    where: Path,
    model: Model,
    *,
    provider: str = "",
    plugins: Sequence[Path] = (),
    settings: Sequence[Settings] = (),
    wire: Callable[[Rig], object] | None = None,
) -> Rig:
    """A home for the rigs. The last of the settings wins. `wire` is called at the end, on the finished home."""
    home = homes.make(where, model_url=model.url, provider=provider, plugins=plugins)
    for name in _XDG:
        (where / "user" / name).mkdir(mode=0o700)
    rig = Rig(home, model, {name: value for one in settings for name, value in one.environment.items()})
    for one in (_BASE, *settings):
        rig.configure(one.config)
    if wire is not None:
        wire(rig)
    return rig


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: _merged(base[name], value) for name, value in changes.items() if _are_maps(base.get(name), value)}
    return {**base, **changes, **both}


def _are_maps(one: object, other: object) -> bool:
    return isinstance(one, Mapping) and isinstance(other, Mapping)


def _require_hermes() -> None:
    if not homes.PYTHON.exists():
        raise AssertionError(homes.MISSING)


class Child:
    """A process that takes steps. A context manager: left in peace it ends cleanly, by an error it is killed."""

    def __init__(self, rig: Rig, module: str, *arguments: str) -> None:
        _require_hermes()
        self.rig = rig
        self.told: list[Line] = []
        """Every line so far, in order."""
        self._steps = 0
        self._over = False
        self._incoming: queue.Queue[Line | None] = queue.Queue()
        self._printed = rig.home.root / f"{module.rpartition('.')[2]}-{os.urandom(4).hex()}.log"
        with self._printed.open("wb") as printed:
            self.process = subprocess.Popen(
                [homes.PYTHON, "-m", module, *arguments],
                cwd=rig.home.work,
                env=rig.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=printed,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def ready(self) -> Line:
        """What it says when it is ready for steps. One that never is, is killed."""
        try:
            return self.until("ready")
        except BaseException:
            self.kill()
            raise

    def do(self, step: Mapping[str, Any]) -> Line:
        """One step, to its end: the line with `done`."""
        self.send(step)
        return self.until("done")

    def send(self, step: Mapping[str, Any]) -> None:
        """One step, without waiting."""
        assert self.process.stdin is not None
        self._steps += 1
        self.process.stdin.write(json.dumps({**step, "number": self._steps}).encode() + b"\n")
        self.process.stdin.flush()

    def until(self, name: str) -> Line:
        """Read on to the next line that has this name in it."""
        for line in self._lines():
            if "failed" in line:
                raise AssertionError(f"a step failed: {line['failed']}\n{self.printed()[-4000:]}")
            if name in line:
                return line
        raise AssertionError(f"the process ended before it said {name!r}:\n{self.printed()[-4000:]}")

    def printed(self) -> str:
        """All that Hermes printed so far, on its standard output and error."""
        return self._printed.read_text(encoding="utf-8", errors="replace")

    def delivered(self) -> list[Line]:
        """The replies so far that a person would have seen."""
        return [line for line in self.told if "delivered" in line]

    def kill(self) -> list[Line]:
        """`kill -9`, at this very moment; then every reply that was delivered before."""
        self.process.send_signal(signal.SIGKILL)
        self._gone()
        return self.delivered()

    def end(self) -> None:
        """No more steps: the process ends as Hermes does on its surface."""
        if self.process.stdin is not None and self.process.poll() is None:
            self.process.stdin.close()
        self._gone()
        assert self.process.returncode == 0, f"ended with {self.process.returncode}:\n{self.printed()[-4000:]}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: BaseException | TracebackType | None) -> None:
        if kind is not None:
            self.kill()
        elif not self._over:
            self.end()

    def _lines(self) -> Iterator[Line]:
        while (line := self._next()) is not None:
            self.told.append(line)
            yield line
        self._incoming.put(None)  # whoever asks again is told again

    def _next(self) -> Line | None:
        try:
            return self._incoming.get(timeout=ANSWER_SECONDS)
        except queue.Empty:
            raise AssertionError(f"silent for {ANSWER_SECONDS} seconds:\n{self.printed()[-4000:]}") from None

    def _gone(self) -> None:
        self._over = True
        try:
            self.process.wait(ANSWER_SECONDS)
        finally:
            self.process.kill()  # does nothing to one that is gone
            self.process.wait()
        self._reader.join(ANSWER_SECONDS)
        for _ in self._lines():
            pass
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # a step that nobody took
                    pipe.close()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.endswith(b"\n"):  # a line cut off by a kill was never said
                self._incoming.put(json.loads(line))
        self._incoming.put(None)
