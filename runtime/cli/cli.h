/* The command line: what its verbs share. Printing, ending with a status and reading the environment happen
 * here and nowhere below. */
#ifndef SINTER_RUNTIME_CLI_CLI_H
#define SINTER_RUNTIME_CLI_CLI_H

#include "runtime/cli/json.h"
#include "runtime/plan.h"

enum {
    GROUP_COMMON = 1 << 0,
    GROUP_GRAPH = 1 << 1,
    GROUP_TARGET = 1 << 2,
    GROUP_DIMS = 1 << 3,
    GROUP_EMIT = 1 << 4,
    GROUP_DEVICE = 1 << 5,
    GROUP_DATA = 1 << 6,
    GROUP_VERIFY = 1 << 7,
    GROUP_BENCH = 1 << 8,
    GROUP_INSPECT = 1 << 9,
    GROUP_FORMAT = 1 << 10,
    GROUP_DOCTOR = 1 << 11,
    GROUP_MANUAL = 1 << 12,
    GROUP_TUNED = 1 << 13,
    GROUP_TUNE = 1 << 14,
};

/* Exit statuses; the hundreds of sinter_status are the same kinds. */
enum {
    EXIT_GOOD = 0,
    EXIT_INPUT = 1,
    EXIT_USAGE = 2,
    EXIT_UNSUPPORTED = 3,
    EXIT_DEFECT = 4,
    EXIT_ENVIRONMENT = 5
};

typedef struct OptionList {
    const char **at;
    size_t n, room;
} OptionList;

typedef bool OptionFLAG;
typedef const char *OptionTEXT;
typedef struct OptionINT {
    bool given;
    int64_t value;
} OptionINT;
typedef struct OptionREAL {
    bool given;
    double value;
} OptionREAL;
typedef OptionList OptionLIST;

typedef struct Options {
#define OPTION(FIELD, KIND, LONG, LETTER, ARGUMENT, GROUPS, DOC) Option##KIND FIELD;
#include "runtime/cli/options.def"
#undef OPTION
    OptionList operands;
} Options;

typedef struct Cli Cli;
typedef struct VerbInfo {
    const char *name;
    int (*function)(Cli *cli);
    const char *operands;
    unsigned groups;
    int least, most;
    const char *doc;
} VerbInfo;

struct Cli {
    Arena *arena;        /* of the whole run */
    const char *program; /* argv[0] */
    int argc;
    char **argv;
    const VerbInfo *verb;
    Options o;
    sinter_context *context; /* opened by cli_context() */
    int worst;               /* exit status so far */
    Json json;               /* printed at the end where --json was given */
    const char *said;        /* diagnostics of the plan before; NULL: there was none */
    double progress_ms;      /* when the last progress line was due; 0: none yet */
    bool progress_shown;
};

#define VERB(NAME, FUNCTION, OPERANDS, GROUPS, LEAST, MOST, DOC) int FUNCTION(Cli *cli);
#include "runtime/cli/verbs.def"
#undef VERB

/* options.c: fills cli->verb and cli->o from the arguments; -1 to go on, else the exit status. */
int options_parse(Cli *cli, int argc, char **argv);

/* An error on standard error, prefixed by the program's name; notes `status` as the exit status unless a
 * worse one stands. */
void cli_error(Cli *cli, int status, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* A remark on standard error, unless --quiet. */
void cli_note(Cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_fail(Cli *cli, int status);
int cli_exit_of(sinter_status status);
/* Standard output, whole; an error there (a full disk) is the environment's. */
void cli_print(Cli *cli, const char *text, size_t n);
/* To a file, or to standard output for "-" or NULL. */
bool cli_write(Cli *cli, const char *path, const void *bytes, size_t n);
/* Diagnostics on standard error; of plans of one graph for other dims, once. */
void cli_graph_diagnostics(Cli *cli, const sinter_graph *graph);
void cli_plan_diagnostics(Cli *cli, const sinter_plan *plan);

typedef enum DeviceNeed { DEVICE_NONE, DEVICE_IF_THERE, DEVICE_REQUIRED } DeviceNeed;
/* Opens cli->context once. False, after an error, where a device is required and absent. */
bool cli_context(Cli *cli, DeviceNeed need);
/* Reads and parses a file; NULL after its diagnostics. The graph is freed when the program ends. */
sinter_graph *cli_load(Cli *cli, const char *path);
/* The numbers of the graphs that --graph chooses; the count, or 0 after an error. `single`: exactly one is
 * wanted. */
size_t cli_choose(Cli *cli, const sinter_graph *graph, bool single, size_t *chosen);
/* The first file's only graph, or the one that --graph chooses, selected; NULL after an error. */
sinter_graph *cli_load_one(Cli *cli);
/* Calls `visit` for each chosen graph of each file of the command line, selected; with --json within one
 * array. */
typedef void CliVisit(Cli *cli, const char *file, sinter_graph *graph, void *context);
void cli_each_graph(Cli *cli, CliVisit *visit, void *context);
/* Options of a plan as the command line gives them, but for backend, stage and dims. False after a usage
 * error. */
bool cli_plan_options(Cli *cli, sinter_plan_options *out);
/* Values of dims: the plan's, unless its dims are --symbolic. */
void cli_plan_dims(const Cli *cli, const sinter_dim *dims, int n_dims, sinter_plan_options *out);
/* cli_plan_options() with the first backend that is named, and with the values of --dim. */
bool cli_plan_request(Cli *cli, sinter_plan_options *out);
/* The values of a plan's symbolic dims, in its order, by name among `dims`; 0 for others. Whether all are
 * there. */
bool cli_plan_values(const sinter_plan *plan, const sinter_dim *dims, int n_dims,
                     int64_t values[PLAN_DIMS_MOST]);
/* What to show of a plan: its variant for the values of --dim where they are all given, as of --symbolic
 * dims; else the plan itself. */
const sinter_plan *cli_shown_plan(Cli *cli, const sinter_plan *plan);
/* The values of --dim. */
bool cli_dims(Cli *cli, sinter_dim **dims, int *n);
/* The dims of combination `number` of a check (NULL: of no dims), the last varying fastest; --dim overrides.
 * False where there are no more. */
bool cli_check_dims(Cli *cli, const sinter_graph *graph, const Check *check, int64_t number,
                    sinter_dim **dims, int *n);
/* "auto", "llvm", "nvrtc", where `all` also "all" (both that are there): the backends named; the count, or 0
 * after an error. */
int cli_backends(Cli *cli, bool all, sinter_backend out[2]);
const char *cli_backend_name(sinter_backend backend);
/* The nearest of `names` to a misspelt word; NULL where none is near. */
const char *cli_nearest(const char *word, const char *const *names, size_t n);

/* tune.c: where --tune asks for it, tunes the graph for these dims first. False after an error. */
bool cli_tune(Cli *cli, const char *file, sinter_graph *graph, const sinter_dim *dims, int n_dims);

/* A line on a terminal's standard error that replaces itself, shown when a second has passed since the last.
 */
void cli_progress(Cli *cli, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_progress_end(Cli *cli);

#endif
