"""backup, restore and rotate. These commands use the vault's keys and never open a line."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

import strongroom
from strongroom import settings
from strongroom.archive import write_whole
from strongroom.archive.archive_file import read_bounded
from strongroom.cli import archive_options
from strongroom.cli.app import Group, command
from strongroom.cli.run_context import Run, owner_options, pass_run
from strongroom.errors import InvalidRequest, LineNotFound, VaultExists, VaultMissing
from strongroom.keys import FileKeys, KeySource, default_directory
from strongroom.model import pluralize
from strongroom.store import is_bucket
from strongroom.vault import owner_cap
from strongroom.vault.backup import Restored, backup_of, check_free, lock_keys, move_away, unlock_keys
from strongroom.vault.create_open import identify
from strongroom.vault.key_rotation import Rotated, Unfinished

_KEYS_LIMIT = 1 << 20


class BackupMade(msgspec.Struct, frozen=True):
    """The answer of backup: the copy that was made and verified."""

    vault: str
    backup: str
    entries: int
    root: str
    objects: int
    keys: str | None


@command(
    examples=[
        "strongroom backup ./vault-backup",
        "strongroom backup ./vault-backup-2 --with-keys keys.age --json",
    ]
)
@click.argument("directory", type=click.Path(path_type=Path))
@click.option(
    "--with-keys", "keys", type=click.Path(path_type=Path), metavar="FILE", help="Also write the keys to this file."
)
@archive_options.passphrase_option
@owner_options
@pass_run
def backup(run: Run, directory: Path, keys: Path | None, export_passphrase_file: str | None) -> None:
    """Copy the vault into DIRECTORY while it is in use, and verify the copy.

    The copy is encrypted like the vault and does not contain the keys. --with-keys writes the keys into a separate
    FILE, encrypted with a passphrase. Keep that file apart from the copy: anyone who has the file and the copy can read
    everything.

    Data that you forget or erase later is still in this copy, and today's root key opens it. In the copy, a cap that
    you revoke later is not revoked. If that matters, destroy old copies, or replace the root key with `strongroom
    rotate root` and make a new backup.
    """
    _check_file(run.settings.vault, "to copy it to a path, run `strongroom migrate`")
    check_free(directory)
    if keys is not None:
        archive_options.check_place(keys)
    passphrase = None if keys is None else archive_options.passphrase(run, export_passphrase_file, new=True)
    source = settings.keys_of(identify(run.settings.vault), run.passphrase)
    # The keys first: with a bad passphrase, nothing at all must be left behind.
    locked = None if passphrase is None else lock_keys(run.settings.vault, passphrase, keys=source)
    with archive_options.bar(run, "copying") as copying, archive_options.bar(run, "verifying") as verifying:
        made = strongroom.backup(run.settings.vault, directory, keys=source, copying=copying, verifying=verifying)
    if keys is not None and locked is not None:
        write_whole(keys, locked)
    done = BackupMade(
        made.vault, str(directory), made.size, made.root, made.objects, None if keys is None else str(keys)
    )
    run.answer(done, _kept(done))


def _kept(done: BackupMade) -> Iterator[str]:
    yield f"vault {done.vault} copied to {done.backup}, and the copy verified:"
    yield f"a log of {done.entries} entries, {pluralize(done.objects, 'object')}"
    if done.keys is None:
        yield "It does not contain the keys. Back them up separately: without root.keyring nobody can open it."
    else:
        yield f"The keys are in {done.keys}, encrypted with your passphrase. Keep that file apart from the copy."


class Back(msgspec.Struct, frozen=True):
    """The answer of restore. `verified` is False if there were no keys for the verification."""

    vault: str
    place: str
    moved_to: str | None
    keys: str | None
    verified: bool
    rolled_back: bool
    seen_before: int | None


@command(
    examples=[
        "strongroom restore ./vault-backup --to ./restored-vault",
        "strongroom restore ./vault-backup --move-away --json",
    ]
)
@click.argument("source", metavar="BACKUP", type=click.Path(path_type=Path))
@click.option("--to", "target", metavar="PATH", help="Where to put the vault; by default the place of your own vault.")
@click.option("--keys", type=click.Path(path_type=Path), metavar="FILE", help="Also restore the keys from this file.")
@click.option(
    "--move-away", is_flag=True, help="Rename a vault that already stands in that place, instead of refusing."
)
@archive_options.passphrase_option
@owner_options
@pass_run
def restore(
    run: Run, source: Path, target: str | None, keys: Path | None, move_away: bool, export_passphrase_file: str | None
) -> None:
    """Restore a vault from BACKUP, and verify the vault if its keys are on this machine.

    Nothing is deleted or overwritten: a vault at the target path must be moved away first. Before that, stop every
    process that uses it.

    Everything goes back to the time of the backup. Lines that were forgotten since, actors that were erased since and
    caps that were revoked since come back. Forget, erase and revoke them again. Lines that were put since are lost. The
    log looks rolled back until you run `strongroom audit accept-restore`, which is recorded. A backup that was made
    before `rotate root` opens only with the keys of that time (--keys).
    """
    place = target or run.settings.vault
    _check_file(place, "restore it to a path with --to, then move it to the bucket with `strongroom migrate`")
    vault = _vault_of(source)
    if not move_away:
        _check_place(place)  # before any key is restored
    is_old = False
    if keys is not None:
        into = _key_files(run, vault)
        data = read_bounded(keys, _KEYS_LIMIT)
        is_old = unlock_keys(data, archive_options.passphrase(run, export_passphrase_file), vault=vault, into=into)
    moved = _moved(place) if move_away else None
    try:
        with archive_options.bar(run, "copying") as copying, archive_options.bar(run, "verifying") as verifying:
            back = strongroom.restore(
                source, place, keys=_keys_if_there(run, vault), copying=copying, verifying=verifying
            )
    except BaseException:
        if moved is not None:
            moved.rename(place)  # undo: the vault is back where it was
        raise
    done = Back(
        vault=back.vault,
        place=place,
        moved_to=None if moved is None else str(moved),
        keys=None if keys is None else str(default_directory(vault)),
        verified=back.report is not None,
        rolled_back=back.rolled_back,
        seen_before=None if back.report is None else back.report.seen_before,
    )
    run.answer(done, _back(run, done, back, is_old=is_old))
    if target is not None and not is_old:
        run.note("note: the restored vault and the original share keys and checkpoint: use only one of the two")


def _check_file(place: str, hint: str) -> None:
    """Raise if the vault is in a bucket, because only a vault in a file can be backed up."""
    if is_bucket(place):
        raise InvalidRequest("backup and restore are not for a vault in a bucket", hint=hint)


def _vault_of(source: Path) -> str:
    try:
        return backup_of(source)
    except VaultMissing:
        raise LineNotFound(
            f"there is no backup in {source}", hint="name a directory that `strongroom backup` made"
        ) from None


def _check_place(place: str) -> None:
    try:
        check_free(Path(place))
    except VaultExists as error:
        error.hint = "add --move-away to rename what is there, or name another place with --to"
        raise


def _moved(place: str) -> Path | None:
    """Rename the vault at the target path and return its new path. None if there is no vault."""
    if not Path(place).exists():
        return None
    return move_away(place, stamp=datetime.now(UTC).strftime("%Y%m%d-%H%M%S-%f"))


def _key_files(run: Run, vault: str) -> FileKeys:
    source = settings.keys_of(vault, run.passphrase)
    if not isinstance(source, FileKeys):
        raise InvalidRequest(
            "the environment holds the vault's keys, so they cannot be restored from a file",
            hint="leave out --keys, or unset STRONGROOM_ROOT_KEY and STRONGROOM_ISSUER_KEY",
        )
    return source


def _keys_if_there(run: Run, vault: str) -> KeySource | None:
    if settings.in_environment() or (default_directory(vault) / "root.keyring").exists():
        return settings.keys_of(vault, run.passphrase)
    return None


def _back(run: Run, done: Back, back: Restored, *, is_old: bool) -> Iterator[str]:
    def step(words: str) -> str:
        return "  " + run.command(words, done.place).strip("`")

    yield f"vault {done.vault} restored to {done.place}"
    if done.moved_to:
        yield f"What was there is now {done.moved_to}; nothing was deleted."
    if done.keys:
        yield f"Its keys are back in {done.keys}."
    if not done.verified:
        yield f"Not verified: there are no keys in {default_directory(done.vault)}. Put them back, then run"
        yield step("audit verify")
    elif done.rolled_back:
        size = back.report.size if back.report else 0
        yield f"Its log has {size} entries and does not continue the {done.seen_before} seen before: it looks rolled"
        yield "back, and verify will say so until you accept that with"
        yield step("audit accept-restore")
        yield "Then repeat every forget, erase and revoke that you did after the backup: all of that is undone."
    elif done.seen_before is None:
        yield "There is no earlier checkpoint, so nobody can tell whether this is the newest state. If you have a copy"
        yield f"of the file `checkpoint`, put it into {default_directory(done.vault)}; if not, accept the log as it is:"
        yield step("audit checkpoint --yes")
    elif is_old:
        yield "Its log continues the checkpoint that was saved with the keys, which may not be the newest one. If you"
        yield "have a newer copy of the file `checkpoint`, put it beside the keys, then run"
        yield step("audit verify")
    else:
        yield "Its log continues the last seen checkpoint."


# Rotation.

rotate = Group("rotate", help="Replace keys: the root, the issuer, or an actor's.")


@rotate.command("root", examples=["strongroom rotate root"])
@click.option(
    "--continue",
    "resume",
    is_flag=True,
    help="Finish an interrupted rotation, with the root key that the rotation made.",
)
@owner_options
@pass_run
def rotate_root(run: Run, resume: bool) -> None:
    """Replace the root key, which opens all other keys.

    Every key is wrapped with the new root key, some at a time. Then the old root key is removed. Lines, caps and
    running agents are not affected and cannot block the rotation. In a bucket the rotation takes a minute, and other
    workers answer again once they have the new root.keyring. Earlier backups and copies of the vault open only with
    copies of the old root.keyring.

    If the rotation is interrupted, the vault still opens, and `doctor` says what is left to do. Run this command again,
    or with --continue if nobody can have copied root.keyring in between.
    """
    vault = run.vault()
    stopped = vault.unfinished_rotation()
    if stopped is not None:
        run.note(f"note: {unfinished_rotation(stopped)}")
    if is_bucket(run.settings.vault):
        run.note(
            "note: the rotation takes a minute; copy root.keyring to the other workers now, and again when the rotation"
            " has finished"
        )
    rotated = vault.rotate_root(resume=resume)
    done: dict[str, object] = {"rotated": "root"}
    run.answer(done | {"pending": True} if rotated.pending else done, _of_root(run, rotated))


def unfinished_rotation(stopped: Unfinished) -> str:
    """The work that an interrupted rotation has left, in words."""
    left = pluralize(stopped.actors, "actor")
    return (
        f"a rotation of the root key was interrupted: {stopped.roots} root keys in the keyring, {left} not yet under"
        " the newest"
    )


def _of_root(run: Run, rotated: Rotated) -> Iterator[str]:
    yield "The root key is new. Back up root.keyring now: older copies of it no longer open this vault."
    yield "Earlier backups open only with the old key: destroy its copies if nobody should be able to open them."
    if rotated.pending:
        yield "Pending: another process is reading the vault, so its journal may still hold keys under the old root"
        yield f"key. When that process has finished, run {run.command('doctor')} to remove them."


@rotate.command("issuer", examples=["strongroom rotate issuer --yes"])
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@owner_options
@pass_run
def rotate_issuer(run: Run, yes: bool) -> None:
    """Replace the issuer key, which signs caps.

    Every cap minted so far becomes void, with all caps narrowed from it: agents are refused until you give them new
    caps. Your own cap is replaced. Use this if issuer.key may have been copied.
    """
    run.confirm("This voids every cap that was ever minted for this vault.", yes=yes)
    run.vault().rotate_issuer()
    owner_cap.mint(run.vault(), run.key_directory())
    run.answer(
        {"rotated": "issuer"},
        "The issuer key is new, and every earlier cap is void. Mint new ones, and back up issuer.key.",
    )


@rotate.command("actor", examples=["strongroom rotate actor local/owner"])
@click.argument("actor")
@owner_options
@pass_run
def rotate_actor(run: Run, actor: str) -> None:
    """Give ACTOR a new key, and each of its namespaces a new key for future lines.

    Existing lines stay readable with their earlier keys. Caps and agents are not affected.
    """
    run.vault().rotate_actor(actor)
    run.answer({"rotated": "actor", "actor": actor}, f"{actor} has new keys; earlier lines stay readable.")
