/* JSON text: strings escaped, numbers that read back. */
#include "runtime/cli/json.h"

#include <math.h>
#include <stdio.h>

Json json_new(Arena *arena) {
    return (Json){text_new(arena), false};
}

static void json_string(Json *json, const char *value) {
    text_add(&json->text, "\"");
    for (const char *c = value; *c; c++) {
        unsigned char u = (unsigned char)*c;
        if (u == '"' || u == '\\')
            text_add(&json->text, "\\%c", u);
        else if (u == '\n')
            text_add(&json->text, "\\n");
        else if (u == '\t')
            text_add(&json->text, "\\t");
        else if (u < 0x20)
            text_add(&json->text, "\\u%04x", u);
        else
            text_add_bytes(&json->text, c, 1);
    }
    text_add(&json->text, "\"");
}

static void json_item(Json *json, const char *key) {
    if (json->comma)
        text_add(&json->text, ", ");
    if (key) {
        json_string(json, key);
        text_add(&json->text, ": ");
    }
    json->comma = true;
}

void json_begin(Json *json, const char *key, char bracket) {
    json_item(json, key);
    text_add(&json->text, "%c", bracket);
    json->comma = false;
}

void json_end(Json *json, char bracket) {
    text_add(&json->text, "%c", bracket);
    json->comma = true;
}

void json_text(Json *json, const char *key, const char *value) {
    json_item(json, key);
    if (value)
        json_string(json, value);
    else
        text_add(&json->text, "null");
}

void json_int(Json *json, const char *key, int64_t value) {
    json_item(json, key);
    text_add(&json->text, "%lld", (long long)value);
}

void json_real(Json *json, const char *key, double value) {
    json_item(json, key);
    if (isfinite(value))
        text_add(&json->text, "%.9g", value);
    else
        text_add(&json->text, "null");
}

void json_bool(Json *json, const char *key, bool value) {
    json_item(json, key);
    text_add(&json->text, value ? "true" : "false");
}

void json_raw(Json *json, const char *key, const char *value) {
    json_item(json, key);
    text_add(&json->text, "%s", value);
}
