package infer

/*
#include <signal.h>
#include <stdlib.h>
*/
import "C"
import "unsafe"

// signalHandlers is what the kernel does on each signal, as sigaction(2) reports it. It lies in C's memory: where a kernel
// leaves sa_restorer unset, as on arm64 one may, the field holds whatever was there, and cgo refuses Go's memory in which a
// pointer seems to be Go's.
type signalHandlers [65]C.struct_sigaction

// saveSignalHandlers records the handlers of all signals.
//
// CUDA's provider installs handlers of its own when it is loaded, without
// SA_ONSTACK. A signal that then reaches a Go thread runs its handler on a
// goroutine's stack and the runtime aborts. So the code that loads it saves the
// handlers before and restores them after.
func saveSignalHandlers() *signalHandlers {
	h := (*signalHandlers)(C.calloc(1, C.size_t(unsafe.Sizeof(signalHandlers{}))))
	for sig := 1; sig < len(h); sig++ {
		C.sigaction(C.int(sig), nil, &h[sig])
	}
	return h
}

// restore puts the recorded handlers back, once, as it frees them. SIGKILL, SIGSTOP and the C library's
// own signals refuse to be set, which is as it should be.
func (h *signalHandlers) restore() {
	for sig := 1; sig < len(h); sig++ {
		C.sigaction(C.int(sig), &h[sig], nil)
	}
	C.free(unsafe.Pointer(h))
}
