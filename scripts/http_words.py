"""The sentences of docs/http.md that no type says: what fields mean, how large they may be, what to do about errors.

Limits are taken from the code that holds them.
"""

from __future__ import annotations

from strongroom.crypto.inbox import SEALED_LIMIT
from strongroom.memory.ops.get import QUERY_LIMIT
from strongroom.model import (
    ANSWER_LIMIT,
    BATCH_BYTES,
    BATCH_LIMIT,
    DOCUMENT_LIMIT,
    FIELD_LIMIT,
    K_DEFAULT,
    K_LIMIT,
    KEY_LIMIT,
    LINE_LIMIT,
    LIST_LIMIT,
    META_DEPTH,
    META_LIMIT,
    PROFILE_LIMIT,
    TAG_LIMIT,
    TAGS_LIMIT,
    WITHOUT_LIMIT,
    Kind,
)
from strongroom.server.listen import PORT
from strongroom.server.server_options import DEFAULT
from strongroom.vault.admin_calls import _ENTRIES
from strongroom.vault.issue import TTL_LIMIT

INTRODUCTION = f"""\
# HTTP

Every route of `strongroom serve`, with what it takes and gives. This page is written by
`scripts/make_http_reference.py` from the types that requests are read with; the examples are requests that it made,
with made-up ids, hashes and caps in place of the random ones. For programs: `GET /openapi.json`, or the copy
[openapi.json](openapi.json). Clients can be generated from it: `make generators` does so with openapi-typescript and
openapi-python-client, and uses what they made. What a field means where it is left out is in its description.

A request is one call: JSON in, JSON out, the cap in `Authorization: Bearer`. The cap says whose memory it is; no field
of a memory call names an actor. Unknown fields, a field that comes twice, wrong types and trailing text are refused. A
body of more than {DEFAULT.unproven_limit} bytes is read only after its cap was found valid, and never more than
{DEFAULT.body_limit} bytes. By default a server listens on `127.0.0.1:{PORT}`: [service.md](service.md).
"""

TRYING = """\
## Try it

A server on a unix socket, a cap, a request. The cap goes into a file of headers, so that no process list shows it:

```console
$ strongroom init > init.txt
$ strongroom serve --socket room.sock 2> server.log &
$ until test -S room.sock; do sleep 0.1; done
$ strongroom cap mint --ops put,get --namespaces travel --ttl 1h --out agent.cap > mint.txt
$ umask 077; (printf 'Authorization: Bearer '; cat agent.cap) > headers.txt
$ curl -sS --unix-socket room.sock -H @headers.txt -H 'Content-Type: application/json' \\
> -d '{"lines": [{"text": "Trip to Chengdu, May 25-29, 2026"}]}' http://localhost/v1/memory/put; echo
{"receipts":[{"id":"01...","namespace":"travel","duplicate":false,"forgotten":false}]}
$ curl -sS --unix-socket room.sock -H @headers.txt -H 'Content-Type: application/json' \\
> -d '{"query": "allergies", "namespaces": ["personal"]}' -w ' %{http_code}' http://localhost/v1/memory/get; echo
{"error":"denied","reason":"cap_namespace_denied","message":"the cap does not cover this namespace"} 403
```

From Python, the client has the methods of the embedded vault ([guide.md](guide.md#against-a-server)):

```python
# ask.py
import os
from pathlib import Path

import strongroom

url = f"unix://{os.getcwd()}/room.sock"  # or https://memory.example.org
with strongroom.connect(url, Path("agent.cap").read_text().strip()) as memory:
    print([hit.text for hit in memory.get("when is the trip?")])
```

```console
$ python ask.py
['Trip to Chengdu, May 25-29, 2026']
$ kill $!; wait $!
```
"""

HEADERS = (
    ("Authorization", "request", "`Bearer <cap>`, once; a cap anywhere else (query, cookie, body) is none"),
    ("Content-Type", "request", "`application/json` with every body; anything else is `media_type_refused`"),
    ("Host", "request", "a loopback name, the address listened on, or one named with `--host-name`"),
    ("Origin", "request", "sent by web pages only; refused unless named with `--origin`"),
    (
        "X-Request-Id",
        "both",
        "`[A-Za-z0-9._-]{1,64}`; made up if missing or malformed. It stands in the audit log and in the server's log",
    ),
    ("ETag", "answer", 'the version of a profile, such as `"0123…"`; absent where none was written'),
    ("If-Match", "request", "the version that a profile must still have when it is written"),
    ("If-None-Match", "request", "`*`, or neither of the two: no profile was written yet"),
    ("Retry-After", "answer", "seconds to wait, with 429 and 503"),
    ("WWW-Authenticate", "answer", "`Bearer`, with 401"),
    ("Cache-Control", "answer", "`no-store`, always"),
)

STATUSES = {
    400: "change the request",
    401: "show another cap",
    403: "ask for less, or show another cap",
    404: "it is not there, or not yours",
    405: "use the method that the message names",
    408: "send faster; the connection is closed",
    409: "another line has this id, or the line was replaced already: the reason says which",
    412: "read the profile again, then decide",
    413: "send less at once; the connection is closed",
    415: "send JSON, and say so",
    421: "use a name that the server answers to",
    429: "wait for `Retry-After` seconds",
    431: "send smaller headers; the connection is closed",
    500: "stop: an operator must look (`tampered`: at the vault; `server_defect`: at the server's log)",
    503: "try again after `Retry-After` seconds; a write is wholly there or absent",
}

NOTES = {
    "Errors": (
        "Every answer that is no success has one shape: `error` (the family), `reason` (stable; compare this),\n"
        "`message`, and `hint` where there is advice; `cap_revoked` has `erased` if nothing is left of its actor.\n"
        "Each reason: [errors.md](errors.md). A namespace outside the cap is refused with the same bytes whether\n"
        "or not it exists."
    ),
    "Memory": "Whose memory: the cap's. Where namespaces are left out, exactly the cap's own are meant.",
    "Administration": (
        "A cap of the class `admin` opens no memory. It covers actors (one, or a prefix of them) and namespaces, and\n"
        "mints, lists and revokes within both; it never mints `admin`. Reading the log is of the vault as a whole."
    ),
    "Put": (
        f"At most {BATCH_LIMIT} lines, of {BATCH_BYTES} bytes of text together. Give each line an id if you may have\n"
        "to send it again: the same line under the same id is written once and then reported as `duplicate`."
    ),
    "ReadInbox": "What is sealed to it ([spec/inbox.md](spec/inbox.md)) opens in this vault alone.",
    "Deliver": (
        "The cap is looked at before the bundle is opened. A bundle for another actor than the cap's is\n"
        "`cap_limit_exceeded`. Sent again, its lines are reported as `duplicate` and written once."
    ),
    "Observe": "Nothing is kept but the log entry, in which `what` stands in clear, and for ever: a name, not a text.",
    "Get": (
        f"The texts of an answer are at most {ANSWER_LIMIT} bytes together; the first line always fits. Only lines\n"
        "that match are returned; an empty query matches every line, newest first. With `explain`, every line of the\n"
        "answer counts as read, and a text that does not fit is empty ([guide.md](guide.md#score-confidence-and-why))."
    ),
    "ReadProfile": "The answer's `ETag` is the version.",
    "WriteProfile": "The body holds `text` alone; the namespace stands in the query, the version in `If-Match`.",
    "WriteDocument": (
        "If the document was written, renamed or deleted since, it is `version_conflict`. The version before is kept\n"
        "in the history. A cap that is bound to a session writes, renames and deletes no documents."
    ),
    "DeleteDocument": "The answer's `ids` hold the version that was deleted; none, if there was no document.",
    "RenameDocument": (
        "A document under the new key is `version_conflict`. In a bucket, a crash may leave the document under both\n"
        "keys, and the same request again completes it."
    ),
    "ReadDocumentHistory": "The texts are at most 320 KiB together.",
    "Renew": "A narrowed cap cannot be renewed. The old cap stays valid until its end.",
    "conflict": "Without `If-Match`, or with one that is out of date, a profile that is there is not overwritten:",
    "Mint": "The cap is in the answer and nowhere else: it cannot be shown again.",
    "open": (
        "`/mcp` is the address for MCP clients ([mcp.md](mcp.md)). It takes the cap as all others do, and refuses\n"
        "with the same statuses before the protocol begins."
    ),
}

OPEN = {
    "/healthz": '200 `{"status":"ok"}` while the process answers',
    "/readyz": '200 `{"status":"ready"}` if store, keys and log answer, else 503; looked up once a second',
    "/metrics": "figures for Prometheus, to callers on this machine or on the socket; 404 to all others",
    "/openapi.json": "the OpenAPI 3.1 document",
    "/mcp": "MCP, streamable HTTP; POST only, with a cap",
}

_NAMESPACES = (None, "among the cap's; one outside is denied")
_ONE = (None, "may be left out if the cap covers only one")
_KEY = (None, f"a path such as `notes/2026/trip.md`, at most {KEY_LIMIT} bytes; no empty, `.` or `..` segments")
_SINCE = (None, "the line's own time, from")
_UNTIL = (None, "the line's own time, up to and not including")

_FILTER: dict[str, tuple[str | None, str]] = {
    "kind": (None, "only of this kind"),
    "author": (None, "only by this author"),
    "tags": (None, "only with all of these tags"),
    "meta": (None, "only with these members in their `meta`, equal to these"),
    "turn": (None, "only of this turn"),
    "since": _SINCE,
    "until": _UNTIL,
}

FIELDS: dict[str, dict[str, tuple[str | None, str]]] = {
    "Put": {"lines": (None, f"1 to {BATCH_LIMIT}; all are written or none")},
    "NewLine": {
        "text": (None, f"at most {LINE_LIMIT} bytes in NFC"),
        "namespace": (None, "may be left out if the cap covers only one"),
        "session": (None, f"the conversation it belongs to, at most {FIELD_LIMIT} characters"),
        "author": (None, f"who said it, at most {FIELD_LIMIT} characters"),
        "kind": (None, ", ".join(f"`{one}`" for one in Kind if one != Kind.DOCUMENT)),
        "id": (None, "a ULID of your own; else one is made"),
        "time": (None, "when it happened; else now"),
        "tags": (None, f"at most {TAGS_LIMIT}, each of 1 to {TAG_LIMIT} characters"),
        "meta": (None, f"a JSON object of your own, at most {META_LIMIT} bytes and {META_DEPTH} deep"),
        "expires": (None, "from when on it is not recalled; it is forgotten soon after"),
        "turn": (None, f"the turn it belongs to, at most {FIELD_LIMIT} characters"),
    },
    "Deliver": {"sealed": (None, f"an age file, at most {SEALED_LIMIT} bytes before base64")},
    "Observe": {
        "what": (None, "1 to 64 of `A-Z a-z 0-9 . _ : / @ + -`, such as a tool's name"),
        "digest": (None, "a SHA-256 in hex of what it was done with"),
    },
    "Get": {
        **_FILTER,
        "from_session": (None, "only of this conversation"),
        "query": (None, f"what to look for, at most {QUERY_LIMIT} bytes"),
        "k": (None, f"how many lines: {K_DEFAULT}, or what the cap allows; at most {K_LIMIT}; 0 only has lines read"),
        "ids": (None, "exactly these lines instead of a query"),
        "without": (None, f"lines not to return, at most {WITHOUT_LIMIT}; with a query only"),
        "namespaces": _NAMESPACES,
        "session": (None, "the asker's conversation; a cap bound to one admits no other"),
        "now": (None, "the moment that words like *tomorrow* refer to; else the server's time"),
        "patience": (None, "seconds to wait for lines to be read; then what is there is ranked"),
        "min_confidence": (None, "from 0 to 1: lines with a lower confidence are not returned"),
        "or_newest": (None, "if no line matches: the newest lines, with a score and a confidence of 0"),
        "explain": (None, "every candidate up to `k`, with `why`; with `ids` and a query, these lines"),
    },
    "List": {
        "namespaces": _NAMESPACES,
        "session": (None, "only of this conversation"),
        **_FILTER,
        "texts": (None, "with their texts; the cap must allow `get` too, and the lines count as read"),
        "standing": (None, "only standing instructions and preferences, as the engine recognises them"),
        "limit": (None, f"1 to {LIST_LIMIT} lines"),
        "after": (None, "the `next` of the page before"),
    },
    "TakeSnapshot": {"namespaces": _NAMESPACES},
    "ReadProfile": {"namespace": ("`?namespace=`", "may be left out if the cap covers only one")},
    "WriteProfile": {
        "text": ("`text` in the body", f"all profiles of a cap together: at most {PROFILE_LIMIT} bytes"),
        "namespace": ("`?namespace=`", "may be left out if the cap covers only one"),
        "version": ("`If-Match`", "the `ETag` that was read; leave it out where none was written yet"),
    },
    "ReadDocument": {"key": _KEY, "namespace": _ONE},
    "WriteDocument": {
        "key": _KEY,
        "text": (None, f"at most {DOCUMENT_LIMIT} bytes in NFC"),
        "namespace": _ONE,
        "version": (None, "the version that was read; leave it out where there is none"),
        "tags": (None, f"at most {TAGS_LIMIT}, each of 1 to {TAG_LIMIT} characters"),
        "meta": (None, f"a JSON object of your own, at most {META_LIMIT} bytes and {META_DEPTH} deep"),
        "expires": (None, "from when on there is no such document"),
        "unused": (None, "only under a key that no document ever had; `version_conflict` otherwise"),
    },
    "ListDocuments": {
        "prefix": (None, "how the keys begin"),
        "namespaces": _NAMESPACES,
        "limit": (None, f"1 to {LIST_LIMIT} documents"),
        "after": (None, "the `next` of the page before"),
    },
    "DeleteDocument": {"key": _KEY, "namespace": _ONE, "version": (None, "only if it is still at this version")},
    "RenameDocument": {
        "key": _KEY,
        "new_key": (None, "the key that it gets, in the same namespace"),
        "version": (None, "only if it is still at this version"),
        "namespace": _ONE,
    },
    "ReadDocumentHistory": {"key": _KEY, "namespace": _ONE},
    "Forget": {
        "ids": (None, "these lines"),
        "session": (None, "all lines of this conversation"),
        "link": (None, "all that was written with this cap, or with one narrowed from it"),
        "namespaces": _NAMESPACES,
        **_FILTER,
    },
    "Replace": {
        "id": (None, "the line to replace"),
        "text": (None, "the new text"),
        "namespace": (None, "may be left out unless lines of several namespaces have this id"),
        "new_id": (None, "a ULID of your own for the new line; sent again with it, the call takes effect once"),
        "session": (None, "else as in the old line"),
        "author": (None, "else as in the old line"),
        "kind": (None, "else as in the old line"),
        "time": (None, "else now"),
        "tags": (None, "else as in the old line"),
        "meta": (None, "else as in the old line"),
        "expires": (None, "else as in the old line"),
        "turn": (None, "else as in the old line"),
        "forget": (None, "forget the text of the old line as well"),
    },
    "ReadHistory": {
        "id": (None, "of any version"),
        "namespace": (None, "may be left out unless lines of several namespaces have this id"),
    },
    "Erase": {
        "namespaces": (None, "these namespaces, with their keys"),
        "everything": (None, "all of the actor; its caps are void afterwards, this one too"),
    },
    "Mint": {
        "ops": (
            None,
            "operations of the memory: `put`, `get`, `list`, `snapshot`, `profile`, `forget`, `erase`, `renew`",
        ),
        "namespaces": (None, "within those of the admin cap"),
        "actor": (None, "whose memory; this or `actor_scope`, within the admin cap's"),
        "actor_scope": (None, "a prefix ending in `/`; opens nothing until it is narrowed to one actor"),
        "ttl": (None, f"seconds, 1 to {TTL_LIMIT}"),
        "session": (None, "only for this conversation"),
        "max_k": (None, "the largest k that a get may ask for"),
        "max_depth": (None, "how many times it may be narrowed"),
        "label": (None, "a name to know it by; on record"),
        "delegable": (None, "whether its holder can narrow it"),
    },
    "Revoke": {"link": (None, "the id of a link, from `mint`, `list` or the log")},
    "ReadEntries": {"start": (None, "the first entry's number"), "limit": (None, f"1 to {_ENTRIES}")},
    "Prove": {"index": (None, "the entry's number")},
}
