"""Reads the history that a runtime passes with a turn, and finds the beginning of the turn in it. Pure.

A conversation may have thousands of messages, and each turn passes all of them. Functions that iterate in C therefore
handle the whole list. Single messages are checked only from the newest backwards.
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
"""The roles of the messages that are read. Messages with another role are ignored."""
_READ = ("role", "content")
"""The keys of a message that are read. `api_content`, the text that was sent to the model instead, is not read."""
SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]", "[PRIOR CONTEXT", "[END OF PRIOR CONTEXT")
"""The beginnings of the summaries that stand for messages a runtime has dropped."""
_SUMMARY = re.compile("|".join(map(re.escape, SUMMARIES)))
_SUMMED = 4000
"""Maximum number of characters of a summary that are compared."""
_DICTS, _TEXTS = frozenset((dict,)), frozenset((str,))


def digest(said: str) -> str:
    """The hash by which texts are compared."""
    return sha256(said.encode("utf-8", "replace")).hexdigest()


class Messages(msgspec.Struct, frozen=True):
    """The messages of the person, the assistant and the tools: the role and the text of each.

    The text is empty if a message has other content.
    """

    roles: Sequence[str]
    texts: Sequence[str]

    @classmethod
    def of(cls, told: Sequence[Any]) -> Messages:
        """Read the messages of a runtime. Messages of an unknown form are left out."""
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
        """The position at which the turn with the text `said` begins. `known` is the number of messages at the previous
        report.

        A runtime passes its live list, so the next turn may already be in the list. An earlier turn may have the same
        text, so the search stops at the known messages. The search also stops at a message that cannot be compared.
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
        """The person's last text before a position in the list; None if there is none."""
        places = range(before - 1, -1, -1)
        return next((self.texts[place] for place in places if self.roles[place] == USER), None)

    def all_said(self) -> list[str]:
        """All texts of the person."""
        return [text for role, text in zip(self.roles, self.texts, strict=True) if role == USER]

    def summary(self) -> str:
        """A digest of the summaries of dropped messages; empty if there are none. Any message may contain a summary."""
        joined = "\0".join(self.texts)
        if "CONTEXT" not in joined:  # part of every such text
            return ""
        found = [sign for text in self.texts if (sign := _SUMMARY.search(text))]
        signs = [sign.string[sign.start() : sign.start() + _SUMMED] for sign in found]
        return digest("\0".join(signs)) if signs else ""


class History(msgspec.Struct, frozen=True):
    """The history of a turn: its messages, the number of messages before the turn, and a digest of its summaries."""

    messages: Messages
    length: int
    summary: str

    @classmethod
    def of(cls, told: Sequence[Any], said: str, known: int) -> History:
        """The history of the turn with the text `said`. `known` is the number of messages at the previous report."""
        messages = Messages.of(told)
        return cls(messages, messages.turn(said, known), messages.summary())

    def last_said(self) -> str | None:
        """The person's last text before the turn; None if there is none."""
        return self.messages.last_said(self.length)
