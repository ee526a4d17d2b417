/* SPDX-License-Identifier: MIT
 *
 * How a program behaves that is a server on its standard input and output. */
#include <stdio.h>

#include "doctor/doctor.h"

enum { LAST_MS = 2000, STOP_MS = 15000 };

static void check_survives(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    const doctor_call_t *call;

    doctor_did(result, "sent an unknown notification, then a request");
    doctor_send(doctor, &(doctor_request_t){.era = era,
                                            .method = "notifications/doctor",
                                            .notify = true});
    call = doctor_ping(doctor, era);
    doctor_saw(result, "%s", doctor_describe(call));
    if (call->result == NULL)
        doctor_bad(result, DOCTOR_FAILED,
                   "Ignore notifications that the program does not know.");
}

static void check_output(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    size_t lines = 0;

    (void)era;
    doctor_did(result, "read every line on standard output");
    for (int i = 0; i < DOCTOR_ERAS; i++) {
        const doctor_program_t *program = &doctor->own_programs[i];

        lines += program->nonsense;
        if (program->nonsense > 0 && result->saw.len == 0)
            doctor_saw(result, "not a message: %s", program->nonsense_first);
    }
    doctor_saw(result, "%zu line%s that %s no message%s", lines, lines == 1 ? "" : "s",
               lines == 1 ? "is" : "are", lines == 1 ? "" : "s");
    doctor_fact(result, "lines", (json_int_t)lines);
    if (lines > 0)
        doctor_bad(result, DOCTOR_FAILED,
                   "Standard output is for messages only, one per line: write logs to "
                   "standard error (Python: logging or print(..., file=sys.stderr); "
                   "Node: console.error).");
}

static void check_stderr(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    size_t lines = 0;

    (void)era;
    doctor_did(result, "counted lines on standard error");
    for (int i = 0; i < DOCTOR_ERAS; i++) {
        const doctor_program_t *program = &doctor->own_programs[i];

        if (program->said > 0 && lines == 0)
            doctor_saw(result, "the first: %.200s", program->said_first);
        lines += program->said;
    }
    doctor_saw(result, "%zu line%s in total", lines, lines == 1 ? "" : "s");
    doctor_fact(result, "lines", (json_int_t)lines);
}

/* Last of all: its input ends. */
static void check_end(doctor_t *doctor, doctor_era_t era, doctor_result_t *result) {
    doctor_program_t *program = doctor->programs[era];
    double ms;

    doctor_did(result, "ended its standard input");
    if (!program->started || program->ended) {
        doctor_saw(result, "it had ended before: %s", program->why);
        doctor_bad(result, DOCTOR_FAILED,
                   "A server lives until its standard input ends. What does it print on "
                   "standard error?");
        return;
    }
    doctor_stop(program, STOP_MS);
    ms = doctor_ms(program->stopped_us,
                   program->gone ? program->gone_us : doctor_now_us());
    doctor_saw(result, "ended after %.1f s", ms / 1000);
    doctor_fact(result, "exit_ms", (json_int_t)ms);
    if (ms > LAST_MS)
        doctor_bad(result, DOCTOR_FAILED,
                   "Exit when standard input ends: hosts close it to stop a server, and "
                   "otherwise processes are left behind.");
}

const doctor_check_t doctor_program_checks[] = {
    {"program.survives", "Unknown notifications do no harm",
     DOCTOR_STDIO | DOCTOR_EACH_ERA, check_survives},
    {"program.output", "Only messages on standard output", DOCTOR_STDIO, check_output},
    {"program.stderr", "Output on standard error", DOCTOR_STDIO, check_stderr},
    {"program.end", "It ends with its input", DOCTOR_STDIO | DOCTOR_EACH_ERA, check_end},
    {NULL, NULL, 0, NULL},
};
