package infer

/*
#include <signal.h>
#include <stddef.h>
*/
import "C"

// signalHandlers is what the kernel does on each signal, as sigaction(2) reports it.
type signalHandlers [65]C.struct_sigaction

// saveSignalHandlers records the handlers of all signals.
//
// CUDA's provider installs handlers of its own when it is loaded, without
// SA_ONSTACK. A signal that then reaches a Go thread runs its handler on a
// goroutine's stack and the runtime aborts. So the code that loads it saves the
// handlers before and restores them after.
func saveSignalHandlers() *signalHandlers {
	h := new(signalHandlers)
	for sig := 1; sig < len(h); sig++ {
		C.sigaction(C.int(sig), nil, &h[sig])
	}
	return h
}

// restore puts the recorded handlers back. SIGKILL, SIGSTOP and the C library's
// own signals refuse to be set, which is as it should be.
func (h *signalHandlers) restore() {
	for sig := 1; sig < len(h); sig++ {
		C.sigaction(C.int(sig), &h[sig], nil)
	}
}
