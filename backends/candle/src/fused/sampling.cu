// From logits to a token, a block per row, without a sort: tokens in falling order of their logits, equal ones by id, are
// counted and weighed by the bytes of the logit. Weights are whole numbers, so that the order of additions is nothing.

typedef unsigned long long u64;

constexpr int THREADS = 1024;
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

// A token in falling order: its key, how many tokens with that key are before it, and all weight up to it.
struct Place {
    unsigned key;
    u64 rank, through;
};

// The first place at which the running count, or weight, of tokens is more than `target`, which all of them are.
__device__ Place find(const bf16* logits, int width, float largest, double temperature, bool counts, u64 target) {
    __shared__ u64 counted[256], weighed[256];
    __shared__ u64 digit, count, weighs;
    if (threadIdx.x == 0) {
        count = 0;
        weighs = 0;
    }
    unsigned key = 0;
    for (int shift = 8; shift >= 0; shift -= 8) {
        for (int i = threadIdx.x; i < 256; i += THREADS) {
            counted[i] = 0;
            weighed[i] = 0;
        }
        __syncthreads();
        for (int i = threadIdx.x; i < width; i += THREADS) {
            const unsigned own = key_of(logits[i]);
            if (shift == 8 || own >> 8 == key >> 8) {
                atomicAdd(&counted[own >> shift & 255], 1ull);
                atomicAdd(&weighed[own >> shift & 255], weight(logits[i], largest, temperature));
            }
        }
        __syncthreads();
        if (threadIdx.x == 0) {
            int i = 0;
            while ((counts ? count + counted[i] : weighs + weighed[i]) <= target) {
                count += counted[i];
                weighs += weighed[i];
                ++i;
            }
            digit = i;
        }
        __syncthreads();
        key |= static_cast<unsigned>(digit) << shift;
    }
    const u64 each = weight(of_key(key), largest, temperature);
    const u64 rank = counts ? target - count : (target - weighs) / each;
    const Place place = {key, rank, weighs + (rank + 1) * each};
    __syncthreads();
    return place;
}

// Largest or sum of a value of each thread.
__device__ double reduce(double x, bool is_sum) {
    __shared__ double values[THREADS];
    values[threadIdx.x] = x;
    __syncthreads();
    for (int half = THREADS / 2; half > 0; half /= 2) {
        if (static_cast<int>(threadIdx.x) < half) {
            const double other = values[threadIdx.x + half], own = values[threadIdx.x];
            values[threadIdx.x] = is_sum ? own + other : (own > other ? own : other);
        }
        __syncthreads();
    }
    const double all = values[0];
    __syncthreads();
    return all;
}

// The id at a place: threads have ids one after the other.
__device__ int id_of(const bf16* logits, int width, Place place) {
    __shared__ int before[THREADS];
    __shared__ int id;
    const int share = (width + THREADS - 1) / THREADS, start = threadIdx.x * share;
    const int end = start + share < width ? start + share : width;
    int own = 0;
    for (int i = start; i < end; ++i) {
        own += key_of(logits[i]) == place.key;
    }
    before[threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        int sum = 0;
        for (int i = 0; i < THREADS; ++i) {
            const int here = before[i];
            before[i] = sum;
            sum += here;
        }
    }
    __syncthreads();
    u64 rank = before[threadIdx.x];
    for (int i = start; i < end; ++i) {
        if (key_of(logits[i]) == place.key && rank++ == place.rank) {
            id = i;
        }
    }
    __syncthreads();
    return id;
}

// Of logits (rows, width): tokens and the bits of their log-probabilities, (rows, 2). A token of a row with a logit that is
// not finite is `width`.
extern "C" __global__ void __launch_bounds__(THREADS)
    sample(const bf16* logits, const Draw* draws, unsigned* out, int width) {
    logits += static_cast<long long>(blockIdx.x) * width;
    const Draw draw = draws[blockIdx.x];
    double largest = -1e300, wrong = 0.0;
    for (int i = threadIdx.x; i < width; i += THREADS) {
        const double x = wide(logits[i]);
        largest = x > largest ? x : largest;
        wrong += (logits[i] & 0x7f80) == 0x7f80;
    }
    if (reduce(wrong, true) > 0.0) {
        if (threadIdx.x == 0) {
            out[2 * blockIdx.x] = width;
            out[2 * blockIdx.x + 1] = 0;
        }
        return;
    }
    const float top = static_cast<float>(reduce(largest, false));
    const bool greedy = draw.temperature <= 0.0;
    const double temperature = greedy ? 1.0 : draw.temperature;
    Place place = {0, 0, 0};
    if (greedy) {
        place = find(logits, width, top, temperature, true, 0);
    } else {
        // Weight of what is kept: of the top k, then of the nucleus among them.
        const bool cuts = draw.top_k > 0.0 && draw.top_k < width;
        const u64 count = cuts ? static_cast<u64>(draw.top_k) : width;
        u64 kept = find(logits, width, top, temperature, true, count - 1).through;
        if (draw.top_p < 1.0) {
            const u64 nucleus = static_cast<u64>(ceil(draw.top_p * kept));
            kept = find(logits, width, top, temperature, false, nucleus > 0 ? nucleus - 1 : 0).through;
        }
        place = find(logits, width, top, temperature, false, static_cast<u64>(draw.uniform * kept));
    }
    double sum = 0.0;
    const float by = static_cast<float>(draw.logprob_temperature);
    for (int i = threadIdx.x; i < width; i += THREADS) {
        sum += exp(static_cast<double>((wide(logits[i]) - top) / by));
    }
    sum = reduce(sum, true);
    const int id = id_of(logits, width, place);
    if (threadIdx.x == 0) {
        const double chosen = static_cast<double>((wide(logits[id]) - top) / by) - log(sum);
        out[2 * blockIdx.x] = id;
        out[2 * blockIdx.x + 1] = __float_as_uint(static_cast<float>(chosen));
    }
}
