"""Write docs/conformance-holographic.md: the kit's report of a provider that comes with Hermes. Needs Hermes' venv.

With `--check`, say whether the page is what it would write. The report holds no times and no paths, so that it is the
same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

from strongroom.host.conformance import CHECKS, Report, check

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the scripts are no installed package

from scripts.kept_page import kept  # noqa: E402

PAGE = ROOT / "docs" / "conformance-holographic.md"
PROVIDER = "holographic"
HERMES = "0.19.0"

INTRODUCTION = f"""\
# Conformance report: `{PROVIDER}` of hermes-agent {HERMES}

This page is written by `scripts/make_conformance_report.py`, which `make check` compares. It shows what
`strongroom provider check` says of a provider that other people wrote.

What it is, and what it is not:

- `{PROVIDER}` comes with [hermes-agent](https://pypi.org/project/hermes-agent/) {HERMES} (MIT) and is loaded here
  from the installed package, unmodified, without numpy and with its default settings.
- The kit is Strongroom's, and so are its opinions. Hermes does not ask its providers for all of this; several checks
  are about rules that Hermes itself does not have, such as the signature.
- `{PROVIDER}` calls itself a store for a single user. It never claimed to keep several users apart, so `two-users` says
  what happens if a gateway for several people uses it, not that it breaks a promise.
- It keeps facts that the model stores with its tool, and mirrors what is added to the built-in memory. It ignores
  turns by design, so the kit tells it lines by `on_memory_write`, and checks about turns do not apply. Where another
  check calls `sync_turn` as well (`concurrent-prefetch`, `end-while-keeping`, `in-time`), it passes that part by doing
  nothing.
- Not applicable means that the check says nothing about this provider: neither that it is right nor that it is wrong.
- A pass means that nothing wrong was seen in what the check does, which stands below. It is no proof.

## Result
"""


def page(report: Report) -> str:
    """The page as it should be."""
    return "\n".join((INTRODUCTION, report.markdown(), *explained()))


def explained() -> Iterator[str]:
    """What each check does, and why it matters."""
    yield "## The checks\n"
    yield "| check | what it does | why it matters |"
    yield "|---|---|---|"
    yield from (f"| `{one.id}` | {one.does} | {one.why} |" for one in CHECKS.values())
    yield ""


def main() -> int:
    if version("hermes-agent") != HERMES or find_spec("numpy") is not None:
        print(f"this needs hermes-agent {HERMES} without numpy: run it with .venv-hermes/bin/python")
        return 2
    written = page(check(PROVIDER, progress=lambda one: print(f"{one.check.id}: {one.outcome}", file=sys.stderr)))
    return kept(PAGE, written, "make_conformance_report.py")


if __name__ == "__main__":
    sys.exit(main())
