from collections.abc import Sequence

def best(
    shelves: list[tuple[object, ...]],
    words: tuple[str, ...],
    without: frozenset[str],
    marks: Sequence[float],
    substances: Sequence[float],
    asks: int,
    k: int,
    limits: tuple[int, int, int, int],
    numbers: tuple[float, ...],
    /,
) -> tuple[list[tuple[int, int, float, int, int, int]], bool, bool, float, float] | None: ...
