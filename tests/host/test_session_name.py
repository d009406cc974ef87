"""Names of sessions: which source decides, and that no two sources ever meet in one name."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from strongroom.errors import InvalidRequest
from strongroom.host import session_name
from strongroom.host.session_name import SessionSettings, Strategy, repository_of, resolve_session

KEY = "agent:main:telegram:dm:8439114563"
SESSION = "20261115_062942_22ce50"
HERE = PurePosixPath("/home/eri/projects/garden")
ROOT = PurePosixPath("/home/eri/projects")
NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
DEFAULT = SessionSettings()

NASTY = st.text(
    st.sampled_from("ab01_-: .:/-AB\n\0é\u0301e用户一客二مرحبا😀\ud800\udfff") | st.characters(), max_size=12
) | st.from_regex(r"[ab0]{1,3}([:\-]{1,2}[ab0]{0,3}){0,3}", fullmatch=True)
"""Texts that look alike once they are made readable: dashes and colons, other scripts, surrogates, empty segments."""

REQUEST = st.tuples(
    st.sampled_from(["title", "gateway_key", "session_id", "directory", "repository", "workspace"]),
    st.sampled_from(["", "a", "a-b", "A", "b"]) | NASTY,
    NASTY.filter(bool),
)
"""A branch, a peer (empty: no prefix) and a source."""


def key_name(key: str, settings: SessionSettings = DEFAULT) -> str:
    return resolve_session(settings, session_id=SESSION, gateway_key=key)


def title_name(title: str, settings: SessionSettings = DEFAULT) -> str:
    return resolve_session(settings, session_id=SESSION, title=title, gateway_key=KEY)


def name_of(branch: str, peer: str, source: str) -> str:
    settings = SessionSettings(peer_prefix=bool(peer), peer_name=peer)
    match branch:
        case "title":
            return resolve_session(settings, session_id=SESSION, title=source)
        case "gateway_key":
            return resolve_session(settings, session_id=SESSION, gateway_key=source)
        case "session_id":
            return resolve_session(replace(settings, strategy=Strategy.PER_SESSION), session_id=source)
        case "directory":
            return resolve_session(settings, session_id=SESSION, directory=PurePosixPath("/") / source)
        case "repository":
            by_repository = replace(settings, strategy=Strategy.PER_REPO)
            return resolve_session(by_repository, session_id=SESSION, repository=PurePosixPath("/") / source)
        case _:
            whole = replace(settings, strategy=Strategy.GLOBAL, workspace=source)
            return resolve_session(whole, session_id=SESSION)


def meant(branch: str, peer: str, source: str) -> tuple[str, str, str]:
    """What of a request counts: titles in NFC without blanks around, paths as paths."""
    if branch == "title":
        return branch, peer, unicodedata.normalize("NFC", source.strip())
    if branch in ("directory", "repository"):
        return branch, peer, str(PurePosixPath("/") / source)
    return branch, peer, source


# Refused


@pytest.mark.parametrize("strategy", [Strategy.PER_SESSION, Strategy.PER_DIRECTORY, Strategy.PER_REPO])
def test_session_of_which_nothing_is_known_is_refused_and_not_shared(strategy: Strategy) -> None:
    with pytest.raises(InvalidRequest) as refused:
        resolve_session(SessionSettings(strategy), session_id="")
    assert refused.value.reason == "invalid_request"
    assert refused.value.hint


def test_empty_workspace_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        resolve_session(SessionSettings(Strategy.GLOBAL, workspace=""), session_id=SESSION)


def test_relative_path_is_refused_because_it_is_another_place_for_each_process() -> None:
    with pytest.raises(InvalidRequest):
        resolve_session(DEFAULT, session_id=SESSION, directory=PurePosixPath("."))
    with pytest.raises(InvalidRequest):
        resolve_session(SessionSettings(Strategy.PER_REPO), session_id=SESSION, repository=PurePosixPath("garden"))


# Which source decides


@pytest.mark.requirement("session-title-first")
@pytest.mark.parametrize("strategy", Strategy)
def test_title_goes_before_the_gateway_key_and_every_strategy(strategy: Strategy) -> None:
    named = resolve_session(
        SessionSettings(strategy),
        session_id=SESSION,
        title="Trip to Rome",
        gateway_key=KEY,
        directory=HERE,
        repository=ROOT,
    )
    assert re.fullmatch("Trip-to-Rome--[0-9a-f]{16}", named)
    assert named == resolve_session(SessionSettings(), session_id="another", title="Trip to Rome")


@pytest.mark.requirement("session-gateway-key")
@pytest.mark.parametrize("strategy", Strategy)
def test_gateway_key_goes_before_every_strategy_and_reads_as_its_segments(strategy: Strategy) -> None:
    settings = SessionSettings(strategy)
    named = resolve_session(settings, session_id=SESSION, gateway_key=KEY, directory=HERE, repository=ROOT)
    assert named == "agent-main-telegram-dm-8439114563"


@pytest.mark.requirement("session-gateway-key")
def test_chat_keeps_its_name_when_the_session_id_changes() -> None:
    names = {resolve_session(SessionSettings(), session_id=one, gateway_key=KEY) for one in ("before", "after_new")}
    assert len(names) == 1


@pytest.mark.requirement("session-cli-unchanged")
def test_per_session_gives_the_session_id_itself_without_title_and_gateway_key() -> None:
    named = resolve_session(SessionSettings(Strategy.PER_SESSION), session_id=SESSION, directory=HERE, repository=ROOT)
    assert named == SESSION


@pytest.mark.requirement("session-cli-unchanged")
def test_default_without_title_and_gateway_key_is_the_directory_whatever_the_session() -> None:
    first, second = (resolve_session(SessionSettings(), session_id=one, directory=HERE) for one in ("one", "two"))
    assert first == second
    assert re.fullmatch("garden--[0-9a-f]{16}", first)


def test_per_repo_gives_all_directories_of_a_repository_one_name() -> None:
    settings = SessionSettings(Strategy.PER_REPO)
    names = {
        resolve_session(settings, session_id=SESSION, directory=one, repository=ROOT) for one in (HERE, ROOT / "src")
    }
    assert len(names) == 1
    assert names.pop().startswith("projects--")


def test_global_gives_everything_of_a_workspace_one_name_and_another_workspace_another() -> None:
    everywhere = SessionSettings(Strategy.GLOBAL)
    one, two = (resolve_session(everywhere, session_id=i, directory=d) for i, d in (("one", HERE), ("two", ROOT)))
    other = resolve_session(replace(everywhere, workspace="work"), session_id=SESSION)
    assert one == two != other


def test_unknown_identity_falls_back_to_something_narrower() -> None:
    by_repository, by_directory = SessionSettings(Strategy.PER_REPO), SessionSettings(Strategy.PER_DIRECTORY)
    outside = resolve_session(by_repository, session_id=SESSION, directory=HERE)
    assert outside == resolve_session(by_directory, session_id=SESSION, directory=HERE)
    assert resolve_session(by_repository, session_id=SESSION) == SESSION
    assert resolve_session(by_directory, session_id=SESSION, repository=ROOT) == SESSION


@pytest.mark.parametrize("blank", ["", " ", "\t\n", "\u3000"])
def test_blank_title_is_no_title(blank: str) -> None:
    assert title_name(blank) == key_name(KEY)


def test_title_of_only_symbols_is_a_title_and_does_not_fall_through() -> None:
    names = [title_name(one) for one in ("???", "!!!", "🌱")]
    assert all(re.fullmatch("title--[0-9a-f]{16}", one) for one in names)
    assert len({*names, key_name(KEY)}) == 4


def test_title_is_the_same_however_its_accents_are_composed() -> None:
    composed, decomposed = "Caf\u00e9", "Cafe\u0301"
    assert title_name(composed) == title_name(decomposed) == title_name(f"  {decomposed}\n")
    assert title_name("Cafe") != title_name(composed) != title_name("caf\u00e9")


def test_gateway_key_is_compared_exactly_and_not_composed() -> None:
    assert key_name("chat:caf\u00e9") != key_name("chat:cafe\u0301") != key_name("chat:caf\u00e9 ")


# The peer prefix


@pytest.mark.requirement("session-peer-prefix")
@pytest.mark.parametrize("branch", ["title", "gateway_key", "session_id", "directory", "repository", "workspace"])
def test_peer_prefix_stands_before_the_name_on_every_branch(branch: str) -> None:
    alone, with_peer, other = (name_of(branch, peer, "some:where") for peer in ("", "eri", "ana"))
    assert with_peer.startswith("eri--")
    assert other.startswith("ana--")
    assert with_peer.removeprefix("eri--").split("--")[0] == alone.split("--")[0]
    assert len({alone, with_peer, other}) == 3


@pytest.mark.requirement("session-peer-prefix")
def test_gateway_key_and_a_session_id_stay_plain_behind_a_plain_peer() -> None:
    settings = SessionSettings(Strategy.PER_SESSION, peer_prefix=True, peer_name="eri")
    assert key_name(KEY, settings) == "eri--agent-main-telegram-dm-8439114563"
    assert resolve_session(settings, session_id=SESSION) == f"eri--{SESSION}"


@pytest.mark.parametrize("peer", ["Eri", "eri-b", "用户", "e" * 33, "eri--x", "-"])
def test_name_behind_any_other_peer_has_a_hash(peer: str) -> None:
    named = key_name(KEY, SessionSettings(peer_prefix=True, peer_name=peer))
    assert re.search("--[0-9a-f]{16}$", named)
    assert NAME.fullmatch(named)


def test_prefix_is_absent_without_a_peer_name_or_if_it_is_off() -> None:
    names = {key_name(KEY, one) for one in (SessionSettings(peer_prefix=True), SessionSettings(peer_name="eri"))}
    assert names == {key_name(KEY)}


# Nothing collides


@pytest.mark.requirement("session-no-collision", "session-sanitised")
@pytest.mark.parametrize(
    "keys",
    [
        ["a:b", "a-b", "a--b", "a::b", ":a:b", "a:b:", "a:b-", "A:b", "a:B", "a b", "a_b", "a.b"],
        ["webui:用户一", "webui:客户二", "webui", "webui:"],
        ["用户一", "客户二", "مرحبا", "שלום", "😀", "🌱"],
        ["-", "--", ":", "::", "???", "!!!", " ", "\n", "\0"],
        [f"agent:main:telegram:group:{one}" for one in ("-5:77", "5:77", "-5-77", "-577", "5-77", ":5:77", "-5:-77")],
        [f"{'x' * 120}:{one}" for one in ("a", "b", "aa", "-")],
        [f"a:{'b' * one}" for one in (97, 98, 99, 100)],
        ["\ud83d\ude00", "😀", "\ud83d", "\ude00"],
    ],
    ids=["dashes", "chinese", "scripts", "symbols", "groups", "long", "border", "surrogates"],
)
def test_keys_that_look_alike_get_different_names(keys: list[str]) -> None:
    names = [key_name(one) for one in keys]
    assert len(set(names)) == len({one.lower() for one in names}) == len(keys)
    assert all(NAME.fullmatch(one) for one in names)


@pytest.mark.requirement("session-no-collision")
@pytest.mark.parametrize("key", ["a-b", "webui:用户一", "agent:main:telegram:group:-5:77", "-", "x" * 300])
def test_no_key_gives_the_name_that_a_hash_gave_to_another(key: str) -> None:
    taken = key_name(key)
    tries = [taken, taken.replace("--", ":"), taken.replace("-", ":"), taken.replace("--", "::"), f"{taken}:"]
    assert taken not in [key_name(one) for one in tries]
    assert taken not in [resolve_session(SessionSettings(Strategy.PER_SESSION), session_id=one) for one in tries]
    assert taken not in [title_name(one) for one in tries]


@pytest.mark.requirement("session-no-collision")
def test_session_id_that_looks_like_a_hash_is_hashed_itself() -> None:
    # Behind a peer "a", the bare id would be the name of a title "a" whose hash it is.
    by_title = name_of("title", "", "a")
    assert by_title.startswith("a--")
    assert name_of("session_id", "a", by_title.removeprefix("a--")) != by_title


@pytest.mark.requirement("session-no-collision")
def test_one_text_gives_each_branch_a_name_of_its_own_with_and_without_peers() -> None:
    branches = ["title", "gateway_key", "session_id", "directory", "repository", "workspace"]
    texts = ["a", "b:c", "c", "a:b:c", "a-b-c", KEY, key_name(KEY), "0123456789abcdef"]
    requests = list(product(branches, ["", "a", "a-b", "a_b", "agent"], texts))
    assert len({name_of(*one).lower() for one in requests}) == len(requests) == 240


@pytest.mark.requirement("session-no-collision")
def test_directories_of_one_name_in_two_places_are_two() -> None:
    places = [
        PurePosixPath(one) for one in ("/a/src", "/b/src", "/a/b/src", "/项目/一", "/项目/二", "/مشروع", "/", "/a b")
    ]
    names = {resolve_session(SessionSettings(), session_id=SESSION, directory=one) for one in places}
    assert len(names) == len(places)


@pytest.mark.requirement("session-no-collision", "session-sanitised")
@given(st.lists(REQUEST, min_size=2, max_size=12))
@example([("gateway_key", "a", "b:c"), ("gateway_key", "a-b", "c"), ("gateway_key", "", "a:b:c")])
@example([("gateway_key", "", "a:b"), ("session_id", "", "a-b"), ("session_id", "a", "b"), ("title", "", "a-b")])
def test_requests_that_differ_never_share_a_name(requests: list[tuple[str, str, str]]) -> None:
    counted = [(meant(*one), name_of(*one)) for one in requests if meant(*one)[2]]
    for (left, left_name), (right, right_name) in combinations(counted, 2):
        assert (left_name.lower() == right_name.lower()) == (left == right)


@pytest.mark.requirement("session-no-collision")
@given(st.lists(NASTY.filter(bool), min_size=2, max_size=20, unique=True))
def test_different_keys_have_different_names(keys: list[str]) -> None:
    assert len({key_name(one).lower() for one in keys}) == len(keys)


@pytest.mark.requirement("session-sanitised")
@given(REQUEST, st.integers(0, 300))
def test_name_is_always_short_and_of_safe_characters_and_always_the_same(
    request_: tuple[str, str, str], times: int
) -> None:
    branch, peer, source = request_
    longer = source + source[:1] * times
    if meant(branch, peer, longer)[2]:
        assert NAME.fullmatch(name_of(branch, peer, longer))
        assert name_of(branch, peer, longer) == name_of(branch, peer, longer)


def test_hash_separates_its_parts() -> None:
    assert session_name.hash_name("a", "bc", shown="x") != session_name.hash_name("ab", "c", shown="x")
    assert (
        session_name.hash_name("b", "c", shown="x", peer="a").split("--")[-1]
        != session_name.hash_name("b", "c", shown="x")[-16:]
    )


def test_name_does_not_change_between_releases() -> None:
    # A changed name would lose every chat's memory: these are fixed.
    assert key_name("a-b") == "a-b--af36d1bf7bdeb9ac"
    assert title_name("Trip to Rome") == "Trip-to-Rome--1ff6971a8dc258cf"
    assert name_of("directory", "eri", "garden") == "eri--garden--41baaf7a52ce1ce5"


# Where a repository begins


def test_repository_is_found_from_any_directory_in_it(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "src" / "deep").mkdir(parents=True)
    assert repository_of(tmp_path / "repo") == repository_of(tmp_path / "repo/src/deep") == tmp_path / "repo"


def test_work_tree_whose_git_is_a_file_is_a_repository_and_the_nearest_counts(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "tree" / "src").mkdir(parents=True)
    (tmp_path / "tree" / ".git").write_text("gitdir: elsewhere\n")
    assert repository_of(tmp_path / "tree" / "src") == tmp_path / "tree"


def test_link_into_a_repository_leads_to_its_root(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "src").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "repo" / "src")
    assert repository_of(tmp_path / "link") == tmp_path / "repo"


def test_outside_of_a_repository_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def exists(path: Path) -> bool:
        looked.append(str(path))
        return False

    monkeypatch.setattr("os.path.exists", exists)
    assert repository_of(tmp_path / "missing") is None
    assert looked[0] == str(tmp_path / "missing" / ".git")
    assert looked[-1] == "/.git"
