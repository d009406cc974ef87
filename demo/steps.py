"""The story in its order: each step, the sentence that must be true, and how it is tried."""

from __future__ import annotations

from demo.chapters import (
    denials,
    erasure,
    hermes_durability,
    hermes_recall,
    hermes_tools,
    hosted_providers,
    http_server,
    mcp_tools,
    recall,
    tampering,
    user_wall,
)
from demo.chapters.fleet_story import FLEET
from demo.hermes_home import EMBEDDED, SERVED, in_home
from demo.report import Step
from demo.stage import Stage
from demo.talk import ALLERGY, QUESTION, QUESTION_IN_CHINESE, TRIP


def _in_hermes(home: str, prefix: str, chapter: str, *more: Step[Stage]) -> tuple[Step[Stage], ...]:
    """What Hermes remembers: the same story, wherever its memory is. There may be more before the last step."""
    return (
        Step(
            f"{prefix}_wire",
            "`strongroom wire hermes` sets the real Hermes up; again, it finds nothing to do.",
            hermes_recall.wiring(home),
            chapter=chapter,
        ),
        Step(
            f"{prefix}_recall",
            f'Session 1 of `hermes chat` hears of a trip in passing; session 2, a fresh process, asks "{QUESTION}": '
            "the trip reaches the model.",
            in_home(home, hermes_recall.a_fresh_session_recalls_the_trip),
        ),
        Step(
            f"{prefix}_travel_only",
            "With a cap for travel the trip reaches the model and the allergy does not, nor a reply that had both.",
            in_home(home, hermes_recall.a_cap_for_travel_gets_travel),
        ),
        Step(
            f"{prefix}_people",
            "Two people of one gateway and the thread that they share never see each other's lines.",
            in_home(home, hermes_recall.people_stay_apart),
        ),
        Step(
            f"{prefix}_kill",
            "kill -9 right after a reply loses nothing.",
            in_home(home, hermes_durability.a_kill_loses_nothing),
        ),
        Step(
            f"{prefix}_orphans",
            "/new, /compress and a restart leave no orphan.",
            in_home(home, hermes_durability.sessions_leave_no_orphan),
        ),
        Step(
            f"{prefix}_elsewhere",
            "Another runtime, on `strongroom.host`, recalls the same line from the same store.",
            in_home(home, hermes_durability.another_runtime_recalls_it),
        ),
        Step(
            f"{prefix}_mcp", "An MCP client recalls it too.", in_home(home, hermes_durability.an_mcp_client_recalls_it)
        ),
        *more,
        Step(
            f"{prefix}_forget",
            "Forget, then scrub: what was recalled is gone from the vault and, by raw bytes, from Hermes' files.",
            in_home(home, hermes_durability.forgotten_words_are_gone),
        ),
    )


_NO_WALL: Step[Stage] = Step(
    "hermes_no_wall",
    "No wall stands here: Hermes' terminal tool, told to, reads the keys and mints.",
    in_home(EMBEDDED, hermes_tools.tools_reach_the_keys),
)

STEPS: tuple[Step[Stage], ...] = (
    Step(
        "init",
        "A vault is made; its keys lie outside it.",
        recall.make_a_vault,
        needed=True,
        chapter="Remembering",
    ),
    Step("doctor", "Doctor finds all well.", recall.doctor_is_green),
    Step(
        "store",
        f'Session 1 stores "{TRIP}" in travel and "{ALLERGY}" in personal, among 500 lines with "going" and "weekend".',
        recall.store_a_year,
        needed=True,
    ),
    Step(
        "recall",
        f'Session 2, in the week of the trip, asks "{QUESTION}": the trip comes first.',
        recall.session_two_recalls_the_trip,
    ),
    Step(
        "recall_chinese",
        f'The same in Chinese, "{QUESTION_IN_CHINESE}": the trip comes first.',
        recall.a_question_in_chinese_recalls_it_too,
    ),
    Step("owner_reads", "The owner reads the allergy by question and by id.", recall.the_owner_sees_the_allergy),
    Step(
        "narrowed",
        "A cap narrowed to travel recalls the trip, and nothing personal by get, list, snapshot or profile.",
        recall.a_narrowed_cap_sees_travel_only,
        needed=True,
        chapter="Refusing",
    ),
    Step(
        "denied",
        "It is denied personal by get, id, list, snapshot and profile, in the words for what does not exist.",
        denials.personal_is_denied_by_name,
    ),
    Step("id_alone", "The allergy's id alone is not found with it.", denials.an_id_alone_is_not_found),
    Step("forged", "With one bit of its signature flipped, it is refused.", denials.a_forged_cap_is_refused),
    Step("widened", "With personal written into its claims, it is refused.", denials.a_widened_cap_is_refused),
    Step("stripped", "With its narrowing link taken off, it is refused.", denials.a_stripped_cap_is_refused),
    Step("expired", "A cap that has ended is refused.", denials.an_expired_cap_is_refused),
    Step("revoked", "A cap that was accepted is refused once it is revoked.", denials.a_revoked_cap_is_refused),
    Step("attenuated", "Narrowing a cap further cannot widen it.", denials.attenuation_cannot_widen),
    Step(
        "credentials",
        "A credentials cap with put is refused (403 cap_data_class_mismatch).",
        denials.a_credentials_cap_is_refused,
    ),
    Step(
        "who_read_what",
        "The log names the denied read, and who read the trip.",
        denials.the_log_says_who_read_what,
        chapter="Noticing",
    ),
    Step("no_plaintext", "No file of the vault holds any of it in clear.", tampering.nothing_lies_in_clear),
    Step("log_verifies", "The log verifies.", tampering.the_clean_log_verifies),
    Step(
        "moved_line",
        "The allergy, moved on disk to where the travel cap reads, does not open; verify names it.",
        tampering.a_moved_line_does_not_open,
    ),
    Step(
        "swapped_lines",
        "Two lines swapped on disk do not open; verify names them.",
        tampering.swapped_lines_do_not_open,
    ),
    Step("edited_log", "A denial edited into an admission is found by verify.", tampering.an_edited_log_entry_is_found),
    Step("rolled_back", "An older copy put back is found by doctor and verify.", tampering.an_older_copy_is_found),
    Step(
        "fail_closed",
        "On a disk turned read-only, what cannot be recorded is not answered.",
        tampering.without_a_log_nothing_is_answered,
    ),
    Step(
        "serve",
        "A server process serves the vault; doctor finds it well.",
        http_server.a_server_serves_the_vault,
        chapter="Serving, over HTTP",
    ),
    Step(
        "served_recall",
        "Over HTTP the same question gets the same lines, by the command line and by the client in Python.",
        http_server.it_recalls_as_the_vault_does,
    ),
    Step(
        "served_denied",
        "Over HTTP the travel cap is denied personal, for the same reason in the same words.",
        http_server.it_denies_as_the_vault_does,
    ),
    Step(
        "served_bad_caps",
        "The forged, widened, stripped, expired and credentials caps are refused there too.",
        http_server.it_refuses_what_the_vault_refuses,
    ),
    Step(
        "served_revoked",
        "A cap revoked while its holder is connected is refused.",
        http_server.a_revoked_cap_is_refused_there,
    ),
    Step(
        "served_session", "A cap narrowed to one session stays in it.", http_server.a_session_cap_stays_in_its_session
    ),
    Step("served_once", "A put repeated with its id is written once.", http_server.a_repeated_put_is_written_once),
    Step(
        "served_forget",
        "What one process forgets through the server, the next get of another does not find.",
        http_server.a_forget_is_seen_by_the_next_get,
    ),
    Step("request_ids", "The log holds the ids of the requests.", http_server.the_log_has_the_request_ids),
    Step(
        "killed",
        "After kill -9 and a restart an acknowledged put is there, and the log verifies.",
        http_server.an_acknowledged_put_outlives_the_server,
    ),
    Step(
        "mcp_tools",
        "The MCP SDK's client lists the eleven tools, over HTTP and over stdio.",
        mcp_tools.clients_list_the_tools,
        chapter="Serving, over MCP",
    ),
    Step("mcp_put", "What one MCP client puts, the other gets.", mcp_tools.what_one_puts_the_others_get),
    Step(
        "mcp_fence",
        "Recalled text comes in a fence with a mark that is new each time.",
        mcp_tools.recalled_text_is_fenced,
    ),
    Step(
        "mcp_poisoned",
        'A line with "ignore previous instructions", bidi and zero-width characters and a false mark arrives neutral.',
        mcp_tools.a_poisoned_line_is_neutral,
    ),
    Step("mcp_denied", "The tools deny by reason what the cap does not cover.", mcp_tools.tools_deny_by_reason),
    Step("mcp_revoked", "A revoked cap ends what its MCP clients can do.", mcp_tools.a_revoked_agent_is_refused),
    Step("stopped", "Told to stop, the server ends in order.", http_server.a_server_stops_in_order),
    Step(
        "apart",
        "A server under another user answers the agent's user over a unix socket.",
        user_wall.an_agent_of_another_user_is_served,
        chapter="Serving, as another user",
    ),
    Step(
        "apart_files",
        "The agent's user fails to read the keys and to open the vault's files.",
        user_wall.it_cannot_read_keys_or_files,
    ),
    Step(
        "apart_memory",
        "The agent's user fails to read the server's environment and memory.",
        user_wall.it_cannot_read_the_servers_memory,
    ),
    Step("apart_mint", "The agent's user fails to mint.", user_wall.it_cannot_mint),
    *FLEET,
    Step(
        "hosted_recall",
        "A memory provider written for Hermes, found by its name, is hosted by another runtime: "
        f'"{QUESTION}" in session 2 brings back what session 1 said in passing, once, in a fence.',
        hosted_providers.a_provider_for_hermes_is_hosted,
        chapter="Hosting memory providers",
    ),
    Step(
        "hosted_users",
        "Two people in one process see neither each other's lines nor each other's notes.",
        hosted_providers.two_people_stay_apart,
    ),
    Step(
        "hosted_kill",
        "After kill -9 the next host hands over a turn that the provider had not taken; no file had it in clear.",
        hosted_providers.a_turn_outlives_the_process,
    ),
    Step(
        "hosted_moment",
        "Agents for compression, review, cron and subtasks open no session; what is flushed reaches MEMORY.md.",
        hosted_providers.agents_for_a_moment_open_no_session,
    ),
    Step(
        "hosted_rebuild",
        "An edit of an identity key rebuilds the cached agent with the next message; an unrelated edit does not.",
        hosted_providers.settings_rebuild_an_agent,
    ),
    Step(
        "hosted_broken",
        "A provider that raises or hangs in every hook costs a turn its recall, and a broken plugin says why.",
        hosted_providers.a_broken_provider_costs_its_recall,
    ),
    Step(
        "hosted_check", "The conformance kit finds no fault in the provider.", hosted_providers.the_kit_finds_no_fault
    ),
    *_in_hermes(EMBEDDED, "hermes", "Hermes remembers through the gate, embedded", _NO_WALL),
    *_in_hermes(SERVED, "hermes_http", "Hermes remembers through the gate, over HTTP"),
    Step(
        "hermes_wall",
        "Served under another user, Hermes' terminal tool, told to, fails to read the keys and to mint.",
        hermes_tools.tools_meet_a_wall,
    ),
    Step(
        "export",
        "Travel is exported, encrypted to a passphrase.",
        erasure.export_before_forgetting,
        chapter="Forgetting",
    ),
    Step("second_reader", "A second process has the trip in its RAM.", erasure.a_second_reader_has_the_trip),
    Step(
        "forget",
        "Forget: no file holds a piece of the sealed trip any more, nor of an index page with it.",
        erasure.forget_leaves_no_trace,
    ),
    Step(
        "forgotten",
        "It is gone for every process, by get, list and id, and cannot be put back.",
        erasure.a_forgotten_line_is_gone_for_everyone,
    ),
    Step("import", "Importing the export does not bring it back.", erasure.an_import_does_not_bring_it_back),
    Step("erase", "Erase: no file holds a piece of the keys or lines any more.", erasure.erase_destroys_the_keys),
    Step("caps_void", "Every old cap is void, also for the process that was open.", erasure.old_caps_are_void),
    Step("erased", "The owner finds nothing by get, list, snapshot or id.", erasure.an_erased_memory_is_empty),
    Step(
        "log_remains",
        "The log still verifies, and nobody can say whose the denied read was.",
        erasure.the_log_outlives_the_names,
    ),
)
