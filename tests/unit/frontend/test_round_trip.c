/* parse(print(g)) is g: by hash and by text, for every graph of tests/unit/frontend/graphs. */
#include <dirent.h>
#include <string.h>

#include "support.h"

#include "ir/print.h"

static const char directory[] = "tests/unit/frontend/graphs";

/* Names of intermediates may change when they are printed for want of one; so the second print is compared
 * with the third. */
static const char *print_one(Arena *arena, const Graph *graph) {
    Text text = text_new(arena);
    text_add(&text, "sinter 1\n\n");
    graph_print(&text, graph);
    return text.at;
}

static void check_graph(const Parsed *from, const Graph *graph) {
    const char *printed = print_one(from->arena, graph);
    if (strstr(printed + 9, "sinter 1"))
        printed += 10;
    Parsed again = parse_bytes(graph->name, printed, strlen(printed));
    if (!again.ran || !again.good)
        fail_msg("%s does not parse back:%s\n%s", graph->name, parsed_diagnostics(&again), printed);
    assert_int_equal(again.module.graphs.n, 1);
    const Graph *back = again.module.graphs.at[0];
    uint8_t a[GRAPH_HASH_BYTES], b[GRAPH_HASH_BYTES];
    graph_hash(graph, a);
    graph_hash(back, b);
    const char *reprinted = print_one(again.arena, back);
    if (strstr(reprinted + 9, "sinter 1"))
        reprinted += 10;
    assert_string_equal(reprinted, printed);
    assert_memory_equal(a, b, sizeof a);
    assert_int_equal(graph->values.n, back->values.n);
    parsed_free(&again);
}

static void test_files(void **state) {
    (void)state;
    struct dirent *entry;
    DIR *listing = opendir(directory);
    assert_non_null(listing);
    size_t graphs = 0;
    while ((entry = readdir(listing))) {
        if (!strstr(entry->d_name, ".sg"))
            continue;
        char path[600];
        snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
        size_t n;
        char *text = read_file(path, &n);
        Parsed p = parse_bytes(path, text, n);
        assert_parsed(&p);
        for (size_t i = 0; i < p.module.graphs.n; i++, graphs++)
            check_graph(&p, p.module.graphs.at[i]);
        parsed_free(&p);
        free(text);
    }
    closedir(listing);
    assert_true(graphs > 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_files)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
