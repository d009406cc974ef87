"""The history that a runtime hands over with a turn: where that turn begins in it, and what stands before it. Pure.

A conversation may have thousands of messages, and each turn hands over all of them. So what is asked of all is asked
by functions that go through a list in C, and messages are looked at one by one only from the newest back.
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
"""Of the messages that say something."""
_READ = ("role", "content")
"""What is read of a message: never what a runtime sent in the place of its content."""
SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]", "[PRIOR CONTEXT", "[END OF PRIOR CONTEXT")
"""How a runtime marks a text that stands for messages it dropped."""
_SUMMARY = re.compile("|".join(map(re.escape, SUMMARIES)))
_SUMMED = 4000
"""Characters of a summary by which two are told apart."""
_DICTS, _TEXTS = frozenset((dict,)), frozenset((str,))


def digest(said: str) -> str:
    """What a text is compared by."""
    return sha256(said.encode("utf-8", "replace")).hexdigest()


class Messages(msgspec.Struct, frozen=True):
    """Messages that say something: the role of each, and its text; an empty one where its content is none."""

    roles: Sequence[str]
    texts: Sequence[str]

    @classmethod
    def of(cls, told: Sequence[Any]) -> Messages:
        """What a runtime handed over, whatever that is."""
        told = [*told]  # its own list, which it may go on changing meanwhile
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
        """Where the turn of these words begins; `known` messages were there when the turn before was told.

        A runtime hands over its live list, so the next turn may stand in it too. An earlier turn may have had the same
        words: it is not looked for among those that are known, nor beyond a message that cannot be compared.
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
        """What the person said last before a place; None if nothing."""
        places = range(before - 1, -1, -1)
        return next((self.texts[place] for place in places if self.roles[place] == USER), None)

    def all_said(self) -> list[str]:
        """All that the person said."""
        return [text for role, text in zip(self.roles, self.texts, strict=True) if role == USER]

    def summary(self) -> str:
        """What stands for messages that were dropped, as a digest; empty if nothing does. Any message may hold it."""
        joined = "\0".join(self.texts)
        if "CONTEXT" not in joined:  # as all of them are called
            return ""
        found = [sign for text in self.texts if (sign := _SUMMARY.search(text))]
        signs = [sign.string[sign.start() : sign.start() + _SUMMED] for sign in found]
        return digest("\0".join(signs)) if signs else ""


class History(msgspec.Struct, frozen=True):
    """What a runtime told with a turn: its messages, how many stand before the turn, and what sums up older ones."""

    messages: Messages
    length: int
    summary: str

    @classmethod
    def of(cls, told: Sequence[Any], said: str, known: int) -> History:
        """Of a turn that begins with these words; `known` messages were there when the turn before was told."""
        messages = Messages.of(told)
        return cls(messages, messages.turn(said, known), messages.summary())

    def last_said(self) -> str | None:
        """What the person said last before the turn; None if nothing."""
        return self.messages.last_said(self.length)
