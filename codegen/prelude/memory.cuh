/* Vector accesses: one instruction of 1 to 16 bytes, and the conversion between elements in memory and registers. load_T<n>(to, from)
 * fills n registers; the form without n gives one element. A last argument is the condition
 * under which memory is read at all; elsewhere the elements are zero. */

//! Access PLAIN READ_ONLY READ_ONCE READ_KEEP READ_LATE WRITE_ONCE
enum Access {
    PLAIN,
    READ_ONLY,  // nobody writes this memory while the kernel runs
    READ_ONCE,  // the same, and it is not read again: leave L1 to others
    READ_KEEP,  // the same, and it is read again soon
    READ_LATE,  // the kernel before may write it until griddepcontrol.wait: stays behind that
    WRITE_ONCE, // written, and not read soon
};

//! load_words
template <int bytes, Access access> DEVICE void load_words(u32 *to, const void *from) {
#define LOAD_GLOBAL(assembly, qualifiers)                                                                              \
    if constexpr (bytes == 16)                                                                                         \
        assembly("ld.global" qualifiers ".v4.u32 {%0, %1, %2, %3}, [%4];"                                              \
            : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])                                                       \
            : "l"(global_address(from)));                                                                              \
    else if constexpr (bytes == 8)                                                                                     \
        assembly("ld.global" qualifiers ".v2.u32 {%0, %1}, [%2];"                                                      \
            : "=r"(to[0]), "=r"(to[1]) : "l"(global_address(from)));                                                   \
    else if constexpr (bytes == 4)                                                                                     \
        assembly("ld.global" qualifiers ".u32 %0, [%1];" : "=r"(to[0]) : "l"(global_address(from)));                   \
    else if constexpr (bytes == 2)                                                                                     \
        assembly("ld.global" qualifiers ".u16 %0, [%1];" : "=r"(to[0]) : "l"(global_address(from)));                   \
    else                                                                                                               \
        assembly("ld.global" qualifiers ".u8 %0, [%1];" : "=r"(to[0]) : "l"(global_address(from)));
    if constexpr (access == READ_ONLY) {
        LOAD_GLOBAL(asm, ".nc")
    } else if constexpr (access == READ_ONCE) {
        LOAD_GLOBAL(asm, ".nc.L1::no_allocate")
    } else if constexpr (access == READ_KEEP) {
        LOAD_GLOBAL(asm, ".nc.L1::evict_last")
    } else if constexpr (access == READ_LATE) {
        LOAD_GLOBAL(asm volatile, "")
    } else if constexpr (bytes == 16) {
        const uint4 v = *(const uint4 *)from;
        to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
    } else if constexpr (bytes == 8) {
        const uint2 v = *(const uint2 *)from;
        to[0] = v.x, to[1] = v.y;
    } else if constexpr (bytes == 4) {
        to[0] = *(const u32 *)from;
    } else if constexpr (bytes == 2) {
        to[0] = *(const u16 *)from;
    } else {
        to[0] = *(const u8 *)from;
    }
#undef LOAD_GLOBAL
}
/* Where `inside` is false: zeros, and no access. One predicated instruction, not a branch, so that loads of many rows are all on
 * their way before the first value is used. */
template <int bytes, Access access> DEVICE void load_words(u32 *to, const void *from, bool inside) {
#define LOAD_GLOBAL(assembly, qualifiers)                                                                              \
    if constexpr (bytes == 16)                                                                                         \
        assembly("{ .reg .pred inside; setp.ne.u32 inside, %5, 0; mov.u32 %0, 0; mov.u32 %1, 0; mov.u32 %2, 0; "       \
            "mov.u32 %3, 0; @inside ld.global" qualifiers ".v4.u32 {%0, %1, %2, %3}, [%4]; }"                          \
            : "=&r"(to[0]), "=&r"(to[1]), "=&r"(to[2]), "=&r"(to[3])                                                   \
            : "l"(global_address(from)), "r"((u32)inside));                                                            \
    else if constexpr (bytes == 8)                                                                                     \
        assembly("{ .reg .pred inside; setp.ne.u32 inside, %3, 0; mov.u32 %0, 0; mov.u32 %1, 0; "                      \
            "@inside ld.global" qualifiers ".v2.u32 {%0, %1}, [%2]; }"                                                 \
            : "=&r"(to[0]), "=&r"(to[1])                                                                               \
            : "l"(global_address(from)), "r"((u32)inside));                                                            \
    else                                                                                                               \
        assembly("{ .reg .pred inside; setp.ne.u32 inside, %2, 0; mov.u32 %0, 0; @inside ld.global" qualifiers ".u%3 " \
            "%0, [%1]; }"                                                                                              \
            : "=&r"(to[0])                                                                                             \
            : "l"(global_address(from)), "r"((u32)inside), "n"(8 * bytes));
    if constexpr (access == READ_ONLY) {
        LOAD_GLOBAL(asm, ".nc")
    } else if constexpr (access == READ_ONCE) {
        LOAD_GLOBAL(asm, ".nc.L1::no_allocate")
    } else if constexpr (access == READ_KEEP) {
        LOAD_GLOBAL(asm, ".nc.L1::evict_last")
    } else if constexpr (access == READ_LATE) {
        LOAD_GLOBAL(asm volatile, "")
    } else {
#pragma unroll
        for (int i = 0; i < (bytes + 3) / 4; i++)
            to[i] = 0;
        if (inside)
            load_words<bytes, access>(to, from);
    }
#undef LOAD_GLOBAL
}
//! store_words
template <int bytes, Access access> DEVICE void store_words(void *to, const u32 *from) {
    if constexpr (access == WRITE_ONCE) {
        const u64 address = global_address(to);
        if constexpr (bytes == 16)
            asm volatile("st.global.cs.v4.u32 [%0], {%1, %2, %3, %4};"
                         :
                         : "l"(address), "r"(from[0]), "r"(from[1]), "r"(from[2]), "r"(from[3])
                         : "memory");
        else if constexpr (bytes == 8)
            asm volatile("st.global.cs.v2.u32 [%0], {%1, %2};" : : "l"(address), "r"(from[0]), "r"(from[1]) : "memory");
        else if constexpr (bytes == 4)
            asm volatile("st.global.cs.u32 [%0], %1;" : : "l"(address), "r"(from[0]) : "memory");
        else if constexpr (bytes == 2)
            asm volatile("st.global.cs.u16 [%0], %1;" : : "l"(address), "r"(from[0]) : "memory");
        else
            asm volatile("st.global.cs.u8 [%0], %1;" : : "l"(address), "r"(from[0]) : "memory");
    } else if constexpr (bytes == 16) {
        *(uint4 *)to = make_uint4(from[0], from[1], from[2], from[3]);
    } else if constexpr (bytes == 8) {
        *(uint2 *)to = make_uint2(from[0], from[1]);
    } else if constexpr (bytes == 4) {
        *(u32 *)to = from[0];
    } else if constexpr (bytes == 2) {
        *(u16 *)to = (u16)from[0];
    } else {
        *(u8 *)to = (u8)from[0];
    }
}

//! fill
template <int n, typename T> DEVICE void fill(T *registers, T value) {
#pragma unroll
    for (int i = 0; i < n; i++)
        registers[i] = value;
}

//! element
template <int n, typename T> DEVICE T element(const T *registers, int i) { // what lies past the end counts as 0
    return i < n ? registers[i] : (T)0;
}

//! load_raw
template <int bytes, Access access = PLAIN, typename... Inside> DEVICE void load_raw(u32 *to, const void *from, Inside... inside) {
    load_words<bytes, access>(to, from, inside...);
}
//! store_raw
template <int bytes, Access access = PLAIN> DEVICE void store_raw(void *to, const u32 *from) {
    store_words<bytes, access>(to, from);
}


//! load_f32
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_f32(float *to, const float *from, Inside... inside) {
    u32 words[n];
    load_words<4 * n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_f32(words[i], 0);
}
template <Access access = PLAIN, typename... Inside> DEVICE float load_f32(const float *from, Inside... inside) {
    u32 word;
    load_words<4, access>(&word, from, inside...);
    return unpack_f32(word, 0);
}
//! store_f32
template <int n, Access access = PLAIN> DEVICE void store_f32(float *to, const float *from) {
    u32 words[n];
#pragma unroll
    for (int i = 0; i < n; i++)
        words[i] = pack_f32(from[i]);
    store_words<4 * n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_f32(float *to, float value) {
    store_f32<1, access>(to, &value);
}

//! load_tf32
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_tf32(float *to, const tf32 *from, Inside... inside) {
    u32 words[n];
    load_words<4 * n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_tf32(words[i], 0);
}
template <Access access = PLAIN, typename... Inside> DEVICE float load_tf32(const tf32 *from, Inside... inside) {
    u32 word;
    load_words<4, access>(&word, from, inside...);
    return unpack_tf32(word, 0);
}
//! store_tf32
template <int n, Access access = PLAIN> DEVICE void store_tf32(tf32 *to, const float *from) {
    u32 words[n];
#pragma unroll
    for (int i = 0; i < n; i++)
        words[i] = pack_tf32(from[i]);
    store_words<4 * n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_tf32(tf32 *to, float value) {
    store_tf32<1, access>(to, &value);
}

//! load_i32
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_i32(int *to, const int *from, Inside... inside) {
    u32 words[n];
    load_words<4 * n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_i32(words[i], 0);
}
template <Access access = PLAIN, typename... Inside> DEVICE int load_i32(const int *from, Inside... inside) {
    u32 word;
    load_words<4, access>(&word, from, inside...);
    return unpack_i32(word, 0);
}
//! store_i32
template <int n, Access access = PLAIN> DEVICE void store_i32(int *to, const int *from) {
    u32 words[n];
#pragma unroll
    for (int i = 0; i < n; i++)
        words[i] = pack_i32(from[i]);
    store_words<4 * n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_i32(int *to, int value) {
    store_i32<1, access>(to, &value);
}

//! load_f16
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_f16(float *to, const f16 *from, Inside... inside) {
    u32 words[(n + 1) / 2];
    load_words<2 * n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_f16(words[i / 2], i % 2);
}
template <Access access = PLAIN, typename... Inside> DEVICE float load_f16(const f16 *from, Inside... inside) {
    u32 word;
    load_words<2, access>(&word, from, inside...);
    return unpack_f16(word, 0);
}
//! store_f16
template <int n, Access access = PLAIN> DEVICE void store_f16(f16 *to, const float *from) {
    u32 words[(n + 1) / 2];
#pragma unroll
    for (int i = 0; i < n; i += 2)
        words[i / 2] = pack_f16(from[i], element<n>(from, i + 1));
    store_words<2 * n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_f16(f16 *to, float value) {
    store_f16<1, access>(to, &value);
}

//! load_bf16
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_bf16(float *to, const bf16 *from, Inside... inside) {
    u32 words[(n + 1) / 2];
    load_words<2 * n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_bf16(words[i / 2], i % 2);
}
template <Access access = PLAIN, typename... Inside> DEVICE float load_bf16(const bf16 *from, Inside... inside) {
    u32 word;
    load_words<2, access>(&word, from, inside...);
    return unpack_bf16(word, 0);
}
//! store_bf16
template <int n, Access access = PLAIN> DEVICE void store_bf16(bf16 *to, const float *from) {
    u32 words[(n + 1) / 2];
#pragma unroll
    for (int i = 0; i < n; i += 2)
        words[i / 2] = pack_bf16(from[i], element<n>(from, i + 1));
    store_words<2 * n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_bf16(bf16 *to, float value) {
    store_bf16<1, access>(to, &value);
}

//! load_i16
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_i16(int *to, const i16 *from, Inside... inside) {
    u32 words[(n + 1) / 2];
    load_words<2 * n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_i16(words[i / 2], i % 2);
}
template <Access access = PLAIN, typename... Inside> DEVICE int load_i16(const i16 *from, Inside... inside) {
    u32 word;
    load_words<2, access>(&word, from, inside...);
    return unpack_i16(word, 0);
}
//! store_i16
template <int n, Access access = PLAIN> DEVICE void store_i16(i16 *to, const int *from) {
    u32 words[(n + 1) / 2];
#pragma unroll
    for (int i = 0; i < n; i += 2)
        words[i / 2] = pack_i16(from[i], element<n>(from, i + 1));
    store_words<2 * n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_i16(i16 *to, int value) {
    store_i16<1, access>(to, &value);
}

//! load_e4m3
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_e4m3(float *to, const e4m3 *from, Inside... inside) {
    u32 words[(n + 3) / 4];
    load_words<n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_e4m3(words[i / 4], i % 4);
}
template <Access access = PLAIN, typename... Inside> DEVICE float load_e4m3(const e4m3 *from, Inside... inside) {
    u32 word;
    load_words<1, access>(&word, from, inside...);
    return unpack_e4m3(word, 0);
}
//! store_e4m3
template <int n, Access access = PLAIN> DEVICE void store_e4m3(e4m3 *to, const float *from) {
    u32 words[(n + 3) / 4];
#pragma unroll
    for (int i = 0; i < n; i += 4)
        words[i / 4] = pack_e4m3(from[i], element<n>(from, i + 1), element<n>(from, i + 2), element<n>(from, i + 3));
    store_words<n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_e4m3(e4m3 *to, float value) {
    store_e4m3<1, access>(to, &value);
}

//! load_e5m2
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_e5m2(float *to, const e5m2 *from, Inside... inside) {
    u32 words[(n + 3) / 4];
    load_words<n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_e5m2(words[i / 4], i % 4);
}
template <Access access = PLAIN, typename... Inside> DEVICE float load_e5m2(const e5m2 *from, Inside... inside) {
    u32 word;
    load_words<1, access>(&word, from, inside...);
    return unpack_e5m2(word, 0);
}
//! store_e5m2
template <int n, Access access = PLAIN> DEVICE void store_e5m2(e5m2 *to, const float *from) {
    u32 words[(n + 3) / 4];
#pragma unroll
    for (int i = 0; i < n; i += 4)
        words[i / 4] = pack_e5m2(from[i], element<n>(from, i + 1), element<n>(from, i + 2), element<n>(from, i + 3));
    store_words<n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_e5m2(e5m2 *to, float value) {
    store_e5m2<1, access>(to, &value);
}

//! load_i8
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_i8(int *to, const i8 *from, Inside... inside) {
    u32 words[(n + 3) / 4];
    load_words<n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_i8(words[i / 4], i % 4);
}
template <Access access = PLAIN, typename... Inside> DEVICE int load_i8(const i8 *from, Inside... inside) {
    u32 word;
    load_words<1, access>(&word, from, inside...);
    return unpack_i8(word, 0);
}
//! store_i8
template <int n, Access access = PLAIN> DEVICE void store_i8(i8 *to, const int *from) {
    u32 words[(n + 3) / 4];
#pragma unroll
    for (int i = 0; i < n; i += 4)
        words[i / 4] = pack_i8(from[i], element<n>(from, i + 1), element<n>(from, i + 2), element<n>(from, i + 3));
    store_words<n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_i8(i8 *to, int value) {
    store_i8<1, access>(to, &value);
}

//! load_u8
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_u8(int *to, const u8 *from, Inside... inside) {
    u32 words[(n + 3) / 4];
    load_words<n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_u8(words[i / 4], i % 4);
}
template <Access access = PLAIN, typename... Inside> DEVICE int load_u8(const u8 *from, Inside... inside) {
    u32 word;
    load_words<1, access>(&word, from, inside...);
    return unpack_u8(word, 0);
}
//! store_u8
template <int n, Access access = PLAIN> DEVICE void store_u8(u8 *to, const int *from) {
    u32 words[(n + 3) / 4];
#pragma unroll
    for (int i = 0; i < n; i += 4)
        words[i / 4] = pack_u8(from[i], element<n>(from, i + 1), element<n>(from, i + 2), element<n>(from, i + 3));
    store_words<n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_u8(u8 *to, int value) {
    store_u8<1, access>(to, &value);
}

//! load_bool
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_bool(bool *to, const bool8 *from, Inside... inside) {
    u32 words[(n + 3) / 4];
    load_words<n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_bool(words[i / 4], i % 4);
}
template <Access access = PLAIN, typename... Inside> DEVICE bool load_bool(const bool8 *from, Inside... inside) {
    u32 word;
    load_words<1, access>(&word, from, inside...);
    return unpack_bool(word, 0);
}
//! store_bool
template <int n, Access access = PLAIN> DEVICE void store_bool(bool8 *to, const bool *from) {
    u32 words[(n + 3) / 4];
#pragma unroll
    for (int i = 0; i < n; i += 4)
        words[i / 4] = pack_bool(from[i], element<n>(from, i + 1), element<n>(from, i + 2), element<n>(from, i + 3));
    store_words<n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_bool(bool8 *to, bool value) {
    store_bool<1, access>(to, &value);
}

//! load_i4
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_i4(int *to, const i4x2 *from, Inside... inside) {
    u32 words[(n + 7) / 8];
    load_words<n / 2, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_i4(words[i / 8], i % 8);
}
template <Access access = PLAIN, typename... Inside> DEVICE int load_i4(const i4x2 *base, i64 index, Inside... inside) {
    u32 word;
    load_words<1, access>(&word, base + index / 2, inside...);
    return unpack_i4(word >> 4 * (index & 1), 0);
}
//! store_i4
template <int n, Access access = PLAIN> DEVICE void store_i4(i4x2 *to, const int *from) {
    u32 words[(n + 7) / 8];
#pragma unroll
    for (int i = 0; i < n; i += 8)
        words[i / 8] = pack_i4(from[i], element<n>(from, i + 1), element<n>(from, i + 2), element<n>(from, i + 3), element<n>(from, i + 4), element<n>(from, i + 5), element<n>(from, i + 6), element<n>(from, i + 7));
    store_words<n / 2, access>(to, words);
}

//! load_u4
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_u4(int *to, const u4x2 *from, Inside... inside) {
    u32 words[(n + 7) / 8];
    load_words<n / 2, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = unpack_u4(words[i / 8], i % 8);
}
template <Access access = PLAIN, typename... Inside> DEVICE int load_u4(const u4x2 *base, i64 index, Inside... inside) {
    u32 word;
    load_words<1, access>(&word, base + index / 2, inside...);
    return unpack_u4(word >> 4 * (index & 1), 0);
}
//! store_u4
template <int n, Access access = PLAIN> DEVICE void store_u4(u4x2 *to, const int *from) {
    u32 words[(n + 7) / 8];
#pragma unroll
    for (int i = 0; i < n; i += 8)
        words[i / 8] = pack_u4(from[i], element<n>(from, i + 1), element<n>(from, i + 2), element<n>(from, i + 3), element<n>(from, i + 4), element<n>(from, i + 5), element<n>(from, i + 6), element<n>(from, i + 7));
    store_words<n / 2, access>(to, words);
}

//! load_f64
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_f64(double *to, const double *from, Inside... inside) {
    u32 words[2 * n];
    load_words<8 * n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = f64_from_bits((u64)words[2 * i + 1] << 32 | words[2 * i]);
}
template <Access access = PLAIN, typename... Inside> DEVICE double load_f64(const double *from, Inside... inside) {
    double value;
    load_f64<1, access>(&value, from, inside...);
    return value;
}
//! store_f64
template <int n, Access access = PLAIN> DEVICE void store_f64(double *to, const double *from) {
    u32 words[2 * n];
#pragma unroll
    for (int i = 0; i < n; i++) {
        const u64 bits = f64_bits(from[i]);
        words[2 * i] = (u32)bits;
        words[2 * i + 1] = (u32)(bits >> 32);
    }
    store_words<8 * n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_f64(double *to, double value) {
    store_f64<1, access>(to, &value);
}

//! load_i64
template <int n, Access access = PLAIN, typename... Inside> DEVICE void load_i64(i64 *to, const i64 *from, Inside... inside) {
    u32 words[2 * n];
    load_words<8 * n, access>(words, from, inside...);
#pragma unroll
    for (int i = 0; i < n; i++)
        to[i] = (i64)((u64)words[2 * i + 1] << 32 | words[2 * i]);
}
template <Access access = PLAIN, typename... Inside> DEVICE i64 load_i64(const i64 *from, Inside... inside) {
    i64 value;
    load_i64<1, access>(&value, from, inside...);
    return value;
}
//! store_i64
template <int n, Access access = PLAIN> DEVICE void store_i64(i64 *to, const i64 *from) {
    u32 words[2 * n];
#pragma unroll
    for (int i = 0; i < n; i++) {
        const u64 bits = (u64)from[i];
        words[2 * i] = (u32)bits;
        words[2 * i + 1] = (u32)(bits >> 32);
    }
    store_words<8 * n, access>(to, words);
}
template <Access access = PLAIN> DEVICE void store_i64(i64 *to, i64 value) {
    store_i64<1, access>(to, &value);
}
