"""One memory, several runtimes: what was kept through Hermes' hooks is recalled by a host and by an MCP client.

The store is the same and nothing is converted. Who recalls needs a cap for the same actor, and gets what it covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from mcp import Client

from strongroom import Vault
from strongroom.audit.entry import Decision
from strongroom.hermes.provider import StrongroomProvider
from strongroom.host import AgentSession, Host
from tests.hermes import rig_agent, strongroom_rigs
from tests.hermes.provider.conftest import ALLERGY, DM, GROUP, OWNER, SCOPE, TRIP, Wired, say
from tests.hermes.rig_model import Model
from tests.server.conftest import QUIET
from tests.server.mcp.clients import Connector, reason, text
from tests.server.mcp.conftest import TOOL_OPS
from tests.server.running import serving_in_thread

QUESTION = "where am I going in May?"
PERSON = f"{SCOPE}telegram/100"
ALL = ("personal", "family", "work", "travel")
MakeHost = Callable[[], Host]


@pytest.fixture
def hosting(either: Wired) -> Iterator[MakeHost]:
    """Starts a host in the wired home: another runtime, with nothing of Hermes in it."""
    made: list[Host] = []

    def start() -> Host:
        either.forget_process()
        made.append(Host(either.path, lambda: StrongroomProvider(either.path), keys=either.base / "host-keys"))
        return made[-1]

    yield start
    for host in made:
        host.close()


def told(**about: Any) -> AgentSession:
    """What a host says about an agent; by default it is the local owner's."""
    return AgentSession("host-1", **about)


def recalled(host: Host, session: AgentSession, question: str = QUESTION) -> str:
    """What a model would be shown for a question that is asked in another runtime."""
    memory = host.manager(session)
    assert memory.external is not None
    memory.on_turn_start(question)
    shown = memory.prefetch(question)
    memory.end()
    return shown


def asked_by_mcp(vault: Vault, tool: str, arguments: dict[str, Any], actor: str, *namespaces: str) -> Any:
    """A tool's result for an MCP client, over HTTP, with a cap for one actor."""
    cap = vault.mint(actor=actor, ops=TOOL_OPS, namespaces=namespaces or ALL, ttl=600)
    results: list[Any] = []

    async def work(client: Client) -> None:
        results.append(await client.call_tool(tool, arguments))

    with serving_in_thread(vault, replace(QUIET, mcp=True)) as running:
        assert not isinstance(running.address, str)
        host, port = running.address
        Connector("http-modern", vault, Path(), f"http://{host}:{port}/mcp").run(cap, work)
    return results[0]


# Who gets nothing.


@pytest.mark.requirement("hermes-other-runtimes")
def test_host_recalls_nothing_for_another_person_or_in_a_group(either: Wired, hosting: MakeHost) -> None:
    say(either.agent(), TRIP)
    say(either.agent(**DM), TRIP)
    host = hosting()
    for session in (told(**{**DM, "user_id": "200", "chat_id": "200"}), told(**GROUP)):
        assert recalled(host, session) == ""


@pytest.mark.requirement("hermes-other-runtimes")
def test_mcp_client_with_another_actors_cap_gets_no_line(either: Wired) -> None:
    say(either.agent(), TRIP)
    for actor in (PERSON, "hermes/other/owner", "local/alice"):
        result = asked_by_mcp(either.vault, "memory_get", {"query": QUESTION}, actor)
        assert (reason(result), "Chengdu" in text(result)) == ("", False)


@pytest.mark.requirement("hermes-other-runtimes")
def test_travel_cap_gets_an_mcp_client_the_trip_and_neither_the_allergy_nor_a_reply_that_has_both(
    either: Wired,
) -> None:
    agent = either.agent()
    say(agent, ALLERGY)
    say(agent, TRIP, "Chengdu it is, and I remember the peanut allergy.")
    question = {"query": "Chengdu and the peanut allergy", "k": 20}
    assert reason(
        asked_by_mcp(either.vault, "memory_get", {**question, "namespaces": ["personal"]}, OWNER, "travel")
    ) == ("cap_namespace_denied")
    shown = text(asked_by_mcp(either.vault, "memory_get", question, OWNER, "travel"))
    assert TRIP in shown
    assert "peanut" not in shown


@pytest.mark.requirement("hermes-other-runtimes")
def test_host_without_the_runtimes_cap_recalls_nothing_and_says_so(either: Wired, hosting: MakeHost) -> None:
    say(either.agent(), TRIP)
    either.cap.unlink()
    warnings: list[str] = []
    memory = hosting().manager(told(warning_callback=warnings.append))
    assert memory.prefetch(QUESTION) == ""
    assert warnings


# Who gets it.


@pytest.mark.requirement("hermes-other-runtimes")
@pytest.mark.parametrize(("about", "actor"), [({}, OWNER), (DM, PERSON)], ids=["owner", "person"])
def test_turn_kept_through_hermes_hooks_is_recalled_by_a_host_and_by_an_mcp_client_from_the_same_store(
    either: Wired, hosting: MakeHost, about: dict[str, Any], actor: str
) -> None:
    say(either.agent("hermes-1", **about), TRIP, "Enjoy it.")
    before = either.lines(actor)
    assert TRIP in recalled(hosting(), told(**about))
    assert TRIP in text(asked_by_mcp(either.vault, "memory_get", {"query": QUESTION}, actor))
    assert either.lines(actor) == before
    assert [hit.session for hit in before] == ["hermes-1", "hermes-1"]


@pytest.mark.requirement("hermes-other-runtimes")
def test_lines_of_a_host_and_of_an_mcp_client_are_recalled_through_hermes_hooks(
    either: Wired, hosting: MakeHost
) -> None:
    memory = hosting().manager(told())
    memory.on_turn_start(TRIP)
    memory.sync_turn(TRIP, "Enjoy it.")
    memory.end()
    put = {"text": "The hotel in Chengdu is the Teahouse Inn", "namespace": "travel"}
    assert reason(asked_by_mcp(either.vault, "memory_put", put, OWNER)) == ""
    either.forget_process()
    shown = either.agent("hermes-2").prefetch("trip to Chengdu, which hotel?")
    assert TRIP in shown
    assert put["text"] in shown


@pytest.mark.requirement("hermes-other-runtimes")
def test_line_that_an_mcp_client_forgets_is_recalled_nowhere(either: Wired, hosting: MakeHost) -> None:
    say(either.agent(), TRIP)
    (line,) = [hit for hit in either.lines() if hit.text == TRIP]
    assert reason(asked_by_mcp(either.vault, "memory_forget", {"ids": [line.id]}, OWNER)) == ""
    assert TRIP not in either.agent("hermes-2").prefetch(QUESTION)
    assert TRIP not in recalled(hosting(), told())


@pytest.mark.requirement("hermes-other-runtimes")
def test_recall_of_each_runtime_is_on_record_with_the_line_and_a_cap_of_its_own(
    either: Wired, hosting: MakeHost
) -> None:
    say(either.agent(), TRIP)
    (line,) = [hit for hit in either.lines() if hit.text == TRIP]
    before = len(list(either.vault.audit.entries()))
    recalled(hosting(), told())
    asked_by_mcp(either.vault, "memory_get", {"query": QUESTION}, OWNER)
    new = [entry for _, entry in either.vault.audit.entries(before) if entry is not None]
    recalls = [entry for entry in new if entry.op == "get" and line.id in entry.lines]
    assert [entry.decision for entry in recalls] == [Decision.ALLOW, Decision.ALLOW]
    assert len({entry.actor for entry in recalls}) == 1
    assert len({entry.links for entry in recalls}) == 2


@pytest.mark.long  # the tests before show it with Hermes' hooks called as Hermes calls them
@pytest.mark.requirement("hermes-other-runtimes")
def test_lines_of_the_real_hermes_are_recalled_by_a_host_and_by_an_mcp_client(
    tmp_path: Path, own_process: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Model() as model:
        home = strongroom_rigs.wired(tmp_path / "home", model)
        with rig_agent.start(home.rig) as process:
            process.terminal().say(TRIP, "Enjoy it.")
    for name, value in home.rig.environment().items():
        if name.startswith("XDG_"):
            monkeypatch.setenv(name, value)
    monkeypatch.delenv("STRONGROOM_KEYS")  # the keys are where Hermes' user has them
    place = home.rig.home.hermes
    with Host(place, lambda: StrongroomProvider(place), keys=tmp_path / "host-keys") as host:
        assert TRIP in recalled(host, told())
    with home.owner.vault() as vault:
        assert TRIP in text(asked_by_mcp(vault, "memory_get", {"query": QUESTION}, OWNER))
        assert "Chengdu" not in text(asked_by_mcp(vault, "memory_get", {"query": QUESTION}, PERSON))
