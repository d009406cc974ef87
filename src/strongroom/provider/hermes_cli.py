"""`hermes strongroom status|recall|forget|why`: what a person asks of their memory from Hermes' own command line.

Run by the owner of the home, with the runtime's cap narrowed to one actor. Prints for people, or JSON with `--json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from strongroom import model
from strongroom.errors import InvalidRequest, LineNotFound, StrongroomError
from strongroom.host.plugins.names import get_hermes_home
from strongroom.memory import Memory
from strongroom.model import Actor, Hit, Namespace
from strongroom.provider import echoes, remedies, showing, status
from strongroom.provider.accounts import ALT
from strongroom.provider.home import Home, home_of
from strongroom.provider.serving import ask
from strongroom.provider.speaking import ASSISTANT, Conversation, Nobody
from strongroom.provider.status import Problem
from strongroom.routing import Route
from strongroom.wiring import homes
from strongroom.wiring.ownplaces import is_anothers
from strongroom.wiring.placing import placed
from strongroom.wiring.steps import counted

_POLICY = "reading the policy"
_WALLS = {
    True: "none against tools of your own user: the keys lie in your files (wire with --url for a wall)",
    False: "the server: this home holds a cap and no keys",
}


def register_cli(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `hermes strongroom`."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    commands = parser.add_subparsers(dest="strongroom_command", metavar="COMMAND")
    _with_json(commands.add_parser("status", help="how memory is doing: where it is, the cap, what waits, what failed"))
    recall = _with_actor(commands.add_parser("recall", help="what would be recalled for a question"))
    recall.add_argument("query", nargs="+", help="the question")
    recall.add_argument("-k", type=int, default=5, help="at most so many lines")
    forget = _with_actor(commands.add_parser("forget", help="forget lines for good"))
    forget.add_argument("ids", nargs="+", help="ids as they stand in [brackets]")
    why = _with_actor(commands.add_parser("why", help="where a line came from, and why it lies in its namespace"))
    why.add_argument("id", help="an id as it stands in [brackets]")


def strongroom_command(args: argparse.Namespace) -> int:
    """Carry out a subcommand. Hermes heeds no return value: what failed ends the process with code 1."""
    name = getattr(args, "strongroom_command", None) or "status"
    try:
        found = _COMMANDS[name](home_of(get_hermes_home()), args)
    except StrongroomError as error:
        sys.stderr.write(f"Error: {error.message}\n" + (f"Hint: {error.hint}\n" if error.hint else ""))
        raise SystemExit(1) from None
    sys.stdout.write(json.dumps(found, indent=2, default=str) + "\n" if args.json else _told(found))
    if found.get("answers", "yes") != "yes":
        raise SystemExit(1)
    return 0


def _with_json(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    # Also behind the subcommand, where it must not undo the flag before it.
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _with_actor(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    _with_json(parser)
    parser.add_argument("--as", dest="account", default="", metavar="PLATFORM:ID", help="somebody else's memory")
    return parser


def _actor(home: Home, args: argparse.Namespace) -> Actor:
    platform, _, user = args.account.partition(":")
    if args.account and not user:
        raise InvalidRequest("--as takes platform:id, such as telegram:12345")
    found = home.whose(_conversation(platform or "cli", user))
    if isinstance(found, Nobody):
        raise InvalidRequest(found.reason)
    return found.actor


def _conversation(platform: str, user: str) -> Conversation:
    """Of an account as the owner writes it: `telegram:123`, or `signal:alt:ID` by its stable id."""
    mark = f"{ALT}:"
    if user.startswith(mark):
        return Conversation(platform=platform, user_id_alt=user.removeprefix(mark))
    return Conversation(platform=platform, user_id=user)


def _status(home: Home, args: argparse.Namespace) -> dict[str, Any]:  # noqa: ARG001
    parts, policy = home.parts, home.policy
    waiting = parts.spool.waiting()
    found: dict[str, Any] = {
        "home": str(home.path),
        "profile": policy.profile,
        "memory": home.way.place,
        "wall": _WALLS[home.way.is_embedded],
        "cap": _cap(home),
        "namespaces": ", ".join(map(_reached(home), policy.namespaces)),
        "tools": str(policy.tools),
        "secrets": "masked" if policy.keep.mask_secrets else "kept as they are (keep.mask_secrets = false)",
        "spool": f"{counted(waiting.turns, 'turn')}, {waiting.bytes} of {parts.spool.most} bytes",
    }
    found["answers"], reason = _answers(home)
    if counts := status.read_counts(parts.directory):
        found["so far"] = ", ".join(f"{name}: {number}" for name, number in counts.items())
    if aside := parts.spool.aside():
        found["set aside"] = f"{counted(aside, 'turn')} that the vault would not take, in {parts.spool.directory}"
    noted = status.read(parts.directory)
    steps = remedies.next_steps(policy, home.path, filter(None, (reason, *(one.reason for one in noted.values()))))
    return {**found, **_policy(home), **_problems(noted), **({"next": "; ".join(steps)} if steps else {})}


def _reached(home: Home) -> Callable[[Namespace], str]:
    """A namespace by its name, and that the cap does not cover it, where that is so."""
    allowed = home.look.allowed
    return lambda name: name if name in allowed else f"{name} (not in the cap: what belongs there is not kept)"


def _policy(home: Home) -> dict[str, str]:
    """What is wrong with the policy as it is now."""
    if home.broken:
        return {"policy": f"the file has a fault, the one before it is in use: {home.broken}"}
    mine = homes.of(home.path, Path.home())
    if not is_anothers(home.policy, mine):
        return {}
    wire = f"`strongroom wire hermes --profile {mine.profile}` gives this one its own"
    return {"policy": f"it is of another home, copied or edited: {wire}"}


def _problems(noted: Mapping[str, Problem]) -> dict[str, str]:
    """What failed and has not worked since, each sentence once. Of the policy more is known than was noted."""
    works: dict[tuple[str, str], list[str]] = {}
    for work, problem in noted.items():
        if work != _POLICY:
            works.setdefault((problem.message, problem.reason), []).append(work)
    found: dict[str, str] = {}
    for (message, reason), names in works.items():
        since = datetime.fromtimestamp(min(noted[name].since for name in names) / 1000).astimezone()
        also = f"; the same for {', '.join(names[1:])}" if names[1:] else ""
        found[f"problem: {names[0]}"] = f"{message} [{reason}], since {since:%Y-%m-%d %H:%M}{also}"
    return found


def _cap(home: Home) -> str:
    try:
        left = home.parts.caps.days_left()
    except StrongroomError as error:
        return f"{error.message} [{error.reason}]"
    return f"ends in {left:.0f} days; it is renewed before that, unless it was revoked" if left > 0 else "has ended"


def _answers(home: Home) -> tuple[str, str]:
    """Whether memory answers, and for which reason it does not."""
    owner = home.whose(Conversation(platform="cli"))
    try:
        if isinstance(owner, Nobody):
            return owner.reason, ""
        ask(home, owner.actor, lambda memory: memory.get("", k=0, patience=0.0), hasty=True)
    except StrongroomError as error:
        return f"no: {error.message} [{error.reason}]", error.reason
    return "yes", ""


def _recall(home: Home, args: argparse.Namespace) -> dict[str, Any]:
    def get(memory: Memory) -> list[Hit]:
        return memory.get(" ".join(args.query), k=args.k, now=datetime.now().astimezone())

    hits = [hit for hit in ask(home, _actor(home, args), get) if hit.score > 0]
    hits = echoes.without_echoes(hits, " ".join(args.query), ASSISTANT)
    text, _ = showing.shown(hits, 20_000)
    if args.json:
        return {"recalled": [{"id": hit.id, "namespace": hit.namespace, "text": hit.text} for hit in hits]}
    return {"recalled": text.removeprefix(showing.HEADING).strip() or "nothing"}


def _forget(home: Home, args: argparse.Namespace) -> dict[str, Any]:
    ids = [model.line_id(one.strip("[] ")) for one in args.ids]
    done = ask(home, _actor(home, args), lambda memory: memory.forget(ids=ids))
    if not done.ids:
        raise LineNotFound("there is no such line", hint="`hermes strongroom recall` shows the ids of lines")
    hint = "Hermes may still hold recalled copies: stop it, then run `strongroom scrub hermes`"
    return {"forgotten": ", ".join(done.ids) or "none", "not found": ", ".join(done.missing) or "none", "next": hint}


def _why(home: Home, args: argparse.Namespace) -> dict[str, Any]:
    wanted = model.line_id(args.id.strip("[] "))
    hit = ask(home, _actor(home, args), lambda memory: memory.get(ids=[wanted]))[0]
    return {
        "id": hit.id,
        "said": f"{hit.time.astimezone():%Y-%m-%d %H:%M} by {hit.author or 'unknown'}, in session {hit.session or '-'}",
        "kind": str(hit.kind),
        "namespace": hit.namespace,
        "rules": _explained(placed(home.policy, home.look.rules, hit.text), hit),
        "written by": f"{hit.provenance.source}, with cap {hit.provenance.links[0][:16]}",
    }


def _explained(route: Route, hit: Hit) -> str:
    by = f"rule {route.rule!r} on {route.matched!r}" if route.rule else "no rule fits, so the default"
    if route.namespace == hit.namespace:
        return by
    return f"its words alone say {route.namespace} ({by}); what stood beside it was more sensitive, or its chat decides"


def _told(found: dict[str, Any]) -> str:
    width = max(map(len, found))
    return "".join(f"{name:<{width}}  {value}\n" for name, value in found.items())


_COMMANDS: dict[str, Callable[[Home, argparse.Namespace], dict[str, Any]]] = {
    "status": _status,
    "recall": _recall,
    "forget": _forget,
    "why": _why,
}
