"""Masks secrets in texts, by rule, before they are stored: `[secret removed: github token]`. No model is involved.

Most detectors are those of `detect-secrets`. Each is used alone: without that package's settings, its network checks,
and its measures of randomness, which would take ids and hashes for secrets. Our own rules are used where the package
has no detector, sees only the first line of a key, or takes quadratic time (OpenAI, JWT, npm).

- A secret must begin where a word begins: an id that contains the letters of a token is not a secret.
- Invisible characters do not hide a secret, nor do letters of other scripts that look like Latin letters. Both are
  replaced for the search only; the original text is masked.
- A token that continues on the next line is masked as a whole. The text around a secret stays.

Masking is best effort. A password that looks like a word, mentioned in passing, is not detected. Other private facts in
a text are not masked.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence

from strongroom.hermes.provider import secret_patterns
from strongroom.hermes.provider.detector_rules import maintained_rules
from strongroom.hermes.provider.secret_patterns import LONG, Finder, SecretRule, Span
from strongroom.text import CharacterMap

_REMOVED = "[secret removed: "
_MASKED = re.compile(r"(\[secret removed: [a-z0-9 ]{1,40}\])")
_ROUNDS = 4
"""After this many rounds whole words are masked, because masking adjacent secrets singly takes quadratic time."""
_REST_OF_WORD = re.compile(r"\S*")


class Mask:
    """Masks secrets in texts. A mask does not change after it is built, so any number of threads may use it."""

    def __init__(self) -> None:
        self._rules = (*_OWN, *maintained_rules(), *_NAMED)  # of two with the same match, the first gives the kind
        self._signs = [(sign, rank) for rank, rule in enumerate(self._rules) for sign in rule.signs]
        self._signs_of_short = [(sign, rank) for sign, rank in self._signs if not self._rules[rank].is_long]

    def masked(self, text: str) -> tuple[str, int]:
        """Replace each secret in a text by its kind. Returns the new text and the number of secrets. Idempotent."""
        count = rounds = 0
        while True:  # masking one secret may expose the one beside it
            text, more = self._once(text, with_rest_of_word=rounds >= _ROUNDS)
            if not more:
                return text, count
            count += more
            rounds += 1

    def _once(self, text: str, *, with_rest_of_word: bool) -> tuple[str, int]:
        """Mask each secret that is visible now. `with_rest_of_word` also masks the rest of the word."""
        if _REMOVED not in text:
            return _replaced(text, self._found(text), with_rest_of_word=with_rest_of_word)
        pieces = _MASKED.split(text)  # the name of a kind, such as "age key", is not a sign
        done = [_replaced(piece, self._found(piece), with_rest_of_word=with_rest_of_word) for piece in pieces[::2]]
        pieces[::2] = [piece for piece, _ in done]
        return "".join(pieces), sum(more for _, more in done)

    def _found(self, text: str) -> list[tuple[int, int, int, str]]:
        if text.isascii():
            return self._seen(text) if text else []  # thousands of secrets in a row leave nothing between them
        shown, places = _without_unseen(text)
        latin = shown.translate(_LATIN)
        found = self._seen(shown) if latin == shown else [*self._seen(shown), *self._seen(latin)]
        if places is None:
            return sorted(found)
        return sorted((places[start], -places[-negated - 1] - 1, rank, kind) for start, negated, rank, kind in found)

    def _seen(self, text: str) -> list[tuple[int, int, int, str]]:
        lowered = text.lower()
        is_long = max(map(len, text.split()), default=0) >= LONG
        ranks = {rank for sign, rank in (self._signs if is_long else self._signs_of_short) if sign in lowered}
        if not ranks:
            return []
        return sorted(
            (start, -_whole(text, end, self._rules[rank]), rank, self._rules[rank].kind)
            for rank in ranks
            for start, end in self._rules[rank].find(text)
        )


def _shown_as(one: str) -> str | None:
    """The visible form of a character: None if it shows nothing, ASCII if it is a form of an ASCII character."""
    plain = unicodedata.normalize("NFKC", one)
    if unicodedata.category(one) == "Cf" or one in "\u034f\u115f\u1160\u3164\uffa0" or "\ufe00" <= one <= "\ufe0f":
        return None
    return plain if plain.isascii() and len(plain) == 1 else one


_UNSEEN = CharacterMap(_shown_as)
_LATIN = str.maketrans(
    "АВЕЅІЈКМНОРСТХУаеѕіјкорсухһԁԛԝΑΒΕΖΗΙΚΜΝΟΡΤΥΧοιαυ", "ABESIJKMHOPCTXYaesijkopcyxhdqwABEZHIKMNOPTYXoiau"
)


def _without_unseen(text: str) -> tuple[str, list[int] | None]:
    """A text without invisible characters, and the original position of each character. None if nothing was removed."""
    shown = text.translate(_UNSEEN)
    if len(shown) == len(text):
        return shown, None
    return shown, [place for place, one in enumerate(text) if _UNSEEN[ord(one)] is not None]


_WRAPPED = re.compile(
    r"\\?\r?\n(?=[A-Za-z_/+=-]{0,512}\d)(?=[^A-Z\n]{0,512}[A-Z])[A-Za-z0-9_/+=-]{20,512}(?![A-Za-z0-9_./+=:-])"
)


def _whole(text: str, end: int, rule: SecretRule) -> int:
    """The end of a secret. A long secret may be wrapped, and then continues on the next line."""
    wrapped = _WRAPPED.match(text, end) if rule.is_long else None
    return wrapped.end() if wrapped else end


def _replaced(text: str, found: Sequence[tuple[int, int, int, str]], *, with_rest_of_word: bool) -> tuple[str, int]:
    """Replace each span once. If two spans overlap, both are masked, and the first one gives the kind."""
    if not found:
        return text, 0
    pieces: list[str] = []
    count = done = 0
    for start, negated, _, kind in found:
        if start >= done:
            pieces += (text[done:start], f"{_REMOVED}{kind}]")
            count += 1
        done = max(done, -negated)
        if with_rest_of_word:
            rest = _REST_OF_WORD.match(text, done)
            done = rest.end() if rest else done
    return "".join((*pieces, text[done:])), count


# Our own rules


def _starting(*patterns: str) -> Finder:
    """Make a finder of tokens at the beginning of a word. The patterns end with an open repetition, so a token is found
    whole.
    """
    pattern = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(patterns)})")
    return lambda text: (found.span() for found in pattern.finditer(text))


_BEGIN = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,12} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?=(?:[\s>]|\\[nr]){0,8}(?:[A-Za-z0-9+/=]{16}|[A-Za-z-]{4,16}: ))|PuTTY-User-Key-File-\d(?=: )"
)
_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|Private-MAC: [0-9a-f]{1,128}")


_KEY_LINES = re.compile(
    r"(?:(?:[\s>]|\\[nr])*+(?:[A-Za-z0-9+/=]{16,}|[A-Za-z-]{4,16}: [^\n]{1,200}|[A-Za-z0-9+/]{1,64}={0,2}$))*+",
    re.MULTILINE,
)


def _key_blocks(text: str) -> Iterator[Span]:
    """Find whole private keys. If a key's end is missing, the key goes on as long as its lines look like lines of a
    key.
    """
    done = 0
    may_end = True  # searched once if there is none: otherwise quadratic
    while begun := _BEGIN.search(text, done):
        ended = _END.search(text, begun.end()) if may_end else None
        may_end = ended is not None
        ended = ended or _KEY_LINES.match(text, begun.end())
        done = ended.end() if ended else begun.end()
        yield begun.start(), done


_RUN = re.compile(r"[A-Za-z0-9_.~-]{24,}")
_HEADER_LIMIT = 1024


def _signed_tokens(text: str) -> Iterator[Span]:
    """Find signed tokens (compact JWS): web tokens and caps. A cap has several tokens and a seed, joined by `~`."""
    for run in _RUN.finditer(text):
        start, end = run.span()
        while (start := text.find("eyJ", start, end)) >= 0:
            dot = text.find(".", start, min(start + _HEADER_LIMIT, end))
            if dot >= 0 and end - dot > 8 and _is_header(text[start:dot]):
                yield start, start + len(text[start:end].rstrip(".~"))
                break
            start += 3


def _is_header(part: str) -> bool:
    try:
        return isinstance(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))), dict)
    except (binascii.Error, ValueError, RecursionError):
        return False


# The first letters of all words stand before them, since a choice of words is slow to try at every character: 160 kB of
# announced passwords take 50 ms instead of 69. A value's sign or verb is looked for first for the same reason.
_PASSWORDS = (
    r"(?=[pkcmsпhwlşaj])(?:pass(?:word|wort|code|phrase|wd)|(?<=_)pass(?=[\"'`]?\s{0,3}[:=])|pwd|\bpw(?=[\"'`]?\s{0,3}[:=])"
    r"|kennwort|contrase[ñn]a|mot de passe|senha|пароль|\bclave|wachtwoord|hasło|heslo|lösenord|adgangskode|salasana"
    r"|jelszó|şifre|mật khẩu|kata sandi)"
)
_TOKENS = r"(?=[tsap])(?:token|secret(?:[ _-]?key)?|(?:access|api|auth|private)[ _-]?key)"
_ABOUT = (
    r"(?: (?:for|to|of|at|on|in|für|von|vom|zum|zur|pour|du|des|del|della|dell|do|da|de|en|al|para|per|для|от)"
    r"(?: [\w'-]{1,24}){1,5}?)?"
)
_VERBS = r"is|was|ist|lautet|(?P<weak>es|est|c['’]est|é|è|это)"
_VALUE = (
    r"(?=[\"'`\]*]{0,2} {0,3}[:=\uff1a]|,? {0,3}[iwlecéèэ])"
    r"(?:[\"'`\]*]{0,2} {0,3}(?P<sign>:=|=>|[:=\uff1a])\*{0,2}(?: {0,3}[|>]-?\n {0,16}|\s{0,3})"
    rf"|,? {{0,3}}\b(?:{_VERBS})(?!\w):? {{0,3}})"
    r"(?:\"(?P<double>(?:\\.|[^\"\\\n]){3,128})\"|'(?P<single>[^'\n]{3,128})'"
    r"|[`“‘«](?P<quoted>[^`“”‘’«»\n]{3,128})[`”’»]|(?P<bare>[^\s\"'`“”‘’«»]{3,4096}))"
)
_GROUPS = ("double", "single", "quoted", "bare")
_JOINED = re.compile(
    r"(?:密[码碼]|口令|暗証番号|パスワード|비밀번호|รหัสผ่าน|كلمة (?:ال)?(?:مرور|سر)|पासवर्ड)[ \"'”」]{0,2}"
    r"(?:[:=\uff1a]|是|为|為|は|는|가|คือ|هي)\s{0,3}[\"'“「]?"
    r"(?P<bare>(?!\[)[!-~]{3,128}(?<![.,;:!?)\]\"']))"
)
_PIN = re.compile(
    r"\b(?:pin(?:[ -]?(?:code|number|nummer))?|cvv|cvc)"
    rf"{_ABOUT}"
    r" {0,3}(?:[:=\uff1a]|\b(?:is|was|ist|lautet|es|est|é|è)\b)\s{0,3}(?:(?:le|la|el|il|o) )?"
    r"(?!\d{4}-\d\d-)(?P<bare>\d(?:[ -]?\d){2,11})"
    r"(?![\d:/%-]|\.\d)",
    re.IGNORECASE,
)
_PHRASE = re.compile(
    r"\b(?:seed|recovery|mnemonic|secret) (?:phrase|words?)\s{0,3}(?:is|are|:|=)\s{0,3}"
    r"(?P<bare>(?:[a-z]{3,8}[ ,]{1,3}){11,23}[a-z]{3,8})\b",
    re.IGNORECASE,
)
_CODE = re.compile(
    r"[<{\[(*]|!(?:vault|secret|env_var|Ref|Sub|GetAtt)$|\$[A-Z_{(]|%[a-z(]|[A-Za-z_][\w.]*[(\[{]|[A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)+[,;)]*$"
    r"|(?:[a-z]+://|\.{0,2}/)|[A-Z_]+[,;)]*$|[\w-]{1,60}[)\]}]+[:;,]?$"
)
_STRONG = re.compile(r"\d|[!@#%^&*?+~$][^\s]")
_LONG = re.compile(r"(?=.{0,200}\d)[A-Za-z0-9_+/=.~-]{12,}")
_ANY_LONG = re.compile(r"(?=.{0,200}\d)(?=.{0,200}[A-Za-z])(?!.{0,200}://)[^\s/<>{}]{20,512}")
_NAMED_LONG = 20
_SCORE = re.compile(r"\d{1,3}/\d{1,3}|\d{1,3}%")
_POLICY = re.compile(
    r"\b(?:must|should|at least|characters?|required?|minimum|maximum|invalid"
    r"|incorrect|wrong|please|enter|least|digits?)\b",
    re.IGNORECASE,
)
_STOP = re.compile(r" {0,3}(?:[.!\r\n]|$)")
_PUNCTUATION = ".,;:)\u3002\uff0c"
_ENDINGS = ("ed", "ing", "able", "ible")
_ORDINARY = frozenset(
    (
        *("the", "and", "not", "too", "that", "this", "same", "required", "optional", "wrong", "correct"),
        *("incorrect", "right", "invalid", "valid", "expired", "weak", "strong", "empty", "missing", "unknown"),
        *("hidden", "secret", "private", "public", "lost", "forgotten", "long", "short", "case", "stored", "saved"),
        *("set", "reset", "hashed", "encrypted", "encoded", "here", "there", "what", "where", "when", "how", "why"),
        *("very", "also", "still", "now", "only", "just", "always", "never", "good", "bad", "fine", "safe", "ready"),
        *("changed", "wanted", "needed", "known", "string", "str", "text", "bytes", "int", "bool", "none", "null"),
        *("nil", "true", "false", "undefined", "any", "object", "password", "passphrase", "passwort", "token", "key"),
        *("ok", "yes", "something", "nothing", "everything", "important", "difficult", "easy", "like", "based"),
        *("used", "shared", "kept", "written", "printed", "available", "accepted", "rejected", "denied", "new"),
        *(
            "old",
            "different",
            "falsch",
            "richtig",
            "nicht",
            "obligatoria",
            "obligatorio",
            "obligatoire",
            "obbligatoria",
        ),
        *(
            "obrigatória",
            "erforderlich",
            "vereist",
            "wymagane",
            "povinné",
            "krävs",
            "påkrævet",
            "kötelező",
            "gerekli",
            "incorrecta",
            "incorrecto",
            "incorrecte",
            "sbagliata",
            "errada",
        ),
    )
)


def _told(words: str, is_value: Callable[[re.Match[str], str], bool]) -> Finder:
    """Make a finder of named secrets: a word such as "password", a verb or sign, and a value that looks like a
    secret.
    """
    pattern = re.compile(rf"(?P<word>{words})s?(?: {{0,2}}\([^()\n]{{1,24}}\))?{_ABOUT}{_VALUE}", re.IGNORECASE)

    def find(text: str) -> Iterator[Span]:
        for found in pattern.finditer(text):
            group = next(one for one in _GROUPS if found[one])
            value = found[group] if group != "bare" else found[group].rstrip(_PUNCTUATION)
            is_ordinary = len(value) < 3 or value.lower().rstrip("!?") in _ORDINARY or _CODE.match(value)
            if not is_ordinary and is_value(found, value):
                start = found.start(group)
                yield start, start + len(value)

    return find


def _is_password(found: re.Match[str], value: str) -> bool:
    if found["word"].lower() == "clave" and not _STRONG.search(value):
        return False  # a key to something, or a keyword
    if not found["bare"]:
        is_one = " " not in value or found["word"].lower() == "passphrase"
        return is_one or bool(found["sign"] and _STRONG.search(value) and not _POLICY.search(value))
    if _SCORE.fullmatch(value):
        return False
    if _STRONG.search(value):
        return True
    if found["sign"] in ("=", ":=", "=>") or found["weak"] or "\n" in found.string[found.start() : found.start("bare")]:
        return False  # in code, a bare word is a name
    after = found.start("bare") + len(value)
    return bool(_STOP.match(found.string, after)) and not value.lower().rstrip("!?").endswith(_ENDINGS)


def _is_token(found: re.Match[str], value: str) -> bool:
    """Whether a value is a long word with a digit. A value in quotes after `=` or `:` may have other characters too."""
    is_named = found["sign"] and not found["bare"]
    return bool(_LONG.fullmatch(value) or (is_named and len(value) >= _NAMED_LONG and _ANY_LONG.fullmatch(value)))


def _valued(*patterns: re.Pattern[str]) -> Finder:
    """Make a finder that returns the group `bare` of the patterns."""
    return lambda text: (found.span("bare") for pattern in patterns for found in pattern.finditer(text))


def _both(one: Finder, other: Finder) -> Finder:
    return lambda text: (*one(text), *other(text))


_BEARER = re.compile(
    r"\bauthorization[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?:bearer|basic|token|apikey)\s{1,3}"
    r"(?P<bare>(?![$<{\[])(?=[^\s\"'`]{0,256}\d|[^\s\"'`.]{16})[^\s\"'`\[]{6,4096})",
    re.IGNORECASE,
)
_BEARING = re.compile(r"\bbearer\s{1,3}(?P<bare>(?=[A-Za-z._~+/-]{0,256}\d)[A-Za-z0-9._~+/=-]{20,4096})", re.IGNORECASE)
_NPMRC = re.compile(r":_authToken=\s{0,3}(?P<bare>[^\s\"'`\[$]{8,256})")
_URL_PASSWORD = re.compile(
    r"://[^\s/?#:\[\]\"'<>]{0,256}:(?P<bare>(?![\[\]{}$@])(?:(?!://)[^\s\"'`<>]){1,256})@(?=[\w\[])"
)
_PORT = re.compile(r"\d{1,5}(?:[/?#]|$)")


def _url_passwords(text: str) -> Iterator[Span]:
    """Find passwords in URLs, up to the last `@`. A password that was not encoded may contain any character."""
    for found in _URL_PASSWORD.finditer(text):
        if not _PORT.match(found["bare"]):
            yield found.span("bare")


def _long(kind: str, signs: tuple[str, ...], *patterns: str) -> SecretRule:
    return SecretRule(kind, signs, _starting(*patterns), is_long=True)


_TOKEN = "[A-Za-z0-9_-]"  # noqa: S105 - a pattern
_OWN = (
    SecretRule("private key", ("private key", "putty-user-key-file"), _key_blocks),
    SecretRule("signed token", ("eyj",), _signed_tokens, is_long=True),
    _long("anthropic key", ("sk-ant-",), rf"sk-ant-{_TOKEN}{{16,}}"),
    _long("openrouter key", ("sk-or-",), rf"sk-or-{_TOKEN}{{16,}}"),
    _long(
        "openai key", ("sk-",), rf"sk-(?:proj|svcacct|admin|None)-{_TOKEN}{{20,}}", rf"sk-[A-Za-z0-9]{{32,}}{_TOKEN}*"
    ),
    _long("google key", ("aiza",), rf"AIza{_TOKEN}{{35,}}"),
    _long(
        "google token",
        ("ya29.", "gocspx-", "1//0"),
        r"ya29\.[A-Za-z0-9_.-]{30,}",
        rf"GOCSPX-{_TOKEN}{{20,}}",
        rf"1//0{_TOKEN}{{40,}}",
    ),
    _long("hugging face token", ("hf_",), r"hf_[A-Za-z0-9]{30,}"),
    _long("groq key", ("gsk_",), r"gsk_[A-Za-z0-9]{40,}"),
    _long("xai key", ("xai-",), r"xai-[A-Za-z0-9]{40,}"),
    _long("age key", ("age-secret-key-",), r"(?i:AGE-SECRET-KEY-(?:PQ-)?1[A-Z0-9]{20,})"),
    _long("github token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{40,}"),
    SecretRule("npm token", ("npm_", ":_authtoken="), _both(_starting(r"npm_[A-Za-z0-9]{36,}"), _valued(_NPMRC))),
    _long("stripe access key", ("k_live_", "k_test_"), r"[sr]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    _long(
        "slack token", ("xapp-", "xoxe", "xoxc-", "xoxd-"), r"(?:xapp|xoxe(?:\.xox[bp])?|xox[cd])-[A-Za-z0-9%-]{20,}"
    ),
    *(_long(kind, signs, *patterns) for kind, signs, patterns in secret_patterns.TOKENS),
)
_NAMED = (
    SecretRule("url password", ("://",), _url_passwords),
    SecretRule("authorization", ("bearer", "authorization"), _valued(_BEARER, _BEARING)),
    SecretRule(
        "password",
        (
            *("pass", "pwd", "pw", "kennwort", "contrase", "senha", "пароль", "clave", "wachtwoord", "hasło", "heslo"),
            *("lösenord", "adgangskode", "salasana", "jelszó", "şifre", "mật khẩu", "kata sandi"),
        ),
        _told(_PASSWORDS, _is_password),
    ),
    SecretRule("token", ("token", "secret", "key"), _told(_TOKENS, _is_token)),
    SecretRule(
        "password",
        ("密", "口令", "暗証番号", "パスワード", "비밀번호", "รหัสผ่าน", "كلمة", "पासवर्ड"),
        _valued(_JOINED),
    ),
    SecretRule("pin", ("pin", "cvv", "cvc"), _valued(_PIN)),
    SecretRule("seed phrase", ("phrase", "word"), _valued(_PHRASE)),
    *(
        SecretRule(kind, signs, _valued(*secret_patterns.compiled(places)))
        for kind, signs, places in secret_patterns.PLACES
    ),
)
