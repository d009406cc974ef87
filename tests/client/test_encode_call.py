"""What travels: exact types for every field of every call, and the same instants."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strongroom import api, model
from strongroom.client.encode_call import encode_call, packers_of
from strongroom.errors import InvalidRequest
from strongroom.model import NewLine

OFFSETS = st.timedeltas(timedelta(hours=-23, minutes=-59, seconds=-59), timedelta(hours=23, minutes=59, seconds=59))


@pytest.mark.requirement("client-packing")
@pytest.mark.parametrize("kind", [*api.CALLS, NewLine], ids=lambda kind: kind.__name__)
def test_every_field_of_every_call_is_made_fit_to_travel(kind: type[msgspec.Struct]) -> None:
    assert [name for name, _ in packers_of(kind)] == list(kind.__struct_fields__)


@pytest.mark.requirement("client-packing")
@given(moment=st.datetimes(datetime(1970, 1, 3), datetime(9999, 12, 29)), offset=OFFSETS)  # noqa: DTZ001 - zoned below
def test_moment_travels_as_the_same_instant_and_within_a_minute_of_its_zone(
    moment: datetime, offset: timedelta
) -> None:
    given_moment = moment.replace(tzinfo=timezone(offset))
    call = encode_call(api.Get(now=given_moment))
    assert isinstance(call, api.Get)
    back = msgspec.json.decode(msgspec.json.encode(call), type=api.Get).now
    assert back == given_moment
    shift = given_moment.utcoffset()
    assert back is not None
    assert shift is not None
    away = shift - (back.utcoffset() or timedelta())
    assert timedelta() <= away < timedelta(minutes=1) or offset < timedelta(hours=-23, minutes=-59)


class Odd(datetime):
    """A datetime of another class, as some libraries have."""


@pytest.mark.requirement("client-packing")
def test_moment_of_another_class_travels() -> None:
    moment = Odd(2026, 5, 20, 12, 30, 15, 123456, tzinfo=UTC)
    call = encode_call(api.List(since=moment))
    assert msgspec.json.decode(msgspec.json.encode(call), type=api.List).since == moment


@pytest.mark.requirement("client-packing")
@given(
    value=st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**53), 2**53),  # beyond, every value is refused alike
        st.floats(),
        st.text(),
        st.binary(),
        st.datetimes(),
        st.lists(st.text()),
        st.dictionaries(st.text(), st.text()),
    ),
    field=st.sampled_from([name for name in api.Get.__struct_fields__ if name not in ("ids", "namespaces", "without")]),
)
def test_argument_of_any_type_travels_as_the_field_s_type_or_is_refused(value: Any, field: str) -> None:
    try:
        call = encode_call(api.Get(**{field: value}))
    except InvalidRequest:
        return
    assert msgspec.json.decode(msgspec.json.encode(call), type=api.Get) == call
    assert getattr(call, field) == (tuple(value) if field == "tags" else value)


@pytest.mark.requirement("client-packing")
def test_whole_line_travels_unchanged() -> None:
    line = NewLine(
        text="a\n\u2028b",
        namespace="work",
        session="s",
        author="é",
        kind="fact",
        id="x",
        time=model.moment(model.Millis(5)),
    )
    assert encode_call(api.Put(lines=(line,))) == api.Put(lines=(line,))
