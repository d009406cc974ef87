"""Print how the rules over text do, and every row that they get wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import click

from tests import labels
from tests.labels import Row

_JUDGES: tuple[tuple[str, str, Callable[[Sequence[Row]], list[Row]]], ...] = (
    ("secrets not masked whole", "secrets", labels.missed_secrets),
    ("ordinary sentences changed", "ordinary", labels.changed),
    ("leaks: routed less sensitive than they are", "routing", labels.leaks),
    ("sensitive ones that only the default holds", "routing", labels.unseen),
    ("nuisances: routed more sensitive than they are", "routing", labels.nuisances),
    ("requests to forget misread", "forget_requests", labels.misread_requests),
    ("later secrets not masked whole", "secrets_later", labels.missed_secrets),
    ("later ordinary sentences changed", "ordinary_later", labels.changed),
    ("latest secrets not masked whole", "secrets_latest", labels.missed_secrets),
    ("latest ordinary lines changed", "ordinary_latest", labels.changed),
    ("later leaks", "routing_later", labels.leaks),
    ("later sensitive ones that only the default holds", "routing_later", labels.unseen),
    ("later nuisances", "routing_later", labels.nuisances),
)


def main() -> None:
    for what, name, judge in _JUDGES:
        for doubtful in (False, True):
            rows = [row for row in labels.rows(name, doubtful=doubtful) if not row.get("optional")]
            wrong = judge(rows)
            click.echo(f"{what}{', doubtful rows' * doubtful}: {len(wrong)} of {len(rows)}")
            for row in wrong:
                click.echo(f"    {row['id']} {_wanted(row)}{row['text']!r} -> {_got(row)}")


def _wanted(row: Row) -> str:
    return f"{row['namespace']}: " if "namespace" in row else ""


def _got(row: Row) -> str:
    if "namespace" in row:
        return labels.routed(row)
    return str(not row["is_request"]) if "is_request" in row else repr(labels.MASK.masked(row["text"])[0])


if __name__ == "__main__":
    main()
