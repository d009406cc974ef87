"""Names that no person may have as the author of a line, because prompts use them for roles. Pure.

Names are compared by their skeleton, which stands for how a name looks:

- Full-width, mathematical, boxed, turned and accented letters become plain letters.
- Letters of other scripts, digits and signs become the Latin letters that they look like.
- Letters that are easily confused (l and i, rn and m) count as one.
- Everything else is dropped.

So a person named Ассистент keeps that name, but `assistant` spelled with a Cyrillic letter is refused.
"""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category, digit, name, normalize

ROLES = (
    *("agent", "assistant", "developer", "function", "human", "model", "owner", "someone", "system", "tool"),
    *("unknown", "user"),
)
_LETTERS = {
    "a": "аɑαդaꭺᎪᴀ@4ⲁꓮաꬰ",
    "b": "вьβʙᏴ8ꓐᏏ",
    "c": "сϲᴄⅽⲥꓚᏟ",
    "d": "ԁժᴅⅾꓓᎠ",
    "e": "еєҽεᴇℯ3ⲉꓰᎬ€",
    "f": "ғƒϝꜰꓝ",
    "g": "ɡցɢ9ꓖᏀ",
    "h": "һհнʜⲏꓧᎻ",
    "i": "іıιӏⅼɩɪlјⅰ1!|ІӀⲓꓲꓡᎥᏞⵏ",
    "k": "кκᴋⲕꓗᏦ",
    "m": "мϻᴍⅿⲙꓟᎷ",
    "n": "пոռηɴⲛꓠᏁ",
    "o": "оοօσοᴏ0өⲟꓳ〇∘°○◯ⵔ",
    "p": "рρᴘⲣꓑᏢ",
    "q": "ԛզ",
    "r": "гřꭇʀꓣᎡᏒ",
    "s": "ѕꜱʂ5$ꓢᏚᏕ",
    "t": "тτᴛ7+ⲧꓔᎢԏ",
    "u": "υսцᴜʋꓴ∪",
    "v": "ѵνᴠⅴꓦᏙ",
    "w": "ԝѡшωᴡꓪᎳ",
    "x": "хχⅹ×ⲭꓫ",
    "y": "уүγʏⲩꓬᎩ",
    "z": "ᴢʐ2ꓜᏃ",
}
_PLAIN = {ord(one): letter for letter, alike in _LETTERS.items() for one in alike}


_NAMED = re.compile(
    r"(?:NEGATIVE |CROSSED |SQUARED |CIRCLED )*(?:LATIN|REGIONAL INDICATOR SYMBOL)"
    r"(?: SMALL| CAPITAL| LETTER SMALL CAPITAL)*(?: LETTER)?"
    r"(?: TURNED| REVERSED| INVERTED| SIDEWAYS| OPEN| BARRED| BLACKLETTER)* ([A-Z])(?: WITH .*| ROTUNDA)?"
)
"""Matches Unicode's name of a Latin letter, in any variant."""


def is_role(name: str, others: tuple[str, ...] = ()) -> bool:
    """Whether a name looks like the name of a role, or like one of `others`."""
    found = skeleton(name)
    return any(found == skeleton(role) for role in (*ROLES, *others))


def skeleton(name: str) -> str:
    """The skeleton of a name: the plain letters that it looks like."""
    bare = normalize("NFKD", normalize("NFKD", name).casefold())
    return "".join(map(_seen, bare)).replace("m", "rn").replace("w", "vv")


@lru_cache(maxsize=4096)
def _seen(one: str) -> str:
    """The letter that a character looks like. Empty if it looks like no letter."""
    if one.isascii():
        plain = one
    elif (number := digit(one, None)) is not None:
        plain = str(number)
    elif spelled := _NAMED.fullmatch(name(one, "")):
        plain = spelled[1].lower()
    else:
        plain = one
    plain = plain.translate(_PLAIN)
    return plain if category(plain).startswith("L") else ""
