// Stands in for CUDA's driver library in tests: two GPUs, and host memory in blocks
// of a MiB at most.
#include <stdlib.h>
#include <string.h>

static int contexts, pushed, blocks;

int cuInit(unsigned int flags) { return flags ? 1 : getenv("PORESTREAM_STANDIN_NO_GPU") ? 100 : 0; }
int cuDriverGetVersion(int *version) { *version = 13020; return 0; }
int cuDeviceGetCount(int *count) { *count = 2; return 0; }
int cuDeviceGet(int *gpu, int index) {
	if (index < 0 || index > 1) return 101;
	*gpu = 70 + index;
	return 0;
}
int cuDeviceGetName(char *name, int size, int gpu) {
	strncpy(name, gpu == 70 ? "Stand-in A" : "Stand-in B", size);
	return 0;
}
int cuDeviceGetAttribute(int *value, int attribute, int gpu) {
	*value = attribute == 75 ? (gpu == 70 ? 9 : 6) : attribute == 76 ? (gpu == 70 ? 0 : 1) : -1;
	return 0;
}
// What is held counts off GPU 0's memory: contexts, those that are current, and blocks.
int cuDeviceTotalMem_v2(size_t *memory, int gpu) {
	*memory = gpu == 70 ? ((size_t)1 << 34) - (contexts * 10000 + pushed * 100 + blocks) : (size_t)1 << 33;
	return 0;
}
int cuDevicePrimaryCtxRetain(void **context, int gpu) { contexts++; *context = gpu == 70 ? &contexts : &pushed; return 0; }
int cuDevicePrimaryCtxRelease_v2(int gpu) { contexts--; return 0; }
int cuCtxPushCurrent_v2(void *context) { pushed++; return 0; }
int cuCtxPopCurrent_v2(void **context) { pushed--; return 0; }
int cuMemHostAlloc(void **memory, size_t size, unsigned int flags) {
	if (flags != 1 || pushed != 1) return 201;
	if (size > 1 << 20) return 2;
	if (!(*memory = malloc(size))) return 2;
	memset(*memory, 0xff, size);
	blocks++;
	return 0;
}
int cuMemFreeHost(void *memory) {
	if (pushed != 1) return 201;
	free(memory);
	blocks--;
	return 0;
}
