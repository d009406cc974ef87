"""Routing rules: they choose a namespace for a text. The same text always gets the same answer, without a model.

A rule fits a text by a word, the beginning of a word (a stem), a pattern, or the platform and chat of the text. Words
match as whole words, in upper or lower case. In Chinese, Japanese and Korean text they match anywhere.

If several rules fit, the rule with the most sensitive namespace decides. If several of them have this namespace, the
first rule decides. The chosen namespace is a proposal: the gate decides whether the cap covers it.

The caller may give the order of sensitivity. By default, the namespaces of a new vault have their own order. Any other
namespace is less sensitive than the namespaces with a rule before its own first rule.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from os.path import commonprefix

import msgspec

from strongroom import model
from strongroom.errors import InvalidRequest
from strongroom.model import DEFAULT_NAMESPACES, Namespace, NewLine
from strongroom.text import (
    AFTER,
    ANYWHERE,
    BEFORE,
    JOINED,
    JOINED_TEXT,
    by_start,
    phrases_in,
    start_of,
    starts_in,
    strip_stacked_marks,
)

RULES_LIMIT = 256
WORDS_LIMIT = 1024
"""Maximum number of words and phrases in a rule."""
PHRASE_LIMIT = 64
"""Maximum length of a word or phrase, in characters."""
PATTERNS_LIMIT = 64
"""Maximum number of patterns in a rule."""
PATTERN_LIMIT = 256
"""Maximum length of a pattern, in characters."""
STEPS_LIMIT = 65536
"""Maximum number of steps that a pattern may take at one place of a text.

The limit bounds the time of the pattern: the worst pattern that was measured took 3 s.
"""
SCAN_LIMIT = 4096
"""How many characters of a text are searched with the patterns of rules, from its beginning."""
TEXT_LIMIT = model.LINE_LIMIT
"""How many characters of a text are searched for words: as many as a line may have."""

_NOTHING = re.compile(r"(?!)")
_BEGINNING = 3
"""How many first characters of a stem are looked up in a text before the stem's pattern is tried."""
_IGNORED = " \u2026 "


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. It fits a text if `platform` and `chat` match and one of its words, stems or patterns is found.

    A rule without words, stems and patterns fits every text of its platform and chat.
    """

    name: str
    namespace: Namespace
    words: re.Pattern[str]
    starts: Mapping[str, tuple[str, ...]]
    """The words of the rule, by their beginnings (`start_of`). A text without one of these has none of the words."""
    patterns: tuple[re.Pattern[str], ...]
    platform: str | None = None
    chat: str | None = None
    anything: bool = False
    stems: re.Pattern[str] = _NOTHING
    beginnings: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The stems of the rule, by their first characters."""
    ignore: re.Pattern[str] = _NOTHING


@dataclass(frozen=True, slots=True)
class Rules:
    """All rules in their order, and the default namespace, for a text that no rule fits."""

    default: Namespace
    rules: tuple[Rule, ...]
    names: frozenset[Namespace] = field(init=False, compare=False)
    """All namespaces that these rules can choose."""
    order: tuple[Namespace, ...] = field(init=False, compare=False)
    """The namespaces that these rules can choose, the most sensitive first."""

    def __post_init__(self) -> None:
        named = dict.fromkeys((*(rule.namespace for rule in self.rules), self.default))
        known = iter([name for name in DEFAULT_NAMESPACES if name in named])
        object.__setattr__(self, "names", frozenset(named))
        object.__setattr__(self, "order", tuple(next(known) if name in DEFAULT_NAMESPACES else name for name in named))

    def by_sensitivity(self, order: Sequence[Namespace] = ()) -> list[Rule]:
        """The rules, ordered by their namespaces, the most sensitive first.

        A namespace that is missing in `order` counts as the most sensitive.
        """
        places = {name: place for place, name in enumerate(order or self.order)}
        return sorted(self.rules, key=lambda rule: places.get(rule.namespace, -1))


@dataclass(frozen=True, slots=True)
class Route:
    """A choice of a namespace, with the name of the rule that made it and the text that the rule matched.

    The name is "" if no rule fits and the default namespace is used.
    """

    namespace: Namespace
    rule: str
    matched: str


class _RuleTable(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    name: str
    namespace: str
    words: list[str] = []
    patterns: list[str] = []
    stems: list[str] = []
    ignore: list[str] = []
    platform: str | None = None
    chat: str | None = None


class _Table(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    default: str = "personal"
    rules: list[dict[str, object]] = []


def route(
    text: str,
    rules: Rules | None = None,
    *,
    platform: str | None = None,
    chat: str | None = None,
    order: Sequence[Namespace] = (),
) -> Route:
    """Choose a namespace for a text. `order` has the namespaces, the most sensitive first."""
    chosen = default_rules() if rules is None else rules
    found = _fitting(text, chosen, platform, chat, order)
    return next(found, Route(chosen.default, "", ""))


def matching_routes(
    text: str,
    rules: Rules | None = None,
    *,
    platform: str | None = None,
    chat: str | None = None,
    order: Sequence[Namespace] = (),
) -> list[Route]:
    """The route of each rule that fits a text. The first one decides. Empty if no rule fits the text."""
    return list(_fitting(text, default_rules() if rules is None else rules, platform, chat, order))


def route_lines(lines: Sequence[NewLine], covered: Collection[str], rules: Callable[[], Rules]) -> list[Route | None]:
    """Choose a namespace for each new line that names none. `covered` are the namespaces that the cap covers.

    The route is None for a line that names a namespace, and for all lines if the cap covers only one. A chosen
    namespace may be outside the cap. The gate then refuses the line: it is not stored in another namespace instead.
    """
    if len(covered) == 1 or all(line.namespace is not None for line in lines):
        return [None] * len(lines)
    known = rules()
    return [None if line.namespace is not None else route(_text_of(line), known) for line in lines]


def with_routes(lines: Sequence[NewLine], routes: Sequence[Route | None]) -> list[NewLine]:
    """The lines, each with the namespace that was chosen for it. A line whose route is None is not changed."""
    return [
        line if way is None else msgspec.structs.replace(line, namespace=way.namespace)
        for line, way in zip(lines, routes, strict=True)
    ]


def _text_of(line: NewLine) -> str:
    """The text of a line as a plain string. It is "" if the text is no string, which `put` refuses later."""
    return str.__str__(line.text) if isinstance(line.text, str) else ""


def _fitting(
    text: str, rules: Rules, platform: str | None, chat: str | None, order: Sequence[Namespace]
) -> Iterator[Route]:
    folded = _folded(text)
    starts = starts_in(folded)
    if not JOINED_TEXT.search(folded):
        starts.discard(ANYWHERE)
    beginnings = {start[:_BEGINNING] for start in starts}
    for rule in rules.by_sensitivity(order):
        if (rule.platform in (None, platform)) and (rule.chat in (None, chat)):
            matched = _matched(rule, text, folded, starts, beginnings)
            if matched is not None:
                yield Route(rule.namespace, rule.name, matched)


def _matched(rule: Rule, text: str, folded: str, starts: set[str], beginnings: set[str]) -> str | None:
    if rule.anything:
        return ""
    has_word = any(phrases_in(folded, rule.starts, starts))
    has_stem = any(phrases_in(folded, rule.beginnings, beginnings))
    if has_word or has_stem:
        left = rule.ignore.sub(_IGNORED, folded)
        if (found := has_word and rule.words.search(left)) or (found := has_stem and rule.stems.search(left)):
            return found[0]
    for pattern in rule.patterns:
        if found := pattern.search(text, 0, SCAN_LIMIT):
            return found[0]
    return None


def _folded(text: str) -> str:
    """A text in the form in which words are compared: casefolded, in NFKC, with single spaces, cut at TEXT_LIMIT."""
    seen = text[:TEXT_LIMIT]
    seen = seen if seen.isascii() else unicodedata.normalize("NFKC", strip_stacked_marks(seen))
    return " ".join(seen.casefold().split())[:TEXT_LIMIT]


@cache
def default_rules() -> Rules:
    """The rules that are used if the owner wrote no rules."""
    return rules(tomllib.loads(default_toml())["routing"])


@cache
def default_toml() -> str:
    """The text of a configuration file with the default rules and comments."""
    return (files("strongroom") / "routing_default.toml").read_text("utf-8")


def rules(table: Mapping[str, object]) -> Rules:
    """Compile a `[routing]` table. An invalid rule raises InvalidRequest with the name of the rule."""
    try:
        found = msgspec.convert(table, _Table)
        default = model.namespace(found.default)
    except (msgspec.ValidationError, InvalidRequest, RecursionError) as error:
        raise InvalidRequest(
            f"[routing]: {error}", hint="the table [routing] may have only `default` and `rules`"
        ) from None
    if len(found.rules) > RULES_LIMIT:
        raise InvalidRequest(f"the table [routing] has more than {RULES_LIMIT} rules")
    made = tuple(_rule(number, one) for number, one in enumerate(found.rules, 1))
    for rule in made:
        if sum(other.name == rule.name for other in made) > 1:
            raise InvalidRequest(f"routing rule {rule.name}: two rules have this name")
    return Rules(default, made)


def _rule(number: int, table: Mapping[str, object]) -> Rule:
    given = table.get("name")
    name = given if isinstance(given, str) and given else f"number {number}"
    try:
        found = msgspec.convert(table, _RuleTable)
        return Rule(
            name=model.clean_field(found.name, "a name"),
            namespace=model.namespace(found.namespace),
            words=_words(found.words),
            starts=by_start(map(_folded, found.words), PHRASE_LIMIT),
            patterns=_patterns(found.patterns),
            platform=found.platform,
            chat=found.chat,
            anything=_is_for_anything(found),
            stems=_stems(found.stems),
            beginnings=by_start(map(_folded, found.stems), _BEGINNING),
            ignore=_words(found.ignore),
        )
    except (msgspec.ValidationError, InvalidRequest, re.error, OverflowError, RecursionError) as error:
        raise InvalidRequest(f"routing rule {name}: {error}") from None


def _is_for_anything(rule: _RuleTable) -> bool:
    if rule.words or rule.patterns or rule.stems:
        return False
    if rule.platform is None and rule.chat is None:
        raise InvalidRequest("the rule needs words, stems, patterns, a platform or a chat")
    return True


def _words(words: Sequence[str]) -> re.Pattern[str]:
    """One regular expression for all words of a rule. The longest match wins, so that a whole phrase is reported."""
    if len(words) > WORDS_LIMIT:
        raise InvalidRequest(f"the rule has more than {WORDS_LIMIT} words")
    folded = sorted(set(map(_folded, words)))
    if not all(1 <= len(word) <= PHRASE_LIMIT for word in folded):
        raise InvalidRequest(f"a word or phrase must have 1 to {PHRASE_LIMIT} characters")
    joined = [word for word in folded if JOINED_TEXT.search(word)]
    apart = [word for word in folded if not JOINED_TEXT.search(word)]
    whole = [f"{BEFORE}(?:{_any_of(apart)}){AFTER}"] if apart else []
    return re.compile("|".join([*whole, *([_any_of(joined)] if joined else [])])) if folded else _NOTHING


def _stems(stems: Sequence[str]) -> re.Pattern[str]:
    """One regular expression for all stems of a rule. A stem that is too short to be looked up is refused."""
    if len(stems) > WORDS_LIMIT:
        raise InvalidRequest(f"the rule has more than {WORDS_LIMIT} stems")
    folded = sorted(set(map(_folded, stems)))
    if not all(len(start_of(stem)) >= _BEGINNING and len(stem) <= PHRASE_LIMIT for stem in folded):
        raise InvalidRequest(f"a stem must begin with {_BEGINNING} letters and have at most {PHRASE_LIMIT} characters")
    return re.compile(rf"{BEFORE}(?:{_any_of(folded)})[^\W{JOINED}]{{0,40}}") if folded else _NOTHING


def _any_of(words: Sequence[str]) -> str:
    """A pattern that matches any of these words. A common beginning is compared once for all words (a trie)."""
    start = commonprefix(words)  # noqa: RUF071 - words, not paths
    ends: dict[str, list[str]] = {}
    for word in words:
        end = word[len(start) :]
        ends.setdefault(end[:1], []).append(end)
    may_stop = ends.pop("", None) is not None
    if not ends:
        return re.escape(start)
    return f"{re.escape(start)}(?:{'|'.join(map(_any_of, ends.values()))}){'?' if may_stop else ''}"


def _patterns(sources: Sequence[str]) -> tuple[re.Pattern[str], ...]:
    if len(sources) > PATTERNS_LIMIT:
        raise InvalidRequest(f"the rule has more than {PATTERNS_LIMIT} patterns")
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)  # a character set that a later Python may read differently
        try:
            return tuple(map(_pattern, sources))
        except FutureWarning as warning:
            raise InvalidRequest(f"a pattern can be read in two ways: {warning}") from None


def _pattern(source: str) -> re.Pattern[str]:
    if not source or len(source) > PATTERN_LIMIT:
        raise InvalidRequest(f"a pattern must have 1 to {PATTERN_LIMIT} characters")
    if _steps(source) > STEPS_LIMIT:
        # No hint: the caller adds this message to its own error and drops hints.
        raise InvalidRequest("a pattern could take too long: use short repetitions such as {1,20}, and repeat no group")
    compiled = re.compile(source, re.IGNORECASE)
    if compiled.match(""):
        raise InvalidRequest("a pattern matches the empty text, and so every text")
    return compiled


_PIECE = re.compile(
    r"""(?P<refused>\\[1-9]|\(\?(?!P<|[:>=!]|<[=!]))  # what refers back, inline flags and comments
      | (?P<open>\((?:\?(?:P<\w+>|[:>]|<?[=!]))?)
      | (?P<close>\))
      | \\. | \[\^?\]?(?:\\.|[^\]\\])*\]           # one character, or a class of them
      | (?P<repeat>[*+?]|\{[0-9]*,?[0-9]*\})[?+]?
      | (?P<or>\|)
      | .""",
    re.VERBOSE | re.DOTALL,
)


def _steps(source: str) -> int:
    """An upper bound of the steps that a pattern takes at one place of a text.

    A piece of the pattern is tried once for each way in which the pieces before it can match, and takes as many steps
    as it may repeat. If a group repeats, the result is above STEPS_LIMIT, because the steps cannot be bounded.
    """
    ways, steps = 1, 0
    branches = [1]  # of each open group
    before = None
    for piece in _PIECE.finditer(source):
        if piece["refused"] or (piece["repeat"] not in (None, "?") and before == "close"):
            return STEPS_LIMIT + 1
        least, most = _repeats(piece["repeat"])
        steps += ways * most
        if piece["open"]:
            branches.append(1)
        elif piece["close"] and len(branches) > 1:
            ways *= branches.pop()
        elif piece["or"]:
            branches[-1] += 1
        elif piece["repeat"]:
            ways *= max(most - least + 1, 1)
        before = piece.lastgroup
    return steps


def _repeats(repeat: str | None) -> tuple[int, int]:
    """The smallest and the largest number of times that a piece of a pattern may repeat."""
    if repeat is None:
        return 1, 1
    if repeat == "?":
        return 0, 1
    low, comma, high = ("0", ",", "") if repeat in "*+" else repeat[1:-1].partition(",")
    least = int(low or 0)
    most = int(high or SCAN_LIMIT) if comma else least
    return least, max(most, 1)
