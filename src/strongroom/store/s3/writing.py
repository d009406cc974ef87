"""Writing: effects are carried out one after the other, in an order in which every point of a crash is sound.

First the vault's own objects, and the news of them; then purges; then keys and records of caps, after which the vault
is looked at once more, since nobody may use them if a revocation, an erasure or a rotation came between; then the rest,
side by side. Who loses a race has written some of it or nothing: whoever tries again finds what is there, under the
same names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress

from strongroom.errors import StoreUnavailable
from strongroom.store import Delete, Effect, Expect, Lost, Purge, PutNew, Swap, Version
from strongroom.store.s3 import layout, packs
from strongroom.store.s3.bucket import Changed, Taken
from strongroom.store.s3.layout import Table
from strongroom.store.s3.reading import Reader
from strongroom.store.s3.views import ActorView, Known

_TRIES = 64
_LINES = "/lines/"
Change = PutNew | Swap | Delete
Random = Callable[[int], bytes]


class Writer:
    """Carries out effects on a bucket. Thread-safe."""

    def __init__(self, reader: Reader, random: Random) -> None:
        self._reader = reader
        self._bucket = reader.bucket
        self._random = random

    def check(self, effects: Sequence[Effect]) -> None:
        """Raise Lost for a condition that does not hold, as far as is known."""
        for effect in effects:
            if not isinstance(effect, Purge):
                self._check(effect)

    def _check(self, effect: Change | Expect) -> None:
        known = self._reader.known(effect.name)
        wanted = 0 if isinstance(effect, PutNew) else effect.version
        version = 0 if known is None else known.version
        if version != wanted or (isinstance(effect, Swap | Delete) and (known is None or known.is_gone)):
            raise Lost(effect.name)

    def carry_out(self, effects: Sequence[Effect]) -> Version:
        """Do all of it; the number of the last change. Raises Lost, or StoreUnavailable."""
        changes = [effect for effect in effects if isinstance(effect, PutNew | Swap | Delete)]
        vault = [one for one in changes if _is_of_the_vault(one.name)]
        keys = [one for one in changes if one not in vault and _is_first(one.name)]
        rest = [one for one in changes if one not in vault and one not in keys]
        for one in vault:
            self._write(one)
        if vault:
            self._announce()
        for effect in effects:
            if isinstance(effect, Purge):
                self._purge(effect.prefix)
        latest = max(self._side_by_side(keys), default=0)
        if keys:
            self._look_again([one for one in effects if isinstance(one, Expect)], keys)
        return max([latest, *self._write_all(rest)])

    # One object.

    def _write(self, change: Change) -> Version:
        known = None if isinstance(change, PutNew) else self._reader.known(change.name)
        try:
            etag = self._put(change, known)
        except (Taken, Changed):
            self._reader.version(change.name)
            raise Lost(change.name) from None
        if change.name.startswith(layout.CAPS):
            return 0
        gone = isinstance(change, Delete)
        return self._reader.view(change.name).wrote(change.name, Known(layout.version_of(etag), gone, etag))

    def _put(self, change: Change, known: Known | None) -> str:
        place = self._reader.place(change.name)
        if isinstance(change, PutNew):
            return self._bucket.create(place, layout.framed(change.body))
        body = b"" if isinstance(change, Delete) else layout.framed(change.body)
        return self._bucket.swap(place, body, "" if known is None else known.etag)

    def _write_all(self, changes: Sequence[Change]) -> list[Version]:
        """Side by side. All are tried, then the first that failed is told."""
        forgotten = [one for one in changes if isinstance(one, Delete) and _LINES in one.name]
        others = [one for one in changes if one not in forgotten]
        return self._side_by_side(others) + self._forget(forgotten)

    def _side_by_side(self, changes: Sequence[Change]) -> list[Version]:
        if len(changes) == 1:
            return [self._write(changes[0])]
        return _gathered([self._reader.threads.submit(self._write, one) for one in changes])

    def _look_again(self, expected: Iterable[Expect], keys: Sequence[Change]) -> None:
        """Make sure that nothing of the vault has changed while keys or a cap's record were written."""
        pins = [one for one in expected if not one.name.startswith(layout.ACTORS)]
        if not pins:
            return
        self._reader.vault.refresh()
        try:
            self.check(pins)
        except Lost:
            # A record nobody has heard of yet goes; keys may be in use by now, and hold nothing by themselves.
            self._bucket.delete([layout.plain_place(one.name) for one in keys if one.name.startswith(layout.CAPS)])
            raise

    # The vault's own objects.

    def _announce(self) -> None:
        """Say that something of the vault has changed. Every worker looks for such news before it decides."""
        vault = self._reader.vault
        for _ in range(_TRIES):
            name = vault.next_news()
            try:
                self._bucket.create(name, self._random(16))
            except Taken:
                vault.refresh()
                continue
            vault.announced(name)
            return
        raise StoreUnavailable("the vault is too busy: other workers kept changing it")

    # Forgetting.

    def _forget(self, deletes: Sequence[Delete]) -> list[Version]:
        """Turn lines into tombstones, in packs and outside, and see to it that no pack comes to hold one."""
        numbers: list[Version] = []
        for locator in sorted({layout.locator_of(one.name) or "" for one in deletes}):
            view = self._reader.actor(locator)
            names = [one.name for one in deletes if layout.locator_of(one.name) == locator]
            alone = [
                one for one in deletes if one.name in names and (known := view.objects.get(one.name)) and known.etag
            ]
            numbers += self._side_by_side(alone)
            self._out_of_packs(view, names)
            numbers.append(view.refresh())
        return numbers

    def _out_of_packs(self, view: ActorView, names: Sequence[str]) -> None:
        """First the tombstones, then the look at packs: a pack that is claimed later sees the tombstones."""
        shelves = {name.partition("lines/")[0] for name in names}
        voided: set[str] = set()
        for _ in range(_TRIES):
            view.refresh()
            with view.guard:
                claims = [(place, etag) for place, etag in view.claims.items() if etag not in voided]
                holding = [
                    (place, pack)
                    for place, pack in view.packs.items()
                    if any(name in pack.records and pack.records[name].body is not None for name in names)
                ]
            if not claims and not holding:
                return
            with suppress(Changed):
                for place, etag in claims:
                    # Not deleted: it may have become a pack by now, and that must not be lost.
                    voided.add(self._bucket.swap(place, packs.claim(self._random(16)), etag))
                for place, pack in holding:
                    shelf = next(one for one in shelves if any(name.startswith(one) for name in pack.records))
                    self._bucket.swap(place, packs.encoded(shelf, packs.without(pack, names)), pack.etag)
        raise StoreUnavailable("the vault is too busy: other workers kept packing the same lines")

    # Purging.

    def _purge(self, prefix: str) -> None:
        purged = layout.purged_shelf(prefix)
        if purged is None:
            self._delete_below(prefix)
            return
        locator, shelf = purged
        view = self._reader.actor(locator)
        with view.guard:
            table, etag = view.table.purged(shelf), view.table_etag
        self._set_table(view, table, etag)
        view.refresh()
        self.sweep(view)

    def _set_table(self, view: ActorView, table: Table, etag: str) -> None:
        place, body = view.prefix + layout.AT, table.encoded(self._random(8))
        try:
            if etag:
                self._bucket.swap(place, body, etag)
            else:
                self._bucket.create(place, body)
        except (Taken, Changed):
            view.refresh()
            raise Lost(view.prefix) from None

    def _delete_below(self, prefix: str) -> None:
        """Derived data: whoever fills a place afterwards finds it gone, and fails."""
        names = [one.name for one in self._reader.named(prefix, "", 1_000_000)]
        self._bucket.delete([self._reader.place(name) for name in names])
        self._reader.version(prefix)

    def sweep(self, view: ActorView) -> int:
        """Delete what lies below generations that were purged; how many objects."""
        with view.guard:
            left = list(view.left_over)
        if left:
            self._bucket.delete(left)
            view.refresh()
        return len(left)


def _is_of_the_vault(name: str) -> bool:
    """Whether every worker has to hear of a change."""
    return name.startswith(layout.VAULT) and not name.startswith(layout.CAPS)


def _is_first(name: str) -> bool:
    """Keys, and records of caps: written before what needs them, and only while the vault is as expected."""
    return name.startswith(layout.CAPS) or (name.startswith(layout.ACTORS) and name.endswith("/keys"))


def _gathered(futures: Sequence[Future[Version]]) -> list[Version]:
    """What came of work on several threads: all of it is over before the first failure is told."""
    wait(futures)
    return [one.result() for one in futures]
