package annotate

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

func TestAppendNumber(t *testing.T) {
	numbers := []int{0, math.MinInt, math.MinInt + 1, math.MaxInt}
	for power := 1; power <= 1_000_000_000_000; power *= 10 {
		numbers = append(numbers, power-1, power, power+1, 1-power, -power, -1-power)
	}
	rng := rand.New(rand.NewPCG(4, 8))
	for range 10_000 {
		numbers = append(numbers, rng.IntN(1<<(1+rng.IntN(40)))-rng.IntN(1000))
	}
	for _, n := range numbers {
		for _, room := range []int{0, 1, 9, 64} {
			b := append(make([]byte, 0, 1+room), 'c')
			if got, want := string(appendNumber(b, n)), "c"+strconv.Itoa(n); got != want {
				t.Fatalf("%d is written %s", n, got)
			}
		}
	}
}

func BenchmarkAppendNumber(b *testing.B) {
	numbers := []int{7, 42, 146, 1999, 23_403, 117_559_590}
	buf := make([]byte, 0, 64)
	for name, write := range map[string]func([]byte, int) []byte{
		"here": appendNumber, "strconv": func(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) },
	} {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				buf = write(buf[:0], numbers[i%len(numbers)])
			}
		})
	}
}
