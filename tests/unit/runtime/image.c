/* Images and packs as bytes, and the figures in an assembler's log. */
#include "tests/unit/runtime/support.h"

#include "runtime/pack.h"

static const char ptxas_log[] =
    "ptxas info    : 0 bytes gmem\n"
    "ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
    "insufficient register resources for the wgmma pipeline in the function 'k'\n"
    "ptxas info    : Compiling entry function 'k' for 'sm_90a'\n"
    "ptxas info    : Function properties for k\n"
    "    16 bytes stack frame, 24 bytes spill stores, 32 bytes spill loads\n"
    "ptxas info    : Used 168 registers, used 3 barriers, 16 bytes cumulative stack size, 48 bytes smem, 644 "
    "bytes cmem[0]\n";

static void test_log(void **state) {
    (void)state;
    ImageFigures f = image_read_log(ptxas_log);
    assert_int_equal(f.registers, 168);
    assert_int_equal(f.stack_bytes, 16);
    assert_int_equal(f.spill_store_bytes, 24);
    assert_int_equal(f.spill_load_bytes, 32);
    assert_int_equal(f.static_shared_bytes, 48);
    assert_int_equal(f.barriers, 3);
    assert_int_equal(f.serialized, 1);
    static const char *const odd[] = {"",
                                      "Used",
                                      "Used registers",
                                      "Used 99999999999999999999 registers",
                                      "bytes stack frame",
                                      "\n\n(C75",
                                      "Used -3 registers\n"};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        assert_true(image_read_log(odd[i]).spill_load_bytes == 0);
}

static void test_image(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    Image image = {.entry = "layer_3",
                   .backend = IMAGE_NVRTC,
                   .assembler = IMAGE_BY_NVRTC,
                   .ptx = "ptx",
                   .ptx_bytes = 3,
                   .cubin = "\0\1\2",
                   .cubin_bytes = 3,
                   .log = ptxas_log,
                   .figures = image_read_log(ptxas_log)};
    Image back;
    Text bytes = text_new(arena);
    image_encode(&bytes, &image);
    assert_true(image_decode(arena, bytes.at, bytes.n, &back));
    assert_int_equal(back.backend, IMAGE_NVRTC);
    assert_string_equal(back.entry, "layer_3");
    assert_string_equal(back.ptx, "ptx");
    assert_memory_equal(back.cubin, "\0\1\2", 3);
    assert_string_equal(back.log, ptxas_log);
    assert_memory_equal(&back.figures, &image.figures, sizeof back.figures);
    for (size_t n = 0; n < bytes.n; n++) {
        char *cut = malloc(n ? n : 1);
        memcpy(cut, bytes.at, n);
        assert_false(image_decode(arena, cut, n, &back));
        free(cut);
    }
    for (size_t i = 0; i < bytes.n; i++) { /* lengths that lie: an answer, and no access outside */
        char *bad = malloc(bytes.n);
        memcpy(bad, bytes.at, bytes.n);
        bad[i] = (char)0xFF;
        if (image_decode(arena, bad, bytes.n, &back))
            assert_true(back.ptx_bytes + back.cubin_bytes < bytes.n);
        free(bad);
    }
    arena_free(arena);
}

static void test_pack(void **state) {
    (void)state;
    Arena *arena = arena_new(0);
    Diags diags = {.arena = arena};
    Pack pack = pack_new(arena), back;
    PackGraph graph = {.name = "g", .text = "sinter 1\n", .target = "sm_90a"};
    vec_push(arena, &graph.dims, ((sinter_dim){"M", 16}));
    vec_push(arena, &pack.graphs, graph);
    PackImage image = {.image = {(const uint8_t *)"abc", 3}};
    pack_key("sm_90a", "form", image.key);
    vec_push(arena, &pack.images, image);
    Text bytes = text_new(arena);
    pack_encode(&bytes, &pack);
    assert_true(pack_decode(arena, bytes.at, bytes.n, "p", &diags, &back));
    assert_string_equal(back.graphs.at[0].text, "sinter 1\n");
    assert_string_equal(back.graphs.at[0].dims.at[0].name, "M");
    assert_int_equal(back.graphs.at[0].dims.at[0].value, 16);
    assert_non_null(pack_find(&back, image.key));
    uint8_t other[CACHE_KEY_BYTES];
    pack_key("sm_90", "aform", other);
    assert_null(pack_find(&back, other));
    for (size_t i = 0; i < bytes.n; i++) {
        assert_false(pack_decode(arena, bytes.at, i, "p", &diags, &back));
        char *bad = malloc(bytes.n);
        memcpy(bad, bytes.at, bytes.n);
        bad[i] ^= 1;
        assert_false(pack_decode(arena, bad, bytes.n, "p", &diags, &back));
        free(bad);
    }
    arena_free(arena);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_log), cmocka_unit_test(test_image),
                                       cmocka_unit_test(test_pack)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
