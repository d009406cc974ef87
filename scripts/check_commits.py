"""Check the messages of the commits since `BASE`: `area: what changed`, at most 72 characters, and a body.

    python scripts/check_commits.py          # exit code 1, and the commits with what is wrong, if there are any

Merges are left out. Without a git history that reaches back to `BASE` it says so, and checks what there is.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
BASE = "f3647b1e4d9f53d1466150103dfce66989aad705"
"""The last commit before this rule."""

SUBJECT_LIMIT = 72
SUBJECT = re.compile(r"[a-z0-9_.-]+(?:, [a-z0-9_.-]+)*: \S.*")


class Commit(NamedTuple):
    """A commit's short hash and its message."""

    name: str
    message: str


def _git(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)


def commits() -> Iterator[Commit]:
    """The commits since `BASE`, newest first, without merges."""
    reaches = _git("merge-base", "--is-ancestor", BASE, "HEAD").returncode == 0
    if not reaches:
        print(f"check_commits: this history does not reach {BASE[:7]}; only the newest commit is checked")
    span = [f"{BASE}..HEAD"] if reaches else ["--max-count=1"]
    log = _git("log", "--no-merges", "--format=%h%x00%B%x01", *span)
    for record in log.stdout.split("\x01"):
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
    if rest.startswith("\n") is False or not rest.strip():
        yield "there is no body: why, and what was measured"


def main() -> None:
    if _git("rev-parse", "--git-dir").returncode:
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
