from collections.abc import Sequence

from strongroom.engines.lexical.terms import Term

def best(
    shelves: list[tuple[object, ...]],
    words: list[Term],
    marks: Sequence[float],
    substances: Sequence[float],
    asks: int,
    k: int,
    shortlist: int,
    numbers: tuple[float, ...],
    /,
) -> list[tuple[int, int, float]]: ...
