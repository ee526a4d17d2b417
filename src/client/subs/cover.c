/* SPDX-License-Identifier: MIT
 *
 * URIs that are reported without an exact subscription: they match a subscribed template
 * (also one spelled with %7B and %7D), or are below a subscribed URI, as the protocol
 * lets servers notify of sub-resources:
 *
 *     subscribed                reported
 *     weather://city/{name}     weather://city/oslo
 *     file:///project           file:///project/src/main.c
 *     file:///project/          file:///project/src/main.c
 *
 * Such a URI gets a record with its version at its first update. There are at most
 * MAX_HEARD records, with MAX_HEARD_BYTES of text; beyond that, the least recently
 * updated one is dropped, and its repeated updates are reported again. */
#include <string.h>

#include <tidings/error.h>

#include "base/alloc.h"
#include "client/subs/cover.h"
#include "client/subs/legacy.h"
#include "client/subs/subs.h"
#include "client/subs/updates.h"

enum { MAX_ABOVE = 32 }; /* levels that are looked up */

/* ---- Templates ---------------------------------------------------------- */

static bool looks_like_template(const char *text) {
    return strchr(text, '{') != NULL || strcasestr(text, "%7b") != NULL;
}

int tdg__cover_add(tdg__core_t *core, tdg__sub_t *sub) {
    struct tdg__subs *subs = core->subs;
    tdg__parse_error_t error;
    size_t len;
    char *plain;
    int rv;

    if (sub->len > TDG__TEMPLATE_MAX_LEN || !looks_like_template(sub->uri))
        return 0;

    plain = tdg__malloc(sub->len);
    if (plain == NULL)
        return TDG_ENOMEM;
    len = tdg__template_unescape(sub->uri, sub->len, plain);
    rv = tdg__template_parse(plain, len, &sub->template_, &error);
    tdg__free(plain);
    if (rv == TDG_ENOMEM)
        return rv;
    if (rv == TDG_ETEMPLATE)
        return 0; /* braces by chance: the server will know */

    if (rv == 0) {
        rv = tdg__template_index_add(subs->templates, sub->template_, sub->id);
        if (rv < 0) {
            tdg__template_destroy(sub->template_);
            sub->template_ = NULL;
            return rv;
        }
        sub->form = TDG__SUB_TEMPLATE;
    } else {
        /* Well-formed, but beyond us. Too much is better than silence. */
        sub->template_ = NULL;
        sub->prefix_len = (uint32_t)strcspn(sub->uri, "{%");
        sub->form = TDG__SUB_WILD;
        subs->wild_count++;
    }
    subs->template_count++;
    return 0;
}

void tdg__cover_remove(tdg__core_t *core, tdg__sub_t *sub) {
    struct tdg__subs *subs = core->subs;

    if (sub->form == TDG__SUB_TEMPLATE) {
        tdg__template_index_remove(subs->templates, sub->template_, sub->id);
        tdg__template_destroy(sub->template_);
        sub->template_ = NULL;
    } else {
        subs->wild_count--;
    }
    subs->template_count--;
    sub->form = TDG__SUB_URI;
}

bool tdg__cover_same(const char *a, size_t a_len, const char *b, size_t b_len) {
    char a_plain[TDG__TEMPLATE_MAX_LEN], b_plain[TDG__TEMPLATE_MAX_LEN];

    if (a_len > sizeof(a_plain) || b_len > sizeof(b_plain))
        return false;
    a_len = tdg__template_unescape(a, a_len, a_plain);
    b_len = tdg__template_unescape(b, b_len, b_plain);
    return a_len == b_len && memcmp(a_plain, b_plain, a_len) == 0;
}

/* ---- What covers a URI -------------------------------------------------- */

struct found {
    const struct tdg__subs *subs;
    size_t count;
    tdg__sub_t *last;
    bool reread; /* one of them wants it */
};

static void note(struct found *found, tdg__sub_t *sub) {
    if (!tdg__sub_wanted(sub) || tdg__sub_is_polled(sub))
        return;
    found->count++;
    found->last = sub;
    found->reread = found->reread || sub->reread;
}

static void on_match(void *user, uint32_t value) {
    struct found *found = user;

    note(found, tdg__sub_get(found->subs, value));
}

static void find_wild(struct found *found, const char *uri, size_t len) {
    tdg__sub_t *sub;

    if (found->subs->wild_count == 0)
        return;
    for (uint32_t id = 0; (sub = tdg__subs_next(found->subs, &id)) != NULL;) {
        if (sub->form == TDG__SUB_WILD && sub->prefix_len <= len &&
            memcmp(sub->uri, uri, sub->prefix_len) == 0)
            note(found, sub);
    }
}

static void find_above(struct found *found, const char *uri, size_t len) {
    int levels = 0;

    for (size_t at = len; at-- > 1 && levels < MAX_ABOVE;) {
        tdg__sub_t *sub;

        if (uri[at] != '/' && uri[at] != '?' && uri[at] != '#')
            continue;
        levels++;
        sub = tdg__subs_lookup(found->subs, uri, at + 1); /* with the slash */
        if (sub != NULL && at + 1 < len)
            note(found, sub);
        sub = tdg__subs_lookup(found->subs, uri, at);
        if (sub != NULL)
            note(found, sub);
    }
}

static struct found look_for(tdg__core_t *core, const char *uri, size_t len) {
    struct found found = {.subs = core->subs};

    tdg__template_index_match(core->subs->templates, uri, len, on_match, &found);
    find_wild(&found, uri, len);
    find_above(&found, uri, len);
    return found;
}

bool tdg__cover_has(tdg__core_t *core, const tdg__sub_t *sub) {
    return look_for(core, sub->uri, sub->len).count > 0;
}

/* ---- Records ------------------------------------------------------------ */

static void drop_oldest(tdg__core_t *core) {
    tdg__sub_t *sub = TDG__RECORD(tdg__sub_t, in_heard, core->subs->heard.next);
    tdg_event_t *event = tdg__update_take(sub);

    tdg__sub_free(core, sub);
    if (event != NULL) /* without its contents, but reported */
        tdg__update_emit(core, event);
}

/* Returns whether something had to go, and perhaps was reported. */
static bool make_room(tdg__core_t *core, size_t len) {
    const struct tdg__subs *subs = core->subs;
    bool dropped = false;

    while (subs->heard_count >= TDG__COVER_MAX_HEARD ||
           (subs->heard_count > 0 && subs->heard_bytes + len > TDG__COVER_MAX_BYTES)) {
        drop_oldest(core);
        dropped = true;
    }
    return dropped;
}

tdg__sub_t *tdg__cover_hear(tdg__core_t *core, const char *uri, size_t len) {
    struct tdg__subs *subs = core->subs;
    struct found found;
    tdg__sub_t *sub;

    if (len > TDG__COVER_MAX_URI)
        return NULL;
    found = look_for(core, uri, len);
    if (found.count > 0 && tdg__subs_lookup(subs, uri, len) == NULL &&
        make_room(core, len))
        found = look_for(core, uri, len); /* the owner may then have done anything */
    if (found.count == 0)
        return NULL;
    if (found.count == 1) /* of several nobody knows which the server meant */
        found.last->owed = false;

    sub = tdg__subs_lookup(subs, uri, len);
    if (sub != NULL && sub->role != TDG__SUB_HEARD) {
        /* It is being unsubscribed from, what covers it is not. The record may go before
         * a read ends, and the update with it: it is reported without. */
        sub->reread = false;
        return sub;
    }
    if (sub != NULL) {
        tdg__queue_remove(&sub->in_heard);
    } else {
        sub = tdg__sub_create(core, uri, len);
        if (sub == NULL) {
            tdg__update_emit(core, NULL); /* an event is lost, and that is reported */
            return NULL;
        }
        subs->heard_count++;
        subs->heard_bytes += len;
    }
    sub->role = TDG__SUB_HEARD;
    sub->reread = found.reread;
    tdg__queue_append(&subs->heard, &sub->in_heard);
    return sub;
}

void tdg__cover_leave(tdg__core_t *core, tdg__sub_t *sub) {
    tdg__queue_remove(&sub->in_heard);
    core->subs->heard_count--;
    core->subs->heard_bytes -= sub->len;
}

/* Whether `above` can be why the URI was reported. */
static bool may_cover(const tdg__sub_t *above, const tdg__sub_t *sub) {
    return tdg__sub_is_template(above) ||
           (sub->len > above->len && memcmp(sub->uri, above->uri, above->len) == 0);
}

void tdg__cover_forget(tdg__core_t *core, const tdg__sub_t *gone) {
    const tdg__queue_t *heard = &core->subs->heard;
    tdg__queue_t *next;

    for (tdg__queue_t *at = heard->next; at != heard; at = next) {
        tdg__sub_t *sub = TDG__RECORD(tdg__sub_t, in_heard, at);

        next = at->next;
        if (!may_cover(gone, sub) || look_for(core, sub->uri, sub->len).count > 0)
            continue;
        core->opts.forget(core->opts.user, sub->uri);
        tdg__sub_free(core, sub);
    }
}
