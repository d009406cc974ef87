"""A vault on S3: put and get of one worker, 32 threads, a cold shelf packed and not, and requests per operation.

Beside them are bare obstore calls on the same server in the same run. A row is refused if an answer was wrong.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle, islice
from statistics import median, quantiles
from time import perf_counter, process_time
from unittest.mock import patch

from bench import vaults
from bench.buckets import Counting, Place, pack_nothing, served, store_of
from bench.growth import exponent
from bench.lines import lines, of_size
from bench.measure import Goal, Row, Run, Work, in_turns
from strongroom import Memory, NewLine, Vault
from strongroom.model import K_LIMIT
from strongroom.store.s3.compacting import Compactor
from strongroom.store.s3.log import WorkerLog

_ACTORS = 16
_THREADS = 32
_TAIL = 100
"""Lines by themselves on the shelf that is asked: from 128 on they are packed."""
_TEXT = 200
_ASKED = 60
"""Of a line's text, as long as a question is."""
_PUT = "one bare create of as many bytes"
_GET = "one bare list of the same prefix and one bare create"
_PUTS = f"bare creates of as many bytes, {_THREADS} threads"


class Wrong(RuntimeError):
    """An answer was not what it had to be, so no figure is worth anything."""


class _Taken:
    """What each call of one side took, in seconds."""

    def __init__(self, work: Work) -> None:
        self._work = work
        self._wall: list[float] = []
        self._cpu: list[float] = []

    def keep(self) -> None:
        wall, cpu = perf_counter(), process_time()
        self._work()
        self._wall.append(perf_counter() - wall)
        self._cpu.append(process_time() - cpu)

    def millis(self, percent: int) -> float:
        return quantiles(self._wall, n=100)[percent - 1] * 1e3

    @property
    def cpu(self) -> float:
        return sum(self._cpu) / len(self._cpu) * 1e3


def _one_by_one(ours: Work, bare: Work, count: int) -> tuple[_Taken, _Taken]:
    """A call of each side in turns, after some that are not counted."""
    for _ in range(max(10, count // 20)):
        ours()
        bare()
    sides = _Taken(ours), _Taken(bare)
    for _ in range(count):
        for side in sides:
            side.keep()
    return sides


def _rows(name: str, what: str, sides: tuple[_Taken, _Taken], beside: str, goal: Goal) -> Iterator[Row]:
    ours, bare = sides
    yield Row(name, what, "ms p50", ours.millis(50), bare.millis(50), beside, goal)
    yield Row(name, what, "ms p99", ours.millis(99), bare.millis(99), beside)
    yield Row(name, what, "ms cpu", ours.cpu, bare.cpu, beside)


class _Putting:
    """Puts into the shelves of several actors in turn, so that no tail gets longer than packing would let it."""

    def __init__(self, vault: Vault, count: int) -> None:
        self._memories = [vault.memory(vaults.session_cap(vault, f"local/a{number}")) for number in range(_ACTORS)]
        self._turns = cycle(range(_ACTORS))
        self._texts = iter(list(islice(of_size(3, _TEXT), count)))
        self._known: list[dict[str, str]] = [{} for _ in self._memories]
        for _ in self._memories:
            self.put()

    def put(self) -> None:
        at, text = next(self._turns), next(self._texts)
        receipt = self._memories[at].put(text, session="chat-1", author="user", kind="turn")
        if receipt.duplicate or receipt.forgotten:
            raise Wrong("a new line was taken for an old one")
        self._known[at][receipt.id] = text

    def get(self) -> None:
        at = next(self._turns)
        line, text = next(reversed(self._known[at].items()))
        _found(self._memories[at], line, text)

    def check(self, other: Vault) -> None:
        """Another worker has to have every line."""
        for number, known in enumerate(self._known):
            memory = other.memory(vaults.session_cap(other, f"local/a{number}"))
            ids = list(known)
            found = [hit for at in range(0, len(ids), K_LIMIT) for hit in memory.get(ids=ids[at : at + K_LIMIT])]
            if {hit.id: hit.text for hit in found} != known:
                raise Wrong("another worker has other lines")


def _found(memory: Memory, line: str, text: str) -> None:
    hits = memory.get(text[:_ASKED], k=5)
    if line not in [hit.id for hit in hits]:
        raise Wrong("a get did not find a line by its own words")


def _checked(place: Place, putting: _Putting) -> None:
    other, _ = place.open()
    with other:
        putting.check(other)


def _sealed(vault: Vault) -> bytes:
    """As many bytes as a put writes for its line, and about as many as it writes to the log."""
    store = store_of(vault)
    locator = next(store.reader.locators())
    names = [one.name for one in store.names(f"actors/{locator}/") if "/lines/" in one.name]
    found = store.get(names[0])
    if found is None or found.body is None:
        raise Wrong("a line that was put is not there")
    return os.urandom(len(found.body))


def put(run: Run) -> Iterator[Row]:
    """A put by one client, on a shelf with a short tail."""
    count = run.pick(600, 100)
    with served(run) as place:
        if place is None:
            return
        vault, _ = place.create()
        with vault:
            putting = _Putting(vault, 2 * count + 200)
            body, bare = _sealed(vault), place.bare()
            sides = _one_by_one(putting.put, lambda: bare.create(body), count)
            _checked(place, putting)
    yield from _rows("s3.put", "put, one client", sides, _PUT, Goal("ratio", 3, 2))


def get(run: Run) -> Iterator[Row]:
    """A get by one client from a shelf that is held, with a tail as long as it gets before it is packed."""
    count = run.pick(600, 100)
    with served(run) as place:
        if place is None:
            return
        vault, _ = place.create()
        with vault:
            memory = vault.memory(vaults.session_cap(vault))
            known = {memory.put(text, author="user").id: text for text in islice(of_size(5, _TEXT), _TAIL)}
            asked, bare, body = cycle(known.items()), place.bare(), _sealed(vault)
            below = f"actors/{next(store_of(vault).reader.locators())}"

            def list_and_create() -> None:
                if bare.list(below) != len(known) + 1:  # and the actor's keys
                    raise Wrong("the bare list has other objects")
                bare.create(body)

            sides = _one_by_one(lambda: _found(memory, *next(asked)), list_and_create, count)
    yield from _rows("s3.get", f"get, {_TAIL} lines, held", sides, _GET, Goal("ratio", 1.2, 1))


def threads(run: Run) -> Iterator[Row]:
    """Puts and gets of 32 threads of one worker, on 16 actors."""
    repeats, each = run.pick(7, 3), run.pick(10, 4)
    count = _THREADS * each

    def some(work: Work) -> None:
        for _ in range(each):
            work()

    with served(run) as place, ThreadPoolExecutor(_THREADS) as pool:
        if place is None:
            return
        vault, _ = place.create()
        with vault:
            putting = _Putting(vault, (repeats + 1) * count + _ACTORS)
            body, bare = _sealed(vault), place.bare()

            def everybody(work: Work) -> Work:
                return lambda: list(pool.map(some, [work] * _THREADS))

            works = (putting.put, putting.get, lambda: bare.create(body))
            puts, gets, creates = in_turns([everybody(work) for work in works], repeats=repeats)
            _checked(place, putting)
    for what, cost in (("put", puts), ("get", gets)):
        yield Row("s3.threads", f"{what}, {_THREADS} threads", "1/s", count / cost.wall, count / creates.wall, _PUTS)
        yield Row(
            "s3.threads",
            f"{what}, {_THREADS} threads",
            "ms cpu",
            cost.cpu / count * 1e3,
            creates.cpu / count * 1e3,
            _PUTS,
        )


def cold(run: Run) -> Iterator[Row]:
    """The first get of a fresh worker from a shelf of 10,000 lines, before and after they were packed."""
    count = run.pick(10_000, 1_500)
    repeats = run.pick(3, 1)
    with served(run) as place:
        if place is None:
            return
        vault, _ = place.create()
        with vault:
            pack_nothing(vault)
            memory = vault.memory(vaults.session_cap(vault))
            known = list(lines(7, count))
            vaults.fill(memory, known)
            unpacked = [_first_get(place, known) for _ in range(repeats)]
            store = store_of(vault)
            done = Compactor(store.reader, os.urandom, settled=0, least=1).compact(next(store.reader.locators()))
            if done.lines != count:
                raise Wrong(f"{done.lines} lines were packed")
            packed = [_first_get(place, known) for _ in range(repeats)]
    beside = "the same before they were packed"
    what = f"first get, {count:,} lines, packed"
    loose, tight = (median(requests for requests, _ in side) for side in (unpacked, packed))
    yield Row("s3.cold", what, "requests", tight, loose, beside, Goal("ratio", 0.05, 0.01))
    slow, quick = (median(seconds for _, seconds in side) for side in (unpacked, packed))
    yield Row("s3.cold", what, "s wall", quick, slow, beside)


def _first_get(place: Place, known: Sequence[NewLine]) -> tuple[int, float]:
    """The requests and the seconds of a worker's first get; its start is not counted."""
    vault, bucket = place.open()
    with vault:
        pack_nothing(vault)
        memory = vault.memory(vaults.session_cap(vault))
        before, start = bucket.requests, perf_counter()
        hits = memory.get(known[17].text, k=5)
        taken = bucket.requests - before, perf_counter() - start
        if known[17].text not in [hit.text for hit in hits]:
            raise Wrong("a get did not find a line by its own words")
        listed, after = 0, None
        listing = vault.memory(vault.mint(actor=vaults.ACTOR, ops=["list"], namespaces=["work"], ttl=600))
        while page := listing.list(limit=1000, after=after):
            listed, after = listed + len(page.lines), page.next
            if after is None:
                break
        if listed != len(known):
            raise Wrong(f"{listed} of {len(known)} lines were found")
    return taken


def _of_all_ops(vault: Vault) -> Memory:
    ops = ["put", "get", "list", "forget"]
    return vault.memory(vault.mint(actor=vaults.ACTOR, ops=ops, namespaces=["work"], ttl=86_400))


def done(run: Run) -> Iterator[Row]:
    """A forget of a line by itself, beside the same forget whose `done` is said a moment later: the extra write."""
    count = run.pick(200, 30)
    with served(run) as place:
        if place is None:
            return
        vault, bucket = place.create()
        with vault:
            pack_nothing(vault)
            memory = _of_all_ops(vault)
            texts = [NewLine(text=text, author="user") for text in islice(of_size(9, _TEXT), 3 * count + 60)]
            ids = [one.id for at in range(0, len(texts), 200) for one in memory.put_many(texts[at : at + 200])]

            def said_later() -> None:
                with patch.object(WorkerLog, "confirm", WorkerLog.carried_out):
                    memory.forget(ids=[ids.pop()])

            sides = _one_by_one(lambda: memory.forget(ids=[ids.pop()]), said_later, count)
            costs = []
            for work in (lambda: memory.forget(ids=[ids.pop()]), said_later):
                before = bucket.requests
                work()
                costs.append(bucket.requests - before)
    beside = "the same, done said a moment later"
    yield from _rows("s3.done", "forget of one line", sides, beside, Goal("ratio", 2, 1.2))
    yield Row("s3.done", "forget of one line", "requests", costs[0], costs[1], beside)


def loose(run: Run) -> Iterator[Row]:
    """A get from a shelf that is held, by how many lines lie by themselves; and once they were packed."""
    count = run.pick(100, 20)
    with served(run) as place:
        if place is None:
            return
        vault, _ = place.create()
        with vault:
            pack_nothing(vault)
            memory = vault.memory(vaults.session_cap(vault))
            store = store_of(vault)
            known: list[tuple[str, str]] = []
            for size in (20, 60) if run.quick else (128, 1_000, 2_300):
                texts = list(islice(of_size(size, _TEXT), size - len(known)))
                for at in range(0, len(texts), 200):
                    some = [NewLine(text=text, author="user") for text in texts[at : at + 200]]
                    receipts = memory.put_many(some)
                    known += [(one.id, line.text) for one, line in zip(receipts, some, strict=True)]
                yield from _loose(f"get, {size:,} lines by themselves", memory, known, place, count)
            Compactor(store.reader, os.urandom, settled=0, least=1).compact(next(store.reader.locators()))
            yield from _loose(f"get, {len(known):,} lines, packed", memory, known, place, count)


def _loose(what: str, memory: Memory, known: Sequence[tuple[str, str]], place: Place, count: int) -> Iterator[Row]:
    bare, asked = place.bare(), cycle(known[-50:])
    below = "actors/"

    def list_and_create() -> None:
        bare.list(below)
        bare.create(b"as long as an entry of a log" * 20)

    sides = _one_by_one(lambda: _found(memory, *next(asked)), list_and_create, count)
    yield from _rows("s3.loose", what, sides, _GET, Goal("ratio", 1.5, 1.2))


def forgets(run: Run) -> Iterator[Row]:
    """Bytes of packs that are rewritten for forgets of scattered lines, beside a rewrite of one pack for each."""
    count, gone = run.pick(10_000, 1_200), run.pick(240, 60)
    with served(run) as place:
        if place is None:
            return
        vault, bucket = place.create()
        with vault:
            pack_nothing(vault)
            memory = _of_all_ops(vault)
            vaults.fill(memory, list(lines(7, count)))
            store = store_of(vault)
            locator = next(store.reader.locators())
            Compactor(store.reader, os.urandom, settled=0, least=1).compact(locator)
            held = [one.size for one in store._bucket.list(f"actors/{locator}/") if "/packs/" in one.name]
            ids = [one.id for one in memory.list(limit=1000).lines]
            step = max(1, len(ids) // gone)
            scattered = ids[::step][:gone]
            bucket.rewritten = 0
            start = perf_counter()
            for line in scattered[: gone // 2]:
                memory.forget(ids=[line])
            vault.scrub()
            seconds, one_by_one = perf_counter() - start, bucket.rewritten
            bucket.rewritten = 0
            memory.forget(ids=scattered[gone // 2 :])
            if not vault.scrub():
                raise Wrong("bytes of forgotten lines are left in packs")
            at_once = bucket.rewritten
    each, pack = gone // 2, sum(held) / len(held)
    beside = "rewriting one pack for each"
    yield Row(
        "s3.forgets",
        f"{each:,} forgets, {count:,} lines packed",
        "kB each",
        one_by_one / each / 1e3,
        pack / 1e3,
        beside,
        Goal("ratio", 0.5, 0.1),
    )
    yield Row(
        "s3.forgets",
        f"one forget of {each:,} lines",
        "kB each",
        at_once / each / 1e3,
        pack / 1e3,
        beside,
        Goal("ratio", 0.1, 0.05),
    )
    yield Row("s3.forgets", f"{each:,} forgets, {count:,} lines packed", "ms each", seconds / each * 1e3, 1, "nothing")


def growth(run: Run) -> Iterator[Row]:
    """Requests and time of the owner's work, by how many actors there are: each with keys, a line and a cap."""
    sizes = (5, 20, 60) if run.quick else (10, 1_000, 10_000)
    points: dict[str, list[tuple[int, int, float]]] = {}
    with served(run) as place, ThreadPoolExecutor(16) as pool:
        if place is None:
            return
        vault, _ = place.create()
        with vault:

            def settle(number: int) -> None:
                cap = vault.mint(actor=f"local/g{number}", ops=["put", "get"], namespaces=["work"], ttl=86_400)
                vault.memory(cap).put(f"trip {number}")

            known = 0
            for size in sizes:
                list(pool.map(settle, range(known, size)))
                known = size
                for what, requests_of, seconds in _owners_work(place, size):
                    points.setdefault(what, []).append((size, requests_of, seconds))
    for what, found in points.items():
        shown = "/".join(f"{size:,}" for size, _, _ in found)
        asked = "/".join(f"{count:,}" for _, count, _ in found)
        took = "/".join(f"{seconds:.2g}" for _, _, seconds in found)
        slope = exponent([(size, float(count)) for size, count, _ in found])
        is_flat = what in ("revoke", "erase", "mint", "open")
        goal = Goal("ours", 0.1, 0.02) if is_flat else Goal("ours", 1.1, 1)
        text = f"{what}: {shown} actors, {asked} requests, {took} s"
        yield Row("s3.growth", text, "exponent", slope, 1, "linear work, by requests", goal)


def _owners_work(place: Place, size: int) -> Iterator[tuple[str, int, float]]:
    """What a process that has just started asks for, and how long it takes."""
    acts: dict[str, Callable[[Vault], object]] = {
        "mint": lambda vault: vault.mint(actor="local/g0", ops=["get"], namespaces=["work"], ttl=60),
        "revoke": lambda vault: vault.revoke(next(vault.caps("local/g1")).link),
        "erase": lambda vault: vault.erase("local/gone"),
        "actors": lambda vault: _counted(list(vault.actors()), size),
        "verify": lambda vault: _sound(vault),
        "caps": lambda vault: list(vault.caps()),
    }
    begun, (opened, bucket) = perf_counter(), place.open()
    yield "open", bucket.requests, perf_counter() - begun
    with opened:
        cap = opened.mint(actor="local/gone", ops=["put"], namespaces=["work"], ttl=600)
        opened.memory(cap).put("a trip")
        for what, act in acts.items():
            before, start = bucket.requests, perf_counter()
            act(opened)
            yield what, bucket.requests - before, perf_counter() - start


def _counted(found: Sequence[object], wanted: int) -> None:
    if len(found) != wanted:
        raise Wrong(f"{len(found)} of {wanted} actors were found")


def _sound(vault: Vault) -> None:
    if vault.audit.look().findings:
        raise Wrong("the vault does not verify")


def requests(run: Run) -> Iterator[Row]:
    """How many requests an operation is for the server, by one client."""
    count = run.pick(20, 5)
    with served(run) as place:
        if place is None:
            return
        vault, bucket = place.create()
        with vault:
            vault.memory(vaults.session_cap(vault)).put("the first of this worker", author="user")
            costs = dict(_costs(vault, bucket, count))
        opened, bucket = place.open()
        opened.close()
        costs["open, with the trial of the server"] = bucket.requests
    for what, cost in costs.items():
        yield Row("s3.requests", what, "requests", cost, 1, "one bare create")


def _costs(vault: Vault, bucket: Counting, count: int) -> Iterator[tuple[str, float]]:
    ops = ["put", "get", "list", "forget", "erase"]
    names = [f"local/b{number}" for number in range(count)]
    memories = [vault.memory(vault.mint(actor=name, ops=ops, namespaces=["work"], ttl=3600)) for name in names]
    ids: list[str] = []

    def each(work: Callable[[int, Memory], object]) -> float:
        before = bucket.requests
        for number, memory in enumerate(memories):
            work(number, memory)
        return (bucket.requests - before) / count

    yield "first put of an actor", each(lambda number, memory: ids.append(memory.put(f"trip {number}").id))
    yield "put", each(lambda number, memory: memory.put(f"another trip {number}"))
    batch = [NewLine(text=f"stop {number}") for number in range(16)]
    yield "put of 16 lines at once", each(lambda _, memory: memory.put_many(batch))
    yield "first get, 18 lines", each(lambda number, memory: _found(memory, ids[number], f"trip {number}"))
    yield "get, shelf held", each(lambda number, memory: _found(memory, ids[number], f"trip {number}"))
    yield "forget of one line", each(lambda number, memory: memory.forget(ids=[ids[number]]))
    if any(line in [one.id for one in memory.list().lines] for memory, line in zip(memories, ids, strict=True)):
        raise Wrong("a forgotten line was found")
    caps = iter([vault.mint(actor=name, ops=ops, namespaces=["work"], ttl=3600) for name in names])
    yield "revoke", each(lambda *_: vault.revoke(next(caps)))
    yield "erase of a namespace", each(lambda _, memory: memory.erase(["work"]))
    if any(memory.list().lines for memory in memories):
        raise Wrong("an erased line was found")
