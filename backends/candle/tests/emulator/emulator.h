// Runs the text of CUDA kernels on a CPU, a block after the other. The threads of a block take turns in a random order,
// from one barrier or exchange to the next: what is read before it is synchronised differs from run to run. Shared memory
// starts as NaN. A buffer ends where memory ends: what reads or writes past it dies.
//
// Stands in for `ptx.cuh`. What a warp does together is written down from the PTX ISA 8.0, 9.7.13.4.8 and 9.7.13.4.15.

#include <setjmp.h>
#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __grid_constant__
#define __launch_bounds__(threads)
#define __shared__ static __attribute__((section("shared_memory")))

extern char __start_shared_memory[] __attribute__((weak)), __stop_shared_memory[] __attribute__((weak));

struct Dim {
    unsigned x, y, z;
};
static Dim threadIdx, blockIdx, blockDim, gridDim;

[[noreturn]] static void fail(const char* what) {
    fprintf(stderr, "%s: block %u,%u,%u thread %u\n", what, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x);
    exit(1);
}

struct Copy {
    void* to;
    const void* from;
    bool there;

    void run() const {
        if (there) {
            memcpy(to, from, 16);
        } else {
            memset(to, 0, 16);
        }
    }
};

struct Barrier {
    unsigned waiting, turn;
};

// Of one block after the other.
struct Thread {
    // Where it goes on: jumps do not ask the system for the mask of signals, as contexts do.
    jmp_buf place;
    std::vector<char> stack;
    bool is_done;
    // The barrier at which it waits until its turn has passed.
    const Barrier* barrier;
    unsigned turn;
    // Groups of copies that are on their way; the last is open.
    std::vector<std::vector<Copy>> copies;

    bool waits() const {
        return barrier != nullptr && barrier->turn == turn;
    }
};

// What lanes of a warp show each other.
struct Warp {
    Barrier barrier;
    float value[32];
    unsigned a[32][4], b[32][2];
    const unsigned short* row[32];
};

static std::vector<Thread> threads(1024);
static std::vector<Warp> warps(32);
static Barrier block;
static jmp_buf scheduler;
static std::mt19937 random_order(1);
static bool moved;

static void yield() {
    if (_setjmp(threads[threadIdx.x].place) == 0) {
        _longjmp(scheduler, 1);
    }
}

static void run_thread();

static void resume(Thread& thread) {
    if (_setjmp(scheduler) == 0) {
        if (!thread.stack.empty()) {
            _longjmp(thread.place, 1);
        }
        thread.stack.resize(1 << 16);
        ucontext_t context;
        getcontext(&context);
        context.uc_stack.ss_sp = thread.stack.data();
        context.uc_stack.ss_size = thread.stack.size();
        makecontext(&context, run_thread, 0);
        setcontext(&context);
    }
}

static void wait_at(Barrier& barrier, unsigned count) {
    Thread& thread = threads[threadIdx.x];
    thread.barrier = &barrier;
    thread.turn = barrier.turn;
    if (++barrier.waiting == count) {
        barrier.waiting = 0;
        ++barrier.turn;
        moved = true;
    } else {
        yield();
    }
}

static void __syncthreads() {
    wait_at(block, blockDim.x);
}

static Warp& warp() {
    return warps[threadIdx.x / 32];
}

static void warp_barrier() {
    wait_at(warp().barrier, 32);
}

static unsigned lane_number() {
    return threadIdx.x % 32;
}

// --- ptx.cuh ---

typedef unsigned short bf16;

static float __uint_as_float(unsigned x) {
    float y;
    memcpy(&y, &x, 4);
    return y;
}

static unsigned __float_as_uint(float x) {
    unsigned y;
    memcpy(&y, &x, 4);
    return y;
}

static bf16 narrow(float x) {
    const unsigned bits = __float_as_uint(x);
    return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

static unsigned pack(float low, float high) {
    return narrow(low) | static_cast<unsigned>(narrow(high)) << 16;
}

static float wide(bf16 x) {
    return __uint_as_float(static_cast<unsigned>(x) << 16);
}

static float power_of_two(float x) {
    return exp2f(x);
}

static float exchange(float x, int bits) {
    warp().value[lane_number()] = x;
    warp_barrier();
    const float other = warp().value[lane_number() ^ bits];
    warp_barrier();
    return other;
}

static float half_of(unsigned pair, int number) {
    return wide(pair >> 16 * number & 0xffff);
}

static void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    Warp& all = warp();
    const unsigned lane = lane_number();
    std::copy(a, a + 4, all.a[lane]);
    all.b[lane][0] = b0;
    all.b[lane][1] = b1;
    warp_barrier();
    for (int i = 0; i < 4; ++i) {
        const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
        for (int k = 0; k < 16; ++k) {
            const unsigned left = all.a[row % 8 * 4 + k % 8 / 2][row / 8 + k / 8 * 2];
            const unsigned right = all.b[column * 4 + k % 8 / 2][k / 8];
            c[i] += half_of(left, k % 2) * half_of(right, k % 2);
        }
    }
    warp_barrier();
}

static void load_any(unsigned (&to)[4], const bf16* row, bool transposed) {
    if (reinterpret_cast<uintptr_t>(row) % 16 != 0) {
        fail("a row of a matrix that is not aligned");
    }
    Warp& all = warp();
    const unsigned lane = lane_number();
    all.row[lane] = row;
    warp_barrier();
    for (int i = 0; i < 4; ++i) {
        const unsigned first = lane % 4 * 2, other = lane / 4;
        const bf16* const* rows = all.row + 8 * i;
        to[i] = transposed ? rows[first][other] | static_cast<unsigned>(rows[first + 1][other]) << 16
                           : rows[other][first] | static_cast<unsigned>(rows[other][first + 1]) << 16;
    }
    warp_barrier();
}

static void load_matrices(unsigned (&to)[4], const bf16* row) {
    load_any(to, row, false);
}

static void load_transposed(unsigned (&to)[4], const bf16* row) {
    load_any(to, row, true);
}

// At once or when it is waited for, as it comes.
static void copy_async(bf16* to, const bf16* from, bool there) {
    if (reinterpret_cast<uintptr_t>(to) % 16 != 0 || reinterpret_cast<uintptr_t>(from) % 16 != 0) {
        fail("a copy that is not aligned");
    }
    const Copy copy = {to, from, there};
    if (random_order() % 2 == 0) {
        copy.run();
    } else {
        threads[threadIdx.x].copies.back().push_back(copy);
    }
}

static void commit() {
    threads[threadIdx.x].copies.emplace_back();
}

template <int PENDING> static void await() {
    auto& copies = threads[threadIdx.x].copies;
    while (copies.size() > PENDING + 1) {
        for (const Copy& copy : copies.front()) {
            copy.run();
        }
        copies.erase(copies.begin());
    }
}

static unsigned atomicAdd(unsigned* to, unsigned x) {
    const unsigned before = *to;
    *to += x;
    return before;
}

// --- launches ---

static std::function<void()> kernel;

static void run_thread() {
    for (;;) {
        kernel();
        threads[threadIdx.x].is_done = true;
        moved = true;
        yield();
    }
}

static std::vector<unsigned> starts_in_random_order(unsigned together) {
    std::vector<unsigned> starts;
    for (unsigned start = 0; start < blockDim.x; start += together) {
        starts.push_back(start);
    }
    std::shuffle(starts.begin(), starts.end(), random_order);
    return starts;
}

static void run_block() {
    memset(__start_shared_memory, 0xff, __stop_shared_memory - __start_shared_memory);
    block = {};
    std::vector<unsigned> order(blockDim.x);
    for (unsigned i = 0; i < blockDim.x; ++i) {
        Thread& thread = threads[order[i] = i];
        warps[i / 32].barrier = {};
        thread.is_done = false;
        thread.barrier = nullptr;
        thread.copies.assign(1, {});
    }
    // Warps side by side, or one as far ahead of the others as barriers let it.
    const unsigned together = random_order() % 2 == 0 ? blockDim.x : 32;
    for (bool lives = true; lives;) {
        lives = false;
        bool any_moved = false;
        for (unsigned start : starts_in_random_order(together)) {
            do {
                std::shuffle(order.begin() + start, order.begin() + start + together, random_order);
                moved = false;
                for (unsigned i = start; i < start + together; ++i) {
                    Thread& thread = threads[order[i]];
                    lives |= !thread.is_done;
                    if (!thread.is_done && !thread.waits()) {
                        threadIdx = {order[i], 0, 0};
                        resume(thread);
                    }
                }
                any_moved |= moved;
            } while (moved && together < blockDim.x);
        }
        if (lives && !any_moved) {
            fail("a barrier that not all threads reach");
        }
    }
}

static void read_all(void* to, size_t bytes) {
    if (fread(to, 1, bytes, stdin) != bytes) {
        exit(0);
    }
}

template <class T> static T read_one() {
    T value;
    read_all(&value, sizeof value);
    return value;
}

// Memory that ends where the next page cannot be read; freed after the launch.
struct Buffer {
    char *pages, *data;
    size_t mapped, bytes;

    explicit Buffer(size_t bytes) : bytes(bytes) {
        const size_t page = 4096, whole = (bytes + page - 1) / page * page + page;
        mapped = whole + page;
        pages = static_cast<char*>(mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        mprotect(pages + whole, page, PROT_NONE);
        data = pages + (whole - bytes) / 16 * 16;
        read_all(data, bytes);
    }
};

// Arguments as they come: values, buffers, buffers that go back, lists of pointers to buffers.
struct Arguments {
    std::vector<std::string> values;
    std::vector<Buffer> buffers;
    std::vector<size_t> back;

    void add_pointer(std::string& value) {
        buffers.emplace_back(read_one<uint64_t>());
        value.append(reinterpret_cast<const char*>(&buffers.back().data), sizeof(char*));
    }

    Arguments() {
        for (unsigned left = read_one<uint32_t>(); left > 0; --left) {
            std::string value;
            switch (read_one<uint8_t>()) {
            case 0:
                value.resize(read_one<uint32_t>());
                read_all(&value[0], value.size());
                break;
            case 2:
                back.push_back(buffers.size());
                // As 1.
            case 1:
                add_pointer(value);
                break;
            default:
                const uint32_t room = read_one<uint32_t>();
                for (unsigned count = read_one<uint32_t>(); count > 0; --count) {
                    add_pointer(value);
                }
                value.resize(room * sizeof(char*));
            }
            values.push_back(value);
        }
    }

    ~Arguments() {
        for (size_t i : back) {
            fwrite(buffers[i].data, 1, buffers[i].bytes, stdout);
        }
        fflush(stdout);
        for (const Buffer& buffer : buffers) {
            munmap(buffer.pages, buffer.mapped);
        }
    }
};

template <class T> static T argument(const Arguments& arguments, size_t& at) {
    T value;
    if (at >= arguments.values.size() || arguments.values[at].size() != sizeof value) {
        fail("an argument of another type than the kernel's");
    }
    memcpy(&value, arguments.values[at++].data(), sizeof value);
    return value;
}

using Entry = std::function<void(const Arguments&)>;

template <class... T> static Entry entry(void (*function)(T...)) {
    return [function](const Arguments& arguments) {
        size_t at = 0;
        // In braces, the order of evaluation is that of the text.
        std::tuple<T...> values{argument<std::remove_const_t<T>>(arguments, at)...};
        if (at != arguments.values.size()) {
            fail("more arguments than the kernel's");
        }
        kernel = [&] { std::apply(function, values); };
        for (blockIdx.z = 0; blockIdx.z < gridDim.z; ++blockIdx.z) {
            for (blockIdx.y = 0; blockIdx.y < gridDim.y; ++blockIdx.y) {
                for (blockIdx.x = 0; blockIdx.x < gridDim.x; ++blockIdx.x) {
                    run_block();
                }
            }
        }
    };
}

static int serve(const std::map<std::string, Entry>& kernels) {
    for (;;) {
        std::string name(read_one<uint32_t>(), ' ');
        read_all(&name[0], name.size());
        gridDim = read_one<Dim>();
        blockDim = {read_one<uint32_t>(), 1, 1};
        const Arguments arguments;
        kernels.at(name)(arguments);
    }
}
