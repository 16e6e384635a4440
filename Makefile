# Sinter. `make demo` and `make test` are the two commands of the README; `make` alone builds the program, the library and the LLVM
# backend. Out of tree: everything lands in $(BUILD). Variants: make asan; make BUILD=/tmp/x CC=clang; make V=1 shows commands.

BUILD ?= build
# One name for each object, as what depends on which header is noted by it.
override BUILD := $(patsubst $(CURDIR)/%,%,$(BUILD))
PREFIX ?= /usr/local
CC ?= cc
OPT ?= -O2 -g
SANITIZE ?=
WARN := -Wall -Wextra -Werror -Wformat-security -Wstrict-prototypes -Wmissing-prototypes -Wvla
CPPFLAGS := -I. -I$(BUILD) -D_GNU_SOURCE
CFLAGS := -std=c11 $(OPT) $(WARN) -fPIC -fvisibility=hidden -MMD -MP
LDLIBS := -lm -ldl -lpthread
ifneq ($(SANITIZE),)
CFLAGS += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all
LDFLAGS += -fsanitize=$(SANITIZE)
endif
Q := $(if $(V),,@)
# Compilers and unit tests run side by side. Other tests do not: each takes what processors there are by itself.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

LLVM_CONFIG ?= $(firstword $(wildcard /usr/bin/llvm-config-19) $(shell command -v llvm-config-19 2>/dev/null))

.PHONY: all
all:

# ---- rooms -------------------------------------------------------------------------------------------------------------------
ROOMS := ir frontend passes codegen runtime
SRC_ir := $(wildcard ir/*.c ir/base/*.c) ir/vendor/blake3/blake3.c ir/vendor/blake3/blake3_dispatch.c ir/vendor/blake3/blake3_portable.c
SRC_frontend := $(wildcard frontend/*.c)
GEN_frontend := $(BUILD)/frontend/parser.c $(BUILD)/frontend/lexer.c $(BUILD)/frontend/library.c
SRC_passes := $(wildcard passes/*.c)
SRC_llvm := $(wildcard codegen/emit_llvm*.c)
SRC_codegen := $(filter-out $(SRC_llvm), $(wildcard codegen/*.c codegen/templates/*.c))
GEN_codegen := $(BUILD)/codegen/prelude.c
SRC_runtime := $(wildcard runtime/*.c) runtime/vendor/yyjson/yyjson.c
SRC_cli := $(wildcard runtime/cli/*.c)

$(foreach r,$(ROOMS),$(eval OBJ_$(r) := $(patsubst %.c,$(BUILD)/%.o,$(SRC_$(r))) $(patsubst %.c,%.o,$(GEN_$(r)))))
OBJ_cli := $(patsubst %.c,$(BUILD)/%.o,$(SRC_cli))
$(BUILD)/lib/cli.a: $(filter-out $(BUILD)/runtime/cli/main.o,$(OBJ_cli))
	@mkdir -p $(@D)
	@rm -f $@
	$(Q)ar rcs $@ $^
OBJ_all := $(foreach r,$(ROOMS),$(OBJ_$(r)))

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "cc $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(BUILD)/%.o: $(BUILD)/%.c
	@echo "cc $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(BUILD)/ir/vendor/%.o $(BUILD)/runtime/vendor/%.o: WARN :=
$(BUILD)/ir/vendor/%.o: CPPFLAGS += -DBLAKE3_NO_SSE2 -DBLAKE3_NO_SSE41 -DBLAKE3_NO_AVX2 -DBLAKE3_NO_AVX512

define room_lib
$(BUILD)/lib/$(1).a: $$(OBJ_$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	$$(Q)ar rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room_lib,$(r))))

# ---- generated sources -------------------------------------------------------------------------------------------------------
$(BUILD)/frontend/parser.c $(BUILD)/frontend/parser.h &: frontend/parser.y
	@mkdir -p $(BUILD)/frontend
	$(Q)bison -Wall -Werror --defines=$(BUILD)/frontend/parser.h -o $(BUILD)/frontend/parser.c $<
$(BUILD)/frontend/lexer.c $(BUILD)/frontend/lexer.h &: frontend/lexer.l $(BUILD)/frontend/parser.h
	@mkdir -p $(BUILD)/frontend
	$(Q)flex --header-file=$(BUILD)/frontend/lexer.h -o $(BUILD)/frontend/lexer.c $<
$(BUILD)/frontend/lexer.o $(BUILD)/frontend/parser.o: WARN := -Wall -Wextra -Werror -Wno-unused-function -Wno-sign-compare -Wno-unused-but-set-variable
$(OBJ_frontend): $(BUILD)/frontend/parser.h $(BUILD)/frontend/lexer.h

# Text files that the program carries: `const char NAME[]` holding the files.
embed = @mkdir -p $(@D); { printf 'extern const char $(1)[]; const char $(1)[] =\n'; sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' $(2); printf ';\n'; } > $@
$(BUILD)/frontend/library.c: frontend/library.sg
	$(call embed,frontend_library_text,$<)
$(BUILD)/codegen/prelude.c: $(wildcard codegen/prelude/*.cuh)
	$(call embed,codegen_prelude_text,$^)
$(BUILD)/codegen/math_ll.c: codegen/prelude/math.ll
	$(call embed,codegen_math_ll_text,$<)
# What the LLVM plugin and who loads it must agree on: the number of its interface.
LLVM_ABI := $(wildcard codegen/*.h codegen/*.def ir/*.h ir/*.def ir/base/*.h)
$(BUILD)/codegen/llvm_abi.h: $(LLVM_ABI)
	@mkdir -p $(@D)
	$(Q)printf 'enum { SINTER_LLVM_ABI = 0x%s };\n' $$(cat $(sort $(LLVM_ABI)) | sha256sum | cut -c1-7) > $@
$(BUILD)/codegen/emit_llvm.o $(BUILD)/runtime/llvm_backend.o: $(BUILD)/codegen/llvm_abi.h
$(BUILD)/lib/codegen.a: | $(BUILD)/codegen/llvm_abi.h
# After a change of the mathematical functions; needs a clang 14 that knows NVPTX. The result is checked in.
CLANG ?= clang
.PHONY: math-ll
math-ll:
	$(CLANG) --target=nvptx64-nvidia-cuda -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx70 -Xclang -opaque-pointers \
	    -O2 -fno-inline-functions -fno-unroll-loops -ffp-contract=off -fno-math-errno -ffreestanding -S -emit-llvm \
	    -o codegen/prelude/math.ll.tmp codegen/prelude/math_llvm.c
	awk -v sources=$$(cd codegen/prelude && cat math_llvm.c math_f64.cuh math_f32.cuh convert.cuh | sha256sum | cut -c1-64) \
	    -f codegen/prelude/math_ll.awk codegen/prelude/math.ll.tmp > codegen/prelude/math.ll
	rm codegen/prelude/math.ll.tmp

# ---- products ----------------------------------------------------------------------------------------------------------------
all: $(BUILD)/sinter $(BUILD)/libsinter.so $(BUILD)/libsinter.a $(if $(LLVM_CONFIG),$(BUILD)/libsinter_llvm.so) semantics $(BUILD)/differential

$(BUILD)/sinter: $(OBJ_cli) $(BUILD)/lib/runtime.a $(BUILD)/lib/frontend.a $(BUILD)/lib/passes.a $(BUILD)/lib/codegen.a $(BUILD)/lib/ir.a
	$(Q)$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS)
$(BUILD)/libsinter.so: $(OBJ_all) runtime/libsinter.map
	$(Q)$(CC) $(LDFLAGS) -shared -Wl,-soname,libsinter.so.0 -Wl,--gc-sections -Wl,--version-script=runtime/libsinter.map -o $@ $(filter %.o,$^) $(LDLIBS)
# One object in which all names but sinter_* are local, so that a program with a graph_new() of its own links.
$(BUILD)/libsinter.a: $(OBJ_all)
	$(Q)ld -r -o $(BUILD)/libsinter.o $^
	$(Q)objcopy --wildcard --keep-global-symbol='sinter_*' $(BUILD)/libsinter.o
	@rm -f $@
	$(Q)ar rcs $@ $(BUILD)/libsinter.o

# The LLVM backend: a plugin with LLVM inside and hidden, so that it lives beside any other LLVM of the process.
ifneq ($(LLVM_CONFIG),)
OBJ_llvm := $(patsubst %.c,$(BUILD)/%.o,$(SRC_llvm)) $(BUILD)/codegen/math_ll.o
$(OBJ_llvm): CPPFLAGS += -I$(shell $(LLVM_CONFIG) --includedir)
$(BUILD)/libsinter_llvm.so: $(OBJ_llvm) $(BUILD)/lib/codegen.a $(BUILD)/lib/ir.a codegen/emit_llvm.map
	$(Q)g++ $(LDFLAGS) -shared -o $@ $(filter %.o %.a,$^) -L$(shell $(LLVM_CONFIG) --libdir) $(shell $(LLVM_CONFIG) --link-static --libs nvptx core irreader passes linker bitreader analysis target) \
	    -static-libstdc++ -static-libgcc -Wl,-Bstatic -lzstd -lz -Wl,-Bdynamic -ldl -lm -lpthread -Wl,--gc-sections -Wl,--version-script=codegen/emit_llvm.map -Wl,-s
endif

.PHONY: install
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/include $(DESTDIR)$(PREFIX)/lib/pkgconfig $(DESTDIR)$(PREFIX)/lib/sinter
	install -m 755 $(BUILD)/sinter $(DESTDIR)$(PREFIX)/bin/
	sed -e '/^#include "status.def"/{r runtime/status.def' -e 'd}' runtime/sinter.h > $(DESTDIR)$(PREFIX)/include/sinter.h
	install -m 755 $(BUILD)/libsinter.so $(DESTDIR)$(PREFIX)/lib/libsinter.so.0
	ln -sf libsinter.so.0 $(DESTDIR)$(PREFIX)/lib/libsinter.so
	install -m 644 $(BUILD)/libsinter.a $(DESTDIR)$(PREFIX)/lib/
	[ ! -e $(BUILD)/libsinter_llvm.so ] || install -m 755 $(BUILD)/libsinter_llvm.so $(DESTDIR)$(PREFIX)/lib/sinter/
	sed -e 's|@PREFIX@|$(PREFIX)|' -e "s|@VERSION@|$$(sed -n 's/^#define SINTER_VERSION "\(.*\)"/\1/p' runtime/sinter.h)|" runtime/sinter.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/sinter.pc

# ---- tests -------------------------------------------------------------------------------------------------------------------
.PHONY: bless
bless: all
	BUILD=$(abspath $(BUILD)) tests/golden/run --bless

# What is missing on the machine is installed first; that may change what can be built, so make starts anew behind it.
.PHONY: demo test check
demo:
	@BUILD=$(BUILD) tests/tools/deps build
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@$(MAKE) --no-print-directory demo-run
test:
	@BUILD=$(BUILD) tests/tools/deps test
	@$(MAKE) --no-print-directory -j$(JOBS) all unit-programs
	@$(MAKE) --no-print-directory check
check: check-arrows check-unit $(patsubst tests/%/run,check-%,$(filter-out tests/gpu/run,$(wildcard tests/*/run)))

.PHONY: demo-run
demo-run:
	$(BUILD)/sinter compile samples/02_gelu_gemm.sg --emit=regions
	$(BUILD)/sinter explain samples/02_gelu_gemm.sg
	$(BUILD)/sinter run samples/01_add.sg --device=auto
	$(BUILD)/sinter verify samples/01_add.sg

# tests/X/run is a test of its own: `make check-X`. It finds what was built in $$BUILD.
.PHONY: check-%
check-%: tests/%/run all
	@echo "== tests/$*"
	$(Q)BUILD=$(abspath $(BUILD)) PATH="$(abspath $(BUILD))/venv:$$PATH" tests/$*/run

# Semantic cases, written from the tables of operations.
SEMANTICS := $(patsubst %,$(BUILD)/semantics/%.sg,scalar cast reduction movement random matmul)
.PHONY: semantics
semantics: $(SEMANTICS)
$(BUILD)/tests/cases: tests/semantics/cases.c $(BUILD)/lib/ir.a
	@mkdir -p $(@D)
	@echo "cc $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -MF $@.d -o $@ $(filter %.c %.a,$^) $(LDLIBS)
$(SEMANTICS): $(BUILD)/semantics/%.sg: $(BUILD)/tests/cases
	@mkdir -p $(@D)
	$(Q)$< $* > $@.part && mv $@.part $@

# A driver without a GPU, for the command line's tests.
$(BUILD)/tests/fake/libcuda.so.1: tests/cli/fake_cuda.c
	@mkdir -p $(@D)
	@echo "cc $<"
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -MMD -MP -fsanitize=%,$(CFLAGS)) -shared -o $@ $<
check-cli: $(BUILD)/tests/fake/libcuda.so.1

# A unit test links the rooms that its own room may include, and nothing else. (Helpers that several tests include are not all used by
# each of them.)
LINK_ir := ir
LINK_frontend := frontend ir
LINK_passes := passes frontend ir
LINK_codegen := codegen ir
LINK_runtime := cli runtime frontend passes codegen ir
define unit_room
UNIT_$(1) := $$(patsubst tests/unit/$(1)/%.c,$$(BUILD)/tests/$(1)/%,$$(wildcard tests/unit/$(1)/*.c))
$$(BUILD)/tests/$(1)/%: tests/unit/$(1)/%.c $(foreach l,$(LINK_$(1)),$(BUILD)/lib/$(l).a)
	@mkdir -p $$(@D)
	@echo "cc $$<"
	$$(Q)$$(CC) $$(CPPFLAGS) $$(CFLAGS) -Wno-unused-function $$(LDFLAGS) -MF $$@.d -o $$@ $$(filter %.c %.a,$$^) -lcmocka $$(LDLIBS)
.PHONY: unit-$(1)
unit-$(1): $$(UNIT_$(1):%=run-%)
.PHONY: $$(UNIT_$(1):%=run-%)
$$(UNIT_$(1):%=run-%): run-%: %
	@echo "== $$<"
	$$(Q)BUILD=$(abspath $(BUILD)) $$<
endef
$(foreach r,$(ROOMS),$(eval $(call unit_room,$(r))))
# Tests that draw random graphs.
GRAPHGEN := $(wildcard tests/fuzz/graphgen*.c)
$(BUILD)/tests/ir/graphgen $(BUILD)/tests/ir/gradient_random: $(GRAPHGEN)
# Beside the program, since it needs the LLVM backend as that does, and travels to GPU machines with it.
check-fuzz: $(BUILD)/tests/fake/libcuda.so.1
$(BUILD)/differential: $(wildcard tests/fuzz/differential*.c) $(GRAPHGEN) $(foreach l,cli runtime frontend passes codegen ir,$(BUILD)/lib/$(l).a)
	@mkdir -p $(@D)
	@echo "cc $<"
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(LDFLAGS) -MF $@.d -o $@ $(filter %.c %.a,$^) $(LDLIBS)
.PHONY: unit unit-programs check-unit
check-unit:
	@$(MAKE) --no-print-directory -j$(JOBS) --output-sync=target unit
unit: $(addprefix unit-,$(ROOMS))
unit-programs: $(foreach r,$(ROOMS),$(UNIT_$(r)))

# Which room may include which.
.PHONY: check-arrows
check-arrows:
	@bad=0; \
	forbid() { if grep -nE "#include \"($$2)/" -r $$1 --include=*.c --include=*.h --include=*.y --include=*.l | grep -v vendor/; then bad=1; fi; }; \
	forbid ir 'frontend|passes|codegen|runtime'; forbid frontend 'passes|codegen|runtime'; \
	forbid passes 'frontend|codegen|runtime'; forbid codegen 'frontend|passes|runtime'; \
	[ $$bad = 0 ] && echo "arrows point down" || { echo "the includes above point upward"; exit 1; }
.PHONY: check-size
check-size:
	@git ls-files '*.c' '*.h' '*.l' '*.y' | grep -v vendor/ | xargs wc -l | awk '$$1 > 600 && $$2 != "total" { print }'

# Everything again with the address and undefined-behaviour sanitizers; LLVM itself is left out.
.PHONY: asan
ASAN := BUILD=$(BUILD)/asan SANITIZE=address,undefined OPT="-O1 -g" LLVM_CONFIG=
asan:
	@$(MAKE) --no-print-directory $(ASAN) -j$(JOBS) all unit-programs
	@$(MAKE) --no-print-directory $(ASAN) check

# libFuzzer targets: tests/fuzz/fuzz_X.c, words in fuzz_X.dict, seeds in seeds/fuzz_X. Each runs for FUZZ_SECONDS. It is clang that compiles
# them, every room, and what else is compiled, for its warnings.
FUZZ_SECONDS ?= 20
FUZZ_CC ?= clang
FUZZERS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(wildcard tests/fuzz/fuzz_*.c))
.PHONY: fuzz
fuzz:
	@$(MAKE) --no-print-directory BUILD=$(BUILD)/fuzz CC=$(FUZZ_CC) SANITIZE=address,undefined,fuzzer-no-link OPT="-O1 -g" LLVM_CONFIG= -j$(JOBS) fuzzers warned
	@set -e; for t in $(FUZZERS); do n=$$(basename $$t); mkdir -p $(BUILD)/fuzz/found/$$n; echo "== fuzz $$n"; \
	    seeds=$$([ -d tests/fuzz/seeds/$$n ] && echo tests/fuzz/seeds/$$n || echo tests/diag samples); \
	    dict=$$(ls tests/fuzz/$$n.dict tests/fuzz/$${n#fuzz_}.dict 2>/dev/null | head -n 1); dict=$${dict:+-dict=$$dict}; \
	    $$t -max_total_time=$(FUZZ_SECONDS) $$dict -timeout=10 -rss_limit_mb=4096 -close_fd_mask=1 -artifact_prefix=$(BUILD)/fuzz/found/$$n- $(BUILD)/fuzz/found/$$n $$seeds; done
.PHONY: fuzzers warned
warned: $(BUILD)/sinter $(BUILD)/tests/cases $(BUILD)/differential
fuzzers: $(patsubst tests/fuzz/%.c,$(BUILD)/%,$(wildcard tests/fuzz/fuzz_*.c))
ifneq ($(findstring fuzzer-no-link,$(SANITIZE)),)
$(BUILD)/%: tests/fuzz/%.c $(foreach r,runtime frontend passes codegen ir,$(BUILD)/lib/$(r).a)
	@echo "cc $<"
	$(Q)$(CC) $(CPPFLAGS) $(filter-out -fsanitize=%,$(CFLAGS)) -fsanitize=address,undefined,fuzzer -MF $@.d -o $@ $(filter %.c %.a,$^) $(LDLIBS)
endif

.PHONY: format clean
format:
	clang-format -i $$(git ls-files '*.c' '*.h' | grep -v vendor/)
clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)

# The README's reference of operations, from the table.
.PHONY: reference
reference: $(BUILD)/sinter
	@{ sed '/<!-- operations -->/q' README.md; $(BUILD)/sinter ops --markdown; sed -n '/<!-- end of operations -->/,$$p' README.md; } > README.md.new && mv README.md.new README.md
