"""Names that no person may have as the author of a line, because a prompt uses them for somebody else. Pure.

A name is compared by its skeleton: what is left of it to the eye. Full-width, mathematical and accented letters are
plain ones, letters of other scripts are the Latin ones that they look like, digits and signs the letters for which they
stand, and whatever is no letter is gone. Letters that are read for each other (l and i, rn and m) count as one. So a
person named Ассистент keeps that name, and one who spells `assistant` with a Cyrillic letter does not.
"""

from __future__ import annotations

from unicodedata import category, normalize

ROLES = ("assistant", "developer", "function", "model", "owner", "someone", "system", "tool", "unknown", "user")
_LETTERS = {
    "a": "аɑαдаꭺᎪᴀ@4",
    "b": "вьβʙᏴ8",
    "c": "сϲᴄⅽ",
    "d": "ԁժᴅⅾ",
    "e": "еєҽεᴇℯ3",
    "f": "ғƒϝꜰ",
    "g": "ɡցɢ9",
    "h": "һհнʜ",
    "i": "іıιӏⅼɩɪlјⅰ1!|ІӀ",
    "k": "кκᴋ",
    "m": "мϻᴍⅿ",
    "n": "пոռηɴ",
    "o": "оοօσοᴏ0ө",
    "p": "рρᴘ",
    "q": "ԛզ",
    "r": "гřꭇʀ",
    "s": "ѕꜱʂ5$",
    "t": "тτᴛ7+",
    "u": "υսцᴜʋ",
    "v": "ѵνᴠⅴ",
    "w": "ԝѡшωᴡ",
    "x": "хχⅹ×",
    "y": "уүγʏ",
    "z": "ᴢʐ2",
}
_PLAIN = {ord(one): letter for letter, alike in _LETTERS.items() for one in alike}


def is_role(name: str, others: tuple[str, ...] = ()) -> bool:
    """Whether a name reads like that of a role, or like one of `others`."""
    found = skeleton(name)
    return any(found == skeleton(role) for role in (*ROLES, *others))


def skeleton(name: str) -> str:
    """What is left of a name to the eye."""
    bare = normalize("NFKD", normalize("NFKD", name).casefold()).translate(_PLAIN)
    return "".join(one for one in bare if category(one).startswith("L")).replace("m", "rn")
