package cli

import (
	"fmt"
	"strconv"
	"strings"
)

// Bytes is a flag for a number of bytes: 1048576, 64MiB, 10GB.
type Bytes int64

// byteUnits are the units of [Bytes], those with the longest names first.
var byteUnits = []struct {
	name string
	size int64
}{
	{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
	{"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1}, {"", 1},
}

// Set parses a flag's value.
func (b *Bytes) Set(s string) error {
	for _, u := range byteUnits {
		digits, ok := strings.CutSuffix(s, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n <= 0 || n > (1<<62)/u.size {
			break
		}
		*b = Bytes(n * u.size)
		return nil
	}
	return fmt.Errorf("%q is no size: want a whole number from 1 on, with KiB, MiB, GiB, TiB, KB, MB, GB, TB or nothing behind it", s)
}

// String is the size in the largest binary unit that divides it.
func (b *Bytes) String() string {
	for _, u := range []int{3, 2, 1, 0} {
		if unit := byteUnits[u]; *b != 0 && int64(*b)%unit.size == 0 {
			return fmt.Sprint(int64(*b)/unit.size, unit.name)
		}
	}
	return fmt.Sprint(int64(*b))
}

// Type is what help says of the flag.
func (*Bytes) Type() string { return "size" }
