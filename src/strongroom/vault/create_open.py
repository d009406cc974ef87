"""Make, open and verify vaults, and narrow caps: the functions behind `import strongroom`."""

from __future__ import annotations

import fcntl
import os
import secrets as randomness
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import msgspec

from strongroom import engines, model
from strongroom.audit.entry import Decision, Entry, marks
from strongroom.audit.log import VaultMac, Witness
from strongroom.audit.object_history import VAULT
from strongroom.audit.verifier import Progress, VerificationReport
from strongroom.caps import chain
from strongroom.caps.chain import Token
from strongroom.crypto import inbox, line_encryption
from strongroom.crypto.hmac_state import HmacState
from strongroom.errors import InvalidRequest, StrongroomError, VaultExists, VaultMissing
from strongroom.keys import FileKeys, KeySource, VaultSecrets, default_directory
from strongroom.keys.hierarchy import tag
from strongroom.memory import DecisionRecorder, Replica, system_clock
from strongroom.memory.cap_index import INDEXED
from strongroom.memory.line_cache.cache import LineCache
from strongroom.memory.vault_records import FORMAT, FORMATS, NAMESPACES, SECRETS, NamespaceRegistry, VaultFormatRecord
from strongroom.model import DEFAULT_NAMESPACES, Millis, Namespace
from strongroom.private_files import make_directory
from strongroom.store import Backend, Effect, PutNew, Store, backend, is_bucket
from strongroom.vault.fleet_audit import audit_of
from strongroom.vault.vault import Vault

_LOADING_DISTANT = 8
"""The number of threads that load namespaces from a bucket, where loading is mostly waiting for the network."""
SHELF_BYTES = 256 * 1024 * 1024
_MAKERS_SECONDS = 10.0
_POLL_SECONDS = 0.005

Location = str | os.PathLike[str]
Keys = KeySource | Callable[[str], KeySource] | None
"""Where the keys come from: a source of keys, a function from a vault's id to a source, or None.

None means the files in the user's data directory.
"""

Clock = Callable[[], Millis]


def create(
    location: Location,
    *,
    keys: Keys = None,
    namespaces: Iterable[str] = DEFAULT_NAMESPACES,
    engine: str = engines.DEFAULT,
    shelf_bytes: int = SHELF_BYTES,
    witness: Witness | None = None,
    now: Clock = system_clock,
) -> Vault:
    """Make a new vault and its keys, and open it.

    Without `keys`, key files are made in the user's data directory, or below `STRONGROOM_KEYS`, never inside the vault.
    `namespaces` are ordered from most to least sensitive. Raises `VaultExists` if there already is a vault.
    """
    place = os.fspath(location)
    names = _registry(namespaces)
    vault_id = randomness.token_hex(8)
    made, where = backend(place)
    ranking = engines.load(engine)
    _check_absent(made, where)
    source = _source(keys, vault_id)
    _check_apart(source, where)
    source.create()
    try:
        store = _found(made, where, vault_id, source, names, now(), is_indexed=is_bucket(place))
    except BaseException:
        with suppress(StrongroomError):
            if _id_at(made, where) != vault_id:
                source.discard()  # no vault has these keys: none was made, or another process made its own meanwhile
        raise
    try:
        vault = _open(store, vault_id, source, ranking, shelf_bytes, witness, now)
        vault.audit.checkpoint(first=True)
    except BaseException:
        store.close()
        raise
    return vault


def _found(
    made: Backend,
    where: str,
    vault_id: str,
    source: KeySource,
    names: tuple[Namespace, ...],
    now: Millis,
    *,
    is_indexed: bool,
) -> Store:
    """Write the vault's first objects and its first log entry."""
    public = chain.public_key(source.issuer())
    secrets = VaultSecrets.new({chain.issuer_id(public): public}, os.urandom, inbox.new_identity())
    registry = NamespaceRegistry(names)
    effects: list[Effect] = [
        PutNew(FORMAT, msgspec.json.encode(VaultFormatRecord(v=FORMATS[-1], vault=vault_id, created=now))),
        PutNew(SECRETS, secrets.sealed(vault_id, source.load(), os.urandom)),
        PutNew(
            NAMESPACES, line_encryption.seal_record(registry, NAMESPACES, vault_id, secrets.record_key, os.urandom(24))
        ),
    ]
    if is_indexed:
        effects.append(PutNew(INDEXED, b""))  # there are no caps yet, so the index of caps is complete
    tagging = HmacState(secrets.tag_key)
    written = [effect.name for effect in effects if isinstance(effect, PutNew)]
    objects = marks(effects, {name: (tag(tagging, "object", name), VAULT) for name in written})
    entry = Entry(v=1, time=now, op="create", decision=Decision.ALLOW, data_class="admin", objects=objects)
    return made.create(where, VaultMac(vault_id, secrets.tag_key, secrets.log_seed), [entry.encoded()], effects, now)


def open(  # noqa: A001 - strongroom.open, as in gzip.open
    location: Location,
    *,
    create: bool = False,
    keys: Keys = None,
    engine: str = engines.DEFAULT,
    shelf_bytes: int = SHELF_BYTES,
    witness: Witness | None = None,
    now: Clock = system_clock,
) -> Vault:
    """Open a vault. Raises `KeyUnavailable` if a key is missing or wrong; an existing vault never gets new keys.

    With `create`, a missing vault is made as `strongroom.create` makes it. If several processes do this at the same
    time, all of them open the same vault.
    """

    def opened() -> Vault:
        return _open_there(location, keys, engine, shelf_bytes, witness, now)

    if not create:
        return opened()
    with suppress(VaultMissing):
        return opened()
    with _makers_in_turn(os.fspath(location)):
        with suppress(VaultMissing):
            return opened()  # another process made it meanwhile
        try:
            return _create(location, keys=keys, engine=engine, shelf_bytes=shelf_bytes, witness=witness, now=now)
        except VaultExists:  # made by a process that did not wait for its turn
            return opened()


def _open_there(
    location: Location, keys: Keys, engine: str, shelf_bytes: int, witness: Witness | None, now: Clock
) -> Vault:
    used, where = backend(os.fspath(location))
    ranking = engines.load(engine)
    store = used.open(where)
    try:
        vault_id = _read_format(store)
        source = _source(keys, vault_id)
        return _open(store, vault_id, source, ranking, shelf_bytes, witness, now)
    except BaseException:
        store.close()
        raise


def verify(
    location: Location,
    *,
    keys: Keys = None,
    witness: Witness | None = None,
    archive: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> VerificationReport:
    """Verify a vault's log and objects. Also works on a vault that `open` refuses as tampered.

    Writes nothing, not even the last seen checkpoint.
    """
    used, where = backend(os.fspath(location))
    store = used.open(where)
    try:
        vault_id = _read_format(store)
        source = _source(keys, vault_id)
        state = Replica(vault_id, store, source, LineCache(engines.load("recency"), 0), os.urandom)
        audit = audit_of(DecisionRecorder(state), _witness(witness, source, vault_id))
        return audit.look(archive=None if archive is None else Path(archive), progress=progress)
    finally:
        store.close()


def attenuate(
    token: str,
    *,
    ttl: int | None = None,
    actor: str | None = None,
    actor_scope: str | None = None,
    ops: Iterable[str] | None = None,
    namespaces: Iterable[str] | None = None,
    session: str | None = None,
    max_k: int | None = None,
    max_depth: int | None = None,
    label: str | None = None,
    delegable: bool = True,
    now: Clock = system_clock,
) -> Token:
    """Narrow a cap, offline and without the vault.

    Each given argument may only narrow the cap. An argument that is left out keeps the cap's value.
    """
    return chain.attenuate(
        token,
        now=now() // 1000,
        jti=os.urandom(16),
        holder_seed=os.urandom(32) if delegable else None,
        ttl=ttl,
        actor=actor,
        actor_scope=actor_scope,
        ops=ops,
        namespaces=namespaces,
        session=session,
        max_k=max_k,
        max_depth=max_depth,
        label=label,
    )


_create = create
"""`create` under another name, because `open` has an argument called `create`."""


@contextmanager
def _makers_in_turn(place: str) -> Iterator[None]:
    """Let only one process at a time make a vault in this directory, as far as its file system has locks.

    The lock only saves work. A bucket has no such lock, and a process stops waiting for the lock after some seconds.
    Without the lock, `create` raises in the process that loses the race. `create` also reports a directory that cannot
    be made.
    """
    with ExitStack() as held:
        if "://" not in place:
            with suppress(OSError):
                make_directory(Path(place))
                directory = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                held.callback(os.close, directory)
                _lock(directory)
        yield


def _lock(directory: int) -> None:
    """Lock a directory, or continue without the lock after some seconds.

    A process may have been stopped while it holds the lock.
    """
    deadline = time.monotonic() + _MAKERS_SECONDS
    while time.monotonic() < deadline:
        try:
            return fcntl.flock(directory, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_POLL_SECONDS)
    return None


def identify(location: Location) -> str:
    """Return the id of the vault or backup at `location`. Needs no keys."""
    return read_format(location).vault


def read_format(location: Location) -> VaultFormatRecord:
    """Return the format record of the vault or backup at `location`, with the vault's id. Needs no keys."""
    used, where = backend(os.fspath(location))
    store = used.open(where)
    try:
        return VaultFormatRecord.decoded(store.get(FORMAT))
    finally:
        store.close()


def _source(keys: Keys, vault_id: str) -> KeySource:
    if keys is None:
        return FileKeys(default_directory(vault_id))
    return keys(vault_id) if callable(keys) else keys


def _registry(namespaces: Iterable[str]) -> tuple[Namespace, ...]:
    names = tuple(map(model.namespace, namespaces))
    if not names or len(set(names)) != len(names):
        raise InvalidRequest("a vault needs at least one namespace, and may not name one twice")
    return names


def _check_apart(source: KeySource, where: str) -> None:
    """Raise an error if the keys are to be stored inside the vault: every copy of the vault would contain them."""
    if isinstance(source, FileKeys) and Path(where).resolve() in [
        source.directory.resolve(),
        *source.directory.resolve().parents,
    ]:
        raise InvalidRequest(
            f"the key directory {source.directory} is inside the vault", hint="name a key directory outside the vault"
        )


def _check_absent(made: Backend, where: str) -> None:
    """Raise `VaultExists` if there already is a vault. Called before any key is made."""
    try:
        made.open(where).close()
    except VaultMissing:
        return
    raise VaultExists(f"{where} already holds a vault", hint="open that vault, or name another place")


def _id_at(made: Backend, where: str) -> str | None:
    """The id of the vault at a place; None if there is no vault."""
    try:
        store = made.open(where)
    except VaultMissing:
        return None
    try:
        return _read_format(store)
    finally:
        store.close()


def _read_format(store: Store) -> str:
    return VaultFormatRecord.decoded(store.get(FORMAT)).vault


def _open(
    store: Store,
    vault_id: str,
    source: KeySource,
    engine: engines.Engine,
    shelf_bytes: int,
    witness: Witness | None,
    now: Clock,
) -> Vault:
    shelves = LineCache(engine, shelf_bytes, _LOADING_DISTANT if store.is_distant else 1)
    state = Replica(vault_id, store, source, shelves, os.urandom)
    store.authenticate(state.mac)
    return Vault(DecisionRecorder(state, now), _witness(witness, source, vault_id))


def _witness(given: Witness | None, source: KeySource, vault_id: str) -> Witness:
    """The given witness, or by default the file `checkpoint` beside the keys.

    A witness holds the last checkpoint of the log that the owner saw.
    """
    directory = source.directory if isinstance(source, FileKeys) else default_directory(vault_id)
    return given if given is not None else Witness(directory / "checkpoint")
