// What layers have in common whose rows lie in a block's shared memory and whose weights stream by: a warp has 32 of
// the columns at a time, which are weights of its own, and of each of the block's rows.
//
// Factors are half floats and sums are floats, in the order of the factors, whatever the number of rows and of blocks.
#pragma once
#include "gpu.h"
#include "linear.h"

namespace {

// add_products adds to d, which are sums of 32 columns of TILES x 16 rows, the products of so many steps of 16 factors. The weights are
// packed as the tensor cores take them (kernels.Linear), those of this lane first; factors gives the place of the row that this lane loads
// of a tile and step. AHEAD steps are on their way.
template <int AHEAD, int TILES, class FACTORS>
DEVICE void add_products(float (&d)[4][TILES][4], const uint16_t *weights, int steps, FACTORS factors) {
	uint4 b[AHEAD][2];
#pragma unroll
	for (int k = 0; k < AHEAD; k++)
		if (k < steps) {
			b[k][0] = load_once(weights + k * 512);
			b[k][1] = load_once(weights + k * 512 + 256);
		}
#pragma unroll 1
	for (int k0 = 0; k0 < steps; k0 += AHEAD) {
#pragma unroll
		for (int j = 0; j < AHEAD; j++) {
			const int k = k0 + j;
			if (k >= steps) break;
			const uint4 e = b[j][0], f = b[j][1];
			if (k + AHEAD < steps) {
				b[j][0] = load_once(weights + (size_t)(k + AHEAD) * 512);
				b[j][1] = load_once(weights + (size_t)(k + AHEAD) * 512 + 256);
			}
#pragma unroll
			for (int m = 0; m < TILES; m++) {
				uint32_t a[4];
				load_matrix4(a, factors(m, k));
				multiply_add(d[0][m], a, e.x, e.y);
				multiply_add(d[1][m], a, e.z, e.w);
				multiply_add(d[2][m], a, f.x, f.y);
				multiply_add(d[3][m], a, f.z, f.w);
			}
		}
	}
}

// begin_sums has the sums begin with the biases of the eight columns that this lane has.
template <int TILES> DEVICE void begin_sums(float (&d)[4][TILES][4], const float *bias) {
#pragma unroll
	for (int j = 0; j < 4; j++) {
		const float b0 = bias[2 * j], b1 = bias[2 * j + 1];
#pragma unroll
		for (int m = 0; m < TILES; m++) {
			d[j][m][0] = d[j][m][2] = b0;
			d[j][m][1] = d[j][m][3] = b1;
		}
	}
}

// eight_of are the half floats that this lane has of a row: that in its group of four lanes, or the eighth after it.
template <int TILES> DEVICE uint4 eight_of(const float (&d)[4][TILES][4], int m, int after, const Activation &f) {
	float v[8];
#pragma unroll
	for (int i = 0; i < 8; i++) v[i] = d[i / 2][m][2 * after + i % 2];
	switch (f.kind) {
	case Activation::tanh:
#pragma unroll
		for (int i = 0; i < 8; i++) v[i] = f.scale * hyperbolic_tangent(v[i]);
		break;
	case Activation::clamp:
#pragma unroll
		for (int i = 0; i < 8; i++) v[i] = v[i] < f.low ? f.low : v[i] > f.high ? f.high : v[i];
		break;
	case Activation::silu:
#pragma unroll
		for (int i = 0; i < 8; i++) v[i] *= sigmoid(v[i]);
		break;
	default:;
	}
	uint32_t both[4];
#pragma unroll
	for (int j = 0; j < 4; j++) both[j] = to_half(v[2 * j]) | (uint32_t)to_half(v[2 * j + 1]) << 16;
	return uint4{both[0], both[1], both[2], both[3]};
}

#ifdef __CUDACC__

// launch_linear queues a kernel for a call as planned.
template <class CALL> const char *launch_linear(void (*kernel)(const CALL), const LinearPlan &plan, const CALL &call, void *stream) {
	cudaError_t err = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)plan.shared);
	if (err != cudaSuccess) return cudaGetErrorString(err);
	kernel<<<plan.blocks, linear_threads, plan.shared, (cudaStream_t)stream>>>(call);
	err = cudaGetLastError();
	return err == cudaSuccess ? nullptr : cudaGetErrorString(err);
}

#endif

} // namespace
