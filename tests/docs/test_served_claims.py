"""What the threat model says about a server and does not promise: each of these is really so."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from strongroom import Token, Vault, api
from tests.client.served import served


def _sent(url: str, cap: Token, body: dict[str, Any], kind: type[api.Call[Any]] = api.Get) -> httpx.Response:
    """The same bytes each time, as a listener could record them."""
    return httpx.post(url + kind.path, json=body, headers={"Authorization": f"Bearer {cap}"}, trust_env=False)


@pytest.mark.requirement("docs-threats")
def test_recorded_request_can_be_sent_again_until_its_cap_is_revoked(vault: Vault, cap: Token) -> None:
    with served(vault, unix=False) as url:
        assert [_sent(url, cap, {"query": "trip"}).status_code for _ in range(2)] == [200, 200]
        vault.revoke(cap)
        refused = _sent(url, cap, {"query": "trip"})
    assert (refused.status_code, refused.json()["reason"]) == (401, "cap_revoked")


@pytest.mark.requirement("docs-threats")
def test_recorded_put_without_ids_writes_a_second_line_and_one_with_ids_does_not(vault: Vault, cap: Token) -> None:
    named = {"id": "01KS2Q8G00CHENGDVTR1P00000", "text": "with an id", "namespace": "travel"}
    nameless = {"text": "without one", "namespace": "travel"}
    with served(vault, unix=False) as url:
        for line in (named, named, nameless, nameless):
            assert _sent(url, cap, {"lines": [line]}, api.Put).status_code == 200
    assert len(vault.memory(cap).list(namespaces=["travel"]).lines) == 3, "then the threat model promises too little"


@pytest.mark.requirement("docs-threats")
def test_metrics_are_seen_by_everybody_behind_a_proxy_that_nobody_named(vault: Vault) -> None:
    with served(vault, unix=False) as url:
        seen = httpx.get(f"{url}/metrics", headers={"X-Forwarded-For": "192.0.2.1"}, trust_env=False)
    assert seen.status_code == 200, "then the threat model promises too little"
