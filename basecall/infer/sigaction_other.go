//go:build !linux

package infer

// signalHandlers is empty where there is no CUDA.
type signalHandlers struct{}

func saveSignalHandlers() *signalHandlers { return nil }

func (*signalHandlers) restore() {}
