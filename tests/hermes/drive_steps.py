"""The child's side of a rig: steps come in on standard input, answers go out on what was standard output.

How, says the demonstration's driver. It is loaded by its path: an import would bring in our whole package, and in
Hermes the first message waits for that. At the end a child says what it touched that was not its own.
"""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NoReturn

from tests.hermes.watch import Watch, scratch

_DRIVER = Path(__file__).parents[2] / "demo" / "programs" / "driver.py"


def _loaded() -> Any:
    spec = spec_from_file_location("driver", _DRIVER)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


driver = _loaded()
settle = driver.settle


def next_step() -> dict[str, Any] | None:
    """The next step, or nothing when there are no more."""
    step: dict[str, Any] | None = driver.next_step()
    return step


class Outlet:
    """Takes over standard output for JSON lines, and watches what this process touches."""

    def __init__(self) -> None:
        self._own = driver.Outlet()
        self._watch = Watch()

    def tell(self, **line: Any) -> None:
        self._own.tell(**line)

    def failed(self) -> None:
        """The step that is going on ended with an error: where it comes from is for whoever reads the test."""
        self._own.failed()

    def leave(self) -> NoReturn:
        """Say what this process touched that was not its own, and end as `hermes` does: threads are not waited for."""
        self.tell(left=True, outside=self._watch.outside(scratch()), connected=sorted(self._watch.connected))
        self._own.leave()
        raise AssertionError("the process has ended")
