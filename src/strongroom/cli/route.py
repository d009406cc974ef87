"""route: what the routing rules make of a text, and the file that holds them. Keeps nothing and needs no vault.

With a home of Hermes named, its policy comes first, as it does for what is said there.
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
    """A decision of the rules. `rule` is empty where none fits and the default holds; `overruled` fit too."""

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
@click.option("--platform", metavar="NAME", help="Where the text came from, for rules that ask.")
@click.option("--chat", metavar="NAME", help="In which chat, for rules that ask.")
@click.option("--home", metavar="DIR", help="As in this home of Hermes, with its policy.")
@click.option("--profile", metavar="NAME", help="As in this profile of Hermes.")
@click.option("--write-default", is_flag=True, help="Write the default rules, with comments, to change them.")
@click.option("--out", metavar="FILE", help="Where to write them: by default the configuration file; - is stdout.")
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

    The rules decide for `put` without --namespace; of several that fit, the one with the most sensitive namespace. In a
    home of Hermes, what its policy says of the chat comes first, then the profile's own namespace, then the rules. No
    model is asked, and the gate has the last word.
    """
    if write_default:
        if text:
            raise click.UsageError("--write-default takes no text")
        _write(run, out)
        return
    if out is not None or not text:
        raise click.UsageError("say which text, or --write-default")
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
    """The policy of a home; that of one that is not wired says nothing."""
    found = hermes_homes.find(home, profile, os.environ, Path.home())
    if len(found) > 1:
        raise click.UsageError("a text is said in one profile: name it")
    path = policy.path_of(found[0].path)
    return policy.read(read_text(path) or "", str(path))


def _explained(found: routing.Route) -> str:
    where = output.bold(found.namespace)
    if found.rule == namespace_choice.BY_CHAT:
        return f"{where}: the policy's [chats] says so of {output.one_line(found.matched)}"
    if found.rule == namespace_choice.BY_PROFILE:
        return f"{where}: the policy's `namespace` says so of all that the profile {found.matched} hears"
    if not found.rule:
        return f"{where}: no rule fits, so the default"
    why = f" matches {output.escape_invisible(found.matched)!r}" if found.matched else " fits where it came from"
    return f"{where}: rule `{output.escape_invisible(found.rule)}`{why}"


def _overruled(other: routing.Route) -> str:
    matched = f" matches {output.escape_invisible(other.matched)!r}" if other.matched else " fits where it came from"
    return f"  over {output.one_line(other.namespace)}: rule `{output.escape_invisible(other.rule)}`{matched}"


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
        raise InvalidRequest(f"{path} is there already", hint="print the rules with --out -") from None
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror}") from None
    run.answer({"out": str(path)}, f"the default rules are in {output.one_line(str(path))}")
