/* Writing JSON, piece by piece, onto a Text. */
#ifndef SINTER_RUNTIME_CLI_JSON_H
#define SINTER_RUNTIME_CLI_JSON_H

#include "ir/base/text.h"

typedef struct Json {
    Text text;
    bool comma; /* the next item needs one before it */
} Json;

Json json_new(Arena *arena);
/* key NULL: an item of an array, or the whole. */
void json_begin(Json *json, const char *key, char bracket);     /* '{' or '[' */
void json_end(Json *json, char bracket);                        /* '}' or ']' */
void json_text(Json *json, const char *key, const char *value); /* NULL gives null */
void json_int(Json *json, const char *key, int64_t value);
void json_real(Json *json, const char *key, double value); /* null where it is not finite */
void json_bool(Json *json, const char *key, bool value);
/* Ready JSON, as it is. */
void json_raw(Json *json, const char *key, const char *value);

#endif
