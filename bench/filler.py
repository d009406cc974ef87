"""Ordinary English to hide things among: what people say in passing, no sentence twice, the same in every run.

A few hundred words with falling frequencies, and behind them a long tail of names that come up once or twice, as in
real talk. It names no dates and no days, so it answers no question about time; words such as "going" and "weekend"
are in it all the same.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, count


@dataclass(frozen=True, slots=True)
class _Words:
    """A list in which each word is used less often than the one before it."""

    words: Sequence[str]
    weights: Sequence[float] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", list(accumulate(1 / (rank + 4) for rank in range(len(self.words)))))

    def pick(self, chance: random.Random) -> str:
        return chance.choices(self.words, cum_weights=self.weights)[0]


_LISTS = {
    "thing": """
        kitchen car phone garden book bike laptop sofa letter bill photo bread coffee window door lamp key bag coat
        table printer ticket printer song film recipe radio clock shelf mirror rug oven kettle fence roof plant tree
        camera guitar piano tent map parcel receipt charger keyboard monitor speaker blanket pillow jacket umbrella
        basket bucket ladder hammer drill saw paint brush candle vase poster diary notebook pen stapler toaster fridge
        freezer mop vacuum curtain carpet drawer wardrobe mattress bench hammock swing kite puzzle chessboard
    """,
    "place": """
        library station office shop park market school gym bakery pharmacy bank garage museum harbour bridge cafe
        cinema pool playground workshop cellar attic balcony church stadium castle forest lake beach farm greenhouse
        courthouse barber tailor laundry cemetery depot
    """,
    "person": """
        neighbour sister brother mother father boss friend cousin uncle aunt teacher doctor plumber landlord colleague
        nephew niece postman baker coach electrician librarian dentist vet grandmother grandfather flatmate intern
        gardener babysitter
    """,
    "did": """
        found lost fixed moved bought sold cleaned forgot painted borrowed returned broke washed repaired opened closed
        packed dropped checked measured ordered wrapped hid sorted labelled scratched replaced carried photographed
        covered polished
    """,
    "do": """
        fix move buy sell clean paint borrow return wash repair open pack check measure order wrap sort label replace
        carry cover polish assemble water sharpen
    """,
    "like": """
        good old small new nice heavy cheap strange quiet blue loud broken soft bright dusty green slow warm empty
        wooden rusty narrow sturdy clumsy yellow spare elegant fragile crooked faded
    """,
    "felt": """
        happy tired glad sorry busy worried curious bored hungry relieved proud annoyed nervous grateful confused
        stubborn cheerful homesick
    """,
    "food": """
        bread soup rice cheese pasta salad apples eggs cake fish potatoes beans chicken noodles pancakes tomatoes
        onions lentils mushrooms carrots porridge plums walnuts dumplings spinach honey
    """,
    "weather": "rain sun wind fog snow heat frost drizzle hail thunder",
    "subject": """
        work music football weather cooking history politics gardening school money chess cycling painting astronomy
        birds trains photography poetry knitting geology sailing swimming theatre running pottery
    """,
    "syllable": """
        ba bel cor da den el fa fen gar ha hol in jo kar la lin ma mor na nel o pas quin ra ros sel ta tor ul ven wes
        yor zan
    """,
    "opener": "Well Honestly Anyway Actually Okay Oh Look Right Hm Apparently Luckily Sadly",
}
_SYLLABLES = _LISTS.pop("syllable").split()
_WORDS = {name: _Words(text.split()) for name, text in _LISTS.items()}
_TAIL = 20_000
SESSION = 10
"""Turns in one session."""
PAIRS = (("user", "assistant"), ("user", "assistant"), ("Jonas", "assistant"), ("Priya", "Oskar"), ("Oskar", "Jonas"))
"""Who talks in a session."""

_SHAPES = _Words(
    [
        "I {did} the {thing} and the {like} {thing} next to it.",
        "My {person} {did} a {like} {thing} near the {place}.",
        "Did you {do} the {thing} that my {person} gave us?",
        "I was {felt} because the {person} never {did} the {thing}.",
        "We are going to {do} the {thing} behind the {place}.",
        "The {thing} is too {like} for the {place}, {tail} said.",
        "Could you remind me to {do} the {like} {thing}?",
        "There was a lot of {weather} on the way to the {place}.",
        "{tail} makes the best {food} with {food} that I know.",
        "Nobody at the {place} knew who {did} the {thing}.",
        "I talked with {tail} about {subject}, and then about {subject} again.",
        "Most weekends my {person} goes to the {place} for some {subject}.",
        "How did you {do} such a {like} {thing} without a {thing}?",
        "They had {food} and {food}, but no {food} left.",
        "I like {subject} more than {subject}, but my {person} does not.",
        "Is the {place} next to the {tail} building still so {like}?",
        "You sounded {felt} when {tail} {did} your {thing}.",
        "A weekend without {subject} makes me {felt}.",
        "The {person} from {tail} keeps a {like} {thing} in the {place}.",
        "Thanks, that {thing} works now, it only needed a {like} {thing}.",
        "If the {weather} stops I am going out to {do} the {thing}.",
        "I never thought that {subject} could make my {person} so {felt}.",
        "Put the {food} beside the {like} {thing}, please.",
        "Would {tail} rather {do} the {thing} or the {thing}?",
        "It smells of {food} and {like} {thing} all over the {place}.",
        "{tail} and {tail} {did} the same {thing} without knowing it.",
    ]
)


class Talk:
    """Sentences without end from one seed, never the same twice."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._seen: set[str] = set()

    def sentence(self) -> str:
        while True:
            text = self._made()
            if text not in self._seen:
                self._seen.add(text)
                return text

    def line(self) -> str:
        """One to four sentences, as somebody says them in one turn."""
        return " ".join(self.sentence() for _ in range(self._chance.choice((1, 1, 2, 2, 2, 3, 3, 4))))

    def _made(self) -> str:
        parts = iter(_SHAPES.pick(self._chance).replace("}", "{").split("{"))
        text = next(parts)
        for slot, after in zip(parts, parts, strict=True):
            text += self.word(slot) + after
        if self._chance.random() < 0.15:
            text = f"{_WORDS['opener'].pick(self._chance)}. {text}"
        return text

    def word(self, slot: str) -> str:
        """A word for a slot of a sentence. A `tail` is a name: the higher its number, the rarer."""
        if slot == "tail":
            return _name(int(_TAIL ** self._chance.random()))
        return _WORDS[slot].pick(self._chance)


@cache
def _name(number: int) -> str:
    """The made-up name of a number, always the same one."""
    chance = random.Random(number)
    return "".join(chance.choice(_SYLLABLES) for _ in range(chance.choice((2, 2, 3)))).capitalize()


def turns(seed: int) -> Iterator[tuple[int, str, str]]:
    """Turns without end, each with the number of its session and its author: two people who take turns."""
    talk, chance = Talk(seed), random.Random(seed)
    pair: Sequence[str] = PAIRS[0]
    for number in count():
        if number % SESSION == 0:
            pair = chance.choice(PAIRS)
        yield number // SESSION, pair[number % 2], talk.line()
