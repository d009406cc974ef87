"""The other end of `driving`: the process in which a check or a scene runs. Takes the job's file and the answer's."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from strongroom.host.blame import place
from strongroom.host.conformance import ending
from strongroom.host.conformance.driving import Room
from strongroom.host.conformance.stage import Stage
from strongroom.host.conformance.subject import Subject
from strongroom.host.conformance.verdict import Failed, NotApplicable, Outcome


def main(job: Path, answer: Path) -> None:
    """Play the job's scene and write down its answer; leave without waiting for a provider's threads."""
    task = json.loads(job.read_text())
    if task["leads"]:
        ending.adopt()
    module, _, function = task["scene"].partition(":")
    stage = Stage(_subject(task["subject"]), Room(Path(task["place"])))
    said = _played(getattr(import_module(module), function), stage, task["given"])
    written = answer.with_suffix(".part")
    written.write_text(json.dumps(said))
    written.rename(answer)
    sys.stdout.flush()
    sys.stderr.flush()
    if task["leads"]:
        ending.end_below(os.getpid())
    os._exit(0)  # a thread that never ends must not make a finished check late


def _played(scene: Callable[..., Any], stage: Stage, given: dict[str, Any]) -> Any:
    try:
        return scene(stage, **given)
    except NotApplicable as why:
        return {"outcome": Outcome.NOT_APPLICABLE, "reason": str(why)}
    except Failed as why:
        traceback.print_exc()
        return {"outcome": Outcome.FAIL, "reason": str(why)}
    except BaseException as error:  # noqa: BLE001 - whatever a provider raises must end in the report
        traceback.print_exc()
        return {"outcome": Outcome.FAIL, "reason": f"the check could not go on: {type(error).__name__}{place(error)}"}


def _subject(found: dict[str, Any]) -> Subject:
    environment = {name: os.environ[name] for name in found["environment"]}
    files, ways = tuple(tuple(one) for one in found["files"]), found["ways"]
    plain = {"environment": environment, "files": files, "ways": None if ways is None else tuple(ways)}
    return Subject(**{**found, **plain})


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
