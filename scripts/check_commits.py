"""Check the messages of the commits since `BASE`: `area: what changed`, at most 72 characters, and a body.

    python scripts/check_commits.py          # exit code 1, and the commits with what is wrong, if there are any

Merges are left out. Where the history does not reach back to `BASE`, it says so: of a shallow clone nothing is checked,
since a merge at its edge looks like any other commit, and of another history the newest commit.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
BASE = "746358611373f117abfc16163d815087f72cd0ce"
"""The last commit before this rule."""

SUBJECT_LIMIT = 72
SUBJECT = re.compile(r"[a-z0-9_.-]+(?:, [a-z0-9_.-]+)*: \S.*")


class Commit(NamedTuple):
    """A commit's short hash and its message."""

    name: str
    message: str


def _git(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True)


def commits(root: Path = ROOT, base: str = BASE) -> Iterator[Commit]:
    """The commits since `base`, newest first, without merges."""
    if _git(root, "merge-base", "--is-ancestor", base, "HEAD").returncode == 0:
        span = f"{base}..HEAD"
    elif _git(root, "rev-parse", "--is-shallow-repository").stdout.strip() == "true":
        print(f"check_commits: this clone is shallow and does not reach {base[:7]}; nothing is checked")
        return
    else:
        print(f"check_commits: this history does not reach {base[:7]}; only the newest commit is checked")
        span = "--max-count=1"
    for record in _git(root, "log", "--no-merges", "--topo-order", "--format=%h%x00%B%x01", span).stdout.split("\x01"):
        name, _, message = record.strip().partition("\x00")
        if name:
            yield Commit(name, message)


def faults(message: str) -> Iterator[str]:
    """What is wrong with a commit's message."""
    subject, _, rest = message.partition("\n")
    if not SUBJECT.fullmatch(subject):
        yield "the subject is not `area: what changed`"
    if len(subject) > SUBJECT_LIMIT:
        yield f"the subject has {len(subject)} characters, at most {SUBJECT_LIMIT}"
    if not rest.startswith("\n") or not rest.strip():
        yield "there is no body: why, and what was measured"


def main() -> None:
    if _git(ROOT, "rev-parse", "HEAD").returncode:
        print("check_commits: no git history here, nothing to check")
        return
    found = [
        f"{one.name} {one.message.partition(chr(10))[0]}: {fault}" for one in commits() for fault in faults(one.message)
    ]
    if found:
        print("\n".join(found))
        sys.exit(f"check_commits: {len(found)} faults; amend the message, or reword it with git rebase")
    print("check_commits: every message has a subject and a body")


if __name__ == "__main__":
    main()
