/* From diagnostics inside to diagnostics outside: statuses, and lists that callers read. */
#ifndef SINTER_RUNTIME_REPORT_H
#define SINTER_RUNTIME_REPORT_H

#include "frontend/source.h"
#include "ir/base/diag.h"
#include "runtime/sinter.h"

typedef struct Report {
    sinter_diagnostic *at;
    int n;
} Report;

/* The status that the first error stands for; SINTER_OK where there is none. */
sinter_status report_status(const Diags *diags);
sinter_status report_status_of(DiagId id);
/* Everything in `diags`, rendered; `sources` NULL: no place is shown. In `arena`; call it below arena_run().
 */
Report report_make(Arena *arena, const SourceSet *sources, const Diags *diags);
/* A report of one error that needs no memory but `storage`, for when there is none left. */
typedef struct ReportStorage {
    sinter_diagnostic diagnostic;
    char message[512];
    char text[600];
} ReportStorage;
Report report_single(ReportStorage *storage, DiagId id, const char *message);

#endif
