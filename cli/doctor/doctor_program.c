/* SPDX-License-Identifier: MIT
 *
 * Checks of a program that is a server on its standard input and output. */
#include "doctor/doctor.h"

enum { LAST_MS = 2000, STOP_MS = 15000 };

static void check_survives(doctor_t *doctor) {
    const doctor_call_t *call;

    doctor_send(doctor, &(doctor_request_t){.era = doctor->era,
                                            .method = "notifications/doctor",
                                            .notify = true});
    call = doctor_ping(doctor);
    doctor_saw(doctor, "%s", doctor_describe(call));
    if (call->result == NULL)
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Let the program ignore unknown notifications.");
}

static void check_output(doctor_t *doctor) {
    size_t lines = 0;

    for (int i = 0; i < DOCTOR_ERAS; i++) {
        const doctor_program_t *program = &doctor->own_programs[i];

        lines += program->nonsense;
        if (program->nonsense > 0 && doctor->result->saw.len == 0)
            doctor_saw(doctor, "not a message: %s", program->nonsense_first);
    }
    doctor_saw(doctor, "%zu line%s that %s no message%s", lines, lines == 1 ? "" : "s",
               lines == 1 ? "is" : "are", lines == 1 ? "" : "s");
    doctor_fact(doctor, "lines", (json_int_t)lines);
    if (lines > 0)
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Standard output is for messages only, one per line: write logs to "
                   "standard error (Python: logging or print(..., file=sys.stderr); "
                   "Node: console.error).");
}

static void check_stderr(doctor_t *doctor) {
    size_t lines = 0;

    for (int i = 0; i < DOCTOR_ERAS; i++) {
        const doctor_program_t *program = &doctor->own_programs[i];

        if (program->said > 0 && lines == 0)
            doctor_saw(doctor, "the first: %.200s", program->said_first);
        lines += program->said;
    }
    doctor_saw(doctor, "%zu line%s in total", lines, lines == 1 ? "" : "s");
    doctor_fact(doctor, "lines", (json_int_t)lines);
}

/* Last of all: its input ends. */
static void check_end(doctor_t *doctor) {
    doctor_program_t *program = doctor->programs[doctor->era];
    double ms;

    if (!program->started || program->ended) {
        doctor_saw(doctor, "it had exited before: %s", program->why);
        doctor_bad(doctor, DOCTOR_FAILED,
                   "A server runs until its standard input ends. What does it print on "
                   "standard error?");
        return;
    }
    doctor_stop(program, STOP_MS);
    ms = doctor_ms(program->stopped_us,
                   program->gone ? program->gone_us : doctor_now_us());
    doctor_saw(doctor, "exited after %.1f s", ms / 1000);
    doctor_fact(doctor, "exit_ms", (json_int_t)ms);
    if (ms > LAST_MS)
        doctor_bad(doctor, DOCTOR_FAILED,
                   "Exit when standard input ends: hosts close it to stop a server, and "
                   "otherwise processes are left behind.");
}

const doctor_check_t doctor_program_checks[] = {
    {"program.survives", "Unknown notifications are ignored",
     "sent an unknown notification, then a request", DOCTOR_STDIO | DOCTOR_EACH_ERA,
     check_survives},
    {"program.output", "Only messages on standard output",
     "read every line on standard output", DOCTOR_STDIO, check_output},
    {"program.stderr", "Output on standard error", "counted lines on standard error",
     DOCTOR_STDIO, check_stderr},
    {"program.end", "The program exits when its input ends", "closed its standard input",
     DOCTOR_STDIO | DOCTOR_EACH_ERA, check_end},
    {NULL, NULL, NULL, 0, NULL},
};
