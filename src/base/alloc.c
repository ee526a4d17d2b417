/* SPDX-License-Identifier: MIT */
#include "base/alloc.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

#include <jansson.h>

#include <tidings/tidings.h>

static tdg_allocator_t allocator = {malloc, realloc, free};

int tdg_set_allocator(const tdg_allocator_t *replacement) {
    if (replacement == NULL) {
        allocator = (tdg_allocator_t){malloc, realloc, free};
    } else {
        if (replacement->malloc_fn == NULL || replacement->realloc_fn == NULL ||
            replacement->free_fn == NULL)
            return TDG_EINVAL;
        allocator = *replacement;
    }

    json_set_alloc_funcs(allocator.malloc_fn, allocator.free_fn);
    return 0;
}

void *tdg__malloc(size_t size) {
    return allocator.malloc_fn(size);
}

void *tdg__calloc(size_t count, size_t size) {
    void *ptr;

    if (size != 0 && count > SIZE_MAX / size)
        return NULL;

    ptr = allocator.malloc_fn(count * size);
    if (ptr != NULL)
        memset(ptr, 0, count * size);
    return ptr;
}

void *tdg__realloc(void *ptr, size_t size) {
    return allocator.realloc_fn(ptr, size);
}

void *tdg__reallocarray(void *ptr, size_t count, size_t size) {
    if (size != 0 && count > SIZE_MAX / size)
        return NULL;
    return allocator.realloc_fn(ptr, count * size);
}

void tdg__free(void *ptr) {
    if (ptr != NULL)
        allocator.free_fn(ptr);
}

void tdg__memory_trim(void) {
#ifdef __GLIBC__
    if (allocator.free_fn == free)
        (void)malloc_trim(0);
#endif
}

char *tdg__strndup(const char *text, size_t len) {
    char *copy = text != NULL ? tdg__malloc(len + 1) : NULL;

    if (copy != NULL) {
        memcpy(copy, text, len);
        copy[len] = '\0';
    }
    return copy;
}

char *tdg__strdup(const char *text) {
    return text != NULL ? tdg__strndup(text, strlen(text)) : NULL;
}

bool tdg__copy(const char *text, char **ret) {
    *ret = tdg__strdup(text);
    return text == NULL || *ret != NULL;
}

bool tdg__copy_strings(const char *const *strings, char ***ret) {
    size_t count = 0;
    char **copies;

    *ret = NULL;
    if (strings == NULL)
        return true;
    while (strings[count] != NULL)
        count++;
    copies = tdg__calloc(count + 1, sizeof(*copies));
    for (size_t i = 0; copies != NULL && i < count; i++) {
        if (!tdg__copy(strings[i], &copies[i])) {
            tdg__free_strings(copies);
            return false;
        }
    }
    *ret = copies;
    return copies != NULL;
}

void tdg__free_strings(char **strings) {
    for (char **at = strings; at != NULL && *at != NULL; at++)
        tdg__free(*at);
    tdg__free(strings);
}
