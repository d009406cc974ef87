"""Finds out three things about a message: whether it is off the record, who speaks in a shared chat, and which parts
are not the person's own words. The rules compare words; they are pure, and no model is involved.

- A phrase matches whole words. Case, width, accents and apostrophes do not matter. In scripts without spaces a phrase
  matches parts of words too. A phrase may be anywhere in a text, so "what does off the record mean?" is not stored
  either, to be safe.
- If a text contains several requests, the most private one wins: OFF, then THIS_TURN, then ON. A longer phrase hides
  the shorter phrases in it: "no longer off the record" is ON.
- A name before a message was chosen by a person on a chat platform. The name is an author and never proves an identity.
- Hermes puts notes before some messages: the message that is answered, a channel's last messages, or files. Notes quote
  other people, so they are not the person's words. The same holds for skills, and for messages that Hermes makes up.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from strongroom import model
from strongroom.errors import InvalidRequest
from strongroom.hermes.policy import PHRASE_LIMIT, PHRASES_LIMIT
from strongroom.hermes.provider.line_format import HEADING
from strongroom.text import AFTER, BEFORE, JOINED_TEXT, CharacterMap, by_start, phrases_in, starts_in

READ_LIMIT = 1 << 18
"""Maximum number of characters of a message that are read: half from its beginning, half from its end.

Of the characters from the beginning, at most 131,072 are stored.
"""
NAME_LIMIT = 64
"""Maximum number of characters of a speaker's name that are stored."""
_LOOKED_AT = model.LINE_LIMIT
"""Number of characters at each end of a text that are searched for phrases."""


class Asked(Enum):
    """A person's request about remembering."""

    NOTHING = "nothing"
    THIS_TURN = "this turn"
    OFF = "off"
    """Nothing is stored from this turn on."""
    ON = "on"
    """Storing resumes with this turn."""


@dataclass(frozen=True, slots=True)
class Phrases:
    """The phrases for each request about remembering. The owner's policy may replace them."""

    turn: tuple[str, ...] = (
        *("off the record", "between you and me only", "not for the record", "keep this off your memory"),
        *("don't remember this", "do not remember this", "don't remember that", "do not remember that"),
        *("don't store this", "do not store this", "don't save this", "do not save this"),
        *("don't record this", "do not record this", "don't keep this", "do not keep this"),
        *("don't memorize this", "do not memorize this", "don't add this to your memory", "forget i said"),
        *("keep this between us", "this stays between us", "let this stay between us", "das bleibt unter uns"),
        *("ça reste entre nous", "reste entre nous", "que quede entre nosotros", "queda entre nosotros"),
        *("fica entre nós", "resti tra noi", "rimanga tra noi", "останется между нами", "ここだけの話"),
        *("nicht merken", "merk dir das nicht", "nicht im gedächtnis speichern", "unter uns gesagt"),
        *("ne retiens pas", "ne retenez pas", "ne mémorise pas", "ne garde pas ça", "n'enregistre pas"),
        *("no recuerdes esto", "no guardes esto", "no memorices", "no lo guardes", "extraoficialmente"),
        *("fuera de registro", "não guarde isso", "não memorize", "em off"),
        *("non ricordare questo", "non memorizzare", "in via ufficiosa"),
        *("не запоминай", "не для протокола", "между нами говоря"),
        *("不要记住", "别记住", "不要記住", "別記住", "别记下来", "不要记下", "私下说"),
        *("オフレコ", "覚えないで", "記憶しないで", "記録しないで"),
        *("기억하지 마", "오프 더 레코드"),
        *("لا تتذكر هذا", "لا تحفظ هذا", "इसे याद मत रखना", "อย่าจำเรื่องนี้"),
    )
    off: tuple[str, ...] = (
        *("this conversation is off the record", "this chat is off the record", "this session is off the record"),
        *("everything from now on is off the record", "from now on off the record", "from here on off the record"),
        *("go off the record", "going off the record", "let's go off the record", "we are off the record"),
        *("we're off the record", "stay off the record", "not back on the record"),
        *("stop remembering", "stop recording this", "stop storing", "don't remember this conversation"),
        *("do not remember this conversation", "don't remember anything", "do not remember anything"),
        *("don't store this conversation", "do not store this conversation", "don't remember this chat"),
        *(
            "merk dir nichts mehr",
            "merke dir nichts",
            "dieses gespräch nicht merken",
            "dieses gespräch ist vertraulich",
        ),
        *("ne retiens plus rien", "ne retiens rien", "arrête de mémoriser", "cette conversation est confidentielle"),
        *("deja de recordar", "deja de memorizar", "no recuerdes nada", "esta conversación es extraoficial"),
        *("pare de memorizar", "smetti di memorizzare", "ничего не запоминай", "перестань запоминать"),
        *("停止记忆", "停止記憶", "不要再记", "别再记", "什么都不要记", "这次对话不要记"),
        *("この会話はオフレコ", "ここからオフレコ", "何も覚えないで", "もう覚えないで"),
        *("아무것도 기억하지 마", "이 대화는 기억하지 마"),
    )
    on: tuple[str, ...] = (
        *("back on the record", "on the record again", "no longer off the record", "not off the record anymore"),
        *("you may remember again", "you can remember again", "start remembering again", "resume remembering"),
        *("remember things again", "du darfst dir wieder", "merk dir wieder", "wieder merken"),
        *(
            "tu peux de nouveau retenir",
            "tu peux te souvenir à nouveau",
            "puedes recordar de nuevo",
            "vuelve a recordar",
        ),
        *("pode memorizar de novo", "puoi ricordare di nuovo", "можешь снова запоминать", "снова запоминай"),
        *("可以继续记", "可以再记", "恢复记忆", "恢復記憶", "重新开始记"),
        *("オフレコ終わり", "オフレコ終了", "また覚えて", "다시 기억해"),
    )


DEFAULT = Phrases()


def asks(text: str, phrases: Phrases = DEFAULT) -> Asked:
    """Find the request in a text. Of a very long text, only the beginning and the end are searched."""
    seen = text if len(text) <= 2 * _LOOKED_AT else f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    plain = fold(seen)
    held = _held(phrases, plain)
    if not held:
        return Asked.NOTHING
    kinds = _kinds(phrases)
    said = _pattern(held).findall(plain)
    found = {kinds[one] for one in said}
    if Asked.ON in found and not _is_plain(seen, plain, said):
        found.discard(Asked.ON)  # "I tell you when we are back on the record" ends nothing
    return next((asked for asked in (Asked.OFF, Asked.THIS_TURN, Asked.ON) if asked in found), Asked.NOTHING)


def _held(phrases: Phrases, said: str) -> tuple[str, ...]:
    """The phrases that a text may contain, the longest first. This cheap filter comes before the pattern of the
    phrases.
    """
    return tuple(sorted(phrases_in(said, _by_start(phrases), starts_in(said)), key=len, reverse=True))


_ON_WORDS = 8
_ON_LETTERS = 48
"""Maximum number of letters that a text may have besides its ON phrases."""
_UNDECIDED = re.compile(
    r"[?\uff1f\u061f]|\b(?:not|never|when|until|till|once|if|before|yet|after|unless|later"
    r"|means?|what|cannot|(?:do|does|did|is|are|was|were|wo|ca|could|would|should|have|has|ai)n'?t|nicht|nie|wenn"
    r"|bis|falls|sobald|pas|jamais|quand|si|cuando|hasta|nunca|quando|fino|не|когда)\b",
    re.IGNORECASE,
)
_UNDECIDED_JOINED = re.compile("[不别別没沒未勿等吗嗎]|如果|ない|なかった|まだ|よね|않|말라")


def _is_plain(text: str, plain: str, said: Iterable[str]) -> bool:
    """Whether a text makes one plain request that holds now. Storing resumes only after such a request."""
    rest = plain
    for phrase in dict.fromkeys(said):  # each once: otherwise a text full of them takes quadratic time
        rest = rest.replace(phrase, " ")
    is_short = len(rest.split()) <= _ON_WORDS and len(rest) <= _ON_LETTERS
    return is_short and not _UNDECIDED.search(rest) and not _UNDECIDED_JOINED.search(text)


_LONGEST_FOLD = 4
"""Maximum number of characters into which one character is folded. A few ligatures stand for whole sentences."""


@lru_cache(maxsize=16)
def _kinds(phrases: Phrases) -> dict[str, Asked]:
    """The request of each phrase, the longest phrase first. If a phrase has two requests, the more private one
    counts.
    """
    given = ((Asked.ON, phrases.on), (Asked.THIS_TURN, phrases.turn), (Asked.OFF, phrases.off))
    if any(len(some) > PHRASES_LIMIT for _, some in given):
        raise InvalidRequest(f"off_the_record: there are more than {PHRASES_LIMIT} phrases of one kind")
    kinds = {_checked(one): asked for asked, some in given for one in some}
    return dict(sorted(kinds.items(), key=lambda item: -len(item[0])))


@lru_cache(maxsize=16)
def _by_start(phrases: Phrases) -> dict[str, tuple[str, ...]]:
    return by_start(_kinds(phrases))


@lru_cache(maxsize=64)
def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(_whole, phrases)))


def _checked(phrase: str) -> str:
    plain = fold(phrase) if len(phrase) <= PHRASE_LIMIT else ""
    if not plain:
        raise InvalidRequest(
            f"off_the_record: a phrase must have 1 to {PHRASE_LIMIT} characters, and at least one letter"
        )
    return plain


def _whole(phrase: str) -> str:
    escaped = re.escape(phrase)
    return escaped if JOINED_TEXT.search(phrase) else f"{BEFORE}{escaped}{AFTER}"


def _folded(one: str) -> str:
    bare = unicodedata.normalize("NFKD", one).casefold()
    bare = bare if len(bare) <= _LONGEST_FOLD else one
    return "".join(" " if unicodedata.category(one) == "Pd" else one for one in bare if _counts(one))


def _counts(one: str) -> bool:
    return unicodedata.category(one) not in ("Mn", "Me", "Cf") and one not in "'`\u2018\u2019\u02bc\u00b4"


_FOLDS = CharacterMap(_folded)


def fold(text: str) -> str:
    """A text in the form in which phrases are compared: one case, plain letters, single spaces, no apostrophes."""
    return " ".join(text.translate(_FOLDS).split())


# The speaker

_NAME_SEEN = 256
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]+")


def said_by(name: str, text: str) -> str:
    """A person's own words in a session that several people share. The runtime puts `[name]` before each text there.

    The person's name is removed after the runtime's notes. Any other name in brackets is part of the text. A note may
    quote text that looks like the end of a note and a name, so the last possible end counts.
    """
    for start in reversed(_note_ends(text)):
        said = text[start : start + _NAME_SEEN + 1]
        end = _closing(said)
        if end and _letters(said[1:end]) == _letters(name):
            return text[start + end + 1 :].lstrip(" ")
    return text


def _note_ends(text: str) -> list[int]:
    """The places where the notes that a runtime puts before a text may end."""
    whole = [0, len(text) - len(_without_notes(text))]
    if reply := _REPLY.match(text):
        bound = reply.end() + _QUOTED + 4
        return sorted({*whole, *(found.end() for found in _REPLY_END.finditer(text, 0, bound))})
    if text.startswith(_CHANNEL):
        return sorted({*whole, *(found.end() for found in _NEW_END.finditer(text))})
    return whole


def _letters(name: str) -> str:
    """The characters of a name that remain after a runtime has sanitised it."""
    return "".join(one for one in name.casefold() if one.isalnum()) or " ".join(name.split())


def speaker(text: str) -> tuple[str, str]:
    """Split a message into the name in brackets before it and the rest. The name is empty if there is none."""
    said = _without_notes(text)
    end = _closing(said)
    name = " ".join(_UNSEEN.sub(" ", said[1:end]).split())[:NAME_LIMIT].strip() if end else ""
    return (name, said[end + 1 :].lstrip(" ")) if name else ("", said)


def _closing(text: str) -> int:
    """The position of the bracket that closes the first bracket. 0 if the closing bracket is far away, or no space
    follows.
    """
    if not text.startswith("["):
        return 0
    depth = 0
    for place, one in enumerate(text[:_NAME_SEEN]):
        depth += (one == "[") - (one == "]")
        if depth == 0:
            return place if text[place + 1 : place + 2] == " " else 0
        if one == "\n":
            return 0
    return 0


# Recalled text, and the runtime's own

_REPLY = re.compile(r'\[Replying to(?: your previous message)?: "')
_QUOTED = 500
"""Maximum number of characters that a note quotes from another message."""
_NOTE = re.compile(r"\[(?:Triggering message id: |The user sent )")
_CHANNEL = ("[Recent channel messages]\n", "[Context around the replied-to message]\n", "[Messages prefixed with [")
_NEW = "\n\n[New message]\n"
_NOTES_LIMIT = 32
_REPLY_END = re.compile(r'"\]\n\n')
_NEW_END = re.compile(re.escape(_NEW))


def _without_notes(text: str) -> str:
    """A message without the notes that the runtime puts before it.

    A quote in a note may contain text that looks like the note's end, so the last possible end counts.
    """
    for _ in range(_NOTES_LIMIT):
        if _REPLY.match(text):
            end = text.rfind('"]\n\n', 0, text.index('"') + 1 + _QUOTED + 4)
        elif _NOTE.match(text):
            end = text.find("]\n\n")
        else:
            break
        if end < 0:
            break
        text = text[text.index("\n\n", end) + 2 :]
    return text[text.rfind(_NEW) + len(_NEW) :] if text.startswith(_CHANNEL) and _NEW in text else text


_SKILL = "[IMPORTANT: The user has invoked the "
_SKILL_SAID = "The user has provided the following instruction alongside the skill invocation: "
_SKILL_END = "\n\n[Runtime note:"
_BUNDLE = " skill bundle,"
_BUNDLE_SAID = "\nUser instruction: "
_BUNDLE_END = "\n\n[Loaded as part of the "
_AUTO_LOADED = re.compile(r'\[IMPORTANT: The "[^\n]{1,256}" skill is auto-loaded\. ')
_MADE_UP = ("[IMPORTANT: Background process ", "[ASYNC DELEGATION ", "[Continuing toward your standing goal]\n")


def unwrap(text: str) -> str:
    """The person's words in a message that Hermes wrapped in a skill. Empty if the message has no words of the person.

    The text of a skill is not the person's, nor is the result of a process or of another agent. If a chat loads a skill
    by itself, nothing marks where the person's words begin. The text after the last empty line is then taken.
    """
    if text.startswith(_MADE_UP):
        return ""
    if _AUTO_LOADED.match(text):
        return text.rpartition("\n\n")[2].strip()
    if not text.startswith(_SKILL):
        return text
    if _BUNDLE in text.partition("]")[0]:
        return text.partition(_BUNDLE_END)[0].partition(_BUNDLE_SAID)[2].strip()
    return text.rpartition(_SKILL_SAID)[2].partition(_SKILL_END)[0].strip() if _SKILL_SAID in text else ""


_TAG = re.compile(r"<\s{0,8}(/?)\s{0,8}memory-context\s{0,8}>", re.IGNORECASE)
_SYSTEM_NOTE = re.compile(
    r"\[System note:\s{1,8}The following is recalled memory context\b[^\]]{0,600}\]\s{0,8}", re.IGNORECASE
)
_RECALLED = re.compile(
    r"^[ \t>]{0,8}- \d{4}-\d{2}-\d{2}(?: \d{2}:\d{2})?, [a-z][a-z0-9-]{0,31}, "
    r"\"?[^\n\"]{1,80}\"?: \"[^\n]*\" \[[0-9A-HJKMNP-TV-Z]{26}\][ \t\r]*(?:\n|\Z)"
    rf"|^[ \t>]{{0,8}}{re.escape(HEADING)}[ \t\r]*(?:\n|\Z)",
    re.MULTILINE,
)
_QUOTED_START = re.compile(
    r"(?:- )?\d{4}-\d{2}-\d{2}(?: \d{2}:\d{2})?, [a-z][a-z0-9-]{0,31}, "
    r"(?:\\{0,64}\")?[^\n\"]{1,80}(?:\\{0,64}\")?: \\{0,64}\""
)
_QUOTED_END = re.compile(r"\" \[[0-9A-HJKMNP-TV-Z]{26}\]")


def bare(text: str) -> str:
    """The person's own words in a message. Recalled lines and the runtime's notes are removed.

    Recalled lines are stored already, and notes were not said by the person. Hermes' blocks and notes are removed, and
    any text in the format of a recalled line with its id.
    """
    if len(text) > READ_LIMIT:
        text = f"{text[: READ_LIMIT // 2]}\n{text[-READ_LIMIT // 2 :]}"  # its end may say "off the record"
    if "[" not in text and HEADING not in text and "memory-context" not in text.lower():
        return text  # as nearly all: notes, skills and recalled lines have a bracket
    said = unwrap(_without_notes(text))
    if "memory-context" in said.lower():
        said = _without_blocks(said)
    said = _without_quoted(_RECALLED.sub("", _SYSTEM_NOTE.sub("", said)))
    return said.strip() if said != text else text


def _without_quoted(text: str) -> str:
    """A text without recalled lines that stand inside a sentence.

    In each row of the text, everything from the first recalled line to the last id is removed. There is one pattern for
    the beginning and one for the end: a single pattern would search for the end from every beginning, in quadratic
    time.
    """
    if not _QUOTED_END.search(text):
        return text
    return "\n".join(map(_without_quote, text.split("\n")))


def _without_quote(line: str) -> str:
    *_, end = (None, *_QUOTED_END.finditer(line))
    start = _QUOTED_START.search(line, 0, end.start()) if end else None
    return line[: start.start()] + line[end.end() :] if start and end else line


def _without_blocks(text: str) -> str:
    """A text without blocks of recalled memory. A block without an end goes to the end of the text. A mere mention of
    the tag stays.
    """
    kept: list[str] = []
    done = opened = 0
    is_open = False
    for tag in _TAG.finditer(text):
        if tag[1]:
            kept.append("" if is_open else text[done : tag.start()])
            done, is_open = tag.end(), False
        elif not is_open:
            kept.append(text[done : tag.start()])
            done, opened, is_open = tag.end(), tag.start(), True
    if is_open and text[done : done + 1] not in ("\n", "\r", ""):
        done = opened
    return "".join((*kept, "" if is_open and done != opened else text[done:]))
