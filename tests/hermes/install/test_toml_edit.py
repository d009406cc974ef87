"""One key of a policy changed: refusals first, then that comments, order and the owner's edits stay."""

from __future__ import annotations

import sys
import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strongroom.errors import InvalidRequest
from strongroom.extras import how_to_install
from strongroom.hermes import policy
from strongroom.hermes.install import policy_template
from strongroom.hermes.install.policy_template import Wiring, policy_text
from strongroom.hermes.install.toml_edit import render_value, set_key

MINE = """\
# mine
vault = "/a"  # where # it is
# url = "https://example.org"
namespaces = [
  "a", # b
  "c",
]

[people]
# me = ["telegram:1"]
x = 1
[keep]
mask_secrets = true # yes
"""
KEY = f"age1{'q' * 58}"
WIRING = Wiring("default", "/v", "", "", "/c/runtime.cap", "/c/state", KEY, policy.SENSITIVITY)


@pytest.mark.requirement("wire-policy-kept")
def test_value_where_a_table_belongs_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        set_key("people = 3\n", "people", "me", ("telegram:2",))
    assert 'me = ["telegram:2"]' in refused.value.hint


def test_name_that_is_no_utf8_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        render_value("/home/\udcff")
    with pytest.raises(InvalidRequest):
        set_key(MINE, "", "vault", "/home/\udcff")


def test_package_to_install_is_named_without_tomlkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tomlkit", None)
    with pytest.raises(InvalidRequest) as refused:
        set_key(MINE, "", "vault", "/b")
    assert refused.value.hint == how_to_install("hermes", sys.executable)


@pytest.mark.requirement("wire-policy-kept")
@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("people = {me = [], x = 1}  # one line\n", 'people = {me = ["telegram:2"], x = 1}  # one line\n'),
        ("people.me = []\n", 'people.me = ["telegram:2"]\n'),
        ('[people]\n"me" = []\n', '[people]\n"me" = ["telegram:2"]\n'),
        ("[people.aliases]\nbob = []\n", '[people]\nme = ["telegram:2"]\n\n[people.aliases]\nbob = []\n'),
        ("x = 1\r\n[people]\r\nme = []\r\n", 'x = 1\r\n[people]\r\nme = ["telegram:2"]\r\n'),
        ("", '[people]\nme = ["telegram:2"]\n'),
    ],
)
def test_key_is_found_however_it_is_written(text: str, wanted: str) -> None:
    assert set_key(text, "people", "me", ("telegram:2",)) == wanted


def test_header_within_a_text_is_not_taken_for_a_table() -> None:
    text = 'note = """\n[people]\n"""\nvault = "/a"\n'
    assert set_key(text, "", "vault", "/b") == 'note = """\n[people]\n"""\nvault = "/b"\n'


@pytest.mark.requirement("wire-policy-kept")
def test_values_change_and_remarks_stay() -> None:
    text = set_key(MINE, "", "vault", '/b "é\\')
    text = set_key(text, "", "url", "https://memory.example.org")
    text = set_key(text, "", "namespaces", ("q", "r"))
    text = set_key(text, "", "cap", "/c")
    text = set_key(text, "people", "me", ("telegram:2",))
    text = set_key(text, "keep", "mask_secrets", value=False)
    assert text == (
        "# mine\n"
        'vault = "/b \\"é\\\\"  # where # it is\n'
        '# url = "https://example.org"\n'
        'namespaces = ["q", "r"]\n'
        'url = "https://memory.example.org"\n'
        'cap = "/c"\n'
        "\n"
        "[people]\n"
        '# me = ["telegram:1"]\n'
        "x = 1\n"
        'me = ["telegram:2"]\n'
        "[keep]\n"
        "mask_secrets = false # yes\n"
    )


@pytest.mark.requirement("wire-policy-kept")
def test_changed_key_of_the_template_changes_its_own_line_alone() -> None:
    before = policy_text(WIRING)
    after = set_key(set_key(before, "people", "me", ("telegram:2",)), "keep", "mask_secrets", value=False)
    pairs = [pair for pair in zip(before.splitlines(), after.splitlines(), strict=True) if pair[0] != pair[1]]
    assert [new.partition("#")[0].split() for _, new in pairs] == [
        ["mask_secrets", "=", "false"],
        ["me", "=", '["telegram:2"]'],
    ]
    assert set_key(set_key(after, "people", "me", ()), "keep", "mask_secrets", value=True) == before


@pytest.mark.requirement("wire-policy-kept")
def test_setting_that_holds_already_is_not_rewritten() -> None:
    text = 'namespaces=["a",\n"b"]\nvault   =   "/a"'
    assert set_key(text, "", "vault", "/a") is text
    assert set_key(text, "", "namespaces", ("a", "b")) is text


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_every_text_is_read_back_as_it_was(value: str) -> None:
    assert tomllib.loads(set_key("", "", "vault", value)) == {"vault": value}
    assert tomllib.loads(set_key(MINE, "", "vault", value))["vault"] == value


# The template.


@pytest.mark.requirement("wire-policy-explained")
def test_every_key_of_a_policy_is_in_the_template_with_its_default() -> None:
    said = tomllib.loads(policy_text(WIRING))
    struct = policy._File  # the table itself, so that a new key fails here
    assert set(said) == set(struct.__struct_fields__) - {"routing"}
    for name, part in (("recall", policy.Recall), ("keep", policy.Keep), ("people", policy.People)):
        assert set(said[name]) == set(part.__struct_fields__)
    plain = policy.read(
        f'vault = "/v"\ncap = "/c/runtime.cap"\nstate = "/c/state"\ninbox = "{KEY}"\nprofile = "default"\n'
    )
    assert policy.read(policy_text(WIRING)) == plain


@pytest.mark.requirement("wire-policy-explained")
def test_setting_that_the_template_only_mentions_can_be_switched_on() -> None:
    text = policy_text(WIRING, me=("telegram:1",), tools="forget", masking=False)
    for line in text.splitlines():
        bare = line.removeprefix("# ")
        if line.startswith("# ") and (" = [" in bare or " = " in bare) and not bare.startswith(("`", "-")):
            text = text.replace(line, bare)
    text = text.replace("# [routing]", "[routing]").replace("# [[routing.rules]]", "[[routing.rules]]")
    read = policy.read(text)
    assert read.chats
    assert read.rules is not None
    assert read.off_the_record.turn
    assert read.tools is policy.Tools.FORGET
    assert not read.keep.mask_secrets


def test_every_line_of_the_template_fits_a_screen() -> None:
    assert max(len(line) for line in policy_template._TEXT.splitlines()) <= 120
