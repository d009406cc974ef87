"""Takes a shelf from a cache as the operations do: they wait for its load, or for as long as they have patience."""

from __future__ import annotations

from collections.abc import Callable

from strongroom.memory.line_cache.cache import CachedNamespace, LineCache, Source


def shelf_of(
    cache: LineCache, prefix: str, birth: bytes, source: Callable[[], Source], patience: float | None = None
) -> CachedNamespace:
    """The shelf of `prefix`, loaded. Of many threads that want it, one loads and the others wait.

    With `patience`, it is loaded in the background, and returned after so many seconds as far as it is.
    """
    while True:
        found = cache.find(prefix, birth, source, waits=patience is None)
        if isinstance(found, CachedNamespace):
            return found
        if patience is None:
            found.finish()
        else:
            cache.load_in_background(found)
            if not found.wait(patience):
                return found.shelf
        # Then look again: it may have failed, or been dropped.
