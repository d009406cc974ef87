"""Checks of how sessions end and switch, and of agents that should open no session."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from strongroom.host.agent_context import AgentContext
from strongroom.host.agent_session import TERMINAL, AgentSession
from strongroom.host.conformance.call_checks import together
from strongroom.host.conformance.check_stage import ALICE, BICYCLE, LOCKER, CheckStage, later
from strongroom.host.conformance.provider_files import written
from strongroom.host.conformance.scripted_agent import TestedAgent
from strongroom.host.conformance.verdict import Check, Failed
from strongroom.host.conformance.with_host import hosting

_ROUNDS = 5
_HOSTS_OWN = ("memory-journal", "memories")
_PASSING = ("-wal", "-shm", "-journal", ".lock", ".log")


def end_while_keeping(stage: CheckStage) -> str:
    """End the session while the last turn is still being stored."""
    stage.learn()
    for number in range(_ROUNDS):
        agent = stage.started(later(ALICE, f"round{number}"))
        agent.turn("Good morning")
        together(partial(agent.keep, LOCKER.said), partial(agent.call, "on_session_end", list(agent.messages)))
        if stage.way == "on_memory_write":
            stage.tell(agent, LOCKER)
        agent.call("shutdown")
    stage.expect(LOCKER, ALICE, "an end that came while it was being kept")
    return "neither hook raised, and the line came back"


def several_ends(stage: CheckStage) -> str:
    """Call `on_session_end` several times, with the last turn between two of the calls."""
    stage.needs_memory()
    agent = stage.started()
    stage.tell(agent, LOCKER)
    before = _times(stage)
    for _ in range(3):
        agent.call("on_session_end", list(agent.messages))
    stage.tell(agent, BICYCLE)
    agent.call("on_session_end", list(agent.messages))
    stage.expect(BICYCLE, ALICE, "a session end that was not the last call")
    after = _times(stage)
    if after > before:
        raise Failed("a line comes back more often after on_session_end was called again")
    return "repeated ends kept nothing twice, and a turn after an end was kept"


def _times(stage: CheckStage) -> int:
    if not stage.fresh().keeps(LOCKER):
        raise Failed("a line that was told did not come back")
    return stage.fresh().recall(LOCKER.question).count(LOCKER.answer)


def compression(stage: CheckStage) -> str:
    """Compress a history: once under its own id, and once under a new id."""
    stage.learn()
    agent = stage.started()
    agent.turn("Good morning")
    stage.tell(agent, LOCKER)
    _compress(agent, agent.session.id)
    agent.turn("Good evening")
    _compress(agent, "20260522_111500_rotated")
    stage.tell(agent, BICYCLE)
    stage.expect(LOCKER, ALICE, "a compression")
    stage.expect(BICYCLE, ALICE, "a compression that came before it")
    return "lines from before and after a compression came back"


def _compress(agent: TestedAgent, new_id: str) -> None:
    agent.call("on_pre_compress", list(agent.messages))
    agent.call("system_prompt_block")
    agent.call("on_session_end", list(agent.messages))
    agent.call("on_session_switch", new_id, parent_session_id=agent.session.id, reason="compression")


def new_conversation(stage: CheckStage) -> str:
    """Begin a new conversation with `/new`, go back to the old conversation, then branch it."""
    stage.learn()
    agent = stage.started()
    stage.tell(agent, LOCKER)
    agent.call("on_session_end", list(agent.messages))
    old, new = agent.session.id, "20260522_121500_new"
    agent.call("on_session_switch", new, parent_session_id=old, reset=True, reason="new_session")
    agent.turn("Good morning")
    agent.call("on_session_switch", old, parent_session_id="", reset=False, reason="resume")
    agent.call("on_session_switch", "20260522_131500_branch", parent_session_id=old, reset=False, reason="branch")
    stage.tell(agent, BICYCLE)
    agent.stop()
    stage.expect(LOCKER, ALICE, "/new")
    stage.expect(BICYCLE, ALICE, "a branch")
    return "lines from before /new and after a branch came back"


def rewound(stage: CheckStage) -> str:
    """Take turns back with `/undo`, which keeps the session id."""
    stage.learn()
    agent = stage.started()
    agent.turn("Good morning")
    agent.messages.clear()
    agent.call("on_session_switch", agent.session.id, parent_session_id="", reset=False, rewound=True, reason="undo")
    stage.tell(agent, LOCKER)
    stage.expect(LOCKER, ALICE, "/undo")
    return "the line after /undo came back"


def no_orphans(stage: CheckStage) -> str:
    """Build short-lived agents, and an agent that is ended without a turn."""
    first = stage.started()
    first.turn("Good morning")
    first.stop()
    before = _records(stage)
    ids = [f"orphan-{context}-7d31" for context in AgentContext]
    with hosting(stage) as host:
        for context, session_id in zip(AgentContext, ids, strict=True):
            memory = host.manager(AgentSession(id=session_id, platform=TERMINAL, context=context))
            if context is not AgentContext.PRIMARY and memory.external is not None:
                raise Failed(f"the host opened a session for an agent of the context {context}")
            memory.on_pre_compress([{"role": "user", "content": "Good morning"}])
            memory.end()
    after = _records(stage)
    left = [one for one in ids if any(form in text for text in after.values() for form in written(one))]
    new = [name for name in after if name not in before]
    if left or new:
        raise Failed(
            f"agents that nobody spoke to left records: {len(left)} session ids in files, {len(new)} new files"
        )
    if growing := _growing(stage):
        raise Failed(f"each agent that nobody spoke to made {growing} of its files longer")
    return f"{len(ids)} agents that nobody spoke to left no record"


def _growing(stage: CheckStage) -> int:
    """Count the files that grow each time an agent is built and ended without a word."""
    sizes = []
    for number in range(_ROUNDS):
        stage.started(later(ALICE, f"silent{number}")).stop()
        sizes.append({name: len(text) for name, text in _records(stage).items()})
    return sum(all(a.get(name, 0) < b.get(name, 0) for a, b in pairwise(sizes)) for name in sizes[-1])


def _records(stage: CheckStage) -> dict[str, bytes]:
    """The contents of the provider's files, without the host's own files and without temporary files of databases."""
    own = tuple(str(stage.home / name) for name in _HOSTS_OWN)
    found = stage.files.contents()
    return {name: text for name, text in found.items() if not name.startswith(own) and not name.endswith(_PASSING)}


CHECKS = (
    Check(
        "end-while-keeping",
        "A session may end while its last turn is being kept",
        f"Calls sync_turn and on_session_end at the same moment, {_ROUNDS} times; then looks for the line.",
        "A one-shot run ends its session while the last turn is still on its way.",
        end_while_keeping,
    ),
    Check(
        "several-ends",
        "on_session_end may come several times, and before the last turn",
        "Ends a session three times, keeps another turn, ends it again; looks for both lines, and for doubles.",
        "Each compression ends the session once more. Who keeps all messages at each end keeps most of them twice.",
        several_ends,
    ),
    Check(
        "compression",
        "Memory goes on through a compression",
        "Compresses a history under the same id and under a new one, with turns before and after.",
        "Long chats are compressed often; a provider that takes it for the end of the chat forgets the rest.",
        compression,
    ),
    Check(
        "new-conversation",
        "/new, resume and branch keep what was remembered",
        "Ends a conversation, switches with reset, goes back and branches; looks for lines from before and after.",
        "A new conversation clears what was said in it, not what is known of the person.",
        new_conversation,
    ),
    Check(
        "rewound",
        "/undo is tolerated, and the next turn is kept",
        "Switches to the same session id with rewound set, and keeps a turn.",
        "Whether the undone turn is taken back differs between providers; going on must work with all.",
        rewound,
    ),
    Check(
        "no-orphans",
        "Agents that nobody speaks to leave no record",
        "Has the host build agents for compressions, reviews and tasks, and a chat without a turn; compares files.",
        "Each would be a session that nobody writes to or ends, and the list of chats fills with them.",
        no_orphans,
    ),
)
