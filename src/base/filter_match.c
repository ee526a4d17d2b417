/* SPDX-License-Identifier: MIT
 *
 * Runs filters: the operators, and the loop that goes from test to test. Nothing here
 * allocates or fails. Recursion happens only into an operand, which the parser has
 * bounded (TDG__FILTER_VALUE_DEPTH); how deep the metadata is does not matter. */
#include "base/filter_program.h"

#include <limits.h>
#include <string.h>

/* Compares without rounding: a double above 2^53 skips integers, so turning the integer
 * into a double would make neighbours equal. */
static int compare_integer_real(json_int_t integer, double real) {
    json_int_t whole;
    double rest;

    if (real >= 0x1p63)
        return -1;
    if (real < -0x1p63)
        return 1;

    whole = (json_int_t)real;
    if (integer != whole)
        return integer < whole ? -1 : 1;

    rest = real - (double)whole;
    return (rest < 0) - (rest > 0);
}

static int compare_bytes(const char *a, size_t a_len, const char *b, size_t b_len) {
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);

    return order != 0 ? order : (a_len > b_len) - (a_len < b_len);
}

static bool is_number(json_type type) {
    return type == JSON_INTEGER || type == JSON_REAL;
}

static int compare_numbers(const tdg__filter_subject_t *a, const tdg__filter_value_t *b) {
    if (a->type == JSON_INTEGER && b->type == JSON_INTEGER)
        return (a->as.integer > b->as.integer) - (a->as.integer < b->as.integer);
    if (a->type == JSON_INTEGER)
        return compare_integer_real(a->as.integer, b->as.real);
    if (b->type == JSON_INTEGER)
        return -compare_integer_real(b->as.integer, a->as.real);
    return (a->as.real > b->as.real) - (a->as.real < b->as.real);
}

/* Stores in *ret how the subject stands to the operand (<0, 0, >0). Returns false where
 * the two have no order. */
static bool compare(const tdg__filter_value_t *operand,
                    const tdg__filter_subject_t *subject, int *ret) {
    if (is_number(operand->type) && is_number(subject->type)) {
        *ret = compare_numbers(subject, operand);
        return true;
    }
    if (operand->type == JSON_STRING && subject->type == JSON_STRING) {
        *ret = compare_bytes(subject->as.bytes, subject->len, operand->as.bytes,
                             operand->len);
        return true;
    }
    return false;
}

static tdg__filter_subject_t subject_of(const json_t *json) {
    tdg__filter_subject_t subject = {.type = json_typeof(json)};

    switch (subject.type) {
    case JSON_STRING:
        subject.as.bytes = json_string_value(json);
        subject.len = json_string_length(json);
        break;
    case JSON_INTEGER:
        subject.as.integer = json_integer_value(json);
        break;
    case JSON_REAL:
        subject.as.real = json_real_value(json);
        break;
    default:
        subject.as.json = json;
    }
    return subject;
}

static bool equal(const tdg__filter_value_t *value, const tdg__filter_subject_t *subject);

static bool equal_json(const tdg__filter_value_t *value, const json_t *json) {
    tdg__filter_subject_t subject = subject_of(json);

    return equal(value, &subject);
}

static bool equal_arrays(const tdg__filter_value_t *value, const json_t *array) {
    if (json_array_size(array) != value->len)
        return false;

    for (size_t i = 0; i < value->len; i++)
        if (!equal_json(&value->as.items[i], json_array_get(array, i)))
            return false;
    return true;
}

static bool equal_objects(const tdg__filter_value_t *value, const json_t *object) {
    if (json_object_size(object) != value->len)
        return false;

    for (size_t i = 0; i < value->len; i++) {
        const tdg__filter_value_t *key = &value->as.items[2 * i];
        const json_t *member = json_object_getn(object, key->as.bytes, key->len);

        if (member == NULL || !equal_json(key + 1, member))
            return false;
    }
    return true;
}

static bool equal(const tdg__filter_value_t *value,
                  const tdg__filter_subject_t *subject) {
    int order;

    if (compare(value, subject, &order))
        return order == 0;
    if (value->type != subject->type)
        return false;
    if (value->type == JSON_ARRAY)
        return equal_arrays(value, subject->as.json);
    if (value->type == JSON_OBJECT)
        return equal_objects(value, subject->as.json);
    return true; /* true, false and null have no more to them than their type */
}

static bool test_eq(const tdg__filter_value_t *operand,
                    const tdg__filter_subject_t *subject) {
    return equal(operand, subject);
}

static bool test_ne(const tdg__filter_value_t *operand,
                    const tdg__filter_subject_t *subject) {
    return !equal(operand, subject);
}

static bool test_gt(const tdg__filter_value_t *operand,
                    const tdg__filter_subject_t *subject) {
    int order;

    return compare(operand, subject, &order) && order > 0;
}

static bool test_gte(const tdg__filter_value_t *operand,
                     const tdg__filter_subject_t *subject) {
    int order;

    return compare(operand, subject, &order) && order >= 0;
}

static bool test_lt(const tdg__filter_value_t *operand,
                    const tdg__filter_subject_t *subject) {
    int order;

    return compare(operand, subject, &order) && order < 0;
}

static bool test_lte(const tdg__filter_value_t *operand,
                     const tdg__filter_subject_t *subject) {
    int order;

    return compare(operand, subject, &order) && order <= 0;
}

static bool test_in(const tdg__filter_value_t *operand,
                    const tdg__filter_subject_t *subject) {
    for (size_t i = 0; i < operand->len; i++)
        if (equal(&operand->as.items[i], subject))
            return true;
    return false;
}

static bool test_nin(const tdg__filter_value_t *operand,
                     const tdg__filter_subject_t *subject) {
    return !test_in(operand, subject);
}

static bool test_exists(const tdg__filter_value_t *operand,
                        const tdg__filter_subject_t *subject) {
    (void)subject;
    return operand->type == JSON_TRUE;
}

static bool test_contains(const tdg__filter_value_t *operand,
                          const tdg__filter_subject_t *subject) {
    if (subject->type == JSON_STRING)
        return operand->type == JSON_STRING &&
               memmem(subject->as.bytes, subject->len, operand->as.bytes, operand->len);
    if (subject->type != JSON_ARRAY)
        return false;

    for (size_t i = 0; i < json_array_size(subject->as.json); i++)
        if (equal_json(operand, json_array_get(subject->as.json, i)))
            return true;
    return false;
}

/* Past one character: a byte and the UTF-8 continuation bytes after it. Bytes that are
 * not UTF-8, which a URI may hold, still advance. */
static const char *skip_character(const char *at, const char *end) {
    do
        at++;
    while (at < end && tdg__utf8_goes_on(*at));
    return at;
}

/* The text between two stars of a pattern, or between one and an end of it. */
struct piece {
    const char *begin;
    const char *end;
    bool plain; /* stands for its own bytes: no '?' and no '\' */
};

static struct piece piece_at(const char *at, const char *pattern_end) {
    struct piece piece = {at, at, true};

    for (; at < pattern_end && *at != '*'; at++) {
        if (*at == '?' || *at == '\\')
            piece.plain = false;
        if (*at == '\\')
            at++; /* the parser has refused a pattern that ends here */
    }
    piece.end = at;
    return piece;
}

/* Returns the end of the match that begins right at `text`, or NULL. */
static const char *match_piece(const struct piece *piece, const char *text,
                               const char *text_end) {
    for (const char *at = piece->begin; at < piece->end; at++) {
        if (text == text_end)
            return NULL;
        if (*at == '?') {
            text = skip_character(text, text_end);
            continue;
        }
        if (*at == '\\')
            at++;
        if (*at != *text++)
            return NULL;
    }
    return text;
}

/* Follows all matches of a short piece at once: bit n of `state` is set when the text up
 * to here ends in the first n + 1 elements of the piece. One step per byte of text,
 * whatever the piece; TDG__FILTER_PIECE_BYTES makes the bits suffice. */
static const char *find_short(const struct piece *piece, const char *text,
                              const char *text_end) {
    uint32_t literals[UCHAR_MAX + 1] = {0}, any = 0, state = 0, last = 0, from, to;
    const char *at;

    for (at = piece->begin; at < piece->end; at++) {
        last = last == 0 ? 1 : last << 1;
        if (*at == '?') {
            any |= last;
            continue;
        }
        if (*at == '\\')
            at++;
        literals[(unsigned char)*at] |= last;
    }

    for (at = text; at < text_end; at++) {
        bool inside = tdg__utf8_goes_on(*at);

        /* A match begins with a character, or with what an earlier piece left of one. */
        from = state << 1 | (at == text || !inside);
        to = from & literals[(unsigned char)*at];
        if (inside) /* belongs to the '?' before it, if that is what came before */
            to |= (from & any & ~(any << 1)) | (state & any);
        else
            to |= from & any;
        if ((to & last) != 0)
            return (any & last) != 0 ? skip_character(at, text_end) : at + 1;
        state = to;
    }
    return NULL;
}

/* Returns the end of the leftmost match, or NULL. No match ends earlier than the
 * leftmost one. */
static const char *find_piece(const struct piece *piece, const char *text,
                              const char *text_end) {
    size_t len = (size_t)(piece->end - piece->begin);
    const char *found;

    if (!piece->plain)
        return find_short(piece, text, text_end);

    found = memmem(text, (size_t)(text_end - text), piece->begin, len);
    return found != NULL ? found + len : NULL;
}

static size_t count_characters(const struct piece *piece) {
    size_t count = 0;

    for (const char *at = piece->begin; at < piece->end; at++) {
        if (*at == '\\')
            at++;
        count += !tdg__utf8_goes_on(*at);
    }
    return count;
}

/* Whether more continuation bytes follow the first byte than it announces. */
static bool is_overlong(const char *character, const char *end) {
    unsigned char first = (unsigned char)*character;

    return end - character > 1 + (first >= 0xc0) + (first >= 0xe0) + (first >= 0xf0);
}

/* Whether the piece matches at the end of the text. In UTF-8 it takes as many characters
 * as it has, so there is one place to try. A character with too many bytes may stand for
 * two, a literal and the '?' after it: each gives one more place. */
static bool match_last(const struct piece *piece, const char *text,
                       const char *text_end) {
    size_t missing = count_characters(piece), spare = 0;
    const char *at = text_end, *next;

    for (;;) {
        if (missing <= spare && match_piece(piece, at, text_end) == text_end)
            return true;
        if (missing == 0 || at == text)
            return false;

        next = at;
        do
            at--;
        while (at > text && tdg__utf8_goes_on(*at));
        spare += is_overlong(at, next);
        missing--;
    }
}

/* Piece by piece, each as far left as it can be: whatever an earlier star could still
 * take, the next one can take as well. So nothing is tried twice. */
static bool glob(const char *pattern, const char *pattern_end, const char *text,
                 const char *text_end) {
    struct piece piece = piece_at(pattern, pattern_end);

    text = match_piece(&piece, text, text_end);
    if (text == NULL || piece.end == pattern_end)
        return text == text_end;

    for (;;) {
        piece = piece_at(piece.end + 1, pattern_end);
        if (piece.end == pattern_end)
            return match_last(&piece, text, text_end);
        text = find_piece(&piece, text, text_end);
        if (text == NULL)
            return false;
    }
}

static bool test_glob(const tdg__filter_value_t *operand,
                      const tdg__filter_subject_t *subject) {
    return subject->type == JSON_STRING &&
           glob(operand->as.bytes, operand->as.bytes + operand->len, subject->as.bytes,
                subject->as.bytes + subject->len);
}

static const char *check_list(const json_t *operand) {
    return json_array_size(operand) > 0 ? NULL : "expected at least one value";
}

static const char *check_glob(const json_t *operand) {
    const char *pattern = json_string_value(operand);
    size_t len = json_string_length(operand), backslashes = 0;
    const char *end = pattern + len;
    struct piece piece;

    while (backslashes < len && pattern[len - 1 - backslashes] == '\\')
        backslashes++;
    if (backslashes % 2 != 0)
        return "ends in a lone backslash";

    _Static_assert(TDG__FILTER_PIECE_BYTES == 32, "the bits of find_short, and the text");
    for (piece = piece_at(pattern, end); piece.end < end;) {
        piece = piece_at(piece.end + 1, end);
        if (piece.end < end && !piece.plain &&
            piece.end - piece.begin > TDG__FILTER_PIECE_BYTES)
            return "expected at most 32 bytes between stars where ? or \\ is used";
    }
    return NULL;
}

#define TYPE(name) (1u << JSON_##name)
#define ORDERED (TYPE(STRING) | TYPE(INTEGER) | TYPE(REAL))
#define BOOLEAN (TYPE(TRUE) | TYPE(FALSE))
#define ANY (ORDERED | BOOLEAN | TYPE(NULL) | TYPE(ARRAY) | TYPE(OBJECT))

static const tdg__filter_operator_t operators[] = {
    {"eq", test_eq, ANY, "a value", NULL, false},
    {"ne", test_ne, ANY, "a value", NULL, false},
    {"gt", test_gt, ORDERED, "a number or a string", NULL, false},
    {"gte", test_gte, ORDERED, "a number or a string", NULL, false},
    {"lt", test_lt, ORDERED, "a number or a string", NULL, false},
    {"lte", test_lte, ORDERED, "a number or a string", NULL, false},
    {"in", test_in, TYPE(ARRAY), "an array of values", check_list, false},
    {"nin", test_nin, TYPE(ARRAY), "an array of values", check_list, false},
    {"exists", test_exists, BOOLEAN, "true or false", NULL, true},
    {"contains", test_contains, ANY, "a value", NULL, false},
    {"glob", test_glob, TYPE(STRING), "a string", check_glob, false},
};

const tdg__filter_operator_t *tdg__filter_operator_find(const char *name, size_t len) {
    for (size_t i = 0; i < sizeof(operators) / sizeof(operators[0]); i++)
        if (strlen(operators[i].name) == len && memcmp(operators[i].name, name, len) == 0)
            return &operators[i];
    return NULL;
}

static tdg__filter_subject_t integer_subject(json_int_t integer) {
    return (tdg__filter_subject_t){.type = JSON_INTEGER, .as.integer = integer};
}

/* A field of the metadata that is filled in. Returns false where it is none of those. */
static bool load_known(const tdg__filter_known_t *known, const tdg__filter_name_t *name,
                       tdg__filter_subject_t *ret) {
    if (tdg__filter_is_name(name->bytes, name->len, "updated_at"))
        *ret = integer_subject(known->updated_at);
    else if (tdg__filter_is_name(name->bytes, name->len, "version"))
        *ret = integer_subject((json_int_t)known->version);
    else if (tdg__filter_is_name(name->bytes, name->len, "change_type"))
        *ret = (tdg__filter_subject_t){.type = JSON_STRING,
                                       .len = strlen(known->change_type),
                                       .as.bytes = known->change_type};
    else
        return false;
    return true;
}

static bool load_metadata(const tdg__filter_field_t *field,
                          const tdg__filter_input_t *input, tdg__filter_subject_t *ret) {
    const tdg__filter_known_t *known = field->count == 1 ? input->known : NULL;
    const json_t *value = input->metadata;

    if (known != NULL && known->deleted &&
        tdg__filter_is_name(field->names[0].bytes, field->names[0].len, "change_type"))
        value = NULL;
    for (size_t i = 0; i < field->count && value != NULL; i++)
        value = json_object_getn(value, field->names[i].bytes, field->names[i].len);
    if (value == NULL)
        return known != NULL && load_known(known, &field->names[0], ret);

    *ret = subject_of(value);
    return true;
}

static bool load_age(const tdg__filter_input_t *input, tdg__filter_subject_t *ret) {
    static const tdg__filter_name_t name = {"updated_at", sizeof("updated_at") - 1};
    static const tdg__filter_field_t field = {TDG__FILTER_METADATA, 1, &name};
    tdg__filter_subject_t at;
    json_int_t age;

    if (!load_metadata(&field, input, &at))
        return false;

    if (at.type == JSON_INTEGER) {
        /* Saturates: a nonsensical time is very old or far ahead, not undefined. */
        if (__builtin_sub_overflow(input->wall_ms, at.as.integer, &age))
            age = at.as.integer < 0 ? INT64_MAX : INT64_MIN;
        *ret = integer_subject(age);
        return true;
    }
    if (at.type == JSON_REAL) {
        *ret = (tdg__filter_subject_t){.type = JSON_REAL,
                                       .as.real = (double)input->wall_ms - at.as.real};
        return true;
    }
    return false;
}

/* Returns false where the field is missing. */
static bool load(const tdg__filter_field_t *field, const tdg__filter_input_t *input,
                 tdg__filter_subject_t *ret) {
    switch (field->source) {
    case TDG__FILTER_URI:
        *ret = (tdg__filter_subject_t){
            .type = JSON_STRING, .len = input->uri_len, .as.bytes = input->uri};
        return true;
    case TDG__FILTER_AGE:
        return load_age(input, ret);
    case TDG__FILTER_METADATA:
        return load_metadata(field, input, ret);
    }
    return false;
}

bool tdg__filter_match(const tdg__filter_t *filter, const tdg__filter_input_t *input) {
    tdg__filter_subject_t subject = {.type = JSON_NULL};
    const tdg__filter_field_t *loaded = NULL;
    uint32_t at = filter->entry;
    bool present = false, passed;

    while (at >= TDG__FILTER_FIRST_STEP) {
        const tdg__filter_step_t *step = &filter->steps[at - TDG__FILTER_FIRST_STEP];

        if (step->field != loaded) {
            loaded = step->field;
            present = load(loaded, input, &subject);
        }
        passed = present ? step->test(&step->operand, &subject) : step->if_missing;
        at = passed ? step->pass : step->fail;
    }
    return at == TDG__FILTER_PASS;
}
