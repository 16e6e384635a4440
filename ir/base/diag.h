/* Diagnostics as data: what is wrong, where, and what would satisfy the rule. Below the command line nobody
 * prints.
 *
 * A Span is a byte range of one source of the SourceSet that the Diags belong to; file 0 means "no place" (a
 * graph built through the C API). Every message has an id, a row of diag.def, whose name stands in brackets
 * behind the message. */
#ifndef SINTER_IR_BASE_DIAG_H
#define SINTER_IR_BASE_DIAG_H

#include "ir/base/arena.h"
#include "ir/base/text.h"
#include "ir/base/vec.h"

typedef struct Span {
    uint32_t file;       /* 1-based index of the source; 0: no place */
    uint32_t begin, end; /* bytes, end exclusive */
    uint32_t caret;      /* the byte that the caret marks; begin <= caret < end */
} Span;

typedef enum DiagId {
#define DIAG(ID, NAME, STATUS, DOC) DIAG_##ID,
#include "ir/base/diag.def"
#undef DIAG
    DIAG_COUNT
} DiagId;

typedef enum Severity { SEVERITY_NOTE, SEVERITY_WARNING, SEVERITY_ERROR } Severity;

/* What kind of failure a diagnostic is; the command line's exit status and the library's status codes follow
 * from it. */
typedef enum FaultKind {
    FAULT_NONE = 0,
    FAULT_INPUT = 1,       /* the graph or the input is at fault */
    FAULT_USAGE = 2,       /* the call or the command line is */
    FAULT_UNSUPPORTED = 3, /* right, but not supported */
    FAULT_INTERNAL = 4,    /* a defect of Sinter */
    FAULT_ENVIRONMENT = 5, /* driver, toolkit, disk, memory */
} FaultKind;

typedef struct Diagnostic {
    DiagId id; /* a note has the id of the error that it explains */
    Severity severity;
    Span span;
    const char *message;
} Diagnostic;

/* One list a compilation. Errors are counted; after `error_limit` errors further ones are dropped (the count
 * goes on). */
typedef struct Diags {
    Arena *arena;
    VEC(Diagnostic) list; /* an error is followed by its notes */
    int errors;
    int error_limit; /* 0: 20 */
} Diags;

void diag_error(Diags *diags, DiagId id, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void diag_warning(Diags *diags, DiagId id, Span span, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Explains the error just before it. */
void diag_note(Diags *diags, Span span, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *diag_name(DiagId id);
const char *diag_doc(DiagId id);
FaultKind diag_fault(DiagId id);
/* The worst fault of the list: FAULT_NONE where there is no error. */
FaultKind diags_fault(const Diags *diags);
DiagId diag_find(const char *name); /* DIAG_COUNT where there is none */

#endif
