/* The device functions that printed kernels use. codegen/emit_cuda.c prints a section, from its "//! name" line to the next, where
 * one of its names occurs in what is printed already; so a section names what it needs by using it. */

//! DEVICE
#define DEVICE static __device__ __forceinline__

//! TABLE
#define TABLE static __device__ const

//! u8
typedef unsigned char u8;
//! i8
typedef signed char i8;
//! i16
typedef short i16;
//! u16
typedef unsigned short u16;
//! u32
typedef unsigned int u32;
//! i64
typedef long long i64;
//! u64
typedef unsigned long long u64;

//! tf32
typedef float tf32; // in memory an f32 like any other

//! bool8
struct bool8 {
    u8 bits;
};
//! f16
struct f16 {
    u16 bits;
};
//! bf16
struct bf16 {
    u16 bits;
};
//! e4m3
struct e4m3 {
    u8 bits;
};
//! e5m2
struct e5m2 {
    u8 bits;
};
//! i4x2
struct i4x2 { // two elements, the first in the low bits
    u8 bits;
};
//! u4x2
struct u4x2 {
    u8 bits;
};

//! TensorMap
struct alignas(64) TensorMap { // a CUtensorMap
    u64 opaque[16];
};

//! f32_bits
DEVICE u32 f32_bits(float x) {
    return __float_as_uint(x);
}
//! f32_from_bits
DEVICE float f32_from_bits(u32 bits) {
    return __uint_as_float(bits);
}
//! f64_bits
DEVICE u64 f64_bits(double x) {
    return (u64)__double_as_longlong(x);
}
//! f64_from_bits
DEVICE double f64_from_bits(u64 bits) {
    return __longlong_as_double((i64)bits);
}

//! smem_address
DEVICE u32 smem_address(const void *pointer) {
    return (u32)__cvta_generic_to_shared(pointer);
}
//! global_address
DEVICE u64 global_address(const void *pointer) {
    return (u64)__cvta_generic_to_global(pointer);
}
//! tensor_map_address
DEVICE u64 tensor_map_address(const TensorMap *map) {
    return (u64)map;
}

//! warp_index
DEVICE int warp_index() { // the same value in all lanes, and the compiler knows it
    return __shfl_sync(0xffffffff, (int)threadIdx.x / 32, 0);
}
//! cluster_rank
DEVICE int cluster_rank() {
    int rank;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}
