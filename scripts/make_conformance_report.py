"""Write the kit's reports: docs/conformance-holographic.md, of a provider that comes with Hermes, and
docs/conformance-strongroom.md, of our own. Needs Hermes' venv.

With `--check`, say whether the pages are what it would write. A report holds no times and no paths, so that it is the
same on every machine.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from strongroom.host.conformance import CHECKS, Outcome, Report, Result, Subject, check

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # neither the scripts nor the tests are an installed package

from scripts.kept_page import kept  # noqa: E402
from tests.hermes.provider.conformance import homes  # noqa: E402

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
- `long-text` is left out: with `{PROVIDER}` its outcome depends on how fast the machine is.

## Result
"""
SPEED_DECIDES = "long-text"
"""A check that `holographic` passes on a fast machine and fails on a slow one. Other providers pass it on both."""

OWN_PAGE = ROOT / "docs" / "conformance-strongroom.md"
SERVERS_PYTHON = ROOT / ".venv" / "bin" / "python"
"""Hermes' venv has not all that a server needs."""
ABOUT_TOOLS = ("tools-before-start", "tool-schemas", "tool-answers", "two-users", "ten-at-once", "forgotten")
"""Checks that see more where the model has tools."""

OWN_INTRODUCTION = f"""\
# Conformance report: `strongroom`

This page is written by `scripts/make_conformance_report.py`, which `make check` compares. It shows what
`strongroom provider check` says of Strongroom's own provider, in a home wired as `strongroom wire hermes` does it.

What it is, and what it is not:

- The kit and the provider have the same authors. What the kit does not ask, this page does not show;
  [the report of another provider](conformance-holographic.md) has the same checks.
- The provider runs on the Python packages that hermes-agent {HERMES} pins.
- Embedded: a vault in each check's own home directory. Over HTTP: one server for all checks, in which each has actors
  of its own. There the kit looks into the files of the home directory, and not into those of the server.
- By default the model gets no tools, so three checks do not apply. They apply in the last table, where
  `tools = "full"`; the kit then asks by the tools as well.
- Not applicable means that the check says nothing about this provider: neither that it is right nor that it is wrong.
- A pass means that nothing wrong was seen in what the check does, which stands in
  [the other report](conformance-holographic.md#the-checks). It is no proof.

## Embedded, and over HTTP
"""
_SHORT = {Outcome.PASS: "pass", Outcome.FAIL: "FAIL", Outcome.NOT_APPLICABLE: "n/a"}


@dataclass(frozen=True)
class Own:
    """The three reports of our own provider."""

    embedded: Report
    served: Report
    tools: Report


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


def own_page(own: Own) -> str:
    """The page of our own provider as it should be."""
    rows = map(_row, own.embedded.results, own.served.results)
    head = ("| check | embedded | over HTTP | what holds if it passes | what was seen |", "|---|---|---|---|---|")
    summaries = (f"- {own.embedded.summary}.", f"- {own.served.summary}.")
    return "\n".join((OWN_INTRODUCTION, *summaries, "", *head, *rows, "", "## With tools\n", own.tools.markdown()))


def _row(one: Result, other: Result) -> str:
    seen = " / ".join(dict.fromkeys((one.reason, other.reason))).replace("|", "\\|")
    return f"| `{one.check.id}` | {_SHORT[one.outcome]} | {_SHORT[other.outcome]} | {one.check.title} | {seen} |"


def checked(subject: str | Subject, only: Sequence[str] = ()) -> Report:
    return check(subject, only=only, progress=lambda one: print(f"{one.check.id}: {one.outcome}", file=sys.stderr))


def own_embedded() -> tuple[Report, Report]:
    """Our own provider with the vault embedded, by default and with tools."""
    whole, tools = checked(homes.EMBEDDED), checked(homes.WITH_TOOLS, ABOUT_TOOLS)
    return replace(whole, subject="strongroom, embedded"), replace(tools, subject="strongroom, embedded, with tools")


def own_served() -> Report:
    """Our own provider over HTTP."""
    with TemporaryDirectory(prefix="strongroom-") as place, homes.serving(Path(place), str(SERVERS_PYTHON)) as subject:
        return replace(checked(subject), subject="strongroom, over HTTP")


def main() -> int:
    if version("hermes-agent") != HERMES or find_spec("numpy") is not None:
        print(f"this needs hermes-agent {HERMES} without numpy: run it with .venv-hermes/bin/python")
        return 2
    with ThreadPoolExecutor(2) as pool:  # all at once: the other provider lets the kit wait most of the time
        embedded, served = pool.submit(own_embedded), pool.submit(own_served)
        theirs = checked(PROVIDER, [name for name in CHECKS if name != SPEED_DECIDES])
    ours = Own(embedded.result()[0], served.result(), embedded.result()[1])
    script = Path(__file__).name
    return kept(PAGE, page(theirs), script) | kept(OWN_PAGE, own_page(ours), script)


if __name__ == "__main__":
    sys.exit(main())
