"""Search the files that a provider wrote during a check for a text, in several encodings."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from pathlib import Path

from strongroom.host.conformance import isolated_run
from strongroom.host.conformance.scripted_agent import TestedAgent


class ProviderFiles:
    """The files in the directories of one check, and the files that the provider names for a backup."""

    def __init__(self, room: isolated_run.CheckRoom) -> None:
        self._room = room

    def holding(self, text: str, agent: TestedAgent | None = None, more: Iterable[Path] = ()) -> int:
        """Count the files of the provider, and the files in `more`, that contain this text in clear or in a common
        encoding.
        """
        forms = written(text)
        elsewhere = {str(one): one.read_bytes() for one in more if not one.is_relative_to(self._room.place)}
        found = {**elsewhere, **self.contents(agent)}
        return sum(any(form in content for form in forms) for content in found.values())

    def contents(self, agent: TestedAgent | None = None) -> dict[str, bytes]:
        """The content of every file that the provider may have written, by path."""
        return dict(self._files(agent))

    def _files(self, agent: TestedAgent | None) -> Iterator[tuple[str, bytes]]:
        named = (agent.call("backup_paths") if agent else None) or []
        for top in (self._room.person, *(Path(one).expanduser() for one in named)):
            for path in sorted((top, *top.rglob("*"))):
                if path.is_file() and not path.is_relative_to(self._room.home / "plugins"):
                    yield str(path), path.read_bytes()


def written(text: str) -> tuple[bytes, ...]:
    """The encodings in which a text can still be read: as it is, in UTF-16, in hex and in base64."""
    plain = text.encode()
    # Within a longer text, base64 has three alignments, and the first and last characters mix with the neighbours.
    mixed = (b64encode(b"\0" * shift + plain).rstrip(b"=")[4 if shift else 0 : -1] for shift in range(3))
    return plain, text.encode("utf-16-le"), plain.hex().encode(), plain.hex().upper().encode(), *mixed
