/* SPDX-License-Identifier: MIT */
#include "source/files/files_mime.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct row {
    const char *extension, *type;
};

/* In alphabetical order: it is searched by halves. */
static const struct row rows[] = {
    {"7z", "application/x-7z-compressed"},
    {"adoc", "text/x-asciidoc"},
    {"asm", "text/x-asm"},
    {"avif", "image/avif"},
    {"bash", "application/x-sh"},
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c"},
    {"cc", "text/x-c++"},
    {"cfg", "text/plain"},
    {"cjs", "text/javascript"},
    {"conf", "text/plain"},
    {"cpp", "text/x-c++"},
    {"cs", "text/x-csharp"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"cxx", "text/x-c++"},
    {"db", "application/vnd.sqlite3"},
    {"diff", "text/x-diff"},
    {"doc", "application/msword"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"env", "text/plain"},
    {"epub", "application/epub+zip"},
    {"erl", "text/x-erlang"},
    {"ex", "text/x-elixir"},
    {"exs", "text/x-elixir"},
    {"flac", "audio/flac"},
    {"geojson", "application/geo+json"},
    {"gif", "image/gif"},
    {"go", "text/x-go"},
    {"graphql", "application/graphql"},
    {"gz", "application/gzip"},
    {"h", "text/x-c"},
    {"heic", "image/heic"},
    {"hh", "text/x-c++"},
    {"hpp", "text/x-c++"},
    {"hrl", "text/x-erlang"},
    {"hs", "text/x-haskell"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ico", "image/vnd.microsoft.icon"},
    {"ics", "text/calendar"},
    {"ini", "text/plain"},
    {"ipynb", "application/x-ipynb+json"},
    {"java", "text/x-java"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/x-ndjson"},
    {"jsonld", "application/ld+json"},
    {"jsx", "text/jsx"},
    {"kt", "text/x-kotlin"},
    {"log", "text/plain"},
    {"lst", "text/plain"},
    {"lua", "text/x-lua"},
    {"m4a", "audio/mp4"},
    {"markdown", "text/markdown"},
    {"md", "text/markdown"},
    {"mdx", "text/markdown"},
    {"mjs", "text/javascript"},
    {"mkv", "video/x-matroska"},
    {"mov", "video/quicktime"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"mts", "text/x-typescript"},
    {"ndjson", "application/x-ndjson"},
    {"odp", "application/vnd.oasis.opendocument.presentation"},
    {"ods", "application/vnd.oasis.opendocument.spreadsheet"},
    {"odt", "application/vnd.oasis.opendocument.text"},
    {"ogg", "audio/ogg"},
    {"org", "text/x-org"},
    {"parquet", "application/vnd.apache.parquet"},
    {"patch", "text/x-diff"},
    {"pdf", "application/pdf"},
    {"php", "text/x-php"},
    {"pl", "text/x-perl"},
    {"png", "image/png"},
    {"ppt", "application/vnd.ms-powerpoint"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"properties", "text/plain"},
    {"py", "text/x-python"},
    {"r", "text/x-r"},
    {"rb", "text/x-ruby"},
    {"rs", "text/x-rust"},
    {"rst", "text/x-rst"},
    {"rtf", "application/rtf"},
    {"s", "text/x-asm"},
    {"scala", "text/x-scala"},
    {"sh", "application/x-sh"},
    {"sql", "application/sql"},
    {"sqlite", "application/vnd.sqlite3"},
    {"svg", "image/svg+xml"},
    {"swift", "text/x-swift"},
    {"tar", "application/x-tar"},
    {"tex", "text/x-tex"},
    {"text", "text/plain"},
    {"tgz", "application/gzip"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"ts", "text/x-typescript"},
    {"tsv", "text/tab-separated-values"},
    {"tsx", "text/tsx"},
    {"ttf", "font/ttf"},
    {"txt", "text/plain"},
    {"vcf", "text/vcard"},
    {"vtt", "text/vtt"},
    {"vue", "text/x-vue"},
    {"wasm", "application/wasm"},
    {"wav", "audio/wav"},
    {"webm", "video/webm"},
    {"webp", "image/webp"},
    {"woff", "font/woff"},
    {"woff2", "font/woff2"},
    {"xls", "application/vnd.ms-excel"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"xsd", "application/xml"},
    {"xsl", "application/xml"},
    {"xz", "application/x-xz"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

static int compare(const void *key, const void *row) {
    return strcasecmp(key, ((const struct row *)row)->extension);
}

const char *tdg__files_mime(const char *path) {
    const char *slash = strrchr(path, '/');
    const char *name = slash != NULL ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    const struct row *row;

    if (dot == NULL || dot == name)
        return NULL;
    row =
        bsearch(dot + 1, rows, sizeof(rows) / sizeof(rows[0]), sizeof(rows[0]), compare);
    return row != NULL ? row->type : NULL;
}
