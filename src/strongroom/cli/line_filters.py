"""Filters on lines: the options of get, list and forget, and paging through the matching lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import wraps
from typing import Any, TypeVar, cast

import click

from strongroom.cli.argument_types import META, MOMENT
from strongroom.cli.run_context import Run
from strongroom.model import Kind, Listing

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Filters:
    """The conditions on lines that the options give. An empty field sets no condition."""

    kind: str | None = None
    author: str | None = None
    tags: tuple[str, ...] = ()
    meta: Mapping[str, Any] | None = None
    turn: str | None = None
    since: datetime | None = None
    until: datetime | None = None

    @property
    def conditions(self) -> dict[str, Any]:
        """The conditions as arguments for the methods get, list and forget of a memory."""
        return {name: getattr(self, name) for name in self.__slots__}


_OPTIONS = (
    click.option("--kind", type=click.Choice([kind.value for kind in Kind]), help="Only lines of this kind."),
    click.option("--author", metavar="NAME", help="Only lines by this author."),
    click.option(
        "--tag",
        "tags",
        metavar="TAG",
        multiple=True,
        help="Only lines with this tag; if repeated, with all of the tags.",
    ),
    click.option(
        "--meta",
        type=META,
        multiple=True,
        help="Only lines whose meta has KEY with this value; may be repeated. A value that is not JSON counts as text.",
    ),
    click.option("--turn", metavar="NAME", help="Only lines of this turn."),
    click.option("--since", type=MOMENT, help="Only lines from this moment on."),
    click.option("--until", type=MOMENT, help="Only lines before this moment."),
)


def filter_options(command: F) -> F:
    """Add the options that filter lines to a command. The command gets them as one argument `filters`."""

    @wraps(command)
    def collected(*args: Any, meta: Iterable[tuple[str, Any]], **kwargs: Any) -> Any:
        names = Filters.__slots__
        given = {name: kwargs.pop(name) for name in names if name in kwargs}
        return command(*args, filters=Filters(meta=meta_of(meta), **given), **kwargs)

    found = cast("F", collected)
    for option in reversed(_OPTIONS):
        found = option(found)
    return found


def meta_of(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any] | None:
    """The members given by `--meta`. None if there are none. Raises a usage error for a key that is given twice."""
    meta: dict[str, Any] = {}
    for key, value in pairs:
        if key in meta:
            raise click.UsageError(f"--meta names {key!r} twice")
        meta[key] = value
    return meta or None


def page(
    run: Run,
    filters: Filters,
    limit: int,
    after: str | None,
    *,
    namespaces: tuple[str, ...] = (),
    session: str | None = None,
    texts: bool = False,
    standing: bool = False,
) -> Listing:
    """One page of a listing."""
    return run.ask(
        lambda memory: memory.list(
            namespaces=namespaces or None,
            session=session,
            limit=limit,
            after=after,
            texts=texts,
            standing=standing,
            **filters.conditions,
        )
    )
