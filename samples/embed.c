/* Sinter inside a host program: text to plan to result. This one needs no GPU, since it lets the simulator
 * execute the kernels; with a device, use_device is 1, pointers are device memory, and sinter_plan_execute()
 * takes sinter_plan_simulate()'s place.
 *
 *     cc samples/embed.c $(pkg-config --cflags --libs sinter) -o embed && ./embed
 *     softmax of 1 2 3 4: 0.0321 0.0871 0.2369 0.6439 */
#include <sinter.h>
#include <stdio.h>

static int report(const char *what, const sinter_diagnostic *diagnostic) {
    fprintf(stderr, "%s failed\n%s", what, diagnostic ? diagnostic->text : "");
    return 1;
}

int main(void) {
    static const char text[] =
        "sinter 1\n"
        "graph f (x: f32[M, 4]) -> (y: f32[M, 4]) { y = softmax(x, over=-1)   @expect(kernels=1) }\n";
    sinter_context *context;
    sinter_graph *graph;
    sinter_plan *plan;
    int failed = 0;

    if (sinter_context_create(NULL, &context) != SINTER_OK)
        return report("context", sinter_context_diagnostic(context, 0));
    sinter_source source = {.size = sizeof source, .text = text};
    if (sinter_graph_parse(context, &source, &graph) != SINTER_OK)
        failed = report("parsing", sinter_graph_diagnostic(graph, 0));
    sinter_plan_options options = {.size = sizeof options, .stage = SINTER_STAGE_KERNELS};
    plan = NULL;
    if (!failed && sinter_plan_create(context, graph, &options, &plan) != SINTER_OK)
        failed = report("compiling", sinter_plan_diagnostic(plan, 0));

    float x[4] = {1, 2, 3, 4}, y[4];
    char message[256] = "";
    void *inputs[] = {x}, *outputs[] = {y};
    int64_t rows = 1;
    sinter_execution execution = {.size = sizeof execution,
                                  .inputs = inputs,
                                  .n_inputs = 1,
                                  .outputs = outputs,
                                  .n_outputs = 1,
                                  .dims = &rows,
                                  .n_dims = 1,
                                  .message = message,
                                  .message_room = sizeof message};
    if (!failed && sinter_plan_simulate(plan, &execution) != SINTER_OK)
        failed = report(message, NULL);
    if (!failed)
        printf("softmax of 1 2 3 4: %.4f %.4f %.4f %.4f\n", y[0], y[1], y[2], y[3]);

    sinter_plan_destroy(plan);
    sinter_graph_destroy(graph);
    sinter_context_destroy(context);
    return failed;
}
