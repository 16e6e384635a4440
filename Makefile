# Sinter. `make` builds the program, the library and the LLVM backend; `make demo` and `make test` are the two commands of the README.
# Out of tree: everything lands in $(BUILD). Variants: make BUILD=build/asan SANITIZE=address,undefined

BUILD ?= build
PREFIX ?= /usr/local
CC ?= cc
OPT ?= -O2 -g
SANITIZE ?=
WARN := -Wall -Wextra -Werror -Wstrict-prototypes -Wmissing-prototypes -Wvla
CPPFLAGS := -I. -I$(BUILD) -D_GNU_SOURCE
CFLAGS := -std=c11 $(OPT) $(WARN) -fPIC -fvisibility=hidden -MMD -MP
LDLIBS := -lm -ldl -lpthread
ifneq ($(SANITIZE),)
CFLAGS += -fsanitize=$(SANITIZE) -fno-omit-frame-pointer -fno-sanitize-recover=all
LDFLAGS += -fsanitize=$(SANITIZE)
endif

LLVM_CONFIG ?= $(firstword $(wildcard /usr/bin/llvm-config-19) $(shell command -v llvm-config-19 2>/dev/null))

# ---- rooms -------------------------------------------------------------------------------------------------------------------
ROOMS := ir frontend passes codegen runtime
SRC_ir := $(wildcard ir/*.c ir/base/*.c) ir/vendor/blake3/blake3.c ir/vendor/blake3/blake3_dispatch.c ir/vendor/blake3/blake3_portable.c
SRC_frontend := $(wildcard frontend/*.c)
GEN_frontend := $(BUILD)/frontend/parser.c $(BUILD)/frontend/lexer.c $(BUILD)/frontend/library.c
SRC_passes := $(wildcard passes/*.c)
SRC_codegen := $(filter-out codegen/emit_llvm%, $(wildcard codegen/*.c codegen/templates/*.c))
SRC_llvm := $(wildcard codegen/emit_llvm*.c)
GEN_codegen := $(BUILD)/codegen/prelude.c
SRC_runtime := $(wildcard runtime/*.c) runtime/vendor/yyjson/yyjson.c
SRC_cli := $(wildcard runtime/cli/*.c)

obj = $(patsubst %.c,$(BUILD)/%.o,$(1)) $(patsubst $(BUILD)/%.c,$(BUILD)/%.o,$(2))
$(foreach r,$(ROOMS),$(eval OBJ_$(r) := $(patsubst %.c,$(BUILD)/%.o,$(SRC_$(r))) $(patsubst %.c,%.o,$(GEN_$(r)))))
OBJ_cli := $(patsubst %.c,$(BUILD)/%.o,$(SRC_cli))
LIBS := $(foreach r,$(ROOMS),$(BUILD)/lib/$(r).a)

.PHONY: all
all: $(BUILD)/sinter $(BUILD)/libsinter.so $(if $(LLVM_CONFIG),$(BUILD)/libsinter_llvm.so)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(BUILD)/%.o: $(BUILD)/%.c
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -c $< -o $@
$(BUILD)/ir/vendor/%.o $(BUILD)/runtime/vendor/%.o: WARN :=
$(BUILD)/ir/vendor/%.o: CPPFLAGS += -DBLAKE3_NO_SSE2 -DBLAKE3_NO_SSE41 -DBLAKE3_NO_AVX2 -DBLAKE3_NO_AVX512

define room_lib
$(BUILD)/lib/$(1).a: $$(OBJ_$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	ar rcs $$@ $$^
endef
$(foreach r,$(ROOMS),$(eval $(call room_lib,$(r))))

# ---- generated sources -------------------------------------------------------------------------------------------------------
$(BUILD)/frontend/parser.c $(BUILD)/frontend/parser.h &: frontend/parser.y
	@mkdir -p $(BUILD)/frontend
	bison -Wall -Werror --defines=$(BUILD)/frontend/parser.h -o $(BUILD)/frontend/parser.c $<
$(BUILD)/frontend/lexer.c $(BUILD)/frontend/lexer.h &: frontend/lexer.l $(BUILD)/frontend/parser.h
	@mkdir -p $(BUILD)/frontend
	flex --header-file=$(BUILD)/frontend/lexer.h -o $(BUILD)/frontend/lexer.c $<
$(BUILD)/frontend/lexer.o $(BUILD)/frontend/parser.o: WARN := -Wall -Wextra -Werror -Wno-unused-function -Wno-sign-compare -Wno-unused-but-set-variable
$(OBJ_frontend): $(BUILD)/frontend/parser.h $(BUILD)/frontend/lexer.h

# Text files that the program carries: `const char NAME[]` holding the file.
embed = @mkdir -p $(@D); { printf 'extern const char $(1)[]; const char $(1)[] =\n'; sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/"/' -e 's/$$/\\n"/' $(2); printf ';\n'; } > $@
$(BUILD)/frontend/library.c: frontend/library.sg
	$(call embed,frontend_library_text,$<)
$(BUILD)/codegen/prelude.c: $(wildcard codegen/prelude/*.cuh)
	$(call embed,codegen_prelude_text,$^)

# ---- products ----------------------------------------------------------------------------------------------------------------
$(BUILD)/sinter: $(OBJ_cli) $(BUILD)/lib/runtime.a $(BUILD)/lib/frontend.a $(BUILD)/lib/passes.a $(BUILD)/lib/codegen.a $(BUILD)/lib/ir.a
	$(CC) $(LDFLAGS) -rdynamic -o $@ $^ $(LDLIBS)
$(BUILD)/libsinter.so: $(OBJ_runtime) $(OBJ_frontend) $(OBJ_passes) $(OBJ_codegen) $(OBJ_ir)
	$(CC) $(LDFLAGS) -shared -o $@ $^ $(LDLIBS)

# The LLVM backend: a plugin with LLVM inside and hidden, so that it lives beside any other LLVM of the process.
ifneq ($(LLVM_CONFIG),)
OBJ_llvm := $(patsubst %.c,$(BUILD)/%.o,$(SRC_llvm)) $(BUILD)/codegen/math_ll.o
$(OBJ_llvm): CPPFLAGS += -I$(shell $(LLVM_CONFIG) --includedir)
$(BUILD)/codegen/math_ll.c: codegen/prelude/math.ll
	$(call embed,codegen_math_ll_text,$<)
$(BUILD)/libsinter_llvm.so: $(OBJ_llvm) $(BUILD)/lib/codegen.a $(BUILD)/lib/ir.a codegen/emit_llvm.map
	g++ $(LDFLAGS) -shared -o $@ $(filter %.o %.a,$^) -L$(shell $(LLVM_CONFIG) --libdir) $(shell $(LLVM_CONFIG) --link-static --libs nvptx core passes linker irreader analysis target) \
	    -static-libstdc++ -static-libgcc -Wl,-Bstatic -lzstd -lz -Wl,-Bdynamic -ldl -lm -lpthread -Wl,--gc-sections -Wl,--version-script=codegen/emit_llvm.map -Wl,-s
endif

# The functions that the LLVM backend links in, made anew from their source; needs a clang that knows NVPTX.
CLANG ?= clang
.PHONY: math-ll
math-ll:
	$(CLANG) --target=nvptx64-nvidia-cuda -Xclang -target-cpu -Xclang sm_80 -Xclang -target-feature -Xclang +ptx70 -Xclang -opaque-pointers \
	    -O2 -fno-inline-functions -fno-unroll-loops -ffp-contract=off -fno-math-errno -ffreestanding -S -emit-llvm -o - codegen/prelude/math_llvm.c \
	    | awk -f codegen/prelude/math_ll.awk > codegen/prelude/math.ll

# ---- tests -------------------------------------------------------------------------------------------------------------------
# A unit test links the rooms that its own room may include, and nothing else.
LINK_ir := ir
LINK_frontend := frontend ir
LINK_passes := passes frontend ir
LINK_codegen := codegen ir
LINK_runtime := runtime frontend passes codegen ir
define unit_room
UNIT_$(1) := $$(patsubst tests/unit/$(1)/%.c,$$(BUILD)/tests/$(1)/%,$$(wildcard tests/unit/$(1)/*.c))
$$(BUILD)/tests/$(1)/%: tests/unit/$(1)/%.c $(foreach l,$(LINK_$(1)),$(BUILD)/lib/$(l).a)
	@mkdir -p $$(@D)
	$$(CC) $$(CPPFLAGS) $$(CFLAGS) $$(LDFLAGS) -MF $$@.d -o $$@ $$(filter %.c %.a,$$^) -lcmocka $$(LDLIBS)
endef
$(foreach r,$(ROOMS),$(eval $(call unit_room,$(r))))
.PHONY: unit $(addprefix unit-,$(ROOMS))
$(addprefix unit-,$(ROOMS)): unit-%:
$(foreach r,$(ROOMS),$(eval unit-$(r): $(UNIT_$(r)); @set -e; for t in $(UNIT_$(r)); do echo "== $$$$t"; $$$$t; done))
unit: $(addprefix unit-,$(ROOMS))

.PHONY: format clean
format:
	clang-format -i $$(git ls-files '*.c' '*.h' | grep -v vendor/)
clean:
	rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
