/* sinter doctor: what is here, and what its lack means. sinter targets and sinter cache, which are as short,
 * stand here too. */
#include <stdio.h>
#include <string.h>

#include "runtime/cli/cli.h"

static void doctor_line(Cli *cli, const char *what, bool good, const char *text) {
    if (cli->o.json) {
        json_begin(&cli->json, what, '{');
        json_bool(&cli->json, "found", good);
        json_text(&cli->json, "text", text);
        json_end(&cli->json, '}');
    } else {
        printf("%-8s %s  %s\n", what, good ? "ok     " : "missing", text);
    }
}

static void doctor_device(Cli *cli) {
    const sinter_context *context = cli->context;
    if (!context->has_device) {
        doctor_line(cli, "driver", false,
                    text_format(cli->arena, "%s; kernels run on the simulator", context->device_why));
        return;
    }
    const Device *d = &context->device;
    const Target *target = &context->device_target;
    doctor_line(cli, "driver", true,
                text_format(cli->arena, "CUDA %d.%d", context->driver.version / 1000,
                            context->driver.version % 1000 / 10));
    doctor_line(cli, "device", true,
                text_format(cli->arena, "%s, sm_%d%d, %d SMs, %zu MiB at %.1f TB/s, target %s", d->name,
                            d->major, d->minor, d->sm_count, d->memory_bytes >> 20,
                            target->memory_bytes_per_second * 1e-12, target->name));
}

static void doctor_tools(Cli *cli) {
    sinter_context *context = cli->context;
    const Nvrtc *nvrtc = context_nvrtc(context);
    const LlvmBackend *llvm = context_llvm(context);
    doctor_line(cli, "nvrtc", nvrtc->library,
                nvrtc->library ? text_format(cli->arena, "%d.%d, %s", nvrtc->major, nvrtc->minor, nvrtc->path)
                               : text_format(cli->arena, "%s; --backend=llvm does without", nvrtc->why));
    doctor_line(cli, "llvm", llvm->library,
                llvm->library ? llvm->path
                              : text_format(cli->arena, "%s; --backend=nvrtc does without", llvm->why));
    Ptxas ptxas = *context_ptxas(context);
    if (ptxas.path && ptxas_ask_version(&ptxas, cli->arena))
        doctor_line(cli, "ptxas", true, text_format(cli->arena, "%s, %s", ptxas.version, ptxas.path));
    else
        doctor_line(cli, "ptxas", false,
                    ptxas.path ? text_format(cli->arena, "%s does not run", ptxas.path)
                               : "not on PATH nor below CUDA_HOME; the driver assembles PTX instead");
    const char *nvdisasm =
        context->cuda_home
            ? file_find_program(cli->arena, text_format(cli->arena, "%s/bin", context->cuda_home), "nvdisasm")
            : NULL;
    if (!nvdisasm)
        nvdisasm = file_find_program(cli->arena, context->search_path, "nvdisasm");
    doctor_line(cli, "nvdisasm", nvdisasm != NULL,
                nvdisasm ? nvdisasm : "not on PATH nor below CUDA_HOME; `sinter inspect` shows no SASS");
}

int verb_doctor(Cli *cli) {
    if (!cli_context(cli, DEVICE_IF_THERE))
        return cli->worst;
    if (cli->o.json)
        json_begin(&cli->json, NULL, '{');
    doctor_line(cli, "sinter", true, sinter_version());
    doctor_device(cli);
    doctor_tools(cli);
    const Cache *cache = &cli->context->cache;
    CacheSize size = cache_size(cache);
    doctor_line(cli, "cache", cache->directory != NULL,
                cache->directory ? text_format(cli->arena, "%s, %lld kernels, %.1f of %lld MiB",
                                               cache->directory, (long long)size.entries,
                                               (double)size.bytes / (1 << 20), (long long)(cache->most >> 20))
                                 : "neither XDG_CACHE_HOME nor HOME is set; everything is compiled anew");
    if (cli->o.json)
        json_end(&cli->json, '}');
    return cli->worst;
}

int verb_cache(Cli *cli) {
    const char *what = cli->o.operands.n ? cli->o.operands.at[0] : "size";
    if (!cli_context(cli, DEVICE_NONE))
        return cli->worst;
    const Cache *cache = &cli->context->cache;
    if (!cache->directory) {
        cli_error(cli, EXIT_ENVIRONMENT,
                  "there is no cache: neither XDG_CACHE_HOME nor HOME is set, and no --cache-dir is given");
        return cli->worst;
    }
    CacheSize size = cache_size(cache);
    if (strcmp(what, "clear") == 0) {
        int64_t removed = cache_trim(cache, cli->arena, 0);
        cli_note(cli, "%lld kernels removed from %s", (long long)removed, cache->directory);
    } else if (strcmp(what, "path") != 0 && strcmp(what, "size") != 0) {
        static const char *const names[] = {"path", "size", "clear"};
        const char *nearest = cli_nearest(what, names, 3);
        cli_error(cli, EXIT_USAGE, "sinter cache knows path, size and clear, not '%s'%s%s%s", what,
                  nearest ? "; did you mean '" : "", nearest ? nearest : "", nearest ? "'?" : "");
    } else if (cli->o.json) {
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "path", cache->directory);
        json_int(&cli->json, "kernels", size.entries);
        json_int(&cli->json, "bytes", size.bytes);
        json_int(&cli->json, "most_bytes", cache->most);
        json_end(&cli->json, '}');
    } else if (strcmp(what, "path") == 0) {
        printf("%s\n", cache->directory);
    } else {
        printf("%lld kernels, %.1f of %lld MiB, in %s\n", (long long)size.entries,
               (double)size.bytes / (1 << 20), (long long)(cache->most >> 20), cache->directory);
    }
    return cli->worst;
}

int verb_targets(Cli *cli) {
    const Target *t;
    if (cli->o.json)
        json_begin(&cli->json, NULL, '[');
    for (int i = 0; (t = target_at(i)); i++) {
        if (!cli->o.json) {
            printf("%-8s %3d SMs, %6.0f TFLOP/s bf16, %4.0f f32, %4.1f TB/s, %3d KiB shared a "
                   "block;%s%s%s%s%s\n",
                   t->name, t->sm_count, t->tensor_flops * 1e-12, t->fma_flops * 1e-12,
                   t->memory_bytes_per_second * 1e-12, t->smem_per_block >> 10, t->llvm_cpu ? " llvm" : "",
                   " nvrtc", t->has_tma ? " tma" : "", t->has_wgmma ? " wgmma" : "",
                   t->has_mma_fp8 ? " fp8" : "");
            continue;
        }
        json_begin(&cli->json, NULL, '{');
        json_text(&cli->json, "name", t->name);
        json_int(&cli->json, "sm_count", t->sm_count);
        json_real(&cli->json, "tensor_flops", t->tensor_flops);
        json_real(&cli->json, "fma_flops", t->fma_flops);
        json_real(&cli->json, "memory_bytes_per_second", t->memory_bytes_per_second);
        json_int(&cli->json, "shared_bytes_per_block", t->smem_per_block);
        json_bool(&cli->json, "llvm", t->llvm_cpu != NULL);
        json_bool(&cli->json, "wgmma", t->has_wgmma);
        json_bool(&cli->json, "tma", t->has_tma);
        json_end(&cli->json, '}');
    }
    if (cli->o.json)
        json_end(&cli->json, ']');
    return cli->worst;
}
