"""Which lines are worth keeping when a runtime is about to summarise its conversation away. Rules; never a model.

Chosen is what the person said: never a reply, a tool's result, recalled text (`api_content`, blocks in `content`), code,
or a turn off the record. Questions and small talk go. What states something lasting (a date, a number, a name, a
decision, something about the speaker) comes first, then the rest, in both the newest first until the room is used;
what was chosen stands in its original order. Signs of lasting things are words of a few languages; a text in another
one counts by its numbers and its length, and is not left out for its script.

Not responsible for masking, nor for storing: the turns themselves are kept already.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from strongroom.provider import manners
from strongroom.provider.manners import Asked, Phrases

LIMIT = 5500
"""Characters in all: below the 6,000 that Hermes takes."""
LINE_LIMIT = 300
"""Characters of one message's line."""
_SEEN = 8192
"""Characters of one message that are looked at."""
_ROLE = "user"
_SUMMARIES = ("[CONTEXT COMPACTION", "[CONTEXT SUMMARY]", "[END OF PRIOR CONTEXT", "[System note:")

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_SENTENCE = re.compile(r"[^.!?\u2026。!?؟।\n]*(?:[.!?\u2026。!?؟।]+(?=[\s\"')\]]|\Z|(?<=[。!?।]))[\"')\]]{0,2}|\n|\Z|.)")
_JOINED = "\u0e00-\u0e7f\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_WORD = re.compile(rf"[{_JOINED}]|[^\W_{_JOINED}]+")

_ASKING = re.compile(
    r"[??؟][\"')\]\s]*$|(?:吗|呢|嗎|ますか|ですか|でしょうか|까요|나요)[。.!\s]*$"
    r"|^(?:what|who|whom|whose|where|when|why|how|which|can|could|would|will|do|does|did|is|are|was|were|should|shall)\b"
    r"(?!.{0,80}[.!]$)",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\d|[零〇一二三四五六七八九十百千万]+(?:月|日|号|点|年|岁|天|周|个|人|元)"
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
        *("hi", "hello", "hey", "ok", "okay", "thanks", "thank", "you", "yes", "no", "yep", "nope", "sure", "great", "cool"),
        *("nice", "good", "morning", "evening", "night", "bye", "please", "go", "on", "ahead", "continue", "perfect", "fine"),
        *("lol", "haha", "hm", "hmm", "wow", "oh", "ah", "right", "exactly", "so", "much", "very", "that", "this", "is", "it"),
        *("works", "do", "again", "done", "awesome", "sounds", "looks", "the", "a", "and", "then", "there", "all", "for", "well"),
        *("hallo", "danke", "bitte", "ja", "nein", "gut", "super", "genau", "merci", "bonjour", "oui", "non", "hola"),
        *("gracias", "si", "vale", "obrigado", "ciao", "grazie", "привет", "спасибо", "да", "нет", "хорошо"),
    )
)
_SMALL_JOINED = re.compile(
    r"(?:你好|您好|谢谢|謝謝|好的|好吧|好|是的|对|嗯|哈|再见|早安|晚安|继续|了|啊|吧|呀|ありがとう|ございます|こんにちは|はい|いいえ|うん"
    r"|おはよう|さようなら|です|ね|よ|안녕|하세요|감사합니다|네|아니요|좋아요|สวัสดี|ขอบคุณ|ครับ|ค่ะ)+"
)


def worth(
    messages: Sequence[Mapping[str, Any]],
    limit: int = LIMIT,
    *,
    phrases: Phrases = manners.DEFAULT,
    is_off: bool = False,
) -> str:
    """The lines worth keeping of some messages, one each, within `limit` characters; empty for none.

    `is_off` says that the conversation was off the record already before the first of them.
    """
    lines = dict.fromkeys(_lines(messages, phrases, is_off))
    chosen = _chosen(list(lines), limit)
    return "\n".join(line for line in lines if line in chosen)
