"""`hermes strongroom`: the owner's commands for a home's memory, on Hermes' own command line.

`status`, `recall`, `why` and `why-not` use the home's cap, narrowed to one person, so they show what Hermes sees.
`list`, `search`, `forget` and `who` use the owner's view (`owner_view`). A command prints text, or JSON with `--json`.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import Any

import msgspec

from strongroom import model
from strongroom.errors import InvalidRequest, StrongroomError
from strongroom.hermes.hermes_homes import wire_command
from strongroom.hermes.namespace_choice import route_text
from strongroom.hermes.provider import (
    dedupe,
    fitting_lines,
    line_format,
    memory_files,
    owner_view,
    recall_reasons,
    status_command,
)
from strongroom.hermes.provider.provider_home import ProviderHome, home_of
from strongroom.hermes.provider.speaker import ASSISTANT, Conversation, Nobody
from strongroom.hermes.provider.user_accounts import ALT
from strongroom.host.plugins.hermes_stubs import get_hermes_home
from strongroom.memory import Memory
from strongroom.model import Actor, Hit, Why, pluralize
from strongroom.routing import Route

Answer = tuple[dict[str, Any], str]
"""The result of a command: a JSON document, and the text for people."""
_PAGE_LIMIT = 200


def register_cli(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `hermes strongroom` to Hermes' parser."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    commands = parser.add_subparsers(dest="strongroom_command", metavar="COMMAND")
    _with_json(
        commands.add_parser("status", help="show the state of memory: its place, the cap, waiting turns and problems")
    )
    recall = _command(commands, "recall", "show what would be recalled for a question", 'recall "when is my trip?"')
    recall.add_argument("query", nargs="*", help="the question")
    recall.add_argument("-k", type=int, default=5, help="maximum number of lines")
    _register_list(_command(commands, "list", "list what is remembered, newest first", *_LIST_EXAMPLES))
    search = _command(commands, "search", "search the lines for words", "search gym code", "search -k 20 --json trip")
    search.add_argument("query", nargs="*", metavar="WORDS", help="the words")
    search.add_argument("-k", type=int, default=10, help="maximum number of lines, up to 20")
    forget = _command(commands, "forget", "forget lines for good, or whole turns", "forget ID", "forget --turn ID")
    forget.add_argument("ids", nargs="+", metavar="ID", help="ids of lines, as shown in [brackets]")
    forget.add_argument("--turn", action="store_true", help="also forget everything written in the same turns")
    about = _command(commands, "who", "show who wrote and read a line, from the log", "who ID", "who --json ID")
    about.add_argument("id", metavar="ID", help="the id of a line, as shown in [brackets]")
    about.add_argument("--limit", type=_number, default=50, help="maximum number of entries; the newest are shown")
    why = _command(commands, "why", "show where a line came from and why it is in its namespace", "why ID")
    why.add_argument("id", metavar="ID", help="the id of a line, as shown in [brackets]")
    example = 'why-not "when is my trip?" ID'
    why_not = _command(commands, "why-not", "show why a line is recalled for a question, or is not", example)
    why_not.add_argument("query", metavar="QUESTION", help="the question")
    why_not.add_argument("id", metavar="ID", help="the id of a line, as shown in [brackets]")


_LIST_EXAMPLES = ("list", "list --namespace travel --page 2", "list --as telegram:12345", "list --turn ID")


def _register_list(listing: argparse.ArgumentParser) -> None:
    listing.add_argument("--namespace", default="", help="only lines of this namespace")
    listing.add_argument(
        "--since", type=_moment, help="only lines from this day or time on: 2026-05-20 or 2026-05-20T14:00"
    )
    listing.add_argument("--turn", default="", metavar="ID", help="only lines written in the same turn as the line ID")
    listing.add_argument("--page", type=_number, default=1, help="which page")
    listing.add_argument("--limit", type=_number, default=20, help="number of lines on a page, up to 200")


def _number(text: str) -> int:
    value = int(text)
    if not 1 <= value <= _PAGE_LIMIT:
        raise argparse.ArgumentTypeError(f"give a number from 1 to {_PAGE_LIMIT}")
    return value


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.astimezone()


def _command(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str, what: str, *examples: str
) -> argparse.ArgumentParser:
    shown = "\n".join(f"  hermes strongroom {one}" for one in examples)
    made = commands.add_parser(
        name,
        help=what,
        description=f"{what[0].upper()}{what[1:]}.",
        epilog=f"examples:\n{shown}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return _with_actor(made)


def strongroom_command(args: argparse.Namespace) -> int:
    """Run a subcommand. Hermes ignores return values, so a failure raises SystemExit with code 1."""
    name = getattr(args, "strongroom_command", None) or "status"
    home = home_of(get_hermes_home())
    try:
        found, text = _COMMANDS[name](home, args)
    except StrongroomError as error:
        check = f"; `{wire_command(home.path)} --check-only` checks the policy" if home.broken else ""
        sys.stderr.write(f"Error: {error.message}\n" + (f"Hint: {error.hint}{check}\n" if error.hint else ""))
        raise SystemExit(1) from None
    sys.stdout.write(json.dumps(found, indent=2, default=str) + "\n" if args.json else text)
    if found.get("answers", "yes") != "yes":
        raise SystemExit(1)
    return 0


def _with_json(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    # Accepted after the subcommand too, where its default must not undo the flag before it.
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help=argparse.SUPPRESS)
    return parser


def _with_actor(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    _with_json(parser)
    parser.add_argument(
        "--as", dest="account", default="", metavar="WHO", help="use another person's memory: platform:id, or an actor"
    )
    return parser


def _actor(home: ProviderHome, args: argparse.Namespace) -> Actor:
    if args.account.startswith(home.policy.scope):
        return model.actor(args.account)
    platform, _, user = args.account.partition(":")
    if args.account and not user:
        raise InvalidRequest(
            "--as takes platform:id, such as telegram:12345",
            hint=f"an actor of this home is possible too: {home.policy.scope}telegram/chat/...",
        )
    found = home.whose(_conversation(platform or "cli", user))
    if isinstance(found, Nobody):
        raise InvalidRequest(found.reason)
    return found.actor


def _conversation(platform: str, user: str) -> Conversation:
    """The conversation of an account in the owner's notation: `telegram:123`, or `signal:alt:ID` for a stable id."""
    mark = f"{ALT}:"
    if user.startswith(mark):
        return Conversation(platform=platform, user_id_alt=user.removeprefix(mark))
    return Conversation(platform=platform, user_id=user)


def _status(home: ProviderHome, args: argparse.Namespace) -> Answer:  # noqa: ARG001
    return _answer(status_command.report(home))


def _words(args: argparse.Namespace, name: str) -> str:
    found = " ".join(args.query).strip()
    if not found:
        raise InvalidRequest(
            "no words were given",
            hint=f'give words, as in: hermes strongroom {name} "gym code"; `hermes strongroom list` shows everything',
        )
    return found


def _recall(home: ProviderHome, args: argparse.Namespace) -> Answer:
    query, now = _words(args, "recall"), datetime.now().astimezone()
    wanted = msgspec.structs.replace(home.policy.recall, lines=args.k)

    def get(memory: Memory) -> list[Hit]:
        return memory.get(query, k=args.k, now=now, min_confidence=fitting_lines.floor(query, now.date(), wanted))

    hits = [hit for hit in home.look.ask(_actor(home, args), get) if hit.score > 0 or hit.standing]
    hits = fitting_lines.fitting(dedupe.without_echoes(hits, query, ASSISTANT), query, now.date(), wanted)
    text, _ = line_format.format_hits(hits, 20_000)
    found = {"recalled": [{"id": hit.id, "namespace": hit.namespace, "text": hit.text} for hit in hits]}
    return found, _told({"recalled": text.removeprefix(line_format.HEADING).strip() or "nothing"})


def _list(home: ProviderHome, args: argparse.Namespace) -> Answer:
    page = owner_view.page(
        home,
        _actor(home, args),
        number=args.page,
        size=args.limit,
        namespace=str(model.namespace(args.namespace)) if args.namespace else "",
        since=args.since,
        turn=args.turn.strip("[] "),
    )
    found = {"lines": _documents(page.lines), "page": page.number, "pages": page.pages, "total": page.total}
    text = line_format.for_people(page.lines) or "no lines match\n"
    if page.pages > 1:
        text += (
            f"page {page.number} of {page.pages}, {pluralize(page.total, 'line')} in all; --page N shows another page\n"
        )
    return found | _reach(home), text + _reach_told(home)


def _search(home: ProviderHome, args: argparse.Namespace) -> Answer:
    hits = owner_view.find_lines(home, _actor(home, args), _words(args, "search"), args.k)
    return {"lines": _documents(hits)} | _reach(home), (line_format.for_people(hits) or "nothing\n") + _reach_told(home)


def _documents(hits: Sequence[Hit]) -> list[dict[str, Any]]:
    names = ("id", "namespace", "author", "kind", "session", "text")
    return [{"time": hit.time.isoformat(), **{name: str(getattr(hit, name)) for name in names}} for hit in hits]


def _reach(home: ProviderHome) -> dict[str, Any]:
    """With a server: the namespaces that the home's cap covers, because lines outside them are not shown. Otherwise
    empty.
    """
    return {} if home.way.is_embedded else {"namespaces": sorted(home.look.grounds.allowed)}


def _reach_told(home: ProviderHome) -> str:
    names = _reach(home).get("namespaces")
    return f"(served: only what Hermes' own cap covers: {', '.join(names)})\n" if names else ""


def _forget(home: ProviderHome, args: argparse.Namespace) -> Answer:
    ids = [model.line_id(one.strip("[] ")) for one in args.ids]
    done = owner_view.forget(home, _actor(home, args), ids, with_turns=args.turn)
    stays = memory_files.take_out(home, done.gone.notes)
    whose = f" --as {args.account}" if args.account else ""
    found = {
        "forgotten": list(done.gone.ids),
        "lines": len(done.gone.ids),
        "not found": list(done.gone.missing),
        "left of the turn": [info.id for info in done.left],
        "may repeat it": _documents(done.alike),
        "still in the file": stays,
        "next": _next(done, stays, whose),
    }
    told = {name: _joined(value) for name, value in found.items() if value and name != "may repeat it"}
    told["forgotten"] = f"{pluralize(len(done.gone.ids), 'line')}: {_joined(done.gone.ids)}"
    told.pop("lines")
    rows = line_format.for_people(done.alike)
    return found, _told(told) + (f"may repeat it:\n{rows}" if rows else "")


def _joined(value: Any) -> str:
    return value if isinstance(value, str) else ", ".join(map(str, value)) if isinstance(value, list | tuple) else ""


def _next(done: owner_view.HomeForgotten, stays: Sequence[str], whose: str) -> str:
    """The text that names a person's next steps after forgetting lines."""
    steps = []
    if done.left:
        steps.append(f"to forget the rest of the turn, run `hermes strongroom forget{whose} --turn {done.gone.ids[0]}`")
    if stays:
        steps.append(f"remove the note from {' and '.join(stays)} in memories/, or it stays in every prompt")
    steps.append("Hermes may still hold recalled copies: stop it, then run `strongroom scrub hermes`")
    return "; ".join(steps)


def _who(home: ProviderHome, args: argparse.Namespace) -> Answer:
    line = model.line_id(args.id.strip("[] "))
    entries = owner_view.readers(home, _actor(home, args), line, args.limit)
    rows = "".join(
        f"#{one.index}  {_minute(one.time)}  {_DID.get(one.op, one.op):<9} {one.decision}  {one.cap}\n"
        for one in entries
    )
    documents = [{**asdict(one), "time": one.time.isoformat()} for one in entries]
    return {"line": line, "entries": documents}, rows


def _minute(time: datetime) -> str:
    return f"{time.astimezone():%Y-%m-%d %H:%M}"


_DID = {"put": "written", "get": "read", "forget": "forgotten"}


def _why(home: ProviderHome, args: argparse.Namespace) -> Answer:
    wanted = model.line_id(args.id.strip("[] "))
    hit = home.look.ask(_actor(home, args), lambda memory: memory.get(ids=[wanted]))[0]
    return _answer(
        {
            "id": hit.id,
            "said": f"{_minute(hit.time)} by {hit.author or 'unknown'}, in session {hit.session or '-'}",
            "kind": str(hit.kind),
            "namespace": hit.namespace,
            "rules": _explained(route_text(home.policy, home.look.grounds.rules, hit.text), hit),
            "written by": f"{hit.provenance.source}, with cap {hit.provenance.links[0][:16]}",
        }
    )


def _why_not(home: ProviderHome, args: argparse.Namespace) -> Answer:
    wanted, query = model.line_id(args.id.strip("[] ")), args.query
    now, recall = datetime.now().astimezone(), home.policy.recall

    def get(memory: Memory) -> list[Hit]:
        return memory.get(
            query, ids=[wanted], explain=True, now=now, min_confidence=fitting_lines.floor(query, now.date(), recall)
        )

    hit = home.look.ask(_actor(home, args), get)[0]
    why = hit.why or Why({}, 0)
    signals = sorted(why.signals.items(), key=lambda one: -abs(one[1]))
    shares = ", ".join(f"{name} {share:.2f}" for name, share in signals if round(share, 2))
    return _answer(
        {
            "id": hit.id,
            "recalled": recall_reasons.reason(hit, why, query, now.date(), recall),
            "rank": why.rank or "none",
            "confidence": round(hit.confidence, 3),
            "score": round(hit.score, 2),
            "signals": shares or "none",
        }
    )


def _explained(route: Route, hit: Hit) -> str:
    by = f"rule {route.rule!r} matches {route.matched!r}" if route.rule else "the default, because no rule matches"
    if route.namespace == hit.namespace:
        return by
    return (
        f"the rules alone would choose {route.namespace} ({by}); the line is elsewhere because the same turn had more"
        " sensitive lines, or by the policy for its chat"
    )


def _answer(found: dict[str, Any]) -> Answer:
    return found, _told(found)


def _told(found: dict[str, Any]) -> str:
    width = max(map(len, found))
    return "".join(f"{name:<{width}}  {value}\n" for name, value in found.items())


_COMMANDS: dict[str, Callable[[ProviderHome, argparse.Namespace], Answer]] = {
    "status": _status,
    "recall": _recall,
    "list": _list,
    "search": _search,
    "forget": _forget,
    "who": _who,
    "why": _why,
    "why-not": _why_not,
}
