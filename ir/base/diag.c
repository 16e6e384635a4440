#include "ir/base/diag.h"

#include <stdarg.h>
#include <string.h>

enum { DIAG_ERROR_LIMIT = 20 };

typedef struct DiagInfo {
    const char *name;
    FaultKind fault;
    const char *doc;
} DiagInfo;

static const DiagInfo diag_table[DIAG_COUNT] = {
#define DIAG(ID, NAME, FAULT, DOC) [DIAG_##ID] = {.name = NAME, .fault = FAULT, .doc = DOC},
#include "ir/base/diag.def"
#undef DIAG
};

static bool diag_over_limit(const Diags *diags) {
    return diags->errors > (diags->error_limit ? diags->error_limit : DIAG_ERROR_LIMIT);
}

static void diag_add(Diags *diags, DiagId id, Severity severity, Span span, const char *format,
                     va_list args) {
    Text message = text_new(diags->arena);
    text_addv(&message, format, args);
    Diagnostic item = {.id = id, .severity = severity, .span = span, .message = message.at};
    vec_push(diags->arena, &diags->list, item);
}

void diag_error(Diags *diags, DiagId id, Span span, const char *format, ...) {
    if (!diags)
        return;
    diags->errors++;
    if (diag_over_limit(diags))
        return;
    va_list args;
    va_start(args, format);
    diag_add(diags, id, SEVERITY_ERROR, span, format, args);
    va_end(args);
}

void diag_warning(Diags *diags, DiagId id, Span span, const char *format, ...) {
    if (!diags)
        return;
    va_list args;
    va_start(args, format);
    diag_add(diags, id, SEVERITY_WARNING, span, format, args);
    va_end(args);
}

void diag_note(Diags *diags, Span span, const char *format, ...) {
    /* A note on an error that was dropped goes with it. */
    if (!diags || !diags->list.n || diag_over_limit(diags))
        return;
    va_list args;
    va_start(args, format);
    diag_add(diags, diags->list.at[diags->list.n - 1].id, SEVERITY_NOTE, span, format, args);
    va_end(args);
}

const char *diag_name(DiagId id) {
    return diag_table[id].name;
}

const char *diag_doc(DiagId id) {
    return diag_table[id].doc;
}

FaultKind diag_fault(DiagId id) {
    return diag_table[id].fault;
}

FaultKind diags_fault(const Diags *diags) {
    FaultKind worst = FAULT_NONE;
    for (size_t i = 0; i < diags->list.n; i++) {
        const Diagnostic *item = &diags->list.at[i];
        if (item->severity == SEVERITY_ERROR && diag_fault(item->id) > worst)
            worst = diag_fault(item->id);
    }
    return worst;
}

DiagId diag_find(const char *name) {
    for (int id = 0; id < DIAG_COUNT; id++)
        if (strcmp(diag_table[id].name, name) == 0)
            return (DiagId)id;
    return DIAG_COUNT;
}
