// From logits to a token, a block per row, without a sort: tokens in falling order of their logits, equal ones by id. A row
// has 65,536 different values at most, so tokens are counted by value and the counts are weighed. Weights are whole numbers,
// so that the order of additions is nothing.

typedef unsigned long long u64;

constexpr int THREADS = 1024;
// Values of bf16, and how many of them a thread has, one after the other.
constexpr int KEYS = 65536, SHARE = KEYS / THREADS;
// Weight of the likeliest token.
constexpr double ONE = 1099511627776.0;

struct Draw {
    // 0 takes the likeliest token.
    double temperature;
    // 0 keeps all.
    double top_k;
    // 1 keeps all.
    double top_p;
    // In [0, 1).
    double uniform;
    // Of the log-probability.
    double logprob_temperature;
};

// 0 for the largest logit that there can be.
__device__ __forceinline__ unsigned key_of(bf16 x) {
    return x & 0x8000 ? x : 0x7fff ^ x;
}

__device__ __forceinline__ bf16 of_key(unsigned key) {
    return key & 0x8000 ? key : 0x7fff ^ key;
}

__device__ __forceinline__ u64 weight(bf16 x, float largest, double temperature) {
    return static_cast<u64>(exp(static_cast<double>(wide(x) - largest) / temperature) * ONE);
}

// Smallest of the threads' values.
__device__ u64 least(u64 x) {
    __shared__ u64 values[THREADS];
    values[threadIdx.x] = x;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (static_cast<int>(threadIdx.x) < half && values[threadIdx.x + half] < values[threadIdx.x]) {
            values[threadIdx.x] = values[threadIdx.x + half];
        }
        __syncthreads();
    }
    const u64 all = values[0];
    __syncthreads();
    return all;
}

// Sum of the threads' values.
__device__ double total(double x) {
    __shared__ double values[THREADS];
    values[threadIdx.x] = x;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (static_cast<int>(threadIdx.x) < half) {
            values[threadIdx.x] += values[threadIdx.x + half];
        }
        __syncthreads();
    }
    const double all = values[0];
    __syncthreads();
    return all;
}

// Sum of the values of the threads before this one.
__device__ u64 sum_before(u64 x) {
    __shared__ u64 values[THREADS];
    u64 sum = x;
    for (int step = 1; step < THREADS; step *= 2) {
        values[threadIdx.x] = sum;
        __syncthreads();
        if (static_cast<int>(threadIdx.x) >= step) {
            sum += values[threadIdx.x - step];
        }
        __syncthreads();
    }
    return sum - x;
}

// How many tokens have one of a thread's keys, and what they weigh; the same of all threads before it.
struct Tally {
    u64 count, weight, count_before, weight_before;
};

__device__ Tally tally(const unsigned* counts, float largest, double temperature) {
    Tally own = {0, 0, 0, 0};
    for (unsigned key = threadIdx.x * SHARE; key < (threadIdx.x + 1) * SHARE; ++key) {
        if (const u64 count = counts[key]) {
            own.count += count;
            own.weight += count * weight(of_key(key), largest, temperature);
        }
    }
    own.count_before = sum_before(own.count);
    own.weight_before = sum_before(own.weight);
    return own;
}

// A token in falling order: its key, how many tokens with that key are before it, and all weight up to it.
struct Place {
    unsigned key;
    u64 rank, through;
};

// The first place at which the running count, or weight, of tokens is more than `target`, which all of them are.
__device__ Place find(const unsigned* counts, Tally own, float largest, double temperature, bool by_count, u64 target) {
    __shared__ Place place;
    const u64 before = by_count ? own.count_before : own.weight_before;
    if (target >= before && target - before < (by_count ? own.count : own.weight)) {
        u64 counted = own.count_before, weighed = own.weight_before;
        for (unsigned key = threadIdx.x * SHARE; key < (threadIdx.x + 1) * SHARE; ++key) {
            const u64 count = counts[key], each = count == 0 ? 0 : weight(of_key(key), largest, temperature);
            if ((by_count ? counted + count : weighed + count * each) > target) {
                const u64 rank = by_count ? target - counted : (target - weighed) / each;
                place = {key, rank, weighed + (rank + 1) * each};
                break;
            }
            counted += count;
            weighed += count * each;
        }
    }
    __syncthreads();
    const Place found = place;
    __syncthreads();
    return found;
}

// The id at a place: threads have ids one after the other.
__device__ int id_of(const bf16* logits, int width, Place place) {
    __shared__ int id;
    const int share = (width + THREADS - 1) / THREADS, start = threadIdx.x * share;
    const int end = start + share < width ? start + share : width;
    u64 own = 0;
    for (int i = start; i < end; ++i) {
        own += key_of(logits[i]) == place.key;
    }
    u64 rank = sum_before(own);
    for (int i = start; i < end; ++i) {
        if (key_of(logits[i]) == place.key && rank++ == place.rank) {
            id = i;
        }
    }
    __syncthreads();
    return id;
}

// The id that a draw takes. `counts` are zeros, one for each key.
__device__ int drawn(const bf16* logits, int width, unsigned* counts, Draw draw, float top) {
    for (int i = threadIdx.x; i < width; i += THREADS) {
        atomicAdd(&counts[key_of(logits[i])], 1u);
    }
    __syncthreads();
    const Tally own = tally(counts, top, draw.temperature);
    // Weight of what is kept: of the top k, then of the nucleus among them.
    const bool cuts = draw.top_k > 0.0 && draw.top_k < width;
    const u64 count = cuts ? static_cast<u64>(draw.top_k) : width;
    u64 kept = find(counts, own, top, draw.temperature, true, count - 1).through;
    if (draw.top_p < 1.0) {
        const u64 nucleus = static_cast<u64>(ceil(draw.top_p * kept));
        kept = find(counts, own, top, draw.temperature, false, nucleus > 0 ? nucleus - 1 : 0).through;
    }
    const u64 target = static_cast<u64>(draw.uniform * kept);
    const Place place = find(counts, own, top, draw.temperature, false, target < kept ? target : kept - 1);
    return id_of(logits, width, place);
}

// Of logits (rows, width): tokens and the bits of their log-probabilities, (rows, 2). A token of a row with a logit that is
// not finite is `width`. `counts` are zeros (rows, KEYS), or nothing where every row takes the likeliest token.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample(const bf16* logits, const Draw* draws, unsigned* counts, unsigned* out, int width) {
    logits += static_cast<long long>(blockIdx.x) * width;
    const Draw draw = draws[blockIdx.x];
    // Key and id of the first likeliest token. No finite logit has the key 0.
    u64 first = ~0ull;
    for (int i = threadIdx.x; i < width; i += THREADS) {
        const bool is_finite = (logits[i] & 0x7f80) != 0x7f80;
        const u64 own = is_finite ? static_cast<u64>(key_of(logits[i])) << 32 | static_cast<unsigned>(i) : 0;
        first = own < first ? own : first;
    }
    first = least(first);
    if (first == 0) {
        if (threadIdx.x == 0) {
            out[2 * blockIdx.x] = width;
            out[2 * blockIdx.x + 1] = 0;
        }
        return;
    }
    const float top = wide(of_key(static_cast<unsigned>(first >> 32)));
    int id = static_cast<int>(first & 0xffffffffull);
    if (draw.temperature > 0.0) {
        id = drawn(logits, width, counts + static_cast<long long>(blockIdx.x) * KEYS, draw, top);
    }
    double sum = 0.0;
    const float by = static_cast<float>(draw.logprob_temperature);
    for (int i = threadIdx.x; i < width; i += THREADS) {
        sum += exp(static_cast<double>((wide(logits[i]) - top) / by));
    }
    sum = total(sum);
    if (threadIdx.x == 0) {
        const double chosen = static_cast<double>((wide(logits[id]) - top) / by) - log(sum);
        out[2 * blockIdx.x] = id;
        out[2 * blockIdx.x + 1] = __float_as_uint(static_cast<float>(chosen));
    }
}
