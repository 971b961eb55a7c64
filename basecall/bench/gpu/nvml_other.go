//go:build !linux

package gpu

import "errors"

// Driver is NVIDIA's, which this system has none of.
type Driver struct{}

// Open says that there are no counters here.
func Open([]int) (*Driver, error) {
	return nil, errors.New("counters of GPUs can be read on Linux only")
}

// Counters returns none.
func (*Driver) Counters() []Counters { return nil }

// Description is empty.
func (*Driver) Description() Description { return Description{} }
