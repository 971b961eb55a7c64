package infer

import (
	"log/slog"
	"sync"
	"unsafe"
)

// hostMemory is what the ends of a network lie in.
type hostMemory struct {
	data []byte
	free func() // nil: the garbage collector does
}

// allocator gives memory of so many bytes, which are 0, at places where numbers may lie.
type allocator func(size int) *hostMemory

// plainMemory is an allocator of the process' own memory.
func plainMemory(size int) *hostMemory {
	words := make([]uint64, size/8+1)
	return &hostMemory{data: unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), size)}
}

// hostMemoryFor returns an allocator for what a device copies from and to. A GPU copies by itself, and
// several times as fast, where its driver has pinned the memory; where it can't, it is plain memory.
func hostMemoryFor(device Device, library string, logger *slog.Logger) allocator {
	if !device.CUDA {
		return plainMemory
	}
	var once sync.Once
	plain := func(size int, err error) *hostMemory {
		once.Do(func() {
			logger.Warn("host memory can't be pinned for the device: copies from and to it are several times slower",
				slog.String("device", device.String()), slog.String("error", err.Error()))
		})
		return plainMemory(size)
	}
	d, err := openDriver(library)
	return func(size int) *hostMemory {
		if err != nil {
			return plain(size, err)
		}
		m, err := d.pinned(device.Index, size)
		if err != nil {
			return plain(size, err)
		}
		return m
	}
}

// pinned says that the driver has pinned the memory.
func (m *hostMemory) pinned() bool { return m.free != nil }

// view returns memory as numbers.
func view[T any](m *hostMemory) []T {
	var one T
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(m.data))), len(m.data)/int(unsafe.Sizeof(one)))
}

func (m *hostMemory) floats() []float32 { return view[float32](m) }
func (m *hostMemory) halves() []uint16  { return view[uint16](m) }
func (m *hostMemory) int32s() []int32   { return view[int32](m) }
func (m *hostMemory) int8s() []int8     { return view[int8](m) }

// release gives the memory back; of nil there is none.
func (m *hostMemory) release() {
	if m == nil {
		return
	}
	if m.free != nil {
		m.free()
	}
	m.data, m.free = nil, nil
}
