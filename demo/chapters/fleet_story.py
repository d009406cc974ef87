"""The chapter of the fleet: mostly the steps of the laptop, made again with the memory in a bucket and two workers."""

from __future__ import annotations

from demo.chapters import denials, erasure, fleet_workers, http_server, recall, tampering
from demo.fleet_stage import in_fleet
from demo.report import Step
from demo.stage import Stage
from demo.talk import QUESTION

FLEET: tuple[Step[Stage], ...] = (
    Step(
        "fleet_init",
        "A vault is made in a bucket; its keys lie outside it.",
        fleet_workers.a_vault_is_made_in_the_bucket,
        chapter="The fleet: the same memory on S3",
    ),
    Step("fleet_doctor", "Doctor finds bucket and vault well.", in_fleet(recall.doctor_is_green)),
    Step(
        "fleet_workers",
        "Two workers serve it; from now on each question about memory goes to the other one.",
        in_fleet(fleet_workers.two_workers_serve_it),
    ),
    Step(
        "fleet_store",
        "A year of talk is stored, with the trip and the allergy in it.",
        # What is taken here is looked for when it is forgotten: by then the lines may be packed.
        in_fleet(recall.store_a_year, erasure.take_the_sealed_trip),
    ),
    Step(
        "fleet_recall",
        f'"{QUESTION}": the trip comes first, at the one worker; at the other in Chinese.',
        in_fleet(recall.session_two_recalls_the_trip, recall.a_question_in_chinese_recalls_it_too),
    ),
    Step(
        "fleet_at_once",
        "What is put through one worker, the other recalls with its next call.",
        in_fleet(fleet_workers.what_one_takes_the_other_has),
    ),
    Step(
        "fleet_narrowed",
        "The owner reads the allergy; a cap narrowed to travel recalls the trip, and nothing personal.",
        in_fleet(recall.the_owner_sees_the_allergy, recall.a_narrowed_cap_sees_travel_only, at_once=True),
    ),
    Step(
        "fleet_moved_line",
        "The allergy, moved in the bucket to where the travel cap reads, does not open; nor do two swapped lines.",
        in_fleet(tampering.a_moved_line_does_not_open, tampering.swapped_lines_do_not_open),
    ),
    Step(
        "fleet_denied",
        "The narrowed cap is denied personal, in the words for what does not exist; an id alone is not found.",
        in_fleet(denials.personal_is_denied_by_name, denials.an_id_alone_is_not_found, at_once=True),
    ),
    Step(
        "fleet_bad_caps",
        "Forged, widened, stripped and expired caps are refused; narrowing cannot widen; nor do credentials open it.",
        in_fleet(
            denials.a_forged_cap_is_refused,
            denials.a_widened_cap_is_refused,
            denials.a_stripped_cap_is_refused,
            denials.an_expired_cap_is_refused,
            denials.attenuation_cannot_widen,
            denials.a_credentials_cap_is_refused,
            at_once=True,
        ),
    ),
    Step(
        "fleet_revoked",
        "A cap that a worker accepted is refused once its owner has revoked it.",
        in_fleet(denials.a_revoked_cap_is_refused),
    ),
    Step(
        "fleet_who_read_what",
        "The logs of all name the denied read, and who read the trip.",
        in_fleet(denials.the_log_says_who_read_what),
    ),
    Step(
        "fleet_served",
        "A worker answers as the bucket itself does, and the logs hold the ids of requests.",
        in_fleet(
            http_server.it_recalls_as_the_vault_does,
            http_server.the_log_has_the_request_ids,
        ),
    ),
    Step(
        "fleet_revoked_there",
        "A cap revoked at one worker is refused by the other with the next call of a holder who is connected there.",
        in_fleet(fleet_workers.revoked_here_is_refused_there),
    ),
    Step(
        "fleet_session",
        "A cap for one session stays in it; a put repeated with its id is written once.",
        in_fleet(http_server.a_session_cap_stays_in_its_session, http_server.a_repeated_put_is_written_once),
    ),
    Step(
        "fleet_forget_there",
        "What is forgotten at one worker, the next get at the other does not find.",
        in_fleet(http_server.a_forget_is_seen_by_the_next_get),
    ),
    Step(
        "fleet_killed",
        "After kill -9 of a worker the other has what that one had acknowledged, and so has one that starts then.",
        in_fleet(fleet_workers.a_killed_workers_line_is_kept),
    ),
    Step(
        "fleet_no_plaintext",
        "No object of the bucket holds any of it in clear, in its name or its body.",
        in_fleet(tampering.nothing_lies_in_clear),
    ),
    Step(
        "fleet_logs",
        "All logs verify together, and the roster names every worker, the killed one too.",
        in_fleet(fleet_workers.every_log_verifies),
    ),
    Step(
        "fleet_log_tampered",
        "A worker's log that is missing, edited or struck off the roster is found by verify.",
        in_fleet(fleet_workers.a_tampered_log_is_found),
    ),
    Step(
        "fleet_migrate",
        "The laptop's vault moves into the bucket and back: the same lines under the same ids, caps and log with them.",
        fleet_workers.the_laptops_vault_moves_there_and_back,
    ),
    Step(
        "fleet_forget",
        "Forget: no object holds a piece of the sealed trip any more; it is gone for every process and every worker.",
        in_fleet(
            erasure.a_second_reader_has_the_trip,
            erasure.forget_what_was_taken,
            erasure.a_forgotten_line_is_gone_for_everyone,
        ),
    ),
    Step(
        "fleet_erase",
        "Erase: no object holds a piece of the keys or lines; every old cap is void, whichever worker is asked.",
        in_fleet(erasure.erase_destroys_the_keys, erasure.old_caps_are_void),
    ),
    Step("fleet_stopped", "Told to stop, the workers end in order.", in_fleet(fleet_workers.workers_stop_in_order)),
    Step(
        "fleet_erased",
        "The owner finds nothing; the logs still verify, and nobody can say whose the denied read was.",
        in_fleet(erasure.an_erased_memory_is_empty, erasure.the_log_outlives_the_names, at_once=True),
    ),
    Step(
        "fleet_removed",
        "What the demonstration wrote into the bucket is removed, unless it is to be kept.",
        fleet_workers.nothing_is_left,
    ),
)
