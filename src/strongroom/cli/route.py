"""route: explain which namespace a text would go to, or write the rules file. It stores nothing and needs no vault.

With --home or --profile, the policy of that Hermes home comes before the rules, as in conversations of that home.
"""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from strongroom import routing, settings
from strongroom.cli import output
from strongroom.cli.app import command
from strongroom.cli.run_context import Run, common_options, pass_run
from strongroom.errors import InvalidRequest
from strongroom.hermes import hermes_homes, namespace_choice, policy
from strongroom.hermes.install.home_files import read_text
from strongroom.private_files import make_directory


class Routed(msgspec.Struct, frozen=True, omit_defaults=True):
    """A decision of the routing rules. `rule` is empty if no rule matches. `overruled` are further rules that match."""

    namespace: str
    rule: str
    matched: str
    overruled: list[dict[str, str]] = []


@command(
    examples=[
        'strongroom route "my flight leaves at nine"',
        'strongroom route "下周去成都旅行" --json',
        'strongroom route "the build is red" --platform slack --chat C0123456',
        "strongroom route --write-default --out -",
        "strongroom route --write-default",
    ]
)
@click.argument("text", nargs=-1)
@click.option("--platform", metavar="NAME", help="The platform of the text, for rules about platforms.")
@click.option("--chat", metavar="NAME", help="The chat of the text, for rules about chats.")
@click.option("--home", metavar="DIR", help="Use the policy of this Hermes home, too.")
@click.option("--profile", metavar="NAME", help="Use the policy of this Hermes profile, too.")
@click.option("--write-default", is_flag=True, help="Write the default rules, with comments, for you to edit.")
@click.option("--out", metavar="FILE", help="Where to write the rules; by default the configuration file, - is stdout.")
@common_options
@pass_run
def route(
    run: Run,
    text: tuple[str, ...],
    platform: str | None,
    chat: str | None,
    home: str | None,
    profile: str | None,
    write_default: bool,
    out: str | None,
) -> None:
    """Explain which namespace TEXT would go to, or write the rules.

    The rules choose the namespace for `put` without --namespace. If several rules match, the rule with the most
    sensitive namespace wins. In a Hermes home, the policy's entry for the chat comes first, then the profile's own
    namespace, then the rules. No model is involved, and the cap must still cover the namespace.
    """
    if write_default:
        if text:
            raise click.UsageError("--write-default takes no text")
        _write(run, out)
        return
    if out is not None or not text:
        raise click.UsageError("give a text to explain, or --write-default")
    rules = run.settings.rules()
    if home is None and profile is None:
        found = routing.route(" ".join(text), rules, platform=platform, chat=chat)
        others = routing.matching_routes(" ".join(text), rules, platform=platform, chat=chat)[1:]
    else:
        said = _policy(home, profile)
        found = namespace_choice.route_text(said, rules, " ".join(text), platform, chat)
        others = namespace_choice.overruled_routes(said, rules, " ".join(text), platform, chat)
    told = [{"namespace": one.namespace, "rule": one.rule, "matched": one.matched} for one in others]
    run.answer(Routed(found.namespace, found.rule, found.matched, told), [_explained(found), *map(_overruled, others)])


def _policy(home: str | None, profile: str | None) -> policy.Policy:
    """The policy of a Hermes home. Empty if the home is not wired (set up to use the vault)."""
    found = hermes_homes.find(home, profile, os.environ, Path.home())
    if len(found) > 1:
        raise click.UsageError("give one profile by name: a text belongs to one profile")
    path = policy.path_of(found[0].path)
    return policy.read(read_text(path) or "", str(path))


def _explained(found: routing.Route) -> str:
    where = output.bold(found.namespace)
    if found.rule == namespace_choice.BY_CHAT:
        return f"{where}: by the policy's [chats] entry for {output.one_line(found.matched)}"
    if found.rule == namespace_choice.BY_PROFILE:
        return f"{where}: by the policy's `namespace`, for everything in the profile {found.matched}"
    if not found.rule:
        return f"{where}: the default, because no rule matches"
    why = f" matches {output.escape_invisible(found.matched)!r}" if found.matched else " matches its platform or chat"
    return f"{where}: rule `{output.escape_invisible(found.rule)}`{why}"


def _overruled(other: routing.Route) -> str:
    matched = (
        f" matches {output.escape_invisible(other.matched)!r}" if other.matched else " matches its platform or chat"
    )
    return f"  overrules {output.one_line(other.namespace)}: rule `{output.escape_invisible(other.rule)}`{matched}"


def _write(run: Run, out: str | None) -> None:
    if out == "-":
        run.answer({"toml": routing.default_toml()}, routing.default_toml().removesuffix("\n"))
        return
    path = Path(out) if out is not None else settings.config_path()
    try:
        make_directory(path.parent)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(routing.default_toml())
    except FileExistsError:
        hint = "name another file with --out, or print the rules with --out -"
        raise InvalidRequest(f"the file {path} already exists", hint=hint) from None
    except OSError as error:
        raise InvalidRequest(f"cannot write the file {path}: {error.strerror}") from None
    run.answer({"out": str(path)}, f"the default rules are in {output.one_line(str(path))}")
