"""The history that a runtime passes with a turn: where the turn begins in it, and what comes before. Pure.

A conversation may have thousands of messages, and each turn passes all of them. So questions about all of them are
answered by functions that iterate in C, and messages are looked at one by one only from the newest back.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from itertools import repeat
from typing import Any

import msgspec

USER = "user"
_ROLES = frozenset((USER, "assistant", "tool"))
"""The roles of messages that count."""
_READ = ("role", "content")
"""The keys of a message that are read. What a runtime sent to the model instead (`api_content`) is not."""
SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]", "[PRIOR CONTEXT", "[END OF PRIOR CONTEXT")
"""The beginnings of texts that stand for messages a runtime dropped."""
_SUMMARY = re.compile("|".join(map(re.escape, SUMMARIES)))
_SUMMED = 4000
"""How many characters of a summary are compared."""
_DICTS, _TEXTS = frozenset((dict,)), frozenset((str,))


def digest(said: str) -> str:
    """The form in which texts are compared."""
    return sha256(said.encode("utf-8", "replace")).hexdigest()


class Messages(msgspec.Struct, frozen=True):
    """The messages that count: the role of each, and its text, empty if its content is not text."""

    roles: Sequence[str]
    texts: Sequence[str]

    @classmethod
    def of(cls, told: Sequence[Any]) -> Messages:
        """Parse a runtime's messages, of any type."""
        told = [*told]  # a copy: the runtime may go on changing its list
        if not _DICTS.issuperset(map(type, told)):
            told = [{name: one.get(name) for name in _READ} for one in told if isinstance(one, Mapping)]
        roles: list[Any] = [*map(dict.get, told, repeat(_READ[0]))]
        texts: list[Any] = [*map(dict.get, told, repeat(_READ[1]))]
        if not _TEXTS.issuperset(map(type, texts)):
            texts = [text if isinstance(text, str) else "" for text in texts]
        if not (_TEXTS.issuperset(map(type, roles)) and _ROLES.issuperset(roles)):
            speaking = [isinstance(role, str) and role in _ROLES for role in roles]
            roles, texts = (
                [one for one, says in zip(every, speaking, strict=True) if says] for every in (roles, texts)
            )
        return cls(roles, texts)

    def turn(self, said: str, known: int) -> int:
        """The place where the turn with these words begins. `known`: how many existed at the previous report.

        A runtime passes its live list, so the next turn may be in it too. An earlier turn may have had the same words,
        so the search does not go into the known messages, nor past one that cannot be compared.
        """
        newest = 0
        for place in range(len(self.roles) - 1, -1, -1):
            if self.roles[place] == USER:
                text, newest = self.texts[place], newest or place
                if text == said:
                    return place
                if not text or place <= known:
                    break
        return newest

    def last_said(self, before: int) -> str | None:
        """The person's last text before a place; None if there is none."""
        places = range(before - 1, -1, -1)
        return next((self.texts[place] for place in places if self.roles[place] == USER), None)

    def all_said(self) -> list[str]:
        """All of the person's texts."""
        return [text for role, text in zip(self.roles, self.texts, strict=True) if role == USER]

    def summary(self) -> str:
        """A digest of the summaries of dropped messages; empty if there are none. Any message may hold one."""
        joined = "\0".join(self.texts)
        if "CONTEXT" not in joined:  # part of every such text
            return ""
        found = [sign for text in self.texts if (sign := _SUMMARY.search(text))]
        signs = [sign.string[sign.start() : sign.start() + _SUMMED] for sign in found]
        return digest("\0".join(signs)) if signs else ""


class History(msgspec.Struct, frozen=True):
    """The history of a turn: its messages, how many come before the turn, and the digest of its summaries."""

    messages: Messages
    length: int
    summary: str

    @classmethod
    def of(cls, told: Sequence[Any], said: str, known: int) -> History:
        """The history of a turn with these words. `known`: how many existed at the previous report."""
        messages = Messages.of(told)
        return cls(messages, messages.turn(said, known), messages.summary())

    def last_said(self) -> str | None:
        """The person's last text before the turn; None if there is none."""
        return self.messages.last_said(self.length)
