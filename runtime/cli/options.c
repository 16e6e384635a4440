/* The command line's grammar, from the two tables: `sinter VERB [options] [operands]`, options anywhere, `--`
 * ends them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/cli/cli.h"

typedef enum OptionKind { KIND_FLAG, KIND_TEXT, KIND_INT, KIND_REAL, KIND_LIST } OptionKind;

typedef struct OptionInfo {
    OptionKind kind;
    const char *name;
    char letter;
    const char *argument;
    unsigned groups;
    const char *doc;
    size_t offset;
} OptionInfo;

static const OptionInfo option_table[] = {
#define OPTION(FIELD, KIND, LONG, LETTER, ARGUMENT, GROUPS, DOC)                                             \
    {KIND_##KIND, LONG, LETTER, ARGUMENT, GROUPS, DOC, offsetof(Options, FIELD)},
#include "runtime/cli/options.def"
#undef OPTION
};
enum { OPTION_COUNT = sizeof option_table / sizeof *option_table };

static const VerbInfo verb_table[] = {
#define VERB(NAME, FUNCTION, OPERANDS, GROUPS, LEAST, MOST, DOC)                                             \
    {#NAME, FUNCTION, OPERANDS, GROUPS, LEAST, MOST, DOC},
#include "runtime/cli/verbs.def"
#undef VERB
};
enum { VERB_COUNT = sizeof verb_table / sizeof *verb_table };

static bool options_belong(const VerbInfo *verb, const OptionInfo *option) {
    return option->groups & (verb->groups | GROUP_COMMON);
}

static void options_help(void) {
    printf("sinter: graphs of tensor operations, compiled into few GPU kernels\n\nusage: sinter VERB "
           "[options] [operands]\n\n");
    for (int i = 0; i < VERB_COUNT; i++)
        printf("  %-9s %s\n", verb_table[i].name, verb_table[i].doc);
    printf("\n`sinter VERB -h` lists a verb's options. `-` reads standard input.\n"
           "exit status: 0 good, 1 the graph or the input is at fault, 2 usage, 3 not supported, 4 a defect "
           "of Sinter,\n"
           "             5 the environment (driver, toolkit, disk)\n");
}

static void options_verb_help(const VerbInfo *verb) {
    printf("sinter %s: %s\n\nusage: sinter %s [options] %s\n\n", verb->name, verb->doc, verb->name,
           verb->operands);
    for (int i = 0; i < OPTION_COUNT; i++) {
        const OptionInfo *option = &option_table[i];
        if (!options_belong(verb, option))
            continue;
        char head[64];
        char letter[8] = "    ";
        if (option->letter)
            snprintf(letter, sizeof letter, "-%c, ", option->letter);
        snprintf(head, sizeof head, "%s--%s%s%s", letter, option->name, option->argument ? "=" : "",
                 option->argument ? option->argument : "");
        printf("  %-28s %s\n", head, option->doc);
    }
}

/* Levenshtein distance, of short words. */
static int options_distance(const char *a, const char *b) {
    enum { LONGEST = 32 };
    int row[LONGEST + 1], na = (int)strlen(a), nb = (int)strlen(b);
    if (na > LONGEST || nb > LONGEST)
        return LONGEST;
    for (int j = 0; j <= nb; j++)
        row[j] = j;
    for (int i = 1; i <= na; i++) {
        int corner = row[0];
        row[0] = i;
        for (int j = 1; j <= nb; j++) {
            int change = corner + (a[i - 1] != b[j - 1]);
            corner = row[j];
            int least = row[j] < row[j - 1] ? row[j] : row[j - 1];
            row[j] = least + 1 < change ? least + 1 : change;
        }
    }
    return row[nb];
}

const char *cli_nearest(const char *word, const char *const *names, size_t n) {
    const char *nearest = NULL;
    int least = 1 + (int)strlen(word) / 3;
    for (size_t i = 0; i < n; i++) {
        int distance = options_distance(word, names[i]);
        if (distance <= least) {
            least = distance - 1;
            nearest = names[i];
        }
    }
    return nearest;
}

static int options_unknown(Cli *cli, const char *what, const char *word, const char *dashes,
                           const char *const *names, size_t n) {
    const char *nearest = cli_nearest(word, names, n);
    if (nearest)
        cli_error(cli, EXIT_USAGE, "unknown %s '%s%s'; did you mean '%s%s'?", what, dashes, word, dashes,
                  nearest);
    else
        cli_error(cli, EXIT_USAGE, "unknown %s '%s%s'; see `sinter %s%s-h`", what, dashes, word,
                  cli->verb ? cli->verb->name : "", cli->verb ? " " : "");
    return EXIT_USAGE;
}

static int options_set(Cli *cli, const OptionInfo *option, const char *value) {
    void *field = (char *)&cli->o + option->offset;
    char *end;
    errno = 0;
    switch (option->kind) {
    case KIND_FLAG: *(bool *)field = true; return -1;
    case KIND_TEXT: *(const char **)field = value; return -1;
    case KIND_INT: {
        OptionINT *number = field;
        number->given = true;
        number->value = strtoll(value, &end, 10);
        if (*value && !*end && !errno && number->value >= 0)
            return -1;
        break;
    }
    case KIND_REAL: {
        OptionREAL *number = field;
        number->given = true;
        number->value = strtod(value, &end);
        if (*value && !*end && number->value >= 0)
            return -1;
        break;
    }
    case KIND_LIST: {
        OptionList *list = field;
        vec_push(cli->arena, list, value);
        return -1;
    }
    }
    cli_error(cli, EXIT_USAGE, "--%s wants a number that is not negative, not '%s'", option->name, value);
    return EXIT_USAGE;
}

static int options_one(Cli *cli, int argc, char **argv, int *at) {
    const char *word = argv[*at];
    bool is_long = word[1] == '-';
    const char *name = word + 1 + is_long, *equals = is_long ? strchr(name, '=') : NULL;
    size_t n = equals ? (size_t)(equals - name) : strlen(name);
    const char *names[OPTION_COUNT];
    size_t n_names = 0;
    for (int i = 0; i < OPTION_COUNT; i++) {
        const OptionInfo *option = &option_table[i];
        if (!options_belong(cli->verb, option))
            continue;
        names[n_names++] = option->name;
        bool match = is_long ? strlen(option->name) == n && strncmp(option->name, name, n) == 0
                             : option->letter && name[0] == option->letter;
        if (!match)
            continue;
        const char *value = equals ? equals + 1 : !is_long && name[1] ? name + 1 + (name[1] == '=') : NULL;
        if (option->kind == KIND_FLAG && value) {
            cli_error(cli, EXIT_USAGE, "'%s': --%s takes no value", word, option->name);
            return EXIT_USAGE;
        }
        if (option->kind != KIND_FLAG && !value) {
            if (*at + 1 == argc) {
                cli_error(cli, EXIT_USAGE, "--%s wants %s", option->name, option->argument);
                return EXIT_USAGE;
            }
            value = argv[++*at];
        }
        return options_set(cli, option, value);
    }
    const char *spelt = arena_strndup(cli->arena, name, n);
    return options_unknown(cli, "option", spelt, is_long ? "--" : "-", names, n_names);
}

int options_parse(Cli *cli, int argc, char **argv) {
    if (argc < 2 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0 ||
        strcmp(argv[1], "help") == 0) {
        options_help();
        return argc < 2 ? EXIT_USAGE : EXIT_GOOD;
    }
    if (strcmp(argv[1], "--version") == 0) {
        printf("sinter %s\n", sinter_version());
        return EXIT_GOOD;
    }
    const char *names[VERB_COUNT];
    for (int i = 0; i < VERB_COUNT; i++) {
        names[i] = verb_table[i].name;
        if (strcmp(argv[1], names[i]) == 0)
            cli->verb = &verb_table[i];
    }
    if (!cli->verb)
        return options_unknown(cli, "verb", argv[1], "", names, VERB_COUNT);
    bool only_operands = false;
    for (int i = 2; i < argc; i++) {
        int status = -1;
        if (!only_operands && strcmp(argv[i], "--") == 0)
            only_operands = true;
        else if (!only_operands && argv[i][0] == '-' && argv[i][1])
            status = options_one(cli, argc, argv, &i);
        else
            vec_push(cli->arena, &cli->o.operands, argv[i]);
        if (status >= 0)
            return status;
    }
    if (cli->o.help) {
        options_verb_help(cli->verb);
        return EXIT_GOOD;
    }
    int n = (int)cli->o.operands.n;
    if (n < cli->verb->least || (cli->verb->most >= 0 && n > cli->verb->most)) {
        cli_error(cli, EXIT_USAGE, "usage: sinter %s [options] %s", cli->verb->name, cli->verb->operands);
        return EXIT_USAGE;
    }
    return -1;
}
