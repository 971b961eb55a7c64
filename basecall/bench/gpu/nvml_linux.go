//go:build linux

package gpu

/*
#cgo LDFLAGS: -ldl

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// What is used of NVIDIA's management library (NVML) and of CUDA's driver library,
// as their reference manuals declare it. Both are a part of the driver and are loaded
// when they are asked for, so that the program starts without them.
typedef struct { unsigned int gpu, memory; } utilisation;

typedef struct {
	const char *(*nvml_text)(int);
	int (*nvml_init)(void);
	int (*nvml_handle)(const char *, void **);
	int (*nvml_name)(void *, char *, unsigned int);
	int (*nvml_version)(char *, unsigned int);
	int (*nvml_energy)(void *, unsigned long long *);
	int (*nvml_power)(void *, unsigned int *);
	int (*nvml_utilisation)(void *, utilisation *);
	int (*cuda_init)(unsigned int);
	int (*cuda_device)(int *, int);
	int (*cuda_bus)(char *, int, int);
	int (*cuda_version)(int *);
} driver;

static void *load(const char *path, char *problem, size_t size) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) snprintf(problem, size, "%s", dlerror());
	return library;
}

// load_driver fills d. Functions that a library doesn't have are NULL.
static int load_driver(driver *d, const char *nvml, const char *cuda, char *problem, size_t size) {
	void *n = load(nvml, problem, size);
	void *c = n ? load(cuda, problem, size) : NULL;
	if (!c) return -1;
	*(void **)&d->nvml_text = dlsym(n, "nvmlErrorString");
	*(void **)&d->nvml_init = dlsym(n, "nvmlInit_v2");
	*(void **)&d->nvml_handle = dlsym(n, "nvmlDeviceGetHandleByPciBusId_v2");
	*(void **)&d->nvml_name = dlsym(n, "nvmlDeviceGetName");
	*(void **)&d->nvml_version = dlsym(n, "nvmlSystemGetDriverVersion");
	*(void **)&d->nvml_energy = dlsym(n, "nvmlDeviceGetTotalEnergyConsumption");
	*(void **)&d->nvml_power = dlsym(n, "nvmlDeviceGetPowerUsage");
	*(void **)&d->nvml_utilisation = dlsym(n, "nvmlDeviceGetUtilizationRates");
	*(void **)&d->cuda_init = dlsym(c, "cuInit");
	*(void **)&d->cuda_device = dlsym(c, "cuDeviceGet");
	*(void **)&d->cuda_bus = dlsym(c, "cuDeviceGetPCIBusId");
	*(void **)&d->cuda_version = dlsym(c, "cuDriverGetVersion");
	return 0;
}

// unsupported is NVML_ERROR_NOT_SUPPORTED.
enum { unsupported = 3 };

static const char *nvml_text(driver *d, int code) { return d->nvml_text ? d->nvml_text(code) : "unknown error"; }
static int nvml_init(driver *d) { return d->nvml_init ? d->nvml_init() : unsupported; }
static int nvml_handle(driver *d, const char *bus, void **gpu) { return d->nvml_handle ? d->nvml_handle(bus, gpu) : unsupported; }
static int nvml_name(driver *d, void *gpu, char *text, unsigned int size) { return d->nvml_name ? d->nvml_name(gpu, text, size) : unsupported; }
static int nvml_version(driver *d, char *text, unsigned int size) { return d->nvml_version ? d->nvml_version(text, size) : unsupported; }
static int nvml_energy(driver *d, void *gpu, unsigned long long *mj) { return d->nvml_energy ? d->nvml_energy(gpu, mj) : unsupported; }
static int nvml_power(driver *d, void *gpu, unsigned int *mw) { return d->nvml_power ? d->nvml_power(gpu, mw) : unsupported; }
static int nvml_utilisation(driver *d, void *gpu, utilisation *u) { return d->nvml_utilisation ? d->nvml_utilisation(gpu, u) : unsupported; }

// cuda_bus gives the PCI address of the GPU that CUDA counts as index.
static int cuda_bus(driver *d, int index, char *text, int size) {
	int device = 0, code;
	if (!d->cuda_init || !d->cuda_device || !d->cuda_bus) return -1;
	if ((code = d->cuda_init(0))) return code;
	if ((code = d->cuda_device(&device, index))) return code;
	return d->cuda_bus(text, size, device);
}

static int cuda_version(driver *d, int *version) { return d->cuda_version ? d->cuda_version(version) : -1; }
*/
import "C"

import (
	"errors"
	"fmt"
	"unsafe"
)

// Driver is NVIDIA's, with the GPUs that were asked for.
type Driver struct {
	driver *C.driver
	gpus   []*nvidia
}

// Open finds the GPUs that CUDA counts as the given indexes. They are found by
// their PCI address, since the driver counts them in another order than CUDA, which
// heeds CUDA_VISIBLE_DEVICES besides. Nothing needs to be closed.
func Open(indexes []int) (*Driver, error) {
	return open("libnvidia-ml.so.1", "libcuda.so.1", indexes)
}

func open(nvml, cuda string, indexes []int) (*Driver, error) {
	const textSize = 512
	nvmlPath, cudaPath, text := C.CString(nvml), C.CString(cuda), (*C.char)(C.calloc(1, textSize))
	defer C.free(unsafe.Pointer(nvmlPath))
	defer C.free(unsafe.Pointer(cudaPath))
	defer C.free(unsafe.Pointer(text))
	d := &Driver{driver: (*C.driver)(C.calloc(1, C.sizeof_driver))} // as the libraries, for as long as the process lives
	if C.load_driver(d.driver, nvmlPath, cudaPath, text, textSize) != 0 {
		return nil, fmt.Errorf("loading NVIDIA's driver libraries: %s", C.GoString(text))
	}
	if err := d.check(C.nvml_init(d.driver)); err != nil {
		return nil, fmt.Errorf("starting %s: %w", nvml, err)
	}
	for _, index := range indexes {
		if code := C.cuda_bus(d.driver, C.int(index), text, textSize); code != 0 {
			return nil, fmt.Errorf("finding the PCI address of GPU %d: error %d of CUDA's driver", index, int(code))
		}
		gpu := &nvidia{d: d}
		if err := d.check(C.nvml_handle(d.driver, text, &gpu.handle)); err != nil {
			return nil, fmt.Errorf("finding GPU %d at %s: %w", index, C.GoString(text), err)
		}
		if err := d.check(C.nvml_name(d.driver, gpu.handle, text, textSize)); err == nil {
			gpu.name = C.GoString(text)
		}
		d.gpus = append(d.gpus, gpu)
	}
	return d, nil
}

// Counters returns those of the GPUs, in the order in which they were asked for.
func (d *Driver) Counters() []Counters {
	var all []Counters
	for _, g := range d.gpus {
		all = append(all, g)
	}
	return all
}

// Description names the GPUs and the driver.
func (d *Driver) Description() Description {
	var about Description
	for _, g := range d.gpus {
		about.GPUs = append(about.GPUs, g.name)
	}
	var text [128]C.char
	if d.check(C.nvml_version(d.driver, &text[0], C.uint(len(text)))) == nil {
		about.Driver = C.GoString(&text[0])
	}
	var version C.int
	if C.cuda_version(d.driver, &version) == 0 { // 12040 is 12.4
		about.CUDA = fmt.Sprintf("%d.%d", int(version)/1000, int(version)%1000/10)
	}
	return about
}

// check returns the error that a code of NVML stands for.
func (d *Driver) check(code C.int) error {
	switch code {
	case 0:
		return nil
	case C.unsupported:
		return ErrUnsupported
	default:
		return errors.New(C.GoString(C.nvml_text(d.driver, code)))
	}
}

// nvidia is one GPU.
type nvidia struct {
	d      *Driver
	handle unsafe.Pointer
	name   string
}

// Energy implements Counters. GPUs have the counter since Volta.
func (g *nvidia) Energy() (float64, error) {
	var millijoules C.ulonglong
	err := g.d.check(C.nvml_energy(g.d.driver, g.handle, &millijoules))
	return float64(millijoules) / 1000, err
}

// Power implements Counters.
func (g *nvidia) Power() (float64, error) {
	var milliwatts C.uint
	err := g.d.check(C.nvml_power(g.d.driver, g.handle, &milliwatts))
	return float64(milliwatts) / 1000, err
}

// Utilisation implements Counters. A GPU in parts (MIG) reports none.
func (g *nvidia) Utilisation() (float64, error) {
	var u C.utilisation
	err := g.d.check(C.nvml_utilisation(g.d.driver, g.handle, &u))
	return float64(u.gpu) / 100, err
}
