"""Inputs that nobody meant, made from ones that somebody did; and what each costs.

Inputs come from a seed, so that a failure can be had again. They come in classes of about one size (within a factor of
two), and an input is compared only with the median of its own class: a large input may cost more than a small one.
CPU is that of the thread alone. One that seems to cost too much is measured again several times, and its least counts:
a busy machine can make an input look dear, and never cheap.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median
from time import thread_time_ns

from strongroom.errors import StrongroomError

SIZES = (64, 512, 4096, 32_768)
TOO_DEAR = 50
_AGAIN = 9
_PIECES = (
    *(b'"', b"{", b"}", b"[", b"]", b",", b":", b"\\", b"/", b"null", b"true", b"-", b"1e", b"NaN", b"\\u0000"),
    *(b"\\ud800", b"\xff", b"\xc0\xaf", b"\xed\xa0\x80", b"\x00", b"\r\n", b"~", b".", b"=", b"%", b"&", b";", b" "),
    *(b"[" * 64, b'{"a":' * 16, b"9" * 64, b"\\u00e9" * 16, b"~~~~", b"....", b"AAAA", b"%00", b"2026-05-22T08:53:20Z"),
)

Target = Callable[[bytes], object]


def mutated(dice: random.Random, corpus: Sequence[bytes]) -> bytes:
    """One input: a good one with a few things done to it, brought to about one of the sizes."""
    made = bytearray(dice.choice(corpus))
    for _ in range(dice.choice((0, 1, 1, 2, 3, 8))):
        _mutate(dice, made, corpus)
    return _sized(dice, bytes(made))


def _mutate(dice: random.Random, made: bytearray, corpus: Sequence[bytes]) -> None:
    at = dice.randrange(len(made) + 1)
    end = min(len(made), at + dice.choice((1, 2, 8, 64)))
    kind = dice.randrange(6)
    if kind == 0 and at < len(made):
        made[at] ^= 1 << dice.randrange(8)
    elif kind == 1:
        del made[at:end]
    elif kind == 2:
        made[at:at] = dice.choice(_PIECES)
    elif kind == 3:
        made[at:at] = made[at:end] * dice.choice((1, 2, 16))
    elif kind == 4:
        other = dice.choice(corpus)
        made[at:] = other[dice.randrange(len(other) + 1) :]
    else:
        made[at:end] = dice.randbytes(end - at)


def _sized(dice: random.Random, made: bytes) -> bytes:
    """About as long as one of the sizes: a piece in the middle is said again and again, or the end is cut."""
    size = dice.choice(SIZES)
    if len(made) < size // 2:
        at = dice.randrange(len(made) + 1)
        piece = made[at : at + dice.choice((1, 2, 7, 50, 400))] or dice.choice(_PIECES)
        made = made[:at] + piece * ((size - len(made)) // len(piece)) + made[at:]
    return made[:size]


@dataclass
class Costs:
    """What each input of one target cost, by class; and which seemed too dear."""

    target: Target
    spent: dict[int, list[int]] = field(default_factory=dict)
    dearest: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    def take(self, given: bytes) -> None:
        """Try one input. Anything but an answer or an error of ours goes through to the test."""
        cost = _cost(self.target, given)
        self.spent.setdefault(_class(given), []).append(cost)
        kept = self.dearest.setdefault(_class(given), [])
        kept.append((cost, given))
        if len(kept) > 200:
            kept.sort(key=lambda one: -one[0])
            del kept[20:]

    def too_dear(self) -> Iterator[tuple[float, bytes]]:
        """Inputs that cost more than 50 times the median of their class, each time they are measured."""
        for size, kept in self.dearest.items():
            usual = median(self.spent[size])
            for cost, given in kept:
                if cost > TOO_DEAR * usual:
                    least = min(_cost(self.target, given) for _ in range(_AGAIN))
                    if least > TOO_DEAR * usual:
                        yield least / usual, given


def _class(given: bytes) -> int:
    return len(given).bit_length()


def _cost(target: Target, given: bytes) -> int:
    began = thread_time_ns()
    with contextlib.suppress(StrongroomError):
        target(given)
    return thread_time_ns() - began


def fuzz(target: Target, corpus: Sequence[bytes], count: int, seed: int) -> Costs:
    """Try `count` inputs. The good ones come first: they must be good, and they warm everything up."""
    for one in corpus:
        target(one)
    dice, costs = random.Random(seed), Costs(target)
    for _ in range(count):
        costs.take(mutated(dice, corpus))
    return costs
