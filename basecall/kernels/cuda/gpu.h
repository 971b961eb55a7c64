// The instructions of a GPU that the kernels use, and what stands for them on a CPU.
//
// One source is compiled by nvcc for GPUs and by a plain C++ compiler for tests. There the
// threads of a block are fibers: a barrier yields until all have come to it, and what a warp
// does together is done by the last of its lanes to come. Shared memory is filled with NaNs
// before each block, and what is copied asynchronously arrives only when it is waited for,
// so that a value that nobody wrote, or not yet, shows in the result. The order in which
// the fibers run can be turned round: a missing barrier then gives other bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __CUDACC__

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#define DEVICE __device__ __forceinline__

DEVICE float from_half(uint16_t h) { return __half2float(__ushort_as_half(h)); }
DEVICE uint16_t to_half(float f) { return __half_as_ushort(__float2half_rn(f)); }

// Both are exact to a few units in the last place of a float: the error of tanh.approx,
// 2^-11, would be as large as that of the half floats around it.
DEVICE float sigmoid(float x) { return __fdividef(1.f, 1.f + __expf(-x)); }
DEVICE float hyperbolic_tangent(float x) { return 2.f * sigmoid(2.f * x) - 1.f; }

// load_matrix4 loads four matrices of 8x8 halves from shared memory: lane 8m+r has the
// address of row r of matrix m.
DEVICE void load_matrix4(uint32_t (&r)[4], const uint16_t *p) {
	uint32_t a = (uint32_t)__cvta_generic_to_shared(p);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
		: "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(a));
}

// multiply_add adds to d [16x8] the product of a [16x16] and b [16x8], halves summed up as floats.
DEVICE void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// load_once loads 16 bytes that this block won't ask for again, past its first cache.
DEVICE uint4 load_once(const void *p) {
	uint4 v;
	asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
	return v;
}

// copy_async begins to copy 16 bytes into shared memory; copy_wait waits for all that this
// thread has begun, and a barrier for those of the others.
DEVICE void copy_async(uint16_t *to, const uint16_t *from) {
	uint32_t a = (uint32_t)__cvta_generic_to_shared(to);
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(a), "l"(from) : "memory");
}
DEVICE void copy_wait() {
	asm volatile("cp.async.commit_group;" ::: "memory");
	asm volatile("cp.async.wait_group 0;" ::: "memory");
}

// What a warp does together. All its lanes come to each of these.
constexpr unsigned all_lanes = 0xFFFFFFFF;
DEVICE void warp_barrier() { __syncwarp(); }
template <class T> DEVICE T from_lane(T v, int lane) { return __shfl_sync(all_lanes, v, lane); }
DEVICE unsigned lanes_where(bool yes) { return __ballot_sync(all_lanes, yes); }
DEVICE unsigned lanes_with(unsigned v) { return __match_any_sync(all_lanes, v); } // as this one has
DEVICE unsigned highest_of_lanes(unsigned v) { return __reduce_max_sync(all_lanes, v); }
DEVICE unsigned lowest_of_lanes(unsigned v) { return __reduce_min_sync(all_lanes, v); }
DEVICE int count_bits(unsigned v) { return __popc(v); }
DEVICE int lowest_bit(unsigned v) { return __ffs((int)v) - 1; }
DEVICE int leading_zeros(unsigned v) { return __clz((int)v); }

extern __shared__ __align__(128) unsigned char dynamic_shared[];

#else

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>
#include <vector>

#include "half.h"

#define __global__
#define __launch_bounds__(...)
#define __restrict__
#define DEVICE inline

using std::max;
using std::min;

struct uint4 { uint32_t x, y, z, w; };

namespace emulator {

#if defined(__x86_64__)
// switch_stack keeps the registers that a call has to keep on the stack, and goes on with another.
extern "C" void porestream_switch_stack(void **from, void *to);
asm(R"(
	.text
	.type porestream_switch_stack, @function
porestream_switch_stack:
	pushq %rbp; pushq %rbx; pushq %r12; pushq %r13; pushq %r14; pushq %r15
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	popq %r15; popq %r14; popq %r13; popq %r12; popq %rbx; popq %rbp
	ret
	.size porestream_switch_stack, .-porestream_switch_stack
)");
struct Context {
	void *stack = nullptr;
	void make(std::vector<char> &memory, void (*entry)()) {
		void **top = (void **)(((uintptr_t)(memory.data() + memory.size()) & ~(uintptr_t)15) - 8);
		*top = nullptr;         // where entry would return to, and so 8 bytes off a multiple of 16
		*--top = (void *)entry; // where the switch returns to
		stack = top - 6;
	}
	void go(Context &to) { porestream_switch_stack(&stack, to.stack); }
};
#else
#include <ucontext.h>
struct Context {
	ucontext_t context;
	void make(std::vector<char> &memory, void (*entry)()) {
		getcontext(&context);
		context.uc_stack.ss_sp = memory.data();
		context.uc_stack.ss_size = memory.size();
		context.uc_link = nullptr;
		makecontext(&context, entry, 0);
	}
	void go(Context &to) { swapcontext(&context, &to.context); }
};
#endif

struct Copy { void *to; const void *from; };
struct Fiber { Context context; std::vector<char> stack; std::vector<Copy> copies; bool done = false; };
struct Warp { int arrived = 0; unsigned generation = 0; void *arguments[32]; };
struct Index { unsigned x = 0; };

constexpr size_t guard = 4096; // bytes behind shared memory that nobody may write

inline Context outside;
inline std::vector<Fiber> fibers;
inline std::vector<Warp> warps;
inline int current, arrived;
inline unsigned generation;
inline std::vector<unsigned char> shared;
inline std::function<void()> body;
inline Index block, block_size, grid_size;

inline void yield() { fibers[current].context.go(outside); }
inline void entry() {
	body();
	fibers[current].done = true;
	yield();
}

inline void barrier() {
	unsigned before = generation;
	if (++arrived == (int)fibers.size()) {
		arrived = 0;
		generation++;
	}
	while (before == generation) yield();
}

// collective has f called once with the arguments of all lanes of the warp.
template <class F> void collective(void *mine, F f) {
	Warp &w = warps[current / 32];
	unsigned before = w.generation;
	w.arguments[current % 32] = mine;
	if (++w.arrived == 32) {
		w.arrived = 0;
		f(w.arguments);
		w.generation++;
	}
	while (before == w.generation) yield();
}

// launch runs a kernel's body for all threads of all blocks, and reports whether it kept to
// its shared memory. Backwards, the last thread of a block is the first to run.
template <class F> bool launch(unsigned blocks, unsigned threads, size_t bytes, bool backwards, F f) {
	body = f;
	grid_size.x = blocks;
	block_size.x = threads;
	shared.resize(bytes + guard);
	fibers.resize(threads);
	for (block.x = 0; block.x < blocks; block.x++) {
		memset(shared.data(), 0xFF, shared.size());
		warps.assign(threads / 32, Warp());
		arrived = 0;
		for (auto &x : fibers) {
			x.done = false;
			x.stack.resize(64 << 10);
			x.context.make(x.stack, entry);
		}
		for (size_t left = threads; left;)
			for (unsigned i = 0; i < threads; i++) {
				current = backwards ? threads - 1 - i : i;
				if (fibers[current].done) continue;
				outside.go(fibers[current].context);
				if (fibers[current].done) left--;
			}
		for (size_t i = bytes; i < shared.size(); i++)
			if (shared[i] != 0xFF) return false;
	}
	return true;
}

inline Index thread() { return Index{(unsigned)current}; }

} // namespace emulator

#define threadIdx (emulator::thread())
#define blockIdx emulator::block
#define blockDim emulator::block_size
#define gridDim emulator::grid_size
#define dynamic_shared (emulator::shared.data())

inline void __syncthreads() { emulator::barrier(); }
inline float sigmoid(float x) { return 1.f / (1.f + std::exp(-x)); }
inline float hyperbolic_tangent(float x) { return std::tanh(x); }

inline void load_matrix4(uint32_t (&r)[4], const uint16_t *p) {
	struct Lane { uint32_t *r; const uint16_t *p; } mine{r, p};
	emulator::collective(&mine, [](void **v) {
		for (int lane = 0; lane < 32; lane++)
			for (int m = 0; m < 4; m++) {
				const uint16_t *row = ((Lane *)v[m * 8 + lane / 4])->p;
				memcpy(&((Lane *)v[lane])->r[m], row + 2 * (lane % 4), 4);
			}
	});
}

inline void multiply_add(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
	struct Lane { float *d; const uint32_t *a; uint32_t b[2]; } mine{d, a, {b0, b1}};
	emulator::collective(&mine, [](void **v) {
		float fa[16][16], fb[16][8], fd[16][8];
		for (int l = 0; l < 32; l++) {
			Lane *t = (Lane *)v[l];
			int g = l / 4, q = l % 4;
			for (int i = 0; i < 2; i++) {
				auto half = [i](uint32_t w) { return from_half((uint16_t)(w >> (16 * i))); };
				int c = 2 * q + i;
				fa[g][c] = half(t->a[0]);
				fa[g + 8][c] = half(t->a[1]);
				fa[g][c + 8] = half(t->a[2]);
				fa[g + 8][c + 8] = half(t->a[3]);
				fb[c][g] = half(t->b[0]);
				fb[c + 8][g] = half(t->b[1]);
				fd[g][c] = t->d[i];
				fd[g + 8][c] = t->d[i + 2];
			}
		}
		for (int r = 0; r < 16; r++)
			for (int k = 0; k < 16; k++)
				for (int c = 0; c < 8; c++) fd[r][c] += fa[r][k] * fb[k][c];
		for (int l = 0; l < 32; l++) {
			Lane *t = (Lane *)v[l];
			int g = l / 4, q = l % 4;
			for (int i = 0; i < 4; i++) t->d[i] = fd[g + 8 * (i / 2)][2 * q + i % 2];
		}
	});
}

inline void warp_barrier() { emulator::collective(nullptr, [](void **) {}); }
// exchange gives each lane what f makes of the values of all, and of which it is.
template <class T, class F> T exchange(T v, F f) {
	struct Lane { T in, out; } mine{v, T()};
	struct Call { Lane *lane; F *f; } call{&mine, &f};
	emulator::collective(&call, [](void **v) {
		T in[32];
		for (int i = 0; i < 32; i++) in[i] = ((Call *)v[i])->lane->in;
		for (int i = 0; i < 32; i++) ((Call *)v[i])->lane->out = (*((Call *)v[i])->f)(in);
	});
	return mine.out;
}
template <class T> T from_lane(T v, int lane) { return exchange(v, [lane](const T *in) { return in[lane]; }); }
inline unsigned lanes_with(unsigned v) {
	return exchange(v, [v](const unsigned *in) {
		unsigned lanes = 0;
		for (int i = 0; i < 32; i++) lanes |= (unsigned)(in[i] == v) << i;
		return lanes;
	});
}
inline unsigned lanes_where(bool yes) {
	const unsigned lanes = lanes_with(yes);
	return yes ? lanes : ~lanes;
}
inline unsigned highest_of_lanes(unsigned v) { return exchange(v, [](const unsigned *in) { return *std::max_element(in, in + 32); }); }
inline unsigned lowest_of_lanes(unsigned v) { return exchange(v, [](const unsigned *in) { return *std::min_element(in, in + 32); }); }
inline int count_bits(unsigned v) { return __builtin_popcount(v); }
inline int lowest_bit(unsigned v) { return __builtin_ffs((int)v) - 1; }
inline int leading_zeros(unsigned v) { return __builtin_clz(v); }

inline uint4 load_once(const void *p) {
	uint4 v;
	memcpy(&v, p, 16);
	return v;
}

inline void copy_async(uint16_t *to, const uint16_t *from) { emulator::fibers[emulator::current].copies.push_back({to, from}); }
inline void copy_wait() {
	auto &copies = emulator::fibers[emulator::current].copies;
	for (auto &c : copies) memcpy(c.to, c.from, 16);
	copies.clear();
}

#endif
