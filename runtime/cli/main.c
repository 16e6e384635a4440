/* The sinter program: one verb a task. */
#include <stdlib.h>

#include <stdio.h>

#include "runtime/cli/cli.h"

typedef struct MainRun {
    Cli *cli;
    int argc;
    char **argv;
    int status;
} MainRun;

static void main_body(void *context) {
    MainRun *run = context;
    Cli *cli = run->cli;
    cli->json = json_new(cli->arena);
    run->status = options_parse(cli, run->argc, run->argv);
    if (run->status >= 0)
        return;
    run->status = cli->verb->function(cli);
    if (run->status < cli->worst)
        run->status = cli->worst;
    cli_progress_end(cli);
    if (cli->o.json && cli->json.text.n) {
        text_add(&cli->json.text, "\n");
        cli_print(cli, cli->json.text.at, cli->json.text.n);
    }
}

int main(int argc, char **argv) {
    Cli cli = {.arena = arena_new(0), .program = argv[0], .argc = argc, .argv = argv};
    MainRun run = {&cli, argc, argv, EXIT_ENVIRONMENT};
    if (!cli.arena || !arena_run(cli.arena, main_body, &run)) {
        fprintf(stderr, "sinter: error: memory ran out [memory]\n");
        run.status = EXIT_ENVIRONMENT;
    }
    arena_free(cli.arena); /* first: plans and graphs deferred to it need the context */
    sinter_context_destroy(cli.context);
    if (fflush(stdout) != 0 && run.status == EXIT_GOOD) {
        fprintf(stderr, "sinter: error: standard output could not be written [environment]\n");
        run.status = EXIT_ENVIRONMENT;
    }
    return run.status;
}
