"""The ranking as a whole: its statistics against a slow reference, pruning, and answers where nothing matches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations
from random import Random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom import engines, errors
from strongroom.engines import Keeping
from strongroom.engines.lexical import Lexical, restatements, term_weights
from strongroom.engines.lexical.tokenizer import words
from strongroom.engines.lexical.weights import AMONG_PEOPLE as WEIGHTS
from strongroom.model import Line, LineId
from tests.engines.tools import ENGINE, NOON, QUERIES, answer, arrived, filled, line, texts

pytestmark = pytest.mark.usefixtures("way")

EXAMPLES = [pytest.param(80, id="some"), pytest.param(800, id="many", marks=pytest.mark.long)]

# A slow reference of the documented sum, for lines that have no marks but the question mark.

PLAIN = ["boat", "lamp", "rope", "mast", "hull", "oar"]
K1, B = 1.2, 0.75


def _held(one: Line) -> list[str]:
    return one.text.removesuffix("?").split()


def _rarity(total: int, holding: int) -> float:
    return math.log(1 + (total - holding + 0.5) / (holding + 0.5))


def _bm25(sought: Sequence[str], documents: Sequence[list[str]], document: list[str]) -> float:
    """BM25 of one document among these, as a share of all that was sought and is there at all."""
    average = sum(map(len, documents)) / len(documents)
    total = mass = 0.0
    for word in sought:
        holding = sum(word in other for other in documents)
        if not holding:
            continue
        rarity, count = _rarity(len(documents), holding), document.count(word)
        mass += rarity
        total += rarity * count * (K1 + 1) / (count + K1 * (1 - B + B * len(document) / average)) if count else 0.0
    return total / mass


def _conversations(shelves: Sequence[Sequence[Line]]) -> list[list[Line]]:
    """The sessions of all shelves, each in its order. A line without one is alone; names are a shelf's own."""
    found: dict[tuple[int, str], list[Line]] = {}
    for number, shelf in enumerate(shelves):
        for one in sorted(shelf, key=lambda one: (one.time, one.id)):
            found.setdefault((number, one.session or one.id), []).append(one)
    return list(found.values())


def _reference(sought: Sequence[str], shelves: Sequence[Sequence[Line]]) -> dict[tuple[str, str], float]:
    everything = [_held(one) for shelf in shelves for one in shelf]
    talks = _conversations(shelves)
    by_talk = [[word for one in talk for word in _held(one)] for talk in talks]
    known = [word for word in sought if any(word in held for held in everything)]
    mass = sum(_rarity(len(everything), sum(word in held for held in everything)) for word in known)
    scores: dict[tuple[str, str], float] = {}
    for talk, whole in zip(talks, by_talk, strict=True):
        for at, one in enumerate(talk):
            around = [word for near in talk[max(at - 1, 0) : at + 2] for word in _held(near)]
            covered = [word for word in known if word in around]
            if not covered:
                continue
            rarities = {word: _rarity(len(everything), sum(word in held for held in everything)) for word in covered}
            score = WEIGHTS.match * _bm25(known, everything, _held(one))
            score += WEIGHTS.cover / mass * sum(rarities[word] for word in covered if word in _held(one))
            score += WEIGHTS.session * _bm25(known, by_talk, whole)
            score += WEIGHTS.best_of_session * max(_bm25(known, everything, _held(other)) for other in talk)
            score += WEIGHTS.context / mass * sum(rarities.values())
            if at and talk[at - 1].text.endswith("?"):
                score += WEIGHTS.question_before * _bm25(known, everything, _held(talk[at - 1]))
            score += WEIGHTS.substance * min(math.log1p(len(_held(one))), math.log(30))
            score += WEIGHTS.asks * one.text.endswith("?")
            scores[one.namespace, one.id] = score
    return scores


@st.composite
def _plain_shelf(draw: st.DrawFn, namespace: str) -> list[Line]:
    said = st.lists(st.sampled_from(PLAIN), min_size=1, max_size=8).map(" ".join)
    parts = st.tuples(said, st.sampled_from(["", "?"]), st.sampled_from(["", "s", "t"]), st.integers(1, 3))
    return [
        line(number, text + mark, session=session, time=NOON - timedelta(days=days), namespace=namespace)
        for number, (text, mark, session, days) in enumerate(draw(st.lists(parts, max_size=7)))
    ]


@pytest.mark.requirement("recall-statistics")
@pytest.mark.parametrize("examples", EXAMPLES)
def test_scores_are_those_of_the_documented_sum_over_all_shelves_given(examples: int) -> None:
    assert words(" ".join(PLAIN)) == PLAIN

    @settings(max_examples=examples, deadline=None)
    @given(
        st.tuples(_plain_shelf("travel"), _plain_shelf("work"), _plain_shelf("family")),
        st.sets(st.sampled_from([*PLAIN, "unheard"]), min_size=1).map(sorted),
    )
    def prove(shelves: tuple[list[Line], ...], sought: list[str]) -> None:
        expected = _reference(sought, shelves)
        found = answer(" ".join(sought), *map(filled, shelves), k=100)
        if expected:
            assert {(one.namespace, one.id): one.score for one in found} == pytest.approx(expected, rel=1e-12)
            assert [one.score for one in found[restatements.WINDOW :]] == sorted(
                (one.score for one in found[restatements.WINDOW :]), reverse=True
            )
        else:
            assert found == []

    prove()


@pytest.mark.requirement("recall-statistics")
def test_days_count_as_one_more_word_by_how_many_lines_have_to_do_with_them() -> None:
    """Four lines, one of which speaks of the day: its rarity is that of a word that one line holds."""
    day = line(1, "boat on 2026-05-22")
    others = [line(number, "boat on 2026-01-22") for number in (2, 3, 4)]
    found = {one.id: one.score for one in answer("boat on 2026-05-22", filled([day, *others]))}
    share = _rarity(4, 1) / (_rarity(4, 1) + _rarity(4, 4))
    relative = WEIGHTS.match + WEIGHTS.cover + WEIGHTS.context + WEIGHTS.session + WEIGHTS.best_of_session
    expected = share * relative + WEIGHTS.date
    assert found[day.id] - found[others[0].id] == pytest.approx(expected)


# The contract.


def test_default_engine_is_the_lexical_one_and_keeps_readings() -> None:
    assert engines.DEFAULT == "lexical"
    assert isinstance(engines.load("lexical"), Lexical)
    assert isinstance(engines.load("lexical"), Keeping)
    assert not isinstance(engines.load("recency"), Keeping)


def test_engine_that_is_not_installed_is_refused() -> None:
    with pytest.raises(errors.InvalidRequest) as refused:
        engines.load("no-such-engine")
    assert refused.value.reason == errors.InvalidRequest.reason


@pytest.mark.parametrize("query", QUERIES)
def test_no_shelves_and_empty_shelves_answer_with_nothing(query: str) -> None:
    assert answer(query) == []
    assert answer(query, filled([])) == []
    assert answer(query, filled([]), filled([])) == []


@pytest.mark.parametrize("query", QUERIES)
def test_k_bounds_the_answer_and_changes_no_score(query: str) -> None:
    index = filled([line(number, f"the blue boat {number}", session="s") for number in range(30)])
    whole = answer(query, index, k=100)
    for k in (0, 1, 2, 7, 20, 29, 30, 31):
        assert answer(query, index, k=k) == whole[:k]


def test_only_matches_are_returned_if_more_are_asked_for() -> None:
    index = filled([line(1, "boat"), line(2, "lamp"), line(3, "boat boat")])
    assert set(texts("boat", index, k=20)) == {"boat", "boat boat"}


def test_very_objects_that_were_added_are_returned() -> None:
    added = [line(1, "the boat"), line(2, "another boat"), line(3, "lamp")]
    index = filled(added[:1])
    index.add_read(added[1:], ENGINE.readings(added[1:]))
    for query in ("boat", "unheard"):
        assert all(any(one.line is known for known in added) for one in ENGINE.rank(query, [index], 5, NOON))


@pytest.mark.parametrize("query", ["unheard of", "", "?!", "ยังไม่มี", "🎈"])
def test_nothing_is_returned_if_nothing_matches(query: str) -> None:
    indexes = [filled([line(1, "boat", time=NOON)]), filled([line(4, "lamp", namespace="work")])]
    assert answer(query, *indexes) == []


def test_equal_scores_fall_to_the_newer_line_then_the_greater_id_then_the_namespace() -> None:
    at = NOON - timedelta(days=1)
    lines = [
        line(1, "boat", time=NOON),
        line(7, "boat", time=at),
        line(7, "boat", time=at, namespace="family"),
        line(2, "boat", time=at),
    ]
    for order in permutations(lines):
        indexes = [filled(one for one in order if one.namespace == name) for name in ("family", "travel")]
        found = [(one.id[-1], one.namespace) for one in answer("boat", *indexes)]
        assert found == [("1", "travel"), ("7", "travel"), ("7", "family"), ("2", "travel")]


# Pruning.


def _crowd(count: int, chance: Random) -> list[Line]:
    """Lines that all hold what is common, some of them in sessions."""
    filler = ["market", "rain", "garden", "letter", "coat", "bread", "river", "paint"]
    return [
        line(
            number,
            " ".join(["going", "weekend", *chance.choices(filler, k=chance.randint(1, 5))]),
            session=chance.choice(["", "s1", "s2", "s3"]),
        )
        for number in range(count)
    ]


@pytest.mark.requirement("recall-order")
def test_answer_among_more_lines_than_are_looked_at_does_not_depend_on_arrival() -> None:
    chance = Random(7)
    lines = _crowd(term_weights.ENOUGH + 300, chance)
    expected = [answer(query, filled(lines)) for query in _COMMON]
    for seed in range(3):
        order = lines[:]
        Random(seed).shuffle(order)
        index = arrived(order, [], Random(seed)) if seed else filled(order)
        assert [answer(query, index) for query in _COMMON] == expected


_COMMON = ["going weekend", "going weekend rain", "going to the market in the rain this weekend", "paint the garden"]


@pytest.mark.requirement("recall-pruning")
@pytest.mark.parametrize("session", ["", "s1", "alone"])
@pytest.mark.parametrize("extra", ["", " going weekend", " and much more that nobody ever asked for" * 8])
def test_line_that_holds_the_rare_word_is_never_lost(session: str, extra: str) -> None:
    lines = _crowd(term_weights.ENOUGH + 500, Random(3))
    rare = line(9999, f"xylograph{extra}", session=session, time=NOON - timedelta(days=900))
    index = filled([*lines[:700], rare, *lines[700:]])
    assert answer("going weekend xylograph", index, k=1)[0].id == rare.id
    assert answer("xylograph", index, k=1)[0].id == rare.id


@pytest.mark.requirement("recall-pruning")
def test_rare_word_on_one_shelf_is_found_beside_a_full_one() -> None:
    crowd = filled(_crowd(term_weights.ENOUGH + 200, Random(5)))
    rare = filled([line(1, "xylograph", namespace="work"), line(2, "lamp", namespace="work")])
    for indexes in ([crowd, rare], [rare, crowd]):
        assert texts("going weekend xylograph", *indexes, k=1) == ["xylograph"]


@pytest.mark.requirement("recall-pruning")
def test_lines_that_hold_only_common_words_are_left_out_once_enough_hold_rarer_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lines = [line(number, "boat lamp") for number in range(5)] + [line(number, "lamp") for number in range(10, 20)]
    lines += [line(number, "coat") for number in range(20, 40)]
    monkeypatch.setattr(term_weights, "ENOUGH", 6)
    assert len(answer("boat lamp", filled(lines), k=100)) == 15
    monkeypatch.setattr(term_weights, "ENOUGH", 5)
    assert len(answer("boat lamp", filled(lines), k=100)) == 5


@pytest.mark.requirement("recall-pruning")
def test_common_word_still_adds_to_the_lines_that_hold_a_rarer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_weights, "ENOUGH", 2)
    lines = [line(1, "boat lamp"), line(2, "boat rope"), *(line(number, "lamp mast") for number in range(5, 15))]
    lines += [line(number, "coat") for number in range(20, 40)]
    found = answer("boat lamp", filled(lines))
    assert [one.id[-1] for one in found] == ["1", "2"]
    assert found[0].score > found[1].score + 0.1


@pytest.mark.requirement("recall-pruning")
def test_word_that_most_lines_hold_counts_only_if_there_is_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_weights, "SURELY", 2)
    lines = [line(number, f"fact {'boat' if number == 7 else 'lamp'} rope {number}") for number in range(20)]
    index = filled(lines)
    assert [one.id for one in answer("fact boat", index, k=100)] == [lines[7].id]
    assert len(answer("fact", index, k=100)) == 20
    assert len(answer("boat rope", filled(lines[:3]), k=100)) == 3, "else it is as rare as others are"
    found = answer("fact boat", index, k=4, without=frozenset([lines[7].id]))
    assert len(found) == 4, "what was left out is found where nothing else is wanted"


@pytest.mark.requirement("recall-pruning")
def test_all_words_count_if_most_lines_hold_every_word() -> None:
    texts = ["alpha"] * 100 + ["beta"] * 100 + ["alpha beta"] * 200
    lines = [line(number, f"{text} x{number}") for number, text in enumerate(texts)]
    found = {one.id for one in answer("alpha beta", filled(lines), k=150)}
    assert found <= {one.id for one in lines[200:]}, "lines that hold both come first"


@pytest.mark.requirement("recall-pruning")
def test_long_question_in_a_script_without_spaces_finds_the_lines_that_hold_its_topic() -> None:
    """Its 27 characters are 47 words. Some that say nothing are rarer than the topic."""
    chatter = [
        "请问这个怎么做",
        "我下个星期开会",
        "个月以前的账单",
        "应该住院观察",
        "比较方便的路线",
        "时候不早了",
        "在哪一层楼",
        "一家人吃饭",
        "下个项目开始",
        "的时候下雨",
        "方便呢谢谢",
        "问我为什么",
        "住在乡下",
        "月去世的作家",
    ]
    lines = [line(number, text) for number, text in enumerate(chatter)]
    trips = [line(900 + number, f"成都第{number}次出差记录") for number in range(6)]
    found = answer("请问我下个月去成都旅行的时候应该住在哪一家酒店比较方便呢", filled([*lines, *trips]), k=20)
    assert {one.id for one in trips} <= {one.id for one in found}


@pytest.mark.requirement("recall-pruning")
def test_lines_as_good_as_the_last_of_the_shortlist_are_all_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were equals cut off, which of them stay would depend on the order in which they came."""
    monkeypatch.setattr(term_weights, "SHORTLIST", 3)
    equal = [line(number, "boat") for number in range(8)]
    assert len(answer("boat", filled(equal), k=100)) == 8
    better = [line(number, "boat boat") for number in range(20, 23)]
    assert len(answer("boat", filled([*equal, *better]), k=100)) == 3


@pytest.mark.requirement("recall-pruning")
def test_more_lines_there_are_the_more_must_hold_a_rarer_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_weights, "SURELY", 2)
    few = [line(number, "boat lamp") for number in range(3)] + [line(number, "lamp") for number in range(10, 20)]
    assert len(answer("boat lamp", filled(few), k=100)) == 3
    many = [*few, *(line(number, "coat") for number in range(100, 200))]
    assert len(answer("boat lamp", filled(many), k=100)) == 13


@pytest.mark.requirement("recall-pruning")
def test_shortlist_is_one_for_all_shelves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(term_weights, "SHORTLIST", 3)
    better = filled([line(number, "boat boat", namespace="work") for number in range(3)])
    worse = filled([line(number, "boat") for number in range(20, 23)])
    assert {one.namespace for one in answer("boat", better, worse, k=100)} == {"work"}
    assert len(answer("boat", worse, k=100)) == 3


# Lines that are not wanted.


@pytest.mark.requirement("recall-pruning")
@pytest.mark.parametrize("left_out", [0, 50, 99, 100, 160, 250, 296])
def test_however_many_of_the_best_lines_are_not_wanted_the_best_of_the_others_are_found(
    left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(restatements, "WINDOW", 0)  # the lines say nearly the same
    index = filled([line(number, f"Falcon budget step {number}" + " paper" * (number % 3)) for number in range(300)])
    with patch.object(term_weights, "SHORTLIST", 300):
        everything = answer("what is the Falcon budget?", index, k=300)
    assert len(everything) == 300
    without = frozenset(LineId(one.id) for one in everything[:left_out])
    assert answer("what is the Falcon budget?", index, k=4, without=without) == everything[left_out:][:4]


@pytest.mark.requirement("recall-pruning")
@pytest.mark.parametrize("seed", range(6))
def test_lines_that_were_left_out_take_nobodys_place(seed: int) -> None:
    """They come from a second look, whose scores are others: they follow in what room is left."""
    chance = Random(seed)
    others = ("boat", "lamp", "rope", "mast", "sail", "keel", "deck", "helm", "oar", "hull", "anchor", "buoy")
    lines = [
        line(number, " ".join(("rare",) * (number % 9 == 0) + (*chance.choices(others, k=4),)))
        for number in range(2000)
    ]
    rare = [one for one in lines if "rare" in one.text]
    wanted = chance.sample(rare, 8)
    without = frozenset(one.id for one in rare if one not in wanted)
    found = answer("rare boat lamp", filled(lines), k=20, without=without)
    assert len(found) == 20
    assert {one.id for one in wanted} <= {one.id for one in found}


@pytest.mark.requirement("recall-pruning")
def test_lines_with_the_common_words_are_found_if_no_other_line_holds_the_rare_word() -> None:
    talk = [line(number, "the Falcon budget") for number in range(term_weights.SURELY)]
    older = [line(1000 + number, "a budget for the garden", time=NOON - timedelta(days=400)) for number in range(3)]
    crowd = [line(2000 + number, "rain" if number % 3 else "budget and paint") for number in range(900)]
    index = filled([*talk, *older, *crowd])
    without = frozenset(one.id for one in talk)
    assert len(answer("Falcon budget garden", index, k=5, without=without)) == 5
    assert {one.id for one in answer("Falcon budget", index, k=3)} <= without, "else the rare word decides"
    assert len(answer("Falcon budget", index, k=5, without=without)) == 5


@pytest.mark.parametrize("seed", range(5))
def test_newest_of_lines_about_the_same_day_come_first(seed: int) -> None:
    """What a day is worth does not depend on a line's length, not even in its last digits."""
    chance = Random(seed)
    yesterday = NOON - timedelta(days=1)
    lines = [line(number, " ".join(["lamp"] * chance.randint(30, 300)), time=yesterday) for number in range(400)]
    found = answer("what happened yesterday?", filled(lines), k=20)
    assert [one.id for one in found] == [one.id for one in reversed(lines)][:20]
