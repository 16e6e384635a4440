/* What the tests of this room share: cmocka, and an arena whose contents are used below arena_run(). */
#ifndef TESTS_UNIT_RUNTIME_SUPPORT_H
#define TESTS_UNIT_RUNTIME_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ir/base/diag.h"
#include "ir/base/text.h"

static inline bool said(const Diags *diags, DiagId id, const char *part) {
    for (size_t i = 0; i < diags->list.n; i++)
        if (diags->list.at[i].id == id && strstr(diags->list.at[i].message, part))
            return true;
    return false;
}

#endif
