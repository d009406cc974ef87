"""document: read and write named texts with a cap."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

import click

from strongroom.cli import output
from strongroom.cli.app import Group
from strongroom.cli.argument_types import EXPIRY, META, NAMESPACE
from strongroom.cli.line_filters import meta_of
from strongroom.cli.run_context import Run, memory_options, pass_run
from strongroom.model import Document, DocumentInfo, document_key

document = Group("document", help="Read, write, list, rename and delete documents: named texts with a history.")

_namespace = click.option(
    "-n",
    "--namespace",
    type=NAMESPACE,
    help="The namespace of the document; may be left out if the cap covers only one.",
)


@document.command(
    "write",
    examples=[
        'strongroom document write notes/trip.md "Train at nine" --namespace travel',
        "echo 'Bus at ten' | strongroom document write notes/trip.md --namespace travel --overwrite",
        'strongroom document write lists/packing.md "Charger" --namespace travel --meta city=Chengdu --expires 30d',
    ],
)
@click.argument("name", metavar="KEY")
@click.argument("text", nargs=-1)
@_namespace
@click.option("--file", metavar="FILE", help="Read the text from a file; - is stdin.")
@click.option("--version", metavar="VERSION", help="Write only if the document is still at this version.")
@click.option("--overwrite", is_flag=True, help="Replace the document, whatever its present version is.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="A tag for the document; may be repeated.")
@click.option(
    "--meta", type=META, multiple=True, help="A member of the document's meta, as for `put`; may be repeated."
)
@click.option("--expires", type=EXPIRY, help="When the document expires: a time, or a duration from now such as 30d.")
@memory_options
@pass_run
def write(
    run: Run,
    name: str,
    text: tuple[str, ...],
    namespace: str | None,
    file: str | None,
    version: str | None,
    overwrite: bool,
    tags: tuple[str, ...],
    meta: tuple[tuple[str, Any], ...],
    expires: datetime | None,
) -> None:
    """Write TEXT, or the text on stdin, as the document at KEY.

    Without --version or --overwrite, there must be no document at KEY. The earlier version stays in the history of the
    document.
    """
    if text and file is not None:
        raise click.UsageError("give either a text or a file")
    if version is not None and overwrite:
        raise click.UsageError("give either --version or --overwrite")
    members = meta_of(meta)
    new = " ".join(text) if text else run.text_of("-" if file is None else file, "text").removesuffix("\n")
    before = _version(run, name, namespace) if overwrite else version or ""
    written = run.ask(
        lambda memory: memory.write_document(
            name, new, namespace=namespace, version=before, tags=tags, meta=members, expires=expires
        )
    )
    run.answer(written, f"{_name(written)} is written, version {written.version}")


def _version(run: Run, name: str, namespace: str | None) -> str:
    """The present version of a document. Empty if there is no document. The cap must allow list."""
    names = None if namespace is None else [namespace]
    # The key itself comes first among all keys that begin with it.
    found = run.ask(lambda memory: memory.documents(document_key(name), namespaces=names, limit=1)).documents
    return found[0].version if found and found[0].key == document_key(name) else ""


@document.command(
    "read",
    examples=[
        "strongroom document read notes/trip.md --namespace travel",
    ],
)
@click.argument("name", metavar="KEY")
@_namespace
@memory_options
@pass_run
def read(run: Run, name: str, namespace: str | None) -> None:
    """Show the document at KEY, and its version."""
    found = run.ask(lambda memory: memory.document(name, namespace=namespace))
    run.answer(found, output.indent(found.text, ""))
    run.note(f"version {found.version}")


@document.command(
    "history",
    examples=[
        "strongroom document history notes/trip.md --namespace travel",
    ],
)
@click.argument("name", metavar="KEY")
@_namespace
@memory_options
@pass_run
def history(run: Run, name: str, namespace: str | None) -> None:
    """Show the versions of the document at KEY with their texts, newest first."""
    found = run.ask(lambda memory: memory.document_history(name, namespace=namespace))
    run.answer({"versions": found}, _versions(found))


def _versions(found: list[Document]) -> Iterator[str]:
    for one in found:
        yield output.bold(f"{output.local(one.written)}  {one.version}")
        yield "  " + output.indent(one.text, "  ")


def _row(one: DocumentInfo) -> tuple[str, ...]:
    return output.one_line(one.key), one.namespace, output.local(one.written), f"{one.size} B", one.version


def _name(one: Document) -> str:
    return f"{output.one_line(one.key)} in {one.namespace}"


@document.command(
    "list",
    examples=[
        "strongroom document list",
        "strongroom document list notes/ --namespace travel --json",
    ],
)
@click.argument("prefix", required=False, default="")
@click.option(
    "-n",
    "--namespace",
    "namespaces",
    type=NAMESPACE,
    multiple=True,
    help="List only documents in this namespace; may be repeated.",
)
@click.option("--limit", type=int, default=100, show_default=True, help="How many documents to list, at most 1000.")
@click.option("--after", metavar="CURSOR", help="Show the next page: give the `next` of the page before.")
@memory_options
@pass_run
def list_documents(run: Run, prefix: str, namespaces: tuple[str, ...], limit: int, after: str | None) -> None:
    """List the documents whose keys begin with PREFIX, without their texts."""
    found = run.ask(lambda memory: memory.documents(prefix, namespaces=namespaces or None, limit=limit, after=after))
    run.answer(found, output.table([_row(one) for one in found.documents]))
    if found.next is not None:
        run.note(f"there are more: --after {found.next}")
    elif not found.documents:
        run.note("there is no such document" if prefix or namespaces or after else "there are no documents")


@document.command(
    "rename",
    examples=[
        "strongroom document rename notes/trip.md archive/trip.md --namespace travel",
    ],
)
@click.argument("name", metavar="KEY")
@click.argument("new_name", metavar="NEW_KEY")
@_namespace
@click.option("--version", metavar="VERSION", help="Rename only if the document is still at this version.")
@memory_options
@pass_run
def rename(run: Run, name: str, new_name: str, namespace: str | None, version: str | None) -> None:
    """Give the document at KEY the key NEW_KEY. Its history moves too."""
    moved = run.ask(lambda memory: memory.rename_document(name, new_name, namespace=namespace, version=version))
    run.answer(moved, f"{_name(moved)} is written, version {moved.version}")


@document.command(
    "delete",
    examples=[
        "strongroom document delete archive/trip.md --namespace travel --yes",
    ],
)
@click.argument("name", metavar="KEY")
@_namespace
@click.option("--version", metavar="VERSION", help="Delete only if the document is still at this version.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@memory_options
@pass_run
def delete(run: Run, name: str, namespace: str | None, version: str | None, yes: bool) -> None:
    """Delete the document at KEY with all of its versions, for good. The key can be used again."""
    run.confirm(f"This deletes {output.one_line(name)} and its history.", yes=yes)
    done = run.ask(lambda memory: memory.delete_document(name, namespace=namespace, version=version))
    run.answer(done, "deleted" if done.ids else "there is no such document; nothing was deleted")
