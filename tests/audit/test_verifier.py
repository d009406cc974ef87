"""Verification of sound vaults: however much happened, and whatever happens meanwhile, it finds nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import strongroom
from strongroom import NewLine, Token, Vault
from strongroom.audit import Witness
from strongroom.memory.ops import forget
from strongroom.store import Object
from tests.audit.tools import entry_numbers, fill, flaws, query, reason, stored_objects
from tests.conftest import ALL_OPS, NAMESPACES, Clock

Reopen = Callable[[], Vault]


def _mint(vault: Vault, name: str) -> Token:
    return vault.mint(actor=f"local/{name}", ops=ALL_OPS, namespaces=NAMESPACES, ttl=3600)


class Life:
    """Many actors who do everything a cap allows, and an owner who rotates, revokes and erases, by a fixed dice."""

    def __init__(self, vault: Vault, clock: Clock, seed: int) -> None:
        self.vault = vault
        self.clock = clock
        self.dice = random.Random(seed)
        self.names = [f"actor{number}" for number in range(6)]
        self.tokens = {name: _mint(vault, name) for name in self.names}

    def step(self) -> None:
        self.clock.move(2)
        name = self.dice.choice(self.names)
        self.dice.choices(
            [self.put, self.put_many, self.read, self.profile, self.forget, self.denied, self.erase_part, self.owner],
            [8, 2, 4, 3, 4, 2, 1, 2],
        )[0](name)

    def put(self, name: str) -> None:
        self.memory(name).put(f"line {self.dice.random()}", namespace=self.dice.choice(NAMESPACES))

    def put_many(self, name: str) -> None:
        lines = [NewLine(text=f"line {number}", namespace=self.dice.choice(NAMESPACES)) for number in range(40)]
        self.memory(name).put_many(lines)

    def read(self, name: str) -> None:
        self.memory(name).get("line")
        self.memory(name).list()
        self.memory(name).snapshot()

    def profile(self, name: str) -> None:
        memory, namespace = self.memory(name), self.dice.choice(NAMESPACES)
        memory.set_profile(
            f"profile {self.dice.random()}", namespace=namespace, version=memory.profile(namespace).version
        )

    def forget(self, name: str) -> None:
        ids = [line.id for line in self.memory(name).list(limit=5).lines]
        self.memory(name).forget(ids=ids)

    def denied(self, name: str) -> None:
        narrow = strongroom.attenuate(self.tokens[name], ops=["list"], namespaces=["travel"], now=self.clock)
        assert reason(lambda: self.vault.memory(narrow).get("x")) == "cap_op_mismatch"
        assert reason(lambda: self.vault.memory(narrow).list(namespaces=["work"])) == "cap_namespace_denied"

    def erase_part(self, name: str) -> None:
        self.memory(name).erase([self.dice.choice(NAMESPACES)])

    def owner(self, name: str) -> None:
        what = self.dice.randrange(7)
        if what == 0:
            self.vault.rotate_root()
        elif what == 1 and f"local/{name}" in set(self.vault.actors()):
            self.vault.rotate_actor(f"local/{name}")
        elif what == 2:
            self.vault.erase(f"local/{name}")
            self.clock.move(2)
            self.tokens[name] = _mint(self.vault, name)
        elif what == 3:
            self.vault.revoke(self.tokens[name])
            self.tokens[name] = _mint(self.vault, name)
        elif what == 4:
            self.vault.revoke_actor(f"local/{name}")
            self.clock.move(2)
            self.tokens[name] = _mint(self.vault, name)
        elif what == 5:
            self.vault.rotate_issuer()
            self.tokens = {one: _mint(self.vault, one) for one in self.names}
        else:
            self.vault.add_namespace(f"extra-{len(self.vault.namespaces)}")

    def memory(self, name: str) -> strongroom.Memory:
        return self.vault.memory(self.tokens[name])


@pytest.mark.requirement("audit-verify")
@pytest.mark.parametrize(
    ("seed", "steps"), [(1, 90), *(pytest.param(seed, 400, marks=pytest.mark.long) for seed in range(2, 8))]
)
def test_busy_vault_has_no_flaw(vault: Vault, clock: Clock, reopen: Reopen, seed: int, steps: int) -> None:
    life = Life(vault, clock, seed)
    for number in range(steps):
        life.step()
        if number % 30 == 0:
            assert vault.audit.verify().findings == ()
    assert {"put", "forget", "erase", "profile", "get"} <= {entry.op for _, entry in vault.audit.entries() if entry}
    for opened in (vault, reopen()):
        report = opened.audit.verify()
        assert report.findings == ()
        assert report.size == vault.audit.size()


@pytest.mark.requirement("audit-verify")
@pytest.mark.parametrize("count", [300, pytest.param(3000, marks=pytest.mark.long)])
def test_vault_with_large_batches_and_forgets_has_no_flaw(vault: Vault, cap: Token, count: int) -> None:
    """More objects than one entry names, and more lines than one portion of a forget takes."""
    memory = vault.memory(cap)
    for start in range(0, count, 256):
        lines = [NewLine(text=f"line {number}", namespace="work") for number in range(min(256, count - start))]
        memory.put_many(lines)
    size = vault.audit.size()
    assert len(memory.forget(namespaces=["work"]).ids) == count
    entries = [entry for _, entry in vault.audit.entries(size) if entry is not None]
    assert len(entries) == -(-count // forget._PORTION)
    assert sum(len(entry.objects) for entry in entries) == count
    assert vault.audit.verify().findings == ()


def test_progress_ends_at_the_size_of_the_log(vault: Vault) -> None:
    fill(vault, 5000)
    steps: list[tuple[int, int]] = []
    report = vault.audit.verify(progress=lambda done, total: steps.append((done, total)))
    assert steps[-1] == (report.size, report.size)
    assert len(steps) >= 3
    assert steps == sorted(steps)


# While others write.


@pytest.mark.requirement("audit-verify")
@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=pytest.mark.long)])
def test_verification_while_another_thread_writes_finds_nothing(
    vault: Vault, clock: Clock, reopen: Reopen, rounds: int
) -> None:
    life = Life(reopen(), clock, 5)
    for _ in range(20):
        life.step()
    done = False

    def live() -> int:
        steps = 0
        while not done:
            life.step()
            steps += 1
        return steps

    with ThreadPoolExecutor(1) as pool:
        living = pool.submit(live)
        try:
            for _ in range(rounds):
                assert vault.audit.verify().findings == ()
        finally:
            done = True
        assert living.result() > 0


def _put(vault: Vault, token: Token) -> None:
    vault.memory(token).put("meanwhile", namespace="work")


def _put_and_forget(vault: Vault, token: Token) -> None:
    vault.memory(token).forget(ids=[vault.memory(token).put("meanwhile", namespace="work").id])


def _forget(vault: Vault, token: Token) -> None:
    assert vault.memory(token).forget(namespaces=["travel"]).ids


def _profile(vault: Vault, token: Token) -> None:
    vault.memory(token).set_profile("meanwhile", namespace="work")


def _erase_namespace(vault: Vault, token: Token) -> None:
    vault.memory(token).erase(["travel"])


def _erase_namespace_and_go_on(vault: Vault, token: Token) -> None:
    vault.memory(token).erase(["travel"])
    vault.memory(token).put("meanwhile", namespace="travel")


def _erase_actor(vault: Vault, token: Token) -> None:
    vault.erase("local/alice")


def _erase_actor_and_go_on(vault: Vault, token: Token) -> None:
    vault.erase("local/alice")
    again = vault.mint(actor="local/alice", ops=ALL_OPS, namespaces=NAMESPACES)
    vault.memory(again).put("meanwhile", namespace="travel")


def _rotate(vault: Vault, token: Token) -> None:
    vault.rotate_root()
    vault.rotate_actor("local/alice")


def _revoke(vault: Vault, token: Token) -> None:
    vault.revoke(token)


MEANWHILE = [
    _put,
    _put_and_forget,
    _forget,
    _profile,
    _erase_namespace,
    _erase_namespace_and_go_on,
    _erase_actor,
    _erase_actor_and_go_on,
    _rotate,
    _revoke,
]


@pytest.mark.requirement("audit-verify")
@pytest.mark.parametrize("what", MEANWHILE, ids=lambda what: what.__name__)
@pytest.mark.parametrize("when", ["first", "last"])
def test_changes_during_the_walk_are_no_flaw(
    vault: Vault, cap: Token, reopen: Reopen, what: Callable[[Vault, Token], None], when: str
) -> None:
    """The other vault acts after the head was read, at the first or the last step of going through the log."""
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    vault.memory(cap).put("Report", namespace="work")
    other, acted = reopen(), False

    def act(done: int, total: int) -> None:
        nonlocal acted
        if not acted and (done == 0 if when == "first" else done == total):
            acted = True
            what(other, cap)

    verifier = reopen()
    report = verifier.audit.verify(progress=act)
    assert acted
    assert report.findings == ()
    assert verifier.audit.verify().findings == ()
    assert vault.audit.verify().findings == ()


class Overtaken(Witness):
    """A witness that another process moves on just before it is read."""

    def __init__(self, path: Path, before: Callable[[], object]) -> None:
        super().__init__(path)
        self._before = [before]

    def read(self) -> str | None:
        while self._before:
            self._before.pop()()
        return super().read()


@pytest.mark.requirement("audit-verify")
def test_checkpoint_that_another_process_keeps_meanwhile_is_no_rollback(
    vault: Vault, cap: Token, tmp_path: Path, keys: strongroom.FileKeys, clock: Clock
) -> None:
    def overtake() -> None:
        vault.memory(cap).put("meanwhile", namespace="work")
        vault.audit.checkpoint()

    witness = Overtaken(keys.directory / "checkpoint", overtake)
    with strongroom.open(tmp_path / "vault", keys=keys, witness=witness, now=clock) as other:
        assert flaws(other.audit.verify()) == set()


@pytest.mark.requirement("audit-verify")
def test_verification_leaves_no_outdated_keys_behind(
    vault: Vault, cap: Token, reopen: Reopen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process rotates the actor while its keys are read, and a thread busy with bob follows that here."""
    vault.memory(cap).put("before", namespace="work")
    bob = _mint(vault, "bob")
    verifier, other = reopen(), reopen()
    get, late = verifier._state.store.get, [lambda: other.rotate_actor("local/alice")]

    def overtaken(name: str) -> Object | None:
        found = get(name)
        while late and name.endswith("/keys"):
            late.pop()()
            follower = threading.Thread(target=lambda: verifier.memory(bob).list())
            follower.start()
            follower.join(0.5)  # or it waits until the keys are read, which is as good
        return found

    monkeypatch.setattr(verifier._state.store, "get", overtaken)
    assert verifier.audit.verify().findings == ()
    assert not late
    verifier.memory(cap).put("after", namespace="work")
    assert {hit.text for hit in vault.memory(cap).get("")} == {"before", "after"}


# What the log says of the store.


@pytest.mark.requirement("audit-verify", "audit-atomic")
def test_every_object_in_the_store_is_in_the_log(vault: Vault, cap: Token, tmp_path: Path) -> None:
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    vault.memory(cap).set_profile("likes tea", namespace="work")
    report = vault.audit.verify()
    assert report.findings == ()
    assert report.objects == len(stored_objects(tmp_path / "vault"))


@pytest.mark.requirement("audit-verify")
def test_erased_actor_leaves_nothing_to_reconcile(vault: Vault, cap: Token, tmp_path: Path) -> None:
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    vault.erase("local/alice")
    assert not [name for name in stored_objects(tmp_path / "vault") if name.startswith("actors/")]
    assert vault.audit.verify().findings == ()
    assert entry_numbers(vault, "erase")


@pytest.mark.requirement("audit-verify")
def test_erased_actors_object_that_is_back_is_extra(vault: Vault, cap: Token, tmp_path: Path) -> None:
    vault.memory(cap).put("Trip to Chengdu", namespace="travel")
    kept = {name: body for name, body in stored_objects(tmp_path / "vault").items() if name.startswith("actors/")}
    vault.erase("local/alice")
    for number, (name, body) in enumerate(kept.items()):
        query(tmp_path / "vault", "INSERT INTO objects VALUES (?, ?, ?)", -1 - number, name, body)
    report = vault.audit.verify()
    assert flaws(report) == {"object_extra"}
    assert {finding.object for finding in report.findings} == set(kept)


@pytest.mark.requirement("audit-verify")
def test_two_who_keep_a_checkpoint_at_once_neither_alarm_nor_go_back(
    vault: Vault, cap: Token, tmp_path: Path, keys: strongroom.FileKeys, clock: Clock
) -> None:
    def overtake() -> None:
        vault.memory(cap).put("meanwhile", namespace="work")
        vault.audit.checkpoint()

    witness = Overtaken(keys.directory / "checkpoint", overtake)
    with strongroom.open(tmp_path / "vault", keys=keys, witness=witness, now=clock) as other:
        other.audit.checkpoint()
        kept = Witness(keys.directory / "checkpoint").read()
        assert kept is not None
        assert other._state.log.open_checkpoint(kept).size == vault.audit.size()
