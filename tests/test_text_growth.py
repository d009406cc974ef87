"""The cost of every regular expression and of every rule over text grows linearly with the text.

All compiled patterns of the package are found by walking its modules, and near-matches are made from each one's parse
tree: a new pattern is covered without a row here. Each public entry of a module of rules has a row with texts that are
hostile to it; a new entry without one fails. Ratios of CPU time only, never limits.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from types import ModuleType

import pytest

from strongroom import fence, routing, text
from strongroom.engines.dates import parser
from strongroom.engines.lexical import languages, query, standing_instructions, tokenizer
from strongroom.hermes import namespace_choice, policy
from strongroom.hermes.provider import (
    before_compression,
    chat_history,
    dedupe,
    detector_rules,
    fitting_lines,
    forget_phrases,
    privacy_phrases,
    secret_mask,
    turn_ids,
)
from strongroom.hermes.provider.secret_mask import Mask
from strongroom.hermes.scrub import recalled_text
from strongroom.host import recall_fence
from strongroom.model import Hit, Kind, LineId, Millis, Namespace, Provenance
from tests import growth

MASK = Mask()
RULES = routing.default_rules()
POLICY = policy.read("", "")
DAY = date(2026, 11, 18)
IDS = "01JABCDEFGHJKMNPQRSTVWXYZ0"
MARK = "0" * 32

# Patterns that are not linear, and why that does no harm.
BOUNDED = {
    "strongroom.routing._PIECE": "it reads patterns of rules, which have 256 characters",
    **dict.fromkeys(
        (
            "strongroom.hermes.hooks.code_texts._TEXT",
            "strongroom.hermes.hooks.code_texts._PLACEHOLDER",
            "strongroom.hermes.hooks.program_tables.WRAPPED",
            "strongroom.hermes.hooks.program_tables.LOCAL_HOSTS",
        ),
        "a tool call of more than 128 KiB is blocked unread; tests/hermes/provider/hooks measures the whole guard",
    ),
    "strongroom.hermes.scrub.recalled_text._FENCE": "it sees a text as far as its last end of a block",
}

# Anything may be sent to any of them.
ANY = [
    *(
        "a",
        " ",
        "\n",
        "1",
        "[",
        "<",
        '"',
        "'",
        "`",
        "://",
        "@",
        ": ",
        "= ",
        "-",
        ".",
        "e\u0301",
        "\u0301",
        "\u200b",
        "文",
    ),
    *(
        '2026-01-01, a, b: " [',
        f'- 2026-01-01, a, b: "x" [{IDS}] ',
        "<memory-context>",
        "< / memory-context",
        "[System note:",
    ),
]
ENTRIES: dict[Callable[..., object], tuple[Callable[[str], object], list[str]]] = {
    Mask.masked: (
        MASK.masked,
        [
            *(
                "sk-",
                "eyJ.",
                "eyJhbGciOiJIUzI1NiJ9.",
                "://a:",
                "://a:b@",
                "key   ",
                "password is ",
                "password: x",
                "token=",
            ),
            *(
                "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAA",
                "ghp_",
                "curl -u a:",
                "12345678:",
                "Bearer ",
                "pin is 1",
            ),
            *(
                "seed phrase is abc ",
                "密码是",
                "cloudant_key",
                "ｐ",
                "а",
                "ghp_\u200b",
                "backup codes 1111 1111, ",
                "\\\n",
            ),
            *("P:a;", "WIFI:T:WPA;", "mysql -u a -p", "password of ", "secret: ", "contraseña de la ", "1. abc "),
        ],
    ),
    privacy_phrases.asks: (privacy_phrases.asks, ["off the ", "don't ", "不要", "\ufdfa", "back on the record "]),
    privacy_phrases.fold: (privacy_phrases.fold, ["\ufdfa", "don't "]),
    privacy_phrases.bare: (
        privacy_phrases.bare,
        ['[Replying to: "', '"]\n\n', "[New message]\n", "[The user sent ]\n\n"],
    ),
    privacy_phrases.said_by: (
        lambda text: (
            privacy_phrases.said_by("x", text),
            privacy_phrases.said_by("x", f"[Recent channel messages]\n{text}"),
        ),
        ["\n\n[New message]\n", "[a] ", '[Replying to: "', "\n\n[New message]\n[[x"],
    ),
    privacy_phrases.speaker: (privacy_phrases.speaker, ["[a", "[a] "]),
    privacy_phrases.unwrap: (
        lambda text: privacy_phrases.unwrap(f"[IMPORTANT: The user has invoked the {text}"),
        ["\nUser instruction: ", " skill bundle,", "\n\n"],
    ),
    forget_phrases.is_forget_request: (
        forget_phrases.is_forget_request,
        [
            "forget ",
            "please forget ",
            "delete what i ",
            "delete the note ",
            "what i said ",
            "vergiss was ich ",
            "忘",
            "忘れて",
        ],
    ),
    dedupe.is_small_talk: (dedupe.is_small_talk, ["hi "]),
    dedupe.words: (dedupe.words, ["hi "]),
    fitting_lines.floor: (lambda text: fitting_lines.floor(text, DAY, policy.Recall()), ["hi ", "\u597d"]),
    fitting_lines.fitting: (
        lambda text: fitting_lines.fitting([hit(text)], text, DAY, policy.Recall()),
        ["hi ", "on may 1 next "],
    ),
    fitting_lines.with_own_match: (
        lambda text: fitting_lines.with_own_match([hit(text)], text, DAY),
        ["hi ", "on may 1 next "],
    ),
    dedupe.without_echoes: (lambda text: dedupe.without_echoes([hit(text)], text, "assistant"), ["hi "]),
    before_compression.worth: (
        lambda text: before_compression.worth([{"role": "user", "content": text}]),
        ["```", "〇", "I am 1. ", "好的", "Ab ", "? "],
    ),
    chat_history.digest: (chat_history.digest, []),
    chat_history.Messages.summary: (
        lambda text: chat_history.Messages(["user"], [text]).summary(),
        ["[CONTEXT", "[PRIOR CONTEXT"],
    ),
    turn_ids.storable: (turn_ids.storable, ["\r\n", "\u0f73", "\x00"]),
    turn_ids.pieces: (lambda text: list(turn_ids.pieces(text)), ["\r\n"]),
    turn_ids.line_id: (lambda text: turn_ids.line_id(bytes(32), Millis(1), text), []),
    turn_ids.hash_of: (turn_ids.hash_of, []),
    routing.route: (routing.route, ["blood ", "ABC-1", "booking code ", "passport ", "我的", "iban", "111-11-"]),
    routing.matching_routes: (routing.matching_routes, ["blood ", "bank holiday "]),
    text.start_of: (text.start_of, []),
    text.starts_in: (text.starts_in, []),
    text.strip_stacked_marks: (text.strip_stacked_marks, ["\u0f73", "\uff9e"]),
    text.phrases_in: (
        lambda said: list(text.phrases_in(said, {"": ("blood type",)}, {""})),
        ["blood ", "blood typ"],
    ),
    namespace_choice.route_text: (
        lambda text: namespace_choice.route_text(POLICY, RULES, text),
        ["blood ", "booking code "],
    ),
    namespace_choice.overruled_routes: (
        lambda text: namespace_choice.overruled_routes(POLICY, RULES, text),
        ["blood "],
    ),
    fence.neutral: (fence.neutral, ["strongroom-", "strongroom recal", "\u202e", "\u200d", "\U000e0067", "\ufdfa"]),
    fence.neutral_field: (fence.neutral_field, ["strongroom-recal"]),
    fence.neutral_value: (lambda text: fence.neutral_value({"a": [text]}), ["strongroom-recal"]),
    fence.wrap_text: (lambda text: fence.wrap_text(text, MARK), ["<<<strongroom-recall "]),
    fence.between: (lambda text: fence.between(text, MARK), []),
    recall_fence.harmless: (recall_fence.harmless, ["< / ", "<memory-contex", "[ system note "]),
    recall_fence.fence_recall: (lambda text: recall_fence.fence_recall(text, 1 << 20, MARK), ["<memory-contex"]),
    recall_fence.within: (lambda text: recall_fence.within(text, 1000), []),
    recall_fence.writable: (recall_fence.writable, ["\ud800"]),
    recall_fence.without_recalled: (
        lambda text: recall_fence.without_recalled(text, {MARK}),
        ["<<<strongroom-recall ", f"<<<strongroom-recall {MARK}>>>\n"],
    ),
    parser.dates_in_line: (
        lambda text: parser.dates_in_line(text, DAY),
        ["on may ", "1 ", "next ", "3 days ", "明天", "1/1/"],
    ),
    parser.dates_in_query: (
        lambda text: parser.dates_in_query(text, DAY),
        ["since last ", "until the ", "when ", "上周"],
    ),
    tokenizer.words: (tokenizer.words, ["a'", "aB", "A1", "文a", "x-y_", "der ", "où ", "и ", "ñ"]),
    languages.language_of: (lambda text: languages.language_of(text, text.split()), ["der ", "le der ", "ñ", "ı"]),
    languages.of_script: (languages.of_script, ["и", "ω", "من"]),
    languages.stems: (lambda text: list(languages.stems(text, None)), ["и", "ω", "من"]),
    languages.unaccented: (languages.unaccented, ["é", "\u064b"]),
    standing_instructions.is_standing: (standing_instructions.is_standing, ["always ", "i ", "no a ", "my a "]),
    recalled_text.sent_ids: (lambda text: recalled_text.sent_ids("", text), ["- 2026-01-01, "]),
    recalled_text.cut_sent: (
        lambda text: recalled_text.cut_sent("", text, lambda one: True),
        ["<memory-context>x</memory-context>"],
    ),
    recalled_text.result_ids: (recalled_text.result_ids, ['{"id": "']),
    recalled_text.cut_result: (
        lambda text: recalled_text.cut_result(f"{IDS}\n{text}", lambda one: True),
        ["</memory-context>", f"- 2026-01-01, a [{IDS}]"],
    ),
}
# These take no text that a stranger wrote, or hand it on to one of the entries above.
NO_ENTRIES = {
    *(fence.edges, fence.mark_of, fence.wrap_document, fence.wrap_documents),
    *(fence.wrap_hits, fence.wrap_infos, fence.wrap_profiles),
    *(fitting_lines.is_near, fitting_lines.is_standing_only, fitting_lines.number_of_lines),
    *(routing.rules, text.by_start, detector_rules.maintained_rules),
    *(routing.route_lines, routing.with_routes),  # `route` for each line of a batch
    *(turn_ids.time_of, turn_ids.turn_name, turn_ids.turn_of, turn_ids.turn_tag),  # of ids, which have 26 characters
}
RULE_MODULES: list[ModuleType] = [
    *(
        secret_mask,
        detector_rules,
        privacy_phrases,
        forget_phrases,
        dedupe,
        fitting_lines,
        before_compression,
        chat_history,
        turn_ids,
        routing,
        text,
        namespace_choice,
        fence,
        recall_fence,
        parser,
        tokenizer,
        languages,
        standing_instructions,
        query,
    ),
    recalled_text,
]


def hit(text: str) -> Hit:
    made = Provenance((), "", "hermes", Millis(0))
    return Hit(LineId(IDS), Namespace("work"), text, datetime(2026, 5, 20, tzinfo=UTC), Kind.TURN, "s", "a", 1.0, made)


def patterns() -> list[growth.Held]:
    for use, pieces in ENTRIES.values():
        for piece in pieces:
            use(piece)  # some compile their patterns when they are first needed
    return growth.patterns(
        RULES,
        forget_phrases._compiled(),
        privacy_phrases._pattern(tuple(privacy_phrases._kinds(privacy_phrases.DEFAULT))),
    )


@pytest.mark.requirement("text-linear")
def test_every_pattern_costs_in_proportion_to_the_text() -> None:
    found = patterns()
    assert len(found) > 200
    slow = {
        one.name: (one.pattern.pattern[:80], piece)
        for one in found
        for piece in growth.near_matches(one.pattern)
        if one.name not in BOUNDED and growth.grows_too_fast(one.use, piece)
    }
    assert not slow


@pytest.mark.requirement("text-linear")
@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: f"{entry.__module__}.{entry.__qualname__}")
def test_every_entry_costs_in_proportion_to_a_hostile_text(entry: Callable[..., object]) -> None:
    use, hostile = ENTRIES[entry]
    assert not [piece for piece in (*hostile, *ANY) if growth.grows_too_fast(use, piece, growth.FEW)]


@pytest.mark.requirement("text-linear")
def test_every_entry_has_a_row() -> None:
    public = {
        function
        for module in RULE_MODULES
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert not public - ENTRIES.keys() - NO_ENTRIES
    assert not {one for one in {*ENTRIES, *NO_ENTRIES} - public if "." not in one.__qualname__}


def test_quadratic_pattern_is_found_out() -> None:
    for source in (r"x*y", r"a, b: \"[^\n]*\" \[id\]", r"<a>.*?</a>", r"(?:ab?)+c"):
        pattern = re.compile(source)
        assert any(growth.grows_too_fast(pattern.findall, piece) for piece in growth.near_matches(pattern)), source


def test_every_excused_pattern_is_there_and_needs_it() -> None:
    held = {one.name: one for one in patterns()}
    for name in BOUNDED:
        one = held[name]
        assert any(growth.grows_too_fast(one.use, piece) for piece in growth.near_matches(one.pattern)), name
