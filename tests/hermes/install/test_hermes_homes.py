"""Hermes' homes and its Python: what is refused first, then that they are found where Hermes itself has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from strongroom.errors import InvalidRequest, ProviderUnavailable
from strongroom.hermes import hermes_homes
from strongroom.hermes.hermes_homes import HermesHome
from strongroom.hermes.install import hermes_probe
from tests.hermes.homes import PYTHON


def profiles(root: Path, *names: str) -> None:
    for name in names:
        (root / "profiles" / name).mkdir(parents=True)


def test_no_home_is_refused(home: Path) -> None:
    with pytest.raises(InvalidRequest):
        hermes_homes.find(None, None, {}, home)
    with pytest.raises(InvalidRequest):
        hermes_homes.find(str(home / "nowhere"), None, {}, home)


def test_home_that_hermes_home_names_and_that_is_not_there_is_refused_with_that_name(home: Path) -> None:
    for named, environ in ((None, {"HERMES_HOME": str(home / "none")}), (str(home / "none"), {})):
        with pytest.raises(InvalidRequest) as refused:
            hermes_homes.find(named, None, environ, home)
        assert ("HERMES_HOME" in refused.value.message) == (named is None)


def test_file_is_no_home(home: Path) -> None:
    (home / ".hermes").write_text("")
    with pytest.raises(InvalidRequest):
        hermes_homes.find(None, None, {}, home)


@pytest.mark.requirement("wire-refusals")
def test_another_users_home_is_refused(hermes: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: hermes.stat().st_uid + 1)
    with pytest.raises(InvalidRequest):
        hermes_homes.find(None, None, {}, home)


@pytest.mark.requirement("wire-refusals")
def test_home_that_cannot_be_written_is_refused(hermes: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not (Path(path) == hermes and mode & os.W_OK))
    with pytest.raises(InvalidRequest):
        hermes_homes.find(None, None, {}, home)


@pytest.mark.parametrize("name", ["../x", "", "a/b", "-x", "Ünicode", "a" * 65])
def test_name_that_is_no_profile_of_hermes_is_refused(hermes: Path, home: Path, name: str) -> None:
    with pytest.raises(InvalidRequest):
        hermes_homes.find(None, name, {}, home)


def test_profile_that_is_not_there_is_refused(hermes: Path, home: Path) -> None:
    with pytest.raises(InvalidRequest):
        hermes_homes.find(None, "coder", {}, home)


def test_usual_home_its_profiles_and_the_active_one_are_found(hermes: Path, home: Path) -> None:
    profiles(hermes, "coder", "writer")
    (hermes / "profiles" / "Not A Profile").mkdir()
    default = HermesHome(hermes, "default", hermes)
    coder = HermesHome(hermes / "profiles" / "coder", "coder", hermes)
    writer = HermesHome(hermes / "profiles" / "writer", "writer", hermes)
    assert hermes_homes.find(None, None, {}, home) == (default,)
    assert hermes_homes.find(None, "Coder", {}, home) == (coder,)
    assert hermes_homes.find(None, "all", {}, home) == (default, coder, writer)
    assert hermes_homes.find(None, None, {"HERMES_HOME": str(writer.path)}, home) == (writer,)
    assert hermes_homes.find(None, "default", {"HERMES_HOME": str(writer.path)}, home) == (default,)
    (hermes / "active_profile").write_text("coder\n")
    assert hermes_homes.find(None, None, {}, home) == (coder,)
    assert hermes_homes.find(str(hermes), None, {}, home) == (default,)


@pytest.mark.requirement("wire-real-hermes")
def test_each_home_is_called_as_hermes_calls_it(home: Path) -> None:
    native = home / ".hermes"
    profiles(native, "coder")
    (native / "other").mkdir()
    other = home / "my dätä"
    profiles(other, "writer")
    linked = home / "linked"
    linked.symlink_to(native)
    places = [native, native / "profiles/coder", native / "other", other, other / "profiles/writer", linked]
    program = (
        "import json, os, sys\n"
        "from hermes_cli.profiles import get_active_profile_name\n"
        "names = []\n"
        "for place in sys.argv[1:]:\n"
        "    os.environ['HERMES_HOME'] = place\n"
        "    names.append(get_active_profile_name())\n"
        "print(json.dumps(names))\n"
    )
    done = subprocess.run(
        [PYTHON, "-c", program, *map(str, places)],
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        capture_output=True,
        check=True,
        timeout=60,
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    assert [hermes_homes.of(place, home).profile for place in places] == theirs
    assert theirs == ["default", "coder", "custom", "default", "writer", "default"]


# Hermes' Python.


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def test_path_without_hermes_is_refused(home: Path) -> None:
    with pytest.raises(InvalidRequest):
        hermes_probe.find(path=str(home))


def test_python_without_hermes_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        hermes_probe.find(sys.executable)


def test_python_that_is_none_is_refused(home: Path) -> None:
    with pytest.raises(InvalidRequest):
        hermes_probe.find(str(home / "python"))
    with pytest.raises(ProviderUnavailable):
        hermes_probe.find(str(script(home / "python", "#!/bin/sh\nexit 3\n")))


def test_wrapper_that_tells_nothing_is_refused(home: Path) -> None:
    with pytest.raises(InvalidRequest):
        hermes_probe.python_of(script(home / "bin/hermes", "#!/bin/sh\nrun-it\n"))


@pytest.mark.parametrize(
    "text",
    [
        "#!/opt/tools/python3.12\nimport x\n",
        "#!/bin/sh\n'''exec' \"/opt/tools/python3.12\" \"$0\" \"$@\"\n' '''\nimport x\n",
        '#!/bin/bash\nset -e\nexec /opt/tools/python3.12 -m hermes_cli.main "$@"\n',
    ],
)
def test_python_of_a_script_is_found(home: Path, text: str) -> None:
    assert hermes_probe.python_of(script(home / "bin/hermes", text)) == Path("/opt/tools/python3.12")


def test_wrapper_leads_to_the_script_behind_it(home: Path) -> None:
    real = script(home / "my venv/bin/hermes", "#!/opt/tools/python\n")
    assert hermes_probe.python_of(script(home / "bin/hermes", f'#!/bin/sh\nexec "{real}" "$@"\n')) == Path(
        "/opt/tools/python"
    )


def test_wrapper_that_calls_itself_ends(home: Path) -> None:
    me = home / "bin/hermes"
    with pytest.raises(InvalidRequest):
        hermes_probe.python_of(script(me, f'#!/bin/sh\nexec "{me}" "$@"\n'))


@pytest.mark.requirement("wire-real-hermes")
def test_installed_hermes_is_found_on_the_search_path() -> None:
    found = hermes_probe.find(path=str(PYTHON.parent))
    assert found.python == PYTHON
    assert found.version == "0.19.0"
    assert found.is_tested
    assert not found.lacks
    assert not found.broken


@pytest.mark.parametrize(
    ("version", "tested"), [("0.18.9", False), ("0.19.0", True), ("0.20.6", True), ("1.0", True), ("unknown", False)]
)
def test_older_hermes_counts_as_untested(version: str, tested: bool) -> None:
    assert hermes_probe.Hermes(PYTHON, version, "", frozenset(), "").is_tested is tested
