"""JSON from outside in which an object has a key twice."""

from __future__ import annotations

import pyrage  # type: ignore[import-untyped]
import pytest

from strongroom import strict_json
from strongroom.crypto import inbox
from strongroom.errors import InvalidRequest
from strongroom.hermes.hooks import hook_payload
from strongroom.strict_json import check_unique_keys


@pytest.mark.requirement("server-bad-bodies")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('{"a": 1, "a": 1}', "`a`"),
        ('{"a": 1, "b": 2, "\\u0061": 1}', "`a`"),
        ('[0, {"x": {"deep": [], "deep": []}}]', "`deep`"),
        ('{"my secret": 1, "my secret": 2}', "a key"),
        ('{"": 1, "": 2}', "a key"),
    ],
)
def test_key_that_comes_twice_is_refused_and_named_if_it_is_a_name(text: str, shown: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_unique_keys(text.encode())
    assert caught.value.message.startswith(shown)


@pytest.mark.requirement("server-bad-bodies")
@pytest.mark.parametrize(
    "data",
    [b"{}", b'{"a": {"a": 1}}', b'[{"a": 1}, {"a": 1}]', b'{"a": ' + b"9" * 5000 + b"}", b"{", b"\xff"],
)
def test_json_without_duplicate_keys_and_non_json_pass(data: bytes) -> None:
    check_unique_keys(data)


@pytest.mark.requirement("server-bad-bodies")
@pytest.mark.parametrize("depth", [*range(960, 1010), 100_000])
def test_duplicate_key_beyond_the_depth_of_the_scan_is_refused(depth: int) -> None:
    """A decoder may go a few levels deeper than the scan."""
    deep = b"[" * depth + b"]" * depth
    with pytest.raises(InvalidRequest):
        check_unique_keys(b'{"deep": ' + deep + b', "a": 1, "a": 2}')


class _Counting(str):
    """A key that counts how often it is compared."""

    __slots__ = ()
    compared = 0

    def __eq__(self, other: object) -> bool:
        _Counting.compared += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@pytest.mark.requirement("server-bad-bodies")
def test_naming_the_key_that_comes_twice_takes_no_longer_than_reading_does() -> None:
    names = [_Counting(number) for number in range(2000)]
    with pytest.raises(InvalidRequest) as caught:
        strict_json._check([(name, 0) for name in [*names, _Counting(1999)]])
    assert caught.value.message.startswith("`1999`")
    assert _Counting.compared < 10 * len(names)


@pytest.mark.requirement("server-bad-bodies")
def test_hook_refuses_a_document_with_a_key_twice() -> None:
    with pytest.raises(InvalidRequest):
        hook_payload.parse(b'{"tool_name": "terminal", "tool_input": {"command": "ls", "command": "cat cap"}}')


@pytest.mark.requirement("server-bad-bodies")
def test_sealed_bundle_with_a_key_twice_is_refused() -> None:
    identity = inbox.new_identity()
    recipient = pyrage.x25519.Recipient.from_str(inbox.recipient_of(identity))
    line = f'{{"id": "{"0" * 26}", "text": "one", "text": "other"}}'
    bundle = f'{{"actor": "local/alice", "lines": [{line}]}}'
    with pytest.raises(InvalidRequest) as caught:
        inbox.unseal(identity, pyrage.encrypt(bundle.encode(), [recipient]))
    assert "`text`" in caught.value.message
