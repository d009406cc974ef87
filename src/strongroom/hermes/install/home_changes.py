"""The steps of `wire` that write into a home: the policy, the plugin, and last the provider in config.yaml.

Each step can be repeated, and a file is written completely or not at all. Hermes' behaviour changes only with the last
step, so a later run can finish an interrupted run.
"""

from __future__ import annotations

import json
import tomllib
from dataclasses import replace

from strongroom.errors import InvalidRequest, KeyUnavailable
from strongroom.hermes import policy as policies
from strongroom.hermes.install import config_yaml, plugin_files, toml_edit
from strongroom.hermes.install.home_files import read_text, replace_text
from strongroom.hermes.install.install_steps import StepResult, StepState
from strongroom.hermes.install.policy_template import Wiring, policy_text
from strongroom.hermes.install.wire_request import Work
from strongroom.host.memory_file_import import forget_marks
from strongroom.private_files import make_directory, write_file

BACKUP = "config.yaml.before-strongroom"


# The policy.


def keep_policy(work: Work) -> StepResult:
    """Write the policy, or update its first part. The rest of the policy is the owner's and stays as it is."""
    wanted = wanted_policy(work)
    if wanted == work.policy_text:
        return StepResult(StepState.SKIP, f"{work.policy_path} is up to date")
    policies.read(wanted, str(work.policy_path))
    did = "written" if work.policy_text is None else "updated"
    done = work.do(f"{work.policy_path} is {did}", lambda: _write_policy(work, wanted), hint=_sealed(work))
    return _doubted(work, done)


def _write_policy(work: Work, wanted: str) -> None:
    if work.policy_text is None:  # files imported before went into a vault that is no longer known
        forget_marks(work.home.path)
    replace_text(work.policy_path, wanted)


def _doubted(work: Work, done: StepResult) -> StepResult:
    """Add a warning to the result if an account given with --me is on a platform that this Hermes does not support."""
    known = work.hermes.platforms if work.hermes is not None else frozenset[str]()
    strange = [one for one in work.request.me if known and one.partition(":")[0] not in known]
    if not strange:
        return done
    platform = strange[0].partition(":")[0]
    doubt = f"Hermes has no platform {platform}: if it is misspelled, remove {strange[0]} from people.me in this file"
    hint = f"{done.hint}; {doubt}" if done.hint else doubt
    return replace(done, state=StepState.WARN if done.changed else done.state, hint=hint)


def _sealed(work: Work) -> str:
    if work.policy is None or not work.policy.inbox or work.inbox in ("", work.policy.inbox):
        return ""
    if work.policy.url != work.url or work.policy.vault != work.vault:
        cap = f"a cap minted --for {work.scope}{policies.OWNER} --ops list,get,snapshot"
        stays = "what was remembered so far stays in the former vault"
        return f"this is another vault than before: {stays} (to copy it, run `strongroom export` there with {cap})"
    return "the policy had another inbox key than the vault: turns sealed to that key cannot be stored"


def wanted_policy(work: Work) -> str:
    """The text that the policy should have after this run."""
    wiring = Wiring(
        profile=work.home.profile,
        vault=work.vault,
        url=work.url,
        ca_file=work.ca_file,
        cap=str(work.places.cap),
        state=str(work.places.state),
        inbox=work.inbox or (work.policy.inbox if work.look_only and work.policy is not None else ""),
        namespaces=work.namespaces,
    )
    asked = work.request
    if work.policy_text is None:
        return policy_text(wiring, me=_unique(asked.me), tools=asked.tools or "none", masking=asked.masking)
    text = work.policy_text
    for name in Wiring.__slots__:
        text = _kept_up(text, "", name, getattr(wiring, name))
    if asked.tools is not None:
        text = toml_edit.set_key(text, "", "tools", asked.tools)
    if not asked.masking:
        text = toml_edit.set_key(text, "keep", "mask_secrets", False)
    return _kept_up(text, "people", "me", _unique((*_me(text), *asked.me)))


def _kept_up(text: str, table: str, key: str, value: toml_edit.Value) -> str:
    """The text with the key set. A missing key is not added if its value is empty."""
    data = tomllib.loads(text)
    held = data.get(table, {}) if table else data
    return text if not value and key not in held else toml_edit.set_key(text, table, key, value)


def _me(text: str) -> tuple[str, ...]:
    return tuple(
        account for account, name in policies.read(text).identity.user_peer_aliases.items() if name == policies.OWNER
    )


def _unique(accounts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(accounts))


# The plugin.


def keep_plugin(work: Work) -> StepResult:
    """Write those files of the plugin that are missing or different."""
    place = plugin_files.directory(work.home.path)
    names = plugin_files.differing_files(work.home.path)
    strange = [name for name in plugin_files.foreign(work.home.path) if name in names]
    if strange:
        raise InvalidRequest(
            f"the file {place / strange[0]} was not written by Strongroom",
            hint="move this file away: the plugin needs that name",
        )
    if not names:
        return StepResult(StepState.SKIP, f"{place} is up to date")
    return work.do(f"the plugin is in {place}", lambda: plugin_files.write(work.home.path))


# The switch.


def switch_on(work: Work) -> StepResult:
    """Set memory.provider in config.yaml to strongroom, and save the former value for `unwire`."""
    text = read_text(work.config_path) or ""
    wanted = config_yaml.with_provider(text, plugin_files.NAME)
    if wanted == text:
        return StepResult(StepState.SKIP, "memory.provider is strongroom")
    before = config_yaml.provider_in(config_yaml.read(text))
    was = f"; it was {before}, and `strongroom unwire hermes` restores that" if before else ""

    def write() -> None:
        _remember(work, before, had_file=work.config_path.exists())
        if read_text(work.home.path / BACKUP) != text:
            replace_text(work.home.path / BACKUP, text)
        replace_text(work.config_path, wanted)

    return work.do(f"memory.provider is strongroom{was}", write)


def _remember(work: Work, before: str | None, *, had_file: bool) -> None:
    """Save the former memory.provider in a file, because others may remove comments from config.yaml."""
    said = json.dumps({"provider": before, "had_file": had_file}) + "\n"
    if read_text(work.places.before) == said:
        return
    try:
        make_directory(work.places.before.parent)
        write_file(work.places.before, said.encode(), new=False)
    except OSError as error:
        raise KeyUnavailable(f"cannot write the file {work.places.before}: {error.strerror}") from None
