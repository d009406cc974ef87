# ruff: noqa: E501 - a pattern to a line
"""Regular expressions for secrets: tokens of well-known services, and passwords in the places where they usually
appear.

Such places are command lines, URLs, connection strings and settings files. The module is pure data; `secret_mask`
searches. Each pattern runs in linear time: every repetition is bounded or stands at the end of the pattern. If a
pattern has a group `bare`, only that group is the secret; otherwise the whole match is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

Span = tuple[int, int]
Finder = Callable[[str], Iterable[Span]]
LONG = 16
"""Length of a long word, in characters. Words of this length are rare in prose and usual in tokens."""


@dataclass(frozen=True, slots=True)
class SecretRule:
    """A kind of secret and its finder. Only texts that contain one of the `signs` are searched."""

    kind: str
    signs: tuple[str, ...]
    find: Finder
    is_long: bool = False
    """Whether such a secret has at least `LONG` consecutive characters without white space."""


Form = tuple[str, tuple[str, ...], tuple[str, ...]]
"""The kind of a secret, its lower-case signs, and its patterns. A text is searched if it contains one of the signs."""

_HEX = "[0-9a-f]"
_ALNUM = "[A-Za-z0-9]"
_WORD = "[A-Za-z0-9_-]"

TOKENS: tuple[Form, ...] = (
    ("webhook secret", ("whsec_",), (rf"whsec_{_ALNUM}{{20,}}",)),
    ("vault token", ("hvs.", "hvb.", "hvr."), (rf"hv[sbr]\.{_WORD}{{20,}}",)),
    ("terraform token", (".atlasv1.",), (rf"{_ALNUM}{{14}}\.atlasv1\.{_WORD}{{40,}}",)),
    ("digitalocean token", ("do",), (rf"do[opr]_v1_{_HEX}{{40,}}",)),
    ("databricks token", ("dapi",), (rf"dapi{_HEX}{{32,}}(?:-\d)?",)),
    ("shopify token", ("shp",), (rf"shp(?:at|ca|pa|ss|tka|ua)_{_HEX}{{32,}}",)),
    ("azure client secret", ("q~",), (r"[A-Za-z0-9_~.-]{3}\dQ~[A-Za-z0-9_~.-]{31,}",)),
    ("mailgun key", ("key-",), (rf"key-{_HEX}{{32,}}",)),
    ("linear key", ("lin_",), (rf"lin_(?:api|oauth)_{_ALNUM}{{32,}}",)),
    ("notion token", ("ntn_", "secret_"), (rf"(?:ntn|secret)_{_ALNUM}{{40,}}",)),
    ("figma token", ("figd_", "figo_"), (rf"fig[do]_{_WORD}{{36,}}",)),
    ("atlassian token", ("atatt", "atctt", "atbb"), (r"AT(?:ATT|CTT)3[A-Za-z0-9_=-]{40,}", rf"ATBB{_ALNUM}{{24,}}")),
    ("pulumi token", ("pul-",), (rf"pul-{_HEX}{{40,}}",)),
    ("doppler token", ("dp.",), (rf"dp\.(?:st|pt|ct|sa|scim|audit)\.(?:[a-z0-9_-]{{2,35}}\.)?{_ALNUM}{{40,}}",)),
    ("tailscale key", ("tskey-",), (rf"tskey-(?:[a-z]{{2,12}}-)?{_ALNUM}{{8,}}(?:-{_ALNUM}{{8,}})*",)),
    ("replicate token", ("r8_",), (rf"r8_{_ALNUM}{{36,}}",)),
    ("elevenlabs key", ("sk_",), (rf"sk_{_HEX}{{48,}}",)),
    ("docker token", ("dckr_",), (rf"dckr_(?:pat|oat)_{_WORD}{{24,}}",)),
    ("grafana token", ("glsa_", "glc_"), (rf"glsa_{_ALNUM}{{32}}_{_HEX}{{8,}}", r"glc_[A-Za-z0-9+/=]{32,}")),
    ("sentry token", ("sntry",), (r"sntry[su]_[A-Za-z0-9+/=_-]{40,}",)),
    ("postman key", ("pmak-",), (rf"PMAK-{_HEX}{{24}}-{_HEX}{{34,}}",)),
    ("brevo key", ("xkeysib-",), (rf"xkeysib-{_HEX}{{64}}-{_ALNUM}{{16,}}",)),
    ("rubygems key", ("rubygems_",), (rf"rubygems_{_HEX}{{48,}}",)),
    ("supabase key", ("sbp_", "sb_secret_"), (rf"(?:sbp_{_HEX}{{40,}}|sb_secret_{_WORD}{{20,}})",)),
    ("nvidia key", ("nvapi-",), (rf"nvapi-{_WORD}{{40,}}",)),
    ("perplexity key", ("pplx-",), (rf"pplx-{_ALNUM}{{40,}}",)),
    ("new relic key", ("nrak-", "nral"), (r"NRAK-[A-Z0-9]{27,}", rf"{_HEX}{{36}}NRAL")),
    ("fly token", ("fm1", "fm2_", "fo1_"), (r"fm(?:1[ar]|2)_[A-Za-z0-9+/=_-]{40,}", rf"fo1_{_WORD}{{40,}}")),
    ("airtable token", ("pat",), (rf"pat{_ALNUM}{{14}}\.{_HEX}{{64,}}",)),
    ("tavily key", ("tvly-",), (rf"tvly-{_WORD}{{24,}}",)),
    ("posthog key", ("phx_",), (rf"phx_{_ALNUM}{{32,}}",)),
    ("planetscale token", ("pscale_",), (rf"pscale_(?:tkn|pw|oauth)_{_WORD}{{32,}}",)),
    ("square token", ("sq0atp-", "eaaa"), (rf"sq0atp-{_WORD}{{22,}}", rf"EAAA{_WORD}{{56,}}")),
)
"""Tokens with a distinctive prefix. Each is matched as a whole word."""

_QUOTES = r"[\"'`]"
_CLI = r"[^\s\"'`$<{*][^\s\"'`]{2,255}"
"""Matches an unquoted value on a command line, but not a variable."""
_KINDS = r"(?:api|auth|access|secret|private|signing|master|encryption|client|service)"
_CODES = (
    r"(?:recovery|backup|2fa|scratch|emergency)[ -]codes?|(?:wiederherstellungs|backup-?)codes?|códigos de recuperación"
)
_CODE = r"(?=[A-Za-z0-9 -]{0,16}\d)[A-Za-z0-9]{4,6}[- ]?[A-Za-z0-9]{4,6}\b"

PLACES: tuple[Form, ...] = (
    (
        "password",
        ("curl", "wget", "http"),
        (
            r"\b(?:curl|https?)\b[^\n]{0,400}?\s(?:-u|--user|--proxy-user|-a|--auth)[ =]?'[^':\n]{1,128}:(?P<bare>[^'\n]{1,256})'",
            r"\b(?:curl|https?)\b[^\n]{0,400}?\s(?:-u|--user|--proxy-user|-a|--auth)[ =]?\"[^\":\n]{1,128}:(?P<bare>[^\"\n$]{1,256})\"",
            rf"\b(?:curl|https?)\b[^\n]{{0,400}}?\s(?:-u|--user|--proxy-user|-a|--auth)[ =]?[^\s\"':$<{{]{{1,128}}:(?P<bare>{_CLI})",
        ),
    ),
    (
        "password",
        ("mysql", "mariadb", "sshpass", "redis-cli", "docker login", "mongo"),
        (
            rf"\b(?:mysql\w{{0,8}}|mariadb[\w-]{{0,8}})\b[^\n]{{0,300}}?\s-p{_QUOTES}?(?P<bare>{_CLI})",
            r"\bsshpass\s{1,3}-p\s{0,3}'(?P<bare>[^'\n]{1,256})'",
            r"\bsshpass\s{1,3}-p\s{0,3}\"(?P<bare>[^\"\n$]{1,256})\"",
            rf"\bsshpass\s{{1,3}}-p\s{{0,3}}(?P<bare>{_CLI})",
            rf"\b(?:redis-cli[^\n]{{0,200}}?\s-a|docker login[^\n]{{0,200}}?\s-p|mongo\w{{0,8}}[^\n]{{0,200}}?\s-p)\s{{1,3}}{_QUOTES}?(?P<bare>{_CLI})",
        ),
    ),
    (
        "password",
        ("sudo -s", "-stdin", "openssl", "basic auth"),
        (
            r"\becho\s{1,3}(?:-\w{1,3}\s{1,3})?'(?P<bare>[^'\n]{3,256})'\s{0,3}\|\s{0,3}(?:sudo\s{1,3}-S\b|[^\n|]{1,80}--?pass(?:word|phrase)?-stdin\b)",
            r"\becho\s{1,3}(?:-\w{1,3}\s{1,3})?\"(?P<bare>[^\"\n$]{3,256})\"\s{0,3}\|\s{0,3}(?:sudo\s{1,3}-S\b|[^\n|]{1,80}--?pass(?:word|phrase)?-stdin\b)",
            rf"\becho\s{{1,3}}(?:-\w{{1,3}}\s{{1,3}})?(?P<bare>{_CLI})\s{{0,3}}\|\s{{0,3}}(?:sudo\s{{1,3}}-S\b|[^\n|]{{1,80}}--?pass(?:word|phrase)?-stdin\b)",
            rf"\bopenssl\b[^\n]{{0,300}}?\s(?:-k\s{{1,3}}|-pass(?:in|out)?\s{{1,3}}pass:){_QUOTES}?(?P<bare>{_CLI})",
            rf"\bbasic auth\b(?: \w{{1,20}}){{0,3}}?\s{{0,3}}:?\s{{0,3}}[\w.@-]{{1,64}}:(?P<bare>{_CLI}(?<![.,;:!?)]))",
        ),
    ),
    ("password", ("--pass",), (rf"--pass(?:word|wd|phrase)?[ =]{_QUOTES}?(?P<bare>(?!-){_CLI})",)),
    (
        "password",
        ("password ", "passwort ", "contraseña "),
        (
            # A netrc, and dictated forms: "login ada password x1", "user ada, password x1".
            r"(?:[,;]|\b(?:login|user(?:name)?|account)\s{1,3}\S{1,64})\s{1,3}(?:and )?(?:password|passwort|contraseña)\s{1,3}"
            r"(?P<bare>(?=\S{0,128}\d)(?=\S{0,128}[A-Za-z])[^\s\"'`/]{6,128}(?<![.,;:!?)]))",
            # In passing: only with a digit, a letter and a sign that prose has not before a letter.
            r"\b(?:password|passwort|contraseña)\s{1,3}(?P<bare>(?=\S{0,128}\d)(?=\S{0,128}[A-Za-z])"
            r"(?=\S{0,128}[!#$%^&*?+~][A-Za-z0-9])[^\s\"'`/@<>(){}\[\]]{6,128}(?<![.,;:!?)]))",
        ),
    ),
    (
        "password",
        ("</", "|"),
        (
            r"<[\w.:-]{0,32}(?:password|passwd|secret|token)[\w.:-]{0,32}>(?P<bare>(?![$\[{])(?=[^<>]{0,128}\d)[^<>\s]{6,256})</",
            r"\|[ \t*]{0,8}(?:password|passwort|contraseña|mot de passe)[ \t*]{0,8}\|[ \t`]{0,8}"
            r"(?P<bare>(?=\S{0,128}\d)(?=\S{0,128}[A-Za-z])[^\s|`(){}<>\[\]]{6,128})(?=[ \t`]{0,8}\|)",
        ),
    ),
    (
        "password",
        ("password", "securestring"),
        (
            r"<input\b[^>]{0,300}?type=[\"']?password\b[^>]{0,300}?\bvalue=\"(?P<bare>[^\"\n]{1,256})\"",
            r"<input\b[^>]{0,300}?type=[\"']?password\b[^>]{0,300}?\bvalue='(?P<bare>[^'\n]{1,256})'",
            r"\bConvertTo-SecureString\s{1,3}(?:-String\s{1,3})?[\"'](?P<bare>[^\"'\n$]{1,256})[\"']",
            r"(?:password|secret|token)\w{0,32}\"\s{0,3}\{[^}]{0,300}?\bdefault\s{0,8}=\s{0,8}\"(?P<bare>[^\"\n$]{3,256})\"",
        ),
    ),
    (
        "password",
        (":",),
        (r"^[\w.*-]{1,255}:(?:\d{2,5}|\*):[\w.*-]{1,63}:[\w.*-]{1,63}:(?P<bare>(?!\d{1,12}(?::|$))[^\s]{4,256})$",),
    ),
    ("wifi password", ("wifi:",), (r"\bWIFI:[^\n]{0,200}?;P:(?P<bare>(?:\\.|[^;\\\n]){1,128});",)),
    (
        "wifi password",
        ("wlan", "wifi", "wi-fi", "wpa"),
        (
            r"\b(?:wlan|wi-?fi|wpa2?|router)[ -]?(?:schlüssel|key|code|passwort|clave|clé|chiave|chave)(?: \w{1,20}){0,3}?\s{0,3}"
            r"(?::|=|\bis\b|\bist\b|\blautet\b|\bes\b|\best\b)\s{0,3}(?P<bare>(?=\S{0,64}\d)[^\s\"'`]{8,64}(?<![.,;:!?)]))",
        ),
    ),
    (
        "token",
        ("?", "&"),
        (
            r"[?&](?:sig|signature|x-amz-signature|(?:api|auth|access|refresh|id|client)?[_-]?(?:token|key|secret)|auth|passwd|pwd)="
            r"(?P<bare>(?=[^&\s#\"'<>]{0,256}\d)[^&\s#\"'<>\[{$]{12,4096})",
        ),
    ),
    (
        "token",
        ("token", "key", "secret"),
        (
            rf"\b{_KINDS}[ _-](?:token|key|secret)\s{{1,3}}(?:0x)?(?P<bare>(?=[a-z]{{0,64}}\d)(?=\d{{0,64}}[a-z]){_HEX}{{32,128}})(?![A-Za-z0-9_-])",
            r"\b(?:token|key|secret)\s{1,3}(?P<bare>(?-i:(?=[A-Za-z_-]{0,64}\d)(?=[A-Z0-9_-]{0,64}[a-z])"
            r"(?=[a-z0-9_-]{0,64}[A-Z])[A-Za-z0-9_-]{24,256}))(?![A-Za-z0-9_.-])",
            r"\bclient-key-data:\s{0,3}(?P<bare>[A-Za-z0-9+/=]{40,})",
            r"\btls\.key[\"']?:\s{0,3}[\"']?(?P<bare>[A-Za-z0-9+/=]{40,})",
        ),
    ),
    ("authorization", ('"auth"',), (r"\"auth\"\s{0,3}:\s{0,3}\"(?P<bare>[A-Za-z0-9+/=]{12,4096})\"",)),
    (
        "aws secret key",
        ("akia", "asia"),
        (r"\bA[KS]IA[A-Z0-9]{16}[ \t]{0,3}[/:,|;][ \t]{0,3}(?P<bare>[A-Za-z0-9+/]{40})(?![A-Za-z0-9+/])",),
    ),
    (
        "webhook",
        ("/webhooks/", "/webhook"),
        (
            rf"\bdiscord(?:app)?\.com/api(?:/v\d{{1,2}})?/webhooks/\d{{10,24}}/(?P<bare>{_WORD}{{40,}})",
            r"\bwebhook\.office\.com/\S{1,200}?/IncomingWebhook/(?P<bare>[\w/-]{32,200})",
        ),
    ),
    (
        "recovery codes",
        ("code", "código"),
        (
            rf"\b(?:{_CODES})\s{{0,3}}(?:are|is|sind|lauten)?:?[ \t\n*-]{{1,4}}(?P<bare>{_CODE}(?:[,;\s*-]{{1,4}}{_CODE}){{0,19}})",
        ),
    ),
    ("recovery key", ("-",), (r"(?<![\d-])(?P<bare>\d{6}(?:-\d{6}){7})(?![\d-])",)),
    (
        "totp secret",
        ("setup key", "authenticator", "totp", "2fa", "otpauth"),
        (
            r"\b(?:setup|totp|2fa|authenticator)[ -]?(?:key|code|secret)\b(?: \w{1,20}){0,2}?\s{0,3}(?:is|:|=)\s{0,3}"
            r"(?P<bare>[A-Za-z2-7]{4}(?:[ -][A-Za-z2-7]{4}){3,12}\b|[A-Z2-7]{16,64}\b)",
            r"\botpauth://[^\s]{1,200}?[?&]secret=(?P<bare>[A-Za-z2-7=]{8,128})",
        ),
    ),
    (
        "seed phrase",
        ("phrase", "words"),
        (
            r"\b(?:seed|recovery|mnemonic|secret) (?:phrase|words?)\s{0,3}(?:is|are|:|=)\s{0,3}"
            r"(?P<bare>(?:\d{1,2}[.):] ?[a-z]{3,8}[ ,\n]{1,3}){11,23}\d{1,2}[.):] ?[a-z]{3,8})\b",
            r"\bpassphrase\s{0,3}[:=]\s{0,3}(?P<bare>[a-z]{3,16}(?:[ -][a-z]{3,16}){3,11})(?=\s{0,3}(?:[.\n]|$))",
        ),
    ),
    (
        "pin",
        ("code", "geheimzahl"),
        (
            r"\b(?:(?:alarm|door|safe|entry|lock|tür|haus|tresor)[ -]?codes?|geheimzahl|code (?:de la porte|d'entrée|de l'alarme)"
            r"|código (?:de la (?:puerta|alarma)|da porta|do alarme))(?: (?:of|for|to|from|at|in|von|vom|für|de|du|da|do)"
            r" [\w' -]{1,40}?)?\s{0,3}(?::|=|\b(?:is|was|ist|lautet|es|est|é|è)\b)\s{0,3}(?P<bare>\d(?:[ -]?\d){3,11})(?![\d:/%]|[.-]\d)",
        ),
    ),
)
"""Secrets that are recognised by the place where they stand. Compiled with IGNORECASE and MULTILINE."""


def compiled(patterns: tuple[str, ...]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(one, re.IGNORECASE | re.MULTILINE) for one in patterns)
