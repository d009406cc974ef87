"""Rules that choose the lines to keep when a runtime is about to summarise its conversation. No model is involved.

Only the person's own words are chosen. Replies, tool results, recalled text (`api_content` and blocks in `content`),
code and turns off the record are left out. So are questions and small talk.

Statements of lasting value have a date, a number, a name, a decision, or something about the speaker. They are taken
first, and other statements fill the rest of the space. In both groups the newest statements come first. The result is
in the original order.

Words of a few languages show that a statement has lasting value. In other languages, only numbers and the length of a
text count.

This module neither masks secrets nor stores anything: the turns themselves are stored already.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from strongroom.hermes.provider import privacy_phrases
from strongroom.hermes.provider.chat_history import SUMMARIES
from strongroom.hermes.provider.privacy_phrases import Asked, Phrases
from strongroom.text import WORD

LIMIT = 5500
"""Maximum number of characters of the result. Hermes takes up to 6,000."""
LINE_LIMIT = 300
"""Maximum number of characters of the line that is made from one message."""
_SEEN = 8192
"""Maximum number of characters of a message that are checked."""
_ROLE = "user"
_TEXT_PARTS = ("text", "input_text")
_SUMMARIES = (*SUMMARIES, "[System note:")

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_BETWEEN = re.compile(r"(?<=[.!?\u2026\u061f])\s+|(?<=[\u3002\uff01\uff1f\u0964])\s*|\n")

_ASKS = re.compile(r"[?\uff1f\u061f][\"')\]\s]{0,4}$|(?:吗|呢|嗎|ますか|ですか|でしょうか|까요|나요)[\u3002.!\s]{0,4}$")
_ASKING = re.compile(
    r"(?:what|who|whom|whose|where|when|why|how|which|can|could|would|do(?! not)|does|did|is|are|should|shall)\b",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\d|[零〇一二三四五六七八九十百千万](?:月|日|号|点|年|岁|天|周|个|人|元)"
    r"|\b(?:always|never|deadline|remember|decided|agreed|prefer|allergic|birthday|because|must|plan|promise[ds]?"
    r"|mon|tues|wednes|thurs|fri|satur|sun)(?:day)?s?\b"
    r"|\b(?:i|my|mine|we|our|i'm|i've|we're|ich|mein\w{0,2}|wir|unser\w{0,2}|je|mon|ma|mes|nous|notre|yo|mi|mis|nuestr\w{1,2}"
    r"|eu|meu|minha|io|mio|mia|immer|nie|niemals|toujours|jamais|siempre|nunca|entschieden|décidé|decidimos)\b"
    r"|我|咱|俺|记住|決定|决定|总是|從不|从不|喜欢|喜歡|过敏|截止|私|僕|俺|いつも|必ず|好き|締め切り|저는|나는|우리|항상|절대"
    r"|\b(?:я|мой|моя|моё|мои|мы|наш\w{0,2}|всегда|никогда|решили)\b|أنا|نحن|دائما|मैं|मेरा|मेरी|हम|ฉัน|ผม|เรา",
    re.IGNORECASE,
)
_NAME = re.compile(r"(?<=[a-zà-ÿ,;:] )[A-ZÀ-Þ][a-zà-ÿ]{2,}")
_SMALL = frozenset(
    (
        *(
            "hi",
            "hello",
            "hey",
            "ok",
            "okay",
            "thanks",
            "thank",
            "you",
            "yes",
            "no",
            "yep",
            "nope",
            "sure",
            "great",
            "cool",
        ),
        *(
            "nice",
            "good",
            "morning",
            "evening",
            "night",
            "bye",
            "please",
            "go",
            "on",
            "ahead",
            "continue",
            "perfect",
            "fine",
        ),
        *(
            "lol",
            "haha",
            "hm",
            "hmm",
            "wow",
            "oh",
            "ah",
            "right",
            "exactly",
            "so",
            "much",
            "very",
            "that",
            "this",
            "is",
            "it",
        ),
        *(
            "works",
            "do",
            "again",
            "done",
            "awesome",
            "sounds",
            "looks",
            "the",
            "a",
            "and",
            "then",
            "there",
            "all",
            "for",
            "well",
        ),
        *("hallo", "danke", "bitte", "ja", "nein", "gut", "super", "genau", "merci", "bonjour", "oui", "non", "hola"),
        *("gracias", "si", "vale", "obrigado", "ciao", "grazie", "привет", "спасибо", "да", "нет", "хорошо"),
    )
)
_SMALL_JOINED = re.compile(
    r"(?:你好|您好|谢谢|謝謝|好的|好吧|好|是的|对|嗯|哈|再见|早安|晚安|继续|了|啊|吧|呀|ありがとう|ございます|こんにちは|はい|いいえ|うん"
    r"|おはよう|さようなら|です|ね|よ|안녕|하세요|감사합니다|네|아니요|좋아요|สวัสดี|ขอบคุณ|ครับ|ค่ะ)+"
)


@dataclass(frozen=True, slots=True)
class _Said:
    line: str
    is_lasting: bool


def worth(
    messages: Sequence[Mapping[str, Any]],
    limit: int = LIMIT,
    *,
    phrases: Phrases = privacy_phrases.DEFAULT,
    is_off: bool = False,
) -> str:
    """Choose the lines to keep: at most one line for each message, within `limit` characters. Empty if nothing is kept.

    `is_off`: the conversation was already off the record before the first message.
    """
    said = [one for text in _on_record(messages, phrases, is_off) if (one := _said(text))]
    return "\n".join(said[place].line for place in sorted(_chosen(said, limit)))


def _chosen(said: Sequence[_Said], limit: int) -> set[int]:
    """The positions of the lines that fit into `limit`. Repeated lines are chosen once.

    Lasting lines are chosen before other lines, and newer lines before older lines.
    """
    chosen: set[int] = set()
    seen: set[str] = set()
    room = limit + 1  # the last line needs no line break
    for is_lasting in (True, False):
        for place in range(len(said) - 1, -1, -1):
            line = said[place].line
            key = " ".join(line.casefold().split())
            if said[place].is_lasting is is_lasting and len(line) < room and key not in seen:
                chosen.add(place)
                seen.add(key)
                room -= len(line) + 1
    return chosen


def _on_record(messages: Sequence[Mapping[str, Any]], phrases: Phrases, is_off: bool) -> Iterator[str]:
    """The person's texts, except those that are off the record."""
    for message in messages:
        text = _words(message)
        asked = privacy_phrases.asks(text, phrases)
        if asked in (Asked.OFF, Asked.ON):
            is_off = asked is Asked.OFF
        if text and not is_off and asked is not Asked.THIS_TURN:
            yield text


def _words(message: Mapping[str, Any]) -> str:
    """The text of a person's message. Empty for any other message, and for a summary."""
    if not isinstance(message, Mapping) or message.get("role") != _ROLE or message.get("_compressed_summary"):
        return ""
    content = message.get("content")
    text = "\n".join(_texts(content)) if isinstance(content, list) else content
    if not isinstance(text, str) or text.lstrip().startswith(_SUMMARIES):
        return ""
    return privacy_phrases.bare(text)


def _texts(parts: Sequence[Any]) -> Iterator[str]:
    for part in parts:
        if isinstance(part, str):
            yield part
        elif isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS and isinstance(part.get("text"), str):
            yield part["text"]


def _said(text: str) -> _Said | None:
    """The statements of one message as a line. Of a long message, only the lasting statements are taken."""
    prose = _CODE.sub("\n", text[:_SEEN])
    kept = [one for sentence in _BETWEEN.split(prose) if _states(one := " ".join(sentence.split()))]
    lasting = [one for one in kept if _lasts(one)]
    if not kept:
        return None
    whole = " ".join(kept)
    line = f"- {_ROLE}: {whole if len(whole) <= LINE_LIMIT // 2 or not lasting else ' '.join(lasting)}"
    return _Said(line if len(line) <= LINE_LIMIT else f"{line[: LINE_LIMIT - 1]}\u2026", bool(lasting))


def _states(sentence: str) -> bool:
    """Whether a sentence states something. Questions, small talk and very short sentences do not."""
    if not sentence or _ASKS.search(sentence) or (_ASKING.match(sentence) and sentence[-1] not in ".!"):
        return False
    words = WORD.findall(sentence.casefold())
    if all(word in _SMALL for word in words) or _SMALL_JOINED.fullmatch("".join(words)):
        return False
    return len(words) > 2 or (len(words) > 1 and _lasts(sentence))


def _lasts(sentence: str) -> bool:
    return bool(_LASTING.search(sentence) or _NAME.search(sentence))
