/* sinter fmt: graph files laid out canonically. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "runtime/cli/cli.h"

int verb_fmt(Cli *cli) {
    for (size_t i = 0; i < cli->o.operands.n; i++) {
        const char *path = cli->o.operands.at[i];
        Bytes text;
        if (!file_read(cli->arena, path, 64 << 20, &text)) {
            cli_error(cli, EXIT_INPUT, "%s could not be read: %s", path, strerror(errno));
            continue;
        }
        SourceSet *sources = source_set_new(cli->arena);
        Diags diags = {.arena = cli->arena};
        uint32_t file =
            source_add(sources, strcmp(path, "-") == 0 ? "<stdin>" : path, (const char *)text.at, text.n);
        Text out = text_new(cli->arena);
        bool ok = frontend_format(cli->arena, sources, file, &diags, &out);
        Report report = report_make(cli->arena, sources, &diags);
        for (int k = 0; k < report.n; k++)
            fputs(report.at[k].text, stderr);
        if (!ok) {
            cli_fail(cli, EXIT_INPUT);
            continue;
        }
        bool same = out.n == text.n && memcmp(out.at, text.at, out.n) == 0;
        if (cli->o.check && !same)
            cli_error(cli, EXIT_INPUT, "%s is laid out otherwise; `sinter fmt -w %s` changes it", path, path);
        else if (!cli->o.check && cli->o.write && !same)
            cli_write(cli, path, out.at, out.n);
        else if (!cli->o.check && !cli->o.write)
            cli_print(cli, out.at, out.n);
    }
    return cli->worst;
}
