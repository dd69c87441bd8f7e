// What the kernels ask of a GPU of compute capability 8.0 or later beside C++.
// Fragments and matrices lie as PTX ISA 8.0 says: 9.7.13.4.8 (mma.m16n8k16), 9.7.13.4.15 (ldmatrix).

typedef unsigned short bf16;

// Rounded to the nearest, ties to even.
__device__ __forceinline__ bf16 narrow(float x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

// Two values in one register, the first in its lower half.
__device__ __forceinline__ unsigned pack(float low, float high) {
    unsigned y;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(y) : "f"(high), "f"(low));
    return y;
}

__device__ __forceinline__ float wide(bf16 x) {
    return __uint_as_float(static_cast<unsigned>(x) << 16);
}

__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The value of the lane whose number differs in these bits; of a whole warp.
__device__ __forceinline__ float exchange(float x, int bits) {
    return __shfl_xor_sync(0xffffffffu, x, bits);
}

// c (16, 8) += a (16, 16) b (16, 8), by a warp.
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Four matrices (8, 8) of shared memory: each lane gives the address of a row, eight lanes after eight.
__device__ __forceinline__ void load_matrices(unsigned (&to)[4], const bf16* row) {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// The same, each of them transposed.
__device__ __forceinline__ void load_transposed(unsigned (&to)[4], const bf16* row) {
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(row));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}

// 16 bytes to shared memory while the thread goes on; zeros where there is nothing to copy.
__device__ __forceinline__ void copy_async(bf16* to, const bf16* from, bool there) {
    const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = there ? 16 : 0;
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}

// Ends a group of copies.
__device__ __forceinline__ void commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Waits until at most so many of the thread's groups are on their way.
template <int PENDING> __device__ __forceinline__ void await() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
