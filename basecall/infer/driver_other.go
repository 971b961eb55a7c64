//go:build !linux

package infer

import "errors"

// driver is CUDA's, which is used on Linux only.
type driver struct{}

const driverLibrary = ""

func openDriver(string) (*driver, error) { return nil, errors.New("GPUs are used on Linux only") }

func (*driver) cudaVersion() int                     { return 0 }
func (*driver) gpus() int                            { return 0 }
func (*driver) about(int) (GPU, error)               { return GPU{}, errors.ErrUnsupported }
func (*driver) pinned(int, int) (*hostMemory, error) { return nil, errors.ErrUnsupported }
