"""The two ways of ranking: compiled, and in Python."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from strongroom.engines.lexical import search


@pytest.fixture(params=["compiled", "python"], scope="module")
def way(request: pytest.FixtureRequest) -> Iterator[str]:
    """Has the module's tests done once with the kernel and once without."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "python":
            patch.setattr(search, "kernel", None)
        else:
            assert search.kernel is not None, (
                "the ranking was not compiled when Strongroom was installed here;"
                " install a C compiler and Python's header files (Debian: gcc libc6-dev python3-dev), then make clean"
            )
        yield request.param
