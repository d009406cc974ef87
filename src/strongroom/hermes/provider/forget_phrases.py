# ruff: noqa: E501 - a pattern to a line
"""Recognises requests to forget. Mere talk about forgetting does not count.

"Please forget that my gym code is 5521" is a request, "I always forget my keys" is not. The rules compare words, in the
languages of the phrases for off the record (`privacy_phrases`). They are pure, and no model is involved.

- A verb of forgetting needs an addressee (an imperative, "can you", "I want you to") and something that a memory holds
  ("that", "what I said", "my address"). "Forget it" alone is an idiom, and "forget sugar" is advice.
- A verb of deleting needs the memory itself or the person's words: "from your notes", "what I told you". Files,
  branches and commas do not count.
- Each sentence counts alone. "Forget it" and the like are an exception, because they may refer to the sentence before.

Only the beginning and the end of a long text are searched, so the cost is bounded. This module does not decide which
lines are forgotten.
"""

from __future__ import annotations

import re
from functools import cache

from strongroom.hermes.provider.privacy_phrases import fold

_LOOKED_AT = 1000
"""Number of characters at each end of a text that are searched for a request."""
_GAP = ".{0,80}?"
"""The text that may stand between the words of a request, within one sentence."""
_SENTENCE = re.compile(r"[.!?;\n\u3002\uff01\uff1f\uff1b\u061f\u0964]+")

# For each language: stems, one of which is in every request; requests; and look-alikes, which are removed before
# matching. Patterns are folded like the texts: without accents, apostrophes and dashes, in lower case.
_START = r"(?:^|[,:] |\b(?:and|also|then|so|but|just|please|pls|plz|kindly|hey|hi|ok|okay|now|actually|well|sorry) )"
_ASKED = (
    rf"(?:{_START}|\b(?:can|could|will|would) you (?:please |just |kindly )?|\byou (?:can|may|should|must|have to) "
    r"(?:now |please )?|\b(?:want|like|need|ask|asking|prefer|beg|tell) you to (?:please )?|\bplease (?:do )?)"
)
_MINE = r"(?:my|our|his|her|their|me|\w+s)"
_TOLD = r"(?:said|told|mentioned|shared|wrote|asked|confided|gave|talked|spoke|explained|typed|sent)"
_HELD = r"(?:have|saved|stored|kept|know|knew|remember|remembered|recorded|noted|learned|learnt|hold)"
_NOTED = r"(?:things?|lines?|notes?|entry|entries|facts?|memory|memories|details?|bits?|parts?|info|information|stuff)"
_WHAT = (
    rf"(?:that (?:i|we|my|our|he|she|they|the|you)\b|(?:what|whatever|anything|everything|all|all that|the things?) "
    rf"(?:that )?(?:i|we|you|about)\b|(?:everything|anything|all of (?:it|this|that))\b|{_MINE} \w|(?:this|the|that)"
    rf" (?:\w+ ){{0,3}}?(?:{_NOTED}|conversation|chat|name|number|address|code|date|story|message)\b"
    rf"|(?:the|this|that|those|these)\b{_GAP}\b(?:i|we) (?:just |once |have )?{_TOLD}\b|(?:who|where|when|how) (?:i|we)\b"
    rf"|(?:about )?(?:me|us)\b)"
)
_SAID = (
    rf"(?:what(?:ever)? (?:i|we|you) (?:just |have |had |ever )?(?:{_TOLD}|{_HELD})\b|(?:everything|anything|all) "
    rf"(?:that )?(?:(?:i|we|you) (?:\w+ )?(?:{_TOLD}|{_HELD})\b|about (?:me|my|us|our)\b)"
    rf"|(?:the|that|this|those|these|your|any|all|every) (?:\w+ )?{_NOTED} (?:on|about|of|with|regarding|that|where|i|"
    rf"you) ?(?:my|me|our|us|i|his|her|their|told|said|have)\b)"
)
_PLACES = r"(?:memory|memories|notes|records?|mind|storage|database|profile)"
_DELETE = r"(?:delete|erase|remove|wipe|clear|scrub|strike|drop|purge|discard|expunge|get rid of|unlearn|redact)"
_KEEP = r"(?:keep|kept|store|stored|save|saved|remember|remembered|hold on to|retain|retained|memori[sz]e|record)"

_ENGLISH = (
    (
        *("forget", "unremember", "remember", "delet", "eras", "remov", "wipe", "clear", "scrub", "strike", "drop"),
        *("purge", "discard", "expunge", "get rid of", "unlearn", "redact", "keep", "kept", "stor", "save", "hold on"),
        *("retain", "record"),
    ),
    (
        rf"{_ASKED}(?:forget|unremember|unlearn):? (?:about )?{_WHAT}",
        rf"\b(?:would you )?mind forgetting (?:about )?{_WHAT}",
        rf"{_ASKED}{_DELETE} {_SAID}",
        rf"\b{_DELETE} {_GAP}\b(?:from|in|off|out of) your (?:\w+ )?{_PLACES}\b",
        rf"\b{_DELETE} {_MINE} {_GAP}\b(?:from|off|out of) (?:the )?{_PLACES}\b",
        rf"(?:{_SAID}|\b(?:note|memory|line|entry) (?:on|about|of)? ?{_GAP}){_GAP}\b(?:{_DELETE}|forget) (?:it|that|them|this)\b",
        rf"\bnote (?:is|was) (?:wrong|false|old|outdated){_GAP}\b(?:{_DELETE}|forget) (?:it|that)\b",
        rf"\b(?:dont|do not|didnt|did not|never|not|stop) (?:ever |please )?(?:have )?{_KEEP}(?:ing)? "
        rf"(?:{_SAID}|{_MINE} {_GAP}\b(?:{_DELETE}|forget)\b)",
        rf"\byou (?:should|shall|may|must|were) ?(?:not|nt|nt have|not have|never|never have|not to) {_KEEP} (?:{_WHAT}|the|that|this)\b",
        rf"\byou (?:shouldnt|mustnt|werent)(?: have| to)? {_KEEP} (?:{_WHAT}|the|that|this)\b",
        rf"\brather (?:you )?(?:didnt|did not|not|that you didnt) {_KEEP} {_WHAT}",
        rf"{_GAP}\bi never (?:told|said|mentioned){_GAP}\b(?:{_DELETE}|forget) (?:it|that|this)\b",
        rf"\b(?:dont|do not) {_KEEP} {_MINE} {_GAP}, (?:please )?{_DELETE} (?:it|them)\b",
    ),
    (
        r"\b(?:dont|do not|did not|wont|will not|cant|cannot|never|not|to not|must not|lest you|lest i|didnt) "
        r"(?:let (?:me|us) )?forget\b",
        r"\b(?:i|we|he|she|they|who|people|users|did you|do you|have you|you always|you often) (?:\w+ )?"
        r"(?:forget|forgot|forgets|remember|keep|store|save|delete|erase|remove|clear|wipe)\b",
        r"\b(?:i|we|they) (?:do not|dont|did not|didnt|cannot|cant|never|will not|wont) (?:\w+ )?"
        r"(?:remember|keep|store|save|record)\b",
        r"\b(?:if|when|whether|how|what happens|what if|after|before|unless) (?:\w+ ){0,3}?(?:ask|asks|asked|tell|told|want)"
        r" (?:you|it|an? \w+) to (?:forget|delete|erase|remove|wipe)\b",
        r"\b(?:told|asked|tells|asks|wants|made|let|helps?|want) (?:me|him|her|us|them|someone) (?:to )?(?:forget|delete|erase)\b",
        r"\b(?:how (?:do|can|could|would|does|should)|what does|does|do|is it|why) (?:i|we|you|one|the|it|that)\b.{0,40}?"
        r"\b(?:forget|delete|erase|remove|wipe|clear)\b",
        r"\bforget (?:me nots?|gates?)\b",
        rf"\b{_NOTED} (?:that |which )?(?:i|we) (?:\w+ )?(?:added|inserted|committed|pushed|pasted|changed|marked)\b",
        r"\b(?:forget|drop) (?:about )?(?:it|that)(?=$|[,:]? (?:mate|man|lets|we|its|never mind|just|then|dude|ok)\b)",
    ),
)
_GERMAN = (
    ("vergiss", "vergess", "losch", "entfern", "streich", "tilg", "behalt", "merk", "speicher"),
    (
        r"\bvergiss(?:,? (?:bitte|mal|einfach|wieder|sofort|doch)){0,3},? (?:dass|was|alles|mein\w*|unser\w*|wo|wie|wer|wann)\b",
        rf"\b(?:vergiss|vergesst|vergessen sie)\b{_GAP}\b(?:ich|wir)\b{_GAP}\b(?:gesagt|erzahlt|geschrieben|erwahnt|verraten)\b",
        r"\b(?:vergessen sie|vergesst) (?:bitte )?,? ?(?:dass|was|alles|mein\w*|unser\w*)\b",
        r"\b(?:kannst|konntest|wurdest|magst|konnen|konnten|wurden) (?:du|sie) (?:bitte )?"
        rf"(?:mein\w*|unser\w*|was|alles|dass|d\w\w (?:sache|geschichte)){_GAP}\bvergessen\b",
        r"\b(?:kannst|konntest|wurdest|konnen|konnten|wurden) (?:du|sie) (?:bitte )?vergessen,? (?:dass|was|wo|wie|wer)\b",
        rf"\b(?:du|sie) (?:sollst|sollen|solltest|sollten|musst|mussen)\b{_GAP}\b(?:mein\w*|was|alles|dass)\b{_GAP}\bvergessen\b",
        rf"\b(?:mochte|will|bitte|wunsche)\b{_GAP}\bdass (?:du|sie)\b{_GAP}\b(?:mein\w*|was|alles){_GAP}\b(?:vergisst|vergessen|loschst)\b",
        rf"\b(?:losche?|loschen|entfernen?|streiche?n?|tilge?n?)\b{_GAP}\baus (?:dein|ihr|euer)\w* (?:\w+ )?"
        r"(?:gedachtnis|speicher|notizen|erinnerung\w*|unterlagen|akten)",
        rf"\baus (?:dein|ihr)\w* (?:\w+ )?(?:gedachtnis|speicher|notizen|erinnerung\w*){_GAP}\b(?:losch|entfern|streich)\w*",
        rf"\b(?:losche?|loschen sie|entferne?|streiche?)\b (?:bitte,? )?(?:alles)?,? ?was (?:ich|du|sie|wir)\b{_GAP}"
        r"\b(?:gesagt|erzahlt|gespeichert|gemerkt|weisst|wissen|geschrieben)\b",
        rf"\bwas ich\b{_GAP}\b(?:gesagt|erzahlt|geschrieben|erwahnt)\b{_GAP}\b(?:nicht (?:\w+ )?(?:behalten|speichern|merken)|vergessen|vergiss|losch\w*)\b",
        r"\b(?:behalte?|speichere?|merke? dir) (?:bitte )?nicht,? (?:was|dass) (?:ich|wir)\b",
    ),
    (
        r"\b(?:vergiss|vergesst|vergessen sie) (?:bitte |ja |mir |mal |auch ){0,2}(?:nicht|nie)\b",
        r"\b(?:ich|wir|er|man|wer) (?:\w+ )?(?:vergiss|vergess)\w*",
    ),
)
_SPANISH = (
    ("olvid", "borra", "borre", "elimin", "quita", "suprim", "guard", "recuerd", "memoric", "reten"),
    (
        r"(?:^|[,:] |\b(?:por favor|y|pues|oye|mejor),? )(?:olvida|olvidate de|olvidese de) (?:por favor )?"
        r"(?:que|lo que|lo de|mis?|nuestr\w+|todo|la conversacion|cuanto)\b",
        r"\b(?:puedes|podrias|puede|podria|quieres|debes|te importa) (?:por favor )?olvidar(?:te de)? "
        r"(?:que|lo que|lo de|mis?|nuestr\w+|todo)\b",
        r"\bque (?:te )?olvid(?:es|aras|e)(?: de)? (?:que|lo que|lo de|mis?|nuestr\w+|todo)\b",
        r"\b(?:borr[ae]|elimin[ae]|quit[ae]|suprim[ae]|borrar|eliminar|quitar) (?:por favor )?(?:lo (?:de|que)|todo lo que"
        r"|cuanto|la (?:nota|linea|conversacion) (?:de|sobre|en que))\b",
        rf"\b(?:borr|elimin|quit|suprim)(?:a|e|ar|as|es)\b{_GAP}\b(?:de|en) (?:tu|tus|su|sus) (?:memoria|notas|recuerdos|registros?|archivos)\b",
        rf"\b(?:contado|dicho|dije|conte|comente|guardaste|guardado|hable)\b{_GAP}\b(?:borra|elimina|olvida|quita)(?:lo|la|los|las)\b",
        r"\bno (?:guardes|recuerdes|memorices|retengas|conserves|guarde) (?:lo que|lo de|mis?|nada (?:de|sobre) (?:mi|lo))\b",
    ),
    (
        r"\b(?:no (?:te |me |se )?olvid|siempre (?:me )?olvid|se (?:me|le|te|nos) olvid)\w*",
        r"\b(?:has|he|ha|hemos|han) olvidado\b",
    ),
)
_FRENCH = (
    ("oubli", "effac", "supprim", "retir", "enlev", "gard", "retien", "conserv", "memoris", "enregistr"),
    (
        r"(?:^|[,:] |\b(?:plait|et|merci|allez|alors) )oublie[zs]? (?:sil (?:te|vous) plait,? )?"
        r"(?:que?|quil|quelle|ce que|ce qui|mon|ma|mes|notre|nos|tout|cette (?:conversation|histoire))\b",
        r"\b(?:peux tu|pourrais tu|pouvez vous|pourriez vous|veux tu|tu peux|tu pourrais|merci|prie|demande|priere)"
        r" (?:de )?d?oublier (?:que?|ce que|ce qui|mon|ma|mes|notre|tout)\b",
        r"\bque tu oublies (?:que?|ce que|mon|ma|mes|notre|tout)\b",
        r"\b(?:efface|supprime|retire|enleve)[zsr]? (?:sil (?:te|vous) plait,? )?(?:tout )?(?:ce que (?:je|tu|nous|vous)|ce qui (?:me )?concerne)\b",
        rf"\b(?:efface|supprime|retire|enleve|raye)[zsr]?\b{_GAP}\b(?:de|dans) (?:ta|tes|votre|vos) (?:memoire|notes|souvenirs|donnees|archives)\b",
        rf"\b(?:gardes?|retiens?|retiennes|conserves?|memorises?|enregistres?) (?:pas|rien) (?:de |sur )?(?:ce que|mon|ma|mes|tout){_GAP}",
        rf"\bce que je (?:t|v)\w*\b{_GAP}\b(?:efface|oublie|supprime)[zs]?(?: | le| la)?",
    ),
    (
        r"\b(?:noublie|noubliez|joublie|jai oublie|as oublie|avez oublie|avant que joublie)\w*",
        r"\bje (?:ne )?(?:garde|retiens|memorise|conserve)\w*",
    ),
)
_PORTUGUESE = (
    ("esquec", "esquec", "apag", "elimin", "remov", "exclu", "guard", "memoriz"),
    (
        r"(?:^|[,:] |\b(?:favor|e|entao|olha) )esque(?:ce|ca|cam)(?: te de)? (?:por favor )?"
        r"(?:que|o que|os? meus?|as? minhas?|meus?|minhas?|tudo|aquilo que|isso que|(?:d)?a nossa)\b",
        r"\b(?:podes|pode|poderias?|podias?|consegues) (?:por favor )?esquecer (?:que|o que|os? meus?|as? minhas?|meus?|minhas?|tudo)\b",
        r"\bque (?:te )?esque(?:cas|ca|cesses)(?: de)? (?:que|o que|os? meus?|as? minhas?|meus?|minhas?|tudo)\b",
        r"\b(?:apag|elimin|remov|exclu)(?:a|e|ue|ar|i)\b (?:por favor )?(?:tudo )?(?:o que (?:eu|tu|voce|sabes|sabe)|aquilo que)\b",
        rf"\b(?:apag|elimin|remov|exclu|tir)(?:a|e|ue|ar|i)\b{_GAP}\bd[ao]s? (?:tu|su)as? (?:memoria|notas|registos|registros)\b",
        r"\bnao (?:guardes?|memorizes?|retenhas) (?:o que (?:eu|te)|nada (?:do que|sobre) )",
    ),
    (r"\b(?:nao (?:te |se |me )?esque|sempre (?:me )?esque|esqueci)\w*",),
)
_ITALIAN = (
    ("dimentic", "scord", "cancell", "elimin", "rimuov", "togli", "ricord", "memorizz", "conserv", "tener"),
    (
        r"(?:^|[,:] |\b(?:favore|e|allora|senti) )(?:dimentica|scorda|dimentichi|dimenticati|scordati)(?: di)? (?:per favore )?"
        r"(?:che|quello che|cio che|quanto|il mio|la mia|i miei|le mie|mi[ao]|tutto|la nostra)\b",
        r"\b(?:puoi|potresti|puo|potrebbe|vuoi) (?:per favore )?(?:dimenticare|scordare) (?:che|quello che|cio che|il mio|la mia|i miei|le mie|tutto)\b",
        r"\bche (?:tu )?(?:dimentichi|dimenticassi|scordi) (?:che|quello che|cio che|il mio|la mia|i miei|le mie|tutto)\b",
        r"\b(?:cancella|elimina|rimuovi|togli|cancellare|eliminare) (?:per favore )?(?:tutto )?(?:quello che|cio che|quanto) (?:ti|ho|sai|hai|vi)\b",
        rf"\b(?:cancella|elimina|rimuovi|togli|cancellare|eliminare)\b{_GAP}\bda(?:l|lla|i|gli|lle) (?:tu\w+) (?:memoria|appunti|note|ricordi)\b",
        r"\bnon (?:tenere|conservare|ricordare|salvare|memorizzare) (?:quello che|cio che|nulla di quello|niente di quello|il mio|la mia)\b",
    ),
    (r"\b(?:non (?:ti |mi )?(?:dimenticare|dimenticarti|scordare|dimenticate|dimentico)|dimentico|ho dimenticato)\b",),
)
_RUSSIAN = (
    ("забуд", "забыть", "удали", "сотри", "убери", "запоминай", "храни", "сохраняй"),
    (
        r"(?:^|[,:] |\b(?:пожалуйста|прошу|и),? )забуд(?:ь|ьте)(?:,? пожалуйста| про| все| о том){0,3},? (?:что|мой|моя|мое|мою|моего|мои|моих|как|где|все)\b",
        r"\bзабуд(?:ь|ьте) (?:все|то),? (?:,? )?что (?:я|мы)\b",
        r"\b(?:можешь|можете|мог бы|могла бы|хочу чтобы ты|прошу тебя|прошу вас) (?:пожалуйста )?(?:забыть|забыл|забыла|удалить) (?:про |о )?(?:что|то|мой|моя|мою|мое|моего|мои|моих|все)\b",
        rf"\b(?:удали|удалите|сотри|сотрите|убери|уберите)\b{_GAP}\bиз (?:\w+ )?(?:памяти|заметок|записей)\b",
        r"\b(?:удали|удалите|сотри|сотрите) (?:пожалуйста )?(?:все|то),? что (?:я|ты|вы)\b",
        r"\bне (?:запоминай|храни|сохраняй)\w* (?:то,? )?что я\b",
    ),
    (r"\bне (?:забуд|забыва)\w*", r"\bя (?:\w+ )?забы\w*"),
)
_CHINESE = (
    ("忘", "删", "刪", "抹", "清除", "消除", "记", "記"),
    (
        r"(?:请|請|麻烦|拜托|你能|能不能|可不可以|可以|希望你|想让你|要你|帮我|把)[^,，]{0,20}?(?:忘记|忘掉|忘了|忘記)",
        r"(?:^|[,，] ?)(?:忘记|忘掉|忘了|忘記)(?:我|关于|關於|刚才|剛才|之前|这件|那件|所有)",
        r"(?:把|请|請|将)[^,，]{0,16}?(?:我(?:刚才|剛才|刚刚|之前|昨天)?(?:说|說|讲|告诉|提)|记忆|記憶|你记|关于我|跟你说)"
        r"[^,，]{0,20}?(?:删|刪|抹|清除|忘)",
        r"(?:从|從|在)(?:你的?)?(?:记忆|記憶|笔记|记录)[^,，]{0,12}?(?:删|刪|抹|清除|去掉)",
        r"(?:删掉|删除|刪除|清除|抹掉)[^,，]{0,12}?(?:我(?:刚才|之前)?(?:说|說|告诉)|你的?(?:记忆|記憶)|关于我的|你记住的)",
    ),
    (
        r"(?:别|別|不要|不会|没|沒|勿|难|難|不能|不想|不可|从未|总是|老是|常常|经常|又)[^,，]{0,2}?忘(?:记|記|掉|了)?",
        r"我[^,，的说]{0,3}?忘",
    ),
)
_JAPANESE = (
    ("忘れ", "消し", "削除", "覚えないで", "消去", "覚えてお"),
    (
        r"忘れて(?:ください|下さい|くれ|ほしい|欲しい|もらえ|いただけ|ちょうだい|頂|ね?$|よ?$|おいて)",
        r"(?:記憶|メモリ|メモ|記録)から.{0,10}?(?:消|削除|消去|外)して?",
        r"(?:言った|話した|話し?の?|伝えた|教えた|相談|会話|覚えてい?る).{0,20}?(?:削除|消去|消)し?て(?:ください|下さい|くれ|ほしい|欲しい|もらえ|$)",
        r"(?:言った|話した|伝えた|教えた|話).{0,16}?覚えないで",
    ),
    (r"忘れ(?:ない|ず|られ|た|ました|てい|てし|っぽ|物|もの)|質問を忘れ",),
)
_KOREAN = (
    ("잊어", "지워", "삭제", "기억하지", "저장하지"),
    (
        r"잊어(?: ?(?:줘|주세요|줄래|버려|주실|줄 수)|$)",
        r"(?:기억|메모|기록)에서.{0,48}?(?:지워|삭제)",
        r"(?:내가|제가) .{0,36}?(?:말|이야기|얘기).{0,60}?(?:지워|삭제|잊어|기억하지)",
    ),
    (r"잊어버(?:렸|려서|리)|잊지|안 잊",),
)
_OTHERS = (
    ("انس", "احذف", "भूल", "ลืม"),
    (
        r"(?:^|[,،] ?|\bفضلك )(?:انس|انسي) (?:ان|ما قلت|ما قلته|كل ما|رقم|عنوان)",
        r"احذف .{0,40}?من ذاكرتك",
        r"भूल (?:जाओ|जाइए|जाना) (?:कि|जो|मेर)",
        r"(?:मेर|जो मैंने).{0,40}?भूल (?:जाओ|जाइए|जाना)",
        r"(?:ช่วย|โปรด|กรุณา)ลืม|ลืม.{0,40}?ของ(?:ฉัน|ผม|เรา)(?:ด้วย|ที|หน่อย|นะ)|ลืม(?:เรื่อง|สิ่ง)?ที่(?:ฉัน|ผม|เรา)(?:บอก|พูด)",
    ),
    (r"(?:मत|ना|नहीं) भूल|(?:อย่า|ไม่)ลืม|لا تنس",),
)
_LANGUAGES = (
    *(_ENGLISH, _GERMAN, _SPANISH, _FRENCH, _PORTUGUESE, _ITALIAN),
    *(_RUSSIAN, _CHINESE, _JAPANESE, _KOREAN, _OTHERS),
)


def is_forget_request(text: str) -> bool:
    """Whether a text asks the memory to forget, delete or not store something. Only the ends of a long text are
    searched.
    """
    seen = text if len(text) <= 2 * _LOOKED_AT else f"{text[:_LOOKED_AT]}\n{text[-_LOOKED_AT:]}"
    return any(_asks(sentence) for sentence in _sentences(seen))


def _sentences(text: str) -> list[str]:
    """The sentences of a text, in the folded form in which phrases are compared."""
    found = (fold(sentence) for sentence in _SENTENCE.split(text))
    return [sentence for sentence in found if sentence]


def _asks(sentence: str) -> bool:
    for stems, asked, other in _compiled():
        if any(stem in sentence for stem in stems) and asked.search(other.sub(" \u2026 ", sentence)):
            return True
    return False


@cache
def _compiled() -> tuple[tuple[tuple[str, ...], re.Pattern[str], re.Pattern[str]], ...]:
    return tuple((tuple(map(fold, stems)), _any(requests), _any(others)) for stems, requests, others in _LANGUAGES)


def _any(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns).translate(_PLAIN))


class _Plain(dict[int, str]):
    """Folds the letters of a pattern as `fold` does with a text. ASCII characters stay, because they may be syntax."""

    def __missing__(self, code: int) -> str:
        self[code] = chr(code) if code < 128 else fold(chr(code))
        return self[code]


_PLAIN = _Plain()
