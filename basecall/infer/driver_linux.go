package infer

/*
#cgo LDFLAGS: -ldl

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

// What is used of CUDA's driver library, as its reference manual declares it. It is a part of
// the driver and is loaded when it is asked for, so that the program starts without it.
typedef struct {
	int (*init)(unsigned int);
	int (*version)(int *);
	int (*count)(int *);
	int (*get)(int *, int);
	int (*name)(char *, int, int);
	int (*attribute)(int *, int, int);
	int (*memory)(size_t *, int);
	int (*retain)(void **, int);
	int (*release)(int);
	int (*push)(void *);
	int (*pop)(void **);
	int (*alloc)(void **, size_t, unsigned int);
	int (*free_host)(void *);
} cuda_driver;

static int cuda_load(cuda_driver *d, const char *path, char *problem, size_t size) {
	void *c = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!c) {
		snprintf(problem, size, "%s", dlerror());
		return -1;
	}
	const struct { const char *name; void **to; } functions[] = {
		{"cuInit", (void **)&d->init}, {"cuDriverGetVersion", (void **)&d->version}, {"cuDeviceGetCount", (void **)&d->count},
		{"cuDeviceGet", (void **)&d->get}, {"cuDeviceGetName", (void **)&d->name}, {"cuDeviceGetAttribute", (void **)&d->attribute},
		{"cuDeviceTotalMem_v2", (void **)&d->memory}, {"cuDevicePrimaryCtxRetain", (void **)&d->retain},
		{"cuDevicePrimaryCtxRelease_v2", (void **)&d->release}, {"cuCtxPushCurrent_v2", (void **)&d->push},
		{"cuCtxPopCurrent_v2", (void **)&d->pop}, {"cuMemHostAlloc", (void **)&d->alloc}, {"cuMemFreeHost", (void **)&d->free_host},
	};
	for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
		*functions[i].to = dlsym(c, functions[i].name);
		if (!*functions[i].to) {
			snprintf(problem, size, "%s has no function %s", path, functions[i].name);
			return -1;
		}
	}
	return 0;
}

static int cuda_init(cuda_driver *d) { return d->init(0); }
static int cuda_version(cuda_driver *d, int *v) { return d->version(v); }
static int cuda_count(cuda_driver *d, int *n) { return d->count(n); }
static int cuda_about(cuda_driver *d, int index, char *name, int size, int *major, int *minor, size_t *memory) {
	int gpu = 0, code;
	if ((code = d->get(&gpu, index)) || (code = d->name(name, size, gpu)) || (code = d->attribute(major, 75, gpu)) ||
		(code = d->attribute(minor, 76, gpu))) return code;
	return d->memory(memory, gpu);
}

enum { portable = 1 }; // CU_MEMHOSTALLOC_PORTABLE: it is pinned for all of the process' contexts

// cuda_host gives memory that the GPU copies from and to by itself. The context is the one that CUDA's
// runtime uses, which is kept alive for as long as the memory.
static int cuda_host(cuda_driver *d, int index, size_t size, void **memory) {
	int gpu = 0, code;
	void *context = NULL, *popped;
	if ((code = d->get(&gpu, index)) || (code = d->retain(&context, gpu))) return code;
	if (!(code = d->push(context))) {
		code = d->alloc(memory, size, portable);
		d->pop(&popped);
	}
	if (code) d->release(gpu);
	return code;
}

static void cuda_host_free(cuda_driver *d, int index, void *memory) {
	int gpu = 0;
	void *context = NULL, *popped;
	if (d->get(&gpu, index) || d->retain(&context, gpu)) return;
	if (!d->push(context)) {
		d->free_host(memory);
		d->pop(&popped);
	}
	d->release(gpu);
	d->release(gpu); // since cuda_host
}
*/
import "C"

import (
	"errors"
	"fmt"
	"strings"
	"unsafe"
)

// driver is CUDA's.
type driver struct{ c C.cuda_driver }

// driverLibrary is the part of the driver that is used.
const driverLibrary = "libcuda.so.1"

// openDriver loads the driver's library. It stays loaded.
func openDriver(path string) (*driver, error) {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	var problem [512]C.char
	d := new(driver)
	if C.cuda_load(&d.c, name, &problem[0], C.size_t(len(problem))) != 0 {
		return nil, errors.New(C.GoString(&problem[0]))
	}
	if code := C.cuda_init(&d.c); code != 0 {
		return nil, fmt.Errorf("CUDA's driver doesn't start: %w", driverCode(code))
	}
	return d, nil
}

// driverCode is what CUDA's driver says is wrong.
func driverCode(code C.int) error {
	if words, known := map[C.int]string{
		2: "out of memory", 100: "no GPU that CUDA can use", 101: "no such GPU", 803: "libcuda and the kernel's driver are of different versions",
		802: "the system is not ready", 999: "unknown error",
	}[code]; known {
		return fmt.Errorf("error %d, %s", code, words)
	}
	return fmt.Errorf("error %d", code)
}

// cudaVersion is the newest version of CUDA that the driver is for, 1000 times the major
// plus 10 times the minor number.
func (d *driver) cudaVersion() int {
	var v C.int
	if C.cuda_version(&d.c, &v) != 0 {
		return 0
	}
	return int(v)
}

// gpus returns how many there are.
func (d *driver) gpus() int {
	var n C.int
	if C.cuda_count(&d.c, &n) != 0 {
		return 0
	}
	return int(n)
}

// about describes a GPU.
func (d *driver) about(index int) (GPU, error) {
	var name [128]C.char
	var major, minor C.int
	var memory C.size_t
	if code := C.cuda_about(&d.c, C.int(index), &name[0], C.int(len(name)), &major, &minor, &memory); code != 0 {
		return GPU{}, driverCode(code)
	}
	return GPU{Name: strings.TrimSpace(C.GoString(&name[0])), Capability: fmt.Sprintf("%d.%d", major, minor), Memory: int64(memory)}, nil
}

// pinned returns host memory of so many bytes, which are 0, that a GPU copies from and to by itself.
func (d *driver) pinned(index, size int) (*hostMemory, error) {
	var memory unsafe.Pointer
	if code := C.cuda_host(&d.c, C.int(index), C.size_t(max(1, size)), &memory); code != 0 {
		return nil, fmt.Errorf("pinning %d bytes: %w", size, driverCode(code))
	}
	data := unsafe.Slice((*byte)(memory), size)
	clear(data)
	return &hostMemory{data: data, free: func() { C.cuda_host_free(&d.c, C.int(index), memory) }}, nil
}
