"""Draw the pictures of the README and docs/ into docs/images. With `--check`, say whether they are up to date.

Run it after a change here, and look at what it drew.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the scripts are no installed package

from scripts.calibration_plot import calibration  # noqa: E402
from scripts.picture import Arrow, Box, Picture, Words, svg  # noqa: E402

IMAGES = ROOT / "docs" / "images"

VAULT = Picture(
    "vault",
    "One vault, and what goes where",
    "Callers show a cap to the gate. The gate checks the cap by fixed rules and grants some namespaces of one "
    "actor, or denies. The memory runs the operation within that grant. The engine ranks the opened lines of the "
    "allowed namespaces and sees no others. The store commits sealed lines together with the entry of the log. "
    "The keys and the last checkpoint of the log lie outside of the vault.",
    960,
    410,
    [
        Box((290, 16, 650, 264), "", kind="area"),
        Box((20, 36, 200, 92), "callers", ["your agent", "the command line", "MCP clients, Hermes"]),
        Arrow([(220, 66), (308, 66)]),
        Words(255, 58, "cap, ask", "middle"),
        Arrow([(308, 104), (222, 104)]),
        Words(255, 122, "answer", "middle"),
        Words(20, 158, "Each caller holds a cap: one actor,"),
        Words(20, 175, "some operations and namespaces,"),
        Words(20, 192, "and a time at which it ends."),
        Words(20, 222, "A refusal is the same whether or not"),
        Words(20, 239, "the namespace holds anything, and is"),
        Words(20, 256, "logged like every other decision."),
        Box(
            (310, 36, 270, 92),
            "gate",
            ["checks cap, operation, class,", "namespaces and limits: fixed", "rules, no language model"],
            "trusted",
        ),
        Arrow([(580, 82), (638, 82)]),
        Words(609, 74, "grant", "middle"),
        Box(
            (640, 36, 280, 92),
            "memory",
            ["runs the operation for the", "granted namespaces of one", "actor, and no others"],
            "trusted",
        ),
        Box(
            (310, 190, 270, 72), "engine", ["ranks opened lines of allowed", "namespaces by words and time"], "trusted"
        ),
        Arrow([(690, 128), (690, 226), (582, 226)], both=True),
        Words(598, 214, "opened lines"),
        Words(598, 246, "ranked lines"),
        Arrow([(800, 128), (800, 294)]),
        Words(808, 180, "sealed lines and"),
        Words(808, 197, "the log entry, in"),
        Words(808, 214, "one commit"),
        Box(
            (290, 296, 650, 100),
            "the vault, on disk",
            ["shows sizes, counts", "and times; no text", "and no name"],
            "area",
        ),
        Box((490, 312, 210, 72), "store", ["every line encrypted", "for its own place"]),
        Box((716, 312, 210, 72), "log", ["every decision, in a", "tree that shows edits"]),
        Box(
            (20, 296, 240, 100),
            "keys, outside the vault",
            ["root key, issuer key, and", "the last checkpoint seen:", "back them up elsewhere"],
            "owner",
        ),
    ],
)

CAP = Picture(
    "cap",
    "The chain of a cap",
    "The owner's issuer key signs the first link, for alice, with put, get and list in personal and travel, for "
    "30 days. Alice's agent narrows it offline to get and list in travel for two hours; the helper narrows that "
    "to get for five minutes. Each link is signed by the key that the link before it names. What counts is the "
    "intersection. Revoking a link revokes every link after it.",
    960,
    280,
    [
        Box((20, 64, 170, 76), "issuer key", ["with the owner;", "signs the first link"], "owner"),
        Arrow([(190, 102), (228, 102)]),
        Box(
            (230, 40, 220, 124),
            "link 0: the owner mints",
            ["actor local/alice", "put, get, list", "personal, travel", "30 days"],
            "trusted",
        ),
        Arrow([(450, 102), (488, 102)]),
        Box((490, 40, 220, 124), "link 1: the agent", ["", "get, list", "travel", "2 hours"], "held"),
        Arrow([(710, 102), (738, 102)]),
        Box((740, 40, 200, 124), "link 2: the helper", ["", "get", "travel", "5 minutes"], "held"),
        Words(340, 26, "signed by the issuer", "middle"),
        Words(600, 26, "signed offline by link 0's holder", "middle"),
        Words(840, 26, "by link 1's holder", "middle"),
        Words(230, 192, "A link can only take away: what counts is what all links allow."),
        Words(230, 212, "No link can be taken off: the token does not hold the keys of the links before the last."),
        Words(230, 232, "Revoking link 1 revokes link 2 as well, from the next call on; link 0 stays valid."),
        Words(230, 252, "The gate checks every signature, then operation, class, namespaces and limits."),
    ],
)

PUT = Picture(
    "put",
    "The walk of a put",
    "A call comes from Python, or by HTTP or MCP through the server. It is admitted by the gate, or refused, "
    "which is logged. Then the lines are checked and get ids, are sealed with the namespace's key, and one commit "
    "writes the log entry, the sealed lines and the new head, if nothing they depend on has changed. If something "
    "has, the put starts again with the same ids. The receipt is returned when the commit is on disk.",
    960,
    330,
    [
        Box((20, 20, 200, 72), "call", ["Python, or JSON over", "HTTP or MCP"]),
        Arrow([(220, 56), (258, 56)]),
        Box((260, 20, 200, 92), "1  admit", ["catch up with other", "processes, then ask", "the gate"], "trusted"),
        Arrow([(460, 56), (498, 56)]),
        Box(
            (500, 20, 200, 92),
            "2  prepare",
            ["check text, give ids,", "take or make keys,", "seal for its place"],
            "trusted",
        ),
        Arrow([(700, 56), (738, 56)]),
        Box(
            (740, 20, 200, 92),
            "3  commit",
            ["conditions first, then", "all of it or nothing:", "one transaction"],
            "trusted",
        ),
        Arrow([(840, 112), (840, 168)]),
        Box(
            (620, 176, 320, 96),
            "on disk, before the answer",
            [
                "the log entry of the decision",
                "the sealed lines, and new keys if any",
                "the log's new head, with its MAC",
            ],
        ),
        Arrow([(618, 224), (462, 224)]),
        Box((260, 188, 200, 72), "4  answer", ["receipts: id, time,", "namespace"], "trusted"),
        Arrow([(258, 224), (122, 224), (122, 94)]),
        Words(130, 176, "acknowledged means"),
        Words(130, 193, "durable"),
        Arrow([(760, 112), (760, 140), (360, 140), (360, 114)], dashed=True),
        Words(560, 134, "something changed meanwhile: again, with the same ids", "middle"),
        Words(260, 300, "Refused at 1: an entry for the refusal is committed, and the caller gets its reason."),
    ],
)

HERMES = Picture(
    "hermes",
    "Hermes with Strongroom, and who can read what",
    "Hermes' process holds Strongroom's provider. The provider finds out who speaks, chooses a namespace by the "
    "owner's rules, masks secrets, and asks the gate with a cap for one actor and five minutes. The vault with "
    "its keys is in the same process when embedded, or with another user when served. Turns that the vault cannot "
    "take wait sealed in the spool. Hermes' own state.db, memory files, logs and backups hold conversations in "
    "clear.",
    960,
    508,
    [
        Box((172, 16, 402, 476), "the user who runs Hermes", kind="area"),
        Box((640, 16, 304, 388), "served: another user", ["embedded: the same process"], "area", dashed=True),
        Box((20, 120, 130, 72), "you", ["in a terminal,", "TUI or editor"]),
        Box((20, 212, 130, 72), "others", ["in chats and", "groups"]),
        Arrow([(150, 156), (186, 156)]),
        Arrow([(150, 248), (186, 248)]),
        Box((188, 48, 370, 250), "Hermes, one process", ["model, tools, gateway"]),
        Arrow([(260, 98), (260, 132)]),
        Words(270, 118, "a turn"),
        Arrow([(400, 132), (400, 98)]),
        Words(410, 118, "recalled lines"),
        Box(
            (204, 134, 338, 138),
            "Strongroom's provider",
            [
                "one actor for each person or chat",
                "namespace by the owner's rules",
                "secrets masked",
                "nothing kept off the record",
                "a cap for this actor, five minutes",
            ],
            "held",
        ),
        Box((188, 314, 178, 92), "runtime.cap", ["for the people of", "this home, 30 days;", "cannot mint"], "held"),
        Box((380, 314, 178, 92), "spool", ["turns that wait,", "sealed; only the", "vault opens them"], "held"),
        Arrow([(277, 314), (277, 274)]),
        Arrow([(469, 274), (469, 312)]),
        Box((188, 422, 370, 56), "in clear, outside the gate", ["state.db, MEMORY.md, logs, backups"], "clear"),
        Box((656, 64, 272, 72), "gate", ["cap, operation, class,", "namespaces: rules only"], "trusted"),
        Arrow([(790, 136), (790, 162)]),
        Box((656, 164, 130, 92), "vault", ["lines, sealed", "for each", "person"], "trusted"),
        Box((798, 164, 130, 92), "log", ["every recall,", "write, denial;", "no text"], "trusted"),
        Box((656, 272, 272, 72), "keys", ["open everything;", "served: not with Hermes' user"], "owner"),
        Arrow([(544, 150), (654, 86)]),
        Words(578, 96, "cap, ask"),
        Arrow([(654, 118), (544, 182)]),
        Words(590, 180, "lines"),
        Arrow([(560, 360), (606, 360), (606, 210), (654, 210)], dashed=True),
        Words(656, 372, "dashed: turns from the spool are delivered"),
        Words(656, 389, "when the vault can be reached again"),
        Words(640, 436, "red: Hermes' user, its tools, its backups"),
        Words(640, 454, "blue: Hermes' user; holds no key"),
        Words(640, 472, "green, amber: served, the server's user"),
    ],
)

FLEET = Picture(
    "fleet",
    "Many workers over one bucket",
    "Callers show a cap to a balancer, which passes each request to any worker. Every worker has the gate, the "
    "keys, opened lines in RAM and what it last saw of the logs. Workers share nothing but a bucket. The bucket "
    "holds the vault's own sealed objects, news of their changes and records of caps; for each actor its keys, "
    "lines and packs; and for each worker a log that is written once, with its entry in the roster. The operator "
    "of the bucket sees locators, sizes and times, and no text.",
    960,
    494,
    [
        Box((20, 134, 110, 84), "callers", ["a cap each,", "no key"]),
        Arrow([(130, 176), (158, 176)]),
        Box((160, 134, 120, 84), "balancer", ["asks", "/readyz"]),
        Box((314, 16, 290, 370), "your machines: see text", kind="area", dashed=True),
        Arrow([(280, 150), (328, 100)]),
        Arrow([(280, 176), (328, 206)]),
        Arrow([(280, 202), (328, 300)]),
        Box(
            (330, 48, 258, 96),
            "worker 1",
            ["gate, memory, engine, keys;", "opened lines in RAM;", "the checkpoints it last saw"],
            "trusted",
        ),
        Box(
            (330, 156, 258, 96),
            "worker 2, the same",
            ["when one is killed, the others", "go on; nothing acknowledged", "is lost"],
            "trusted",
        ),
        Box(
            (330, 264, 258, 76),
            "worker 3, just started",
            ["reads from the bucket, and", "begins a log of its own"],
            "trusted",
        ),
        Words(330, 372, "workers do not talk to each other"),
        Box((668, 16, 276, 370), "one bucket: sees no text", kind="area"),
        Arrow([(590, 96), (680, 96)], both=True),
        Arrow([(590, 204), (680, 204)], both=True),
        Arrow([(590, 302), (680, 302)], both=True),
        Words(636, 88, "sealed", "middle"),
        Box(
            (682, 48, 248, 96),
            "vault/  news/  caps/",
            ["secrets and revocations; that", "one of them changed; what", "was minted"],
        ),
        Box(
            (682, 156, 248, 96),
            "actors/<locator>/",
            ["keys and generations; sealed", "lines; packs of many lines;", "tombstones"],
        ),
        Box(
            (682, 264, 248, 96),
            "logs/<worker>/  roster/",
            ["every decision, written once,", "signed by a worker whom the", "vault certified"],
        ),
        Box(
            (314, 402, 630, 76),
            "the owner, on any machine with the keys",
            [
                "doctor --store: will this bucket do?  migrate: in, out, and backups",
                "audit verify: all logs and objects, and what was seen before",
            ],
            "owner",
        ),
    ],
)

PICTURES = (VAULT, CAP, PUT, HERMES, FLEET, calibration((ROOT / "docs" / "recall.md").read_text()))


def main() -> int:
    """Draw, or compare; the exit code says whether all are up to date."""
    old = []
    for picture in PICTURES:
        file, drawn = IMAGES / f"{picture.name}.svg", svg(picture)
        if "--check" not in sys.argv[1:]:
            file.write_text(drawn)
        elif not file.exists() or file.read_text() != drawn:
            old.append(file.name)
    print(
        f"docs/images: {', '.join(old)} not up to date: run scripts/make_pictures.py"
        if old
        else "docs/images: up to date"
    )
    return 1 if old else 0


if __name__ == "__main__":
    sys.exit(main())
