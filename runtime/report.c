/* Statuses and diagnostics for callers. */
#include "runtime/report.h"

#include <stdio.h>

const char *sinter_version(void) {
    return SINTER_VERSION;
}

const char *sinter_status_name(sinter_status status) {
    switch (status) {
#define STATUS(NAME, CODE, DOC)                                                                              \
    case SINTER_##NAME:                                                                                      \
        return #NAME;
#include "runtime/status.def"
#undef STATUS
    }
    return "UNKNOWN";
}

const char *sinter_status_text(sinter_status status) {
    switch (status) {
#define STATUS(NAME, CODE, DOC)                                                                              \
    case SINTER_##NAME:                                                                                      \
        return DOC;
#include "runtime/status.def"
#undef STATUS
    }
    return "not a status of this version";
}

sinter_status report_status_of(DiagId id) {
    switch (id) {
    case DIAG_CONSTRAINT:
    case DIAG_DIM: return SINTER_BAD_DIMS;
    case DIAG_DATA: return SINTER_BAD_DATA;
    case DIAG_MISMATCH: return SINTER_MISMATCH;
    case DIAG_BACKEND: return SINTER_BACKEND;
    case DIAG_MEMORY: return SINTER_OUT_OF_MEMORY;
    case DIAG_DEVICE: return SINTER_DEVICE;
    default: break;
    }
    switch (diag_fault(id)) {
    case FAULT_NONE: return SINTER_OK;
    case FAULT_INPUT: return SINTER_BAD_GRAPH;
    case FAULT_USAGE: return SINTER_USAGE;
    case FAULT_UNSUPPORTED: return SINTER_UNSUPPORTED;
    case FAULT_INTERNAL: return SINTER_INTERNAL;
    case FAULT_ENVIRONMENT: return SINTER_ENVIRONMENT;
    }
    return SINTER_INTERNAL;
}

sinter_status report_status(const Diags *diags) {
    for (size_t i = 0; i < diags->list.n; i++)
        if (diags->list.at[i].severity == SEVERITY_ERROR)
            return report_status_of(diags->list.at[i].id);
    return diags->errors ? SINTER_INTERNAL : SINTER_OK;
}

Report report_make(Arena *arena, const SourceSet *sources, const Diags *diags) {
    Report report = {ARENA_ARRAY(arena, sinter_diagnostic, diags->list.n + 1), (int)diags->list.n};
    static const sinter_severity severities[] = {SINTER_NOTE, SINTER_WARNING,
                                                 SINTER_ERROR}; /* ORDER Severity */
    static const char *const words[] = {"note", "warning", "error"};
    for (size_t i = 0; i < diags->list.n; i++) {
        const Diagnostic *from = &diags->list.at[i];
        sinter_diagnostic *to = &report.at[i];
        to->severity = severities[from->severity];
        to->id = diag_name(from->id);
        to->message = arena_strdup(arena, from->message);
        Text text = text_new(arena);
        if (sources && from->span.file && from->span.file <= sources->files.n) {
            to->file = arena_strdup(arena, sources->files.at[from->span.file - 1].name);
            source_locate(sources, from->span.file, from->span.caret, &to->line, &to->column);
            diagnostic_print(&text, sources, from, false);
        } else if (from->severity == SEVERITY_NOTE) {
            text_add(&text, "note: %s\n", from->message);
        } else {
            text_add(&text, "%s: %s [%s]\n", words[from->severity], from->message, to->id);
        }
        to->text = text.at;
    }
    return report;
}

Report report_single(ReportStorage *storage, DiagId id, const char *message) {
    snprintf(storage->message, sizeof storage->message, "%s", message);
    snprintf(storage->text, sizeof storage->text, "error: %s [%s]\n", storage->message, diag_name(id));
    storage->diagnostic = (sinter_diagnostic){
        .severity = SINTER_ERROR, .id = diag_name(id), .message = storage->message, .text = storage->text};
    return (Report){&storage->diagnostic, 1};
}
