// Attention of packed sequences by online softmax on tensor cores; HEAD_DIM is a multiple of eight, 128 at most.
//
// A block has 64 rows of a key head and reads its keys 64 at a time. A row is a query of one of the heads that share the
// key head, so that keys are read once for all of them; four warps have 16 rows each. Where there are few rows, as of a
// decoded token, blocks share the keys among them (gridDim.z) and leave parts for `combine`.

constexpr int D = HEAD_DIM;
// Whole fragments; columns from D on are zeros.
constexpr int WIDTH = (D + 15) / 16 * 16;
// An odd number of 16 bytes: rows that are read together lie in different banks.
constexpr int STRIDE = WIDTH + 8;
constexpr int ROWS = 64, KEYS = 64, THREADS = 128;
// Of a row that has seen no key, and below the score of any key; of a key that is hidden.
constexpr float NOTHING = -1e30f, HIDDEN = -1e38f;

struct Segment {
    int first, queries, first_key, keys;
};

struct Pointers {
    const bf16* at[32];
};

__device__ __forceinline__ void load(bf16 (&tile)[KEYS][STRIDE], const bf16* rows, int stride, int begin, int end) {
    constexpr int CHUNKS = D / 8;
    for (int i = threadIdx.x; i < KEYS * CHUNKS; i += THREADS) {
        const int row = i / CHUNKS, column = i % CHUNKS * 8;
        const bool there = begin + row < end;
        const long long from = there ? static_cast<long long>(begin + row) * stride + column : 0;
        copy_async(&tile[row][column], rows + from, there);
    }
    commit();
}

// q (n, heads, D) to out (n, heads, D), of segments from `first` on. Keys and values are in one tensor, or with `is_cached`
// in one for each segment; rows are so far apart as the strides say. `parts` has (gridDim.z, n, heads, D + 2): sums, largest
// score, sum of weights.
extern "C" __global__ void __launch_bounds__(THREADS)
    attention(const bf16* q, const __grid_constant__ Pointers each_k, const __grid_constant__ Pointers each_v,
              const Segment* segments, bf16* out, float* parts, int first, int tiles, int n, int heads, int q_stride,
              int k_stride, int v_stride, int is_cached, int is_causal, float scale) {
    alignas(16) __shared__ bf16 k_tile[KEYS][STRIDE];
    alignas(16) __shared__ bf16 v_tile[KEYS][STRIDE];
    const int number = blockIdx.x / tiles, start = blockIdx.x % tiles * ROWS;
    const Segment segment = segments[first + number];
    const int group = heads / gridDim.y, rows = segment.queries * group;
    if (start >= rows) {
        return;
    }
    const int past = segment.keys - segment.queries;
    const int last = (start + ROWS < rows ? start + ROWS : rows) - 1;
    // Keys that some row sees, and keys that all see.
    const int seen = is_causal ? past + last / group + 1 : segment.keys;
    const int plain = is_causal ? past + start / group + 1 : segment.keys;
    const int steps = (seen + KEYS - 1) / KEYS, share = (steps + gridDim.z - 1) / gridDim.z * KEYS;
    const int begin = blockIdx.z * share, end = begin + share < seen ? begin + share : seen;
    const int column = blockIdx.y * D, side = is_cached ? number : 0;
    const long long first_key = is_cached ? 0 : segment.first_key;
    const bf16* k = each_k.at[side] + first_key * k_stride + column;
    const bf16* v = each_v.at[side] + first_key * v_stride + column;

    const int lane = threadIdx.x % 32, own = start + threadIdx.x / 32 * 16 + lane / 4, pair = lane % 4 * 2;
    // Of this thread's two rows: keys that it sees, and its place among heads (n, heads).
    int limit[2];
    long long place[2];
    const bf16* from[2];
    for (int i = 0; i < 2; ++i) {
        const int row = own + 8 * i < rows ? own + 8 * i : rows - 1;
        const int query = row / group, head = blockIdx.y * group + row % group;
        limit[i] = is_causal ? past + query + 1 : segment.keys;
        place[i] = static_cast<long long>(segment.first + query) * heads + head;
        from[i] = q + static_cast<long long>(segment.first + query) * q_stride + head * D;
    }
    unsigned queries[WIDTH / 16][4];
#pragma unroll
    for (int i = 0; i < WIDTH / 16; ++i) {
        for (int j = 0; j < 4; ++j) {
            const int at = 16 * i + 8 * (j / 2);
            queries[i][j] = at < D ? *reinterpret_cast<const unsigned*>(from[j % 2] + at + pair) : 0;
        }
    }
    for (int i = threadIdx.x; i < KEYS * (WIDTH - D) / 8; i += THREADS) {
        for (int j = D; j < WIDTH; ++j) {
            k_tile[i][j] = 0;
            v_tile[i][j] = 0;
        }
    }

    float sums[WIDTH / 8][4] = {};
    float largest[2] = {NOTHING, NOTHING}, total[2] = {0.0f, 0.0f};
    // Scores are powers of two, not of e.
    scale *= 1.44269504f;
    if (begin < end) {
        load(k_tile, k, k_stride, begin, end);
    }
    for (int at = begin; at < end; at += KEYS) {
        await<0>();
        __syncthreads();
        load(v_tile, v, v_stride, at, end);

        float scores[KEYS / 8][4] = {};
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
#pragma unroll
            for (int i = 0; i < WIDTH / 16; ++i) {
                unsigned keys[4];
                load_matrices(keys, &k_tile[16 * j + lane / 16 * 8 + lane % 8][16 * i + lane / 8 % 2 * 8]);
                multiply(scores[2 * j], queries[i], keys[0], keys[1]);
                multiply(scores[2 * j + 1], queries[i], keys[2], keys[3]);
            }
        }
        __syncthreads();
        const bool is_last = at + KEYS >= end;
        if (!is_last) {
            load(k_tile, k, k_stride, at + KEYS, end);
        }

        const bool hides = at + KEYS > plain || is_last;
        float now[2] = {largest[0], largest[1]};
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                const int key = at + 8 * j + pair + i % 2;
                const bool hidden = hides && (key >= limit[i / 2] || key >= end);
                scores[j][i] = hidden ? HIDDEN : scores[j][i] * scale;
                now[i / 2] = fmaxf(now[i / 2], scores[j][i]);
            }
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            now[i] = fmaxf(now[i], exchange(now[i], 1));
            now[i] = fmaxf(now[i], exchange(now[i], 2));
            const float before = power_of_two(largest[i] - now[i]);
            largest[i] = now[i];
            total[i] *= before;
#pragma unroll
            for (int j = 0; j < WIDTH / 8; ++j) {
                sums[j][2 * i] *= before;
                sums[j][2 * i + 1] *= before;
            }
        }
#pragma unroll
        for (int j = 0; j < KEYS / 8; ++j) {
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                scores[j][i] = power_of_two(scores[j][i] - now[i / 2]);
                total[i / 2] += scores[j][i];
            }
        }

        if (is_last) {
            await<0>();
        } else {
            await<1>();
        }
        __syncthreads();
#pragma unroll
        for (int j = 0; j < KEYS / 16; ++j) {
            const float(&left)[4] = scores[2 * j];
            const float(&right)[4] = scores[2 * j + 1];
            const unsigned weights[4] = {pack(left[0], left[1]), pack(left[2], left[3]), pack(right[0], right[1]),
                                         pack(right[2], right[3])};
#pragma unroll
            for (int i = 0; i < WIDTH / 16; ++i) {
                unsigned values[4];
                load_transposed(values, &v_tile[16 * j + lane % 16][16 * i + lane / 16 * 8]);
                multiply(sums[2 * i], weights, values[0], values[1]);
                multiply(sums[2 * i + 1], weights, values[2], values[3]);
            }
        }
    }

#pragma unroll
    for (int i = 0; i < 2; ++i) {
        total[i] += exchange(total[i], 1);
        total[i] += exchange(total[i], 2);
        if (own + 8 * i >= rows) {
            continue;
        }
        const float by = 1.0f / total[i];
        float* part = parts + (static_cast<long long>(blockIdx.z) * n * heads + place[i]) * (D + 2);
#pragma unroll
        for (int j = 0; j < D / 8; ++j) {
            const float low = sums[j][2 * i], high = sums[j][2 * i + 1];
            if (gridDim.z == 1) {
                *reinterpret_cast<unsigned*>(out + place[i] * D + 8 * j + pair) = pack(low * by, high * by);
            } else {
                part[8 * j + pair] = low;
                part[8 * j + pair + 1] = high;
            }
        }
        if (gridDim.z > 1 && pair == 0) {
            part[D] = largest[i];
            part[D + 1] = total[i];
        }
    }
}

// Parts (count, rows, D + 2) to out (rows, D); a warp per row.
extern "C" __global__ void combine(const float* parts, bf16* out, int count, int rows) {
    const int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    if (row >= rows) {
        return;
    }
    const int lane = threadIdx.x % 32;
    const long long step = static_cast<long long>(rows) * (D + 2);
    const float* part = parts + static_cast<long long>(row) * (D + 2);
    // Many loads on their way at once: there are few warps.
    float largest = NOTHING, total = 0.0f;
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
        largest = fmaxf(largest, part[i * step + D]);
    }
    constexpr int COLUMNS = (D + 31) / 32;
    float sums[COLUMNS] = {};
#pragma unroll 4
    for (int i = 0; i < count; ++i) {
        const float by = power_of_two(part[i * step + D] - largest);
        total += by * part[i * step + D + 1];
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            const int column = 32 * j + lane;
            sums[j] += column < D ? by * part[i * step + column] : 0.0f;
        }
    }
#pragma unroll
    for (int j = 0; j < COLUMNS; ++j) {
        const int column = 32 * j + lane;
        if (column < D) {
            out[static_cast<long long>(row) * D + column] = narrow(sums[j] / total);
        }
    }
}
