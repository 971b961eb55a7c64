// A driver library for tests: two GPUs, of which the second is old. What it tells
// changes with each question, so that nothing depends on the clock.
#include <stdio.h>
#include <string.h>

static int started;
static int gpus[2];
static unsigned long long energy = 5000;

const char *nvmlErrorString(int code) { return code == 6 ? "Not Found" : "some error"; }
int nvmlInit_v2(void) { started = 1; return 0; }

int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **gpu) {
	if (!started) return 1;
	if (!strcmp(bus, "0000:65:00.0")) { *gpu = &gpus[0]; return 0; }
	if (!strcmp(bus, "0000:17:00.0")) { *gpu = &gpus[1]; return 0; }
	return 6;
}

int nvmlDeviceGetName(void *gpu, char *text, unsigned int size) {
	snprintf(text, size, gpu == &gpus[0] ? "New GPU" : "Old GPU");
	return 0;
}

int nvmlSystemGetDriverVersion(char *text, unsigned int size) { snprintf(text, size, "999.1"); return 0; }

int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *mj) {
	if (gpu == &gpus[1]) return 3;
	*mj = energy;
	energy += 2500;
	return 0;
}

int nvmlDeviceGetPowerUsage(void *gpu, unsigned int *mw) { *mw = gpu == &gpus[0] ? 300500 : 70000; return 0; }

struct rates { unsigned int gpu, memory; };
int nvmlDeviceGetUtilizationRates(void *gpu, struct rates *r) {
	if (gpu == &gpus[1]) return 3;
	r->gpu = 85;
	r->memory = 20;
	return 0;
}
