"""The child side of `isolated_run`: runs a check or a scene.

Its arguments are the path of the file with the job and the path of the file for the answer.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from strongroom.host.conformance import process_cleanup
from strongroom.host.conformance.check_stage import CheckStage
from strongroom.host.conformance.isolated_run import CheckRoom
from strongroom.host.conformance.provider_under_test import Subject
from strongroom.host.conformance.verdict import Failed, NotApplicable, Outcome
from strongroom.host.error_location import place


def main(job: Path, answer: Path) -> None:
    """Run the job's scene, write its answer, and exit without waiting for a provider's threads."""
    task = json.loads(job.read_text())
    if task["leads"]:
        process_cleanup.adopt()
    module, _, function = task["scene"].partition(":")
    stage = CheckStage(_subject(task["subject"]), CheckRoom(Path(task["place"])))
    said = _played(getattr(import_module(module), function), stage, task["given"])
    written = answer.with_suffix(".part")
    written.write_text(json.dumps(said))
    written.rename(answer)
    sys.stdout.flush()
    sys.stderr.flush()
    if task["leads"]:
        process_cleanup.end_below(os.getpid())
    os._exit(0)  # a thread that never ends must not delay a finished check


def _played(scene: Callable[..., Any], stage: CheckStage, given: dict[str, Any]) -> Any:
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
