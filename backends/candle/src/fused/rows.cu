// Kernels of rows: norm with residual, norm with rotary embedding, gated activation. All values are bf16, all sums f32.

struct alignas(16) Eight {
    bf16 at[8];
};

__device__ __forceinline__ float warp_sum(float x) {
    for (int bits = 16; bits > 0; bits /= 2) {
        x += exchange(x, bits);
    }
    return x;
}

// The same in all threads; of a block of whole warps.
__device__ __forceinline__ float block_sum(float x) {
    __shared__ float of_warps[32];
    x = warp_sum(x);
    if (threadIdx.x % 32 == 0) {
        of_warps[threadIdx.x / 32] = x;
    }
    __syncthreads();
    const int lane = threadIdx.x % 32;
    return warp_sum(lane < static_cast<int>(blockDim.x) / 32 ? of_warps[lane] : 0.0f);
}

// sum = x + y and its RMS norm, a block per row; `width` is a multiple of eight.
extern "C" __global__ void add_norm(const bf16* x, const bf16* y, const bf16* weight, bf16* sum, bf16* normed,
                                    int width, float eps) {
    const long long start = static_cast<long long>(blockIdx.x) * width;
    float squares = 0.0f;
    for (int i = 8 * threadIdx.x; i < width; i += 8 * blockDim.x) {
        const Eight a = *reinterpret_cast<const Eight*>(x + start + i);
        const Eight b = *reinterpret_cast<const Eight*>(y + start + i);
        Eight both;
        for (int j = 0; j < 8; ++j) {
            both.at[j] = narrow(wide(a.at[j]) + wide(b.at[j]));
            squares += wide(both.at[j]) * wide(both.at[j]);
        }
        *reinterpret_cast<Eight*>(sum + start + i) = both;
    }
    const float scale = 1.0f / sqrtf(block_sum(squares) / width + eps);
    // Each thread reads what it wrote.
    for (int i = 8 * threadIdx.x; i < width; i += 8 * blockDim.x) {
        Eight row = *reinterpret_cast<const Eight*>(sum + start + i);
        const Eight by = *reinterpret_cast<const Eight*>(weight + i);
        for (int j = 0; j < 8; ++j) {
            row.at[j] = narrow(wide(row.at[j]) * scale * wide(by.at[j]));
        }
        *reinterpret_cast<Eight*>(normed + start + i) = row;
    }
}

// Heads x (tokens, heads, dim), tokens `stride` apart, to out (tokens, heads, dim): with `is_normed` their RMS norm, then
// turned by cosines and sines (tokens, dim / 2). A warp per head.
extern "C" __global__ void norm_rotate(const bf16* x, const bf16* weight, const float* cosines, const float* sines,
                                       bf16* out, int all, int heads, int dim, int stride, int is_normed, float eps) {
    const int number = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (number >= all) {
        return;
    }
    const int token = number / heads, half = dim / 2;
    const bf16* from = x + static_cast<long long>(token) * stride + number % heads * dim;
    bf16* to = out + static_cast<long long>(number) * dim;
    float scale = 1.0f;
    if (is_normed) {
        float squares = 0.0f;
        for (int i = threadIdx.x % 32; i < dim; i += 32) {
            squares += wide(from[i]) * wide(from[i]);
        }
        scale = 1.0f / sqrtf(warp_sum(squares) / dim + eps);
    }
    for (int i = threadIdx.x % 32; i < half; i += 32) {
        float a = wide(from[i]), b = wide(from[i + half]);
        if (is_normed) {
            a = wide(narrow(a * scale * wide(weight[i])));
            b = wide(narrow(b * scale * wide(weight[i + half])));
        }
        const float c = cosines[static_cast<long long>(token) * half + i];
        const float s = sines[static_cast<long long>(token) * half + i];
        to[i] = narrow(a * c - b * s);
        to[i + half] = narrow(b * c + a * s);
    }
}

// out = silu(gate) * up; all (rows, width), rows of gate and up so far apart. `width` is a multiple of eight.
extern "C" __global__ void gated(const bf16* gate, const bf16* up, bf16* out, int rows, int width, int gate_stride,
                                 int up_stride) {
    const long long i = 8ll * (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x);
    const long long row = i / width, column = i % width;
    if (row >= rows) {
        return;
    }
    const Eight a = *reinterpret_cast<const Eight*>(gate + row * gate_stride + column);
    const Eight b = *reinterpret_cast<const Eight*>(up + row * up_stride + column);
    Eight both;
    for (int j = 0; j < 8; ++j) {
        const float x = wide(a.at[j]);
        both.at[j] = narrow(x / (1.0f + expf(-x)) * wide(b.at[j]));
    }
    *reinterpret_cast<Eight*>(out + i) = both;
}

// out = x + bias; x (rows, width), rows so far apart, bias (width). `width` is a multiple of eight.
extern "C" __global__ void add_bias(const bf16* x, const bf16* bias, bf16* out, int rows, int width, int stride) {
    const long long i = 8ll * (static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x);
    const long long row = i / width, column = i % width;
    if (row >= rows) {
        return;
    }
    const Eight a = *reinterpret_cast<const Eight*>(x + row * stride + column);
    const Eight b = *reinterpret_cast<const Eight*>(bias + column);
    Eight sum;
    for (int j = 0; j < 8; ++j) {
        sum.at[j] = narrow(wide(a.at[j]) + wide(b.at[j]));
    }
    *reinterpret_cast<Eight*>(out + i) = sum;
}
