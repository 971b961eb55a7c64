// CUDA's side of the driver for tests. It counts its GPUs in an order of its own.
#include <stdio.h>

static int started;
int cuInit(unsigned int flags) { started = flags == 0; return 0; }
int cuDriverGetVersion(int *version) { *version = 13020; return 0; }

int cuDeviceGet(int *device, int index) {
	if (!started) return 3;
	if (index < 0 || index > 2) return 101;
	*device = 40 + index;
	return 0;
}

int cuDeviceGetPCIBusId(char *text, int size, int device) {
	static const char *addresses[] = {"0000:65:00.0", "0000:17:00.0", "0000:99:00.0"};
	snprintf(text, size, "%s", addresses[device - 40]);
	return 0;
}
