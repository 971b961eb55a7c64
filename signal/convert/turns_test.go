package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"
)

// TestInOrder has tasks that take turns in an order of their own.
func TestInOrder(t *testing.T) {
	for _, n := range []int{0, 1, 2, 100} {
		var got []int
		err := inOrder(t.Context(), n, func(g, i int, turn func() bool) error {
			if g < 0 || g >= workers(n) {
				t.Errorf("goroutine %d", g)
			}
			for range i % 7 {
				runtime.Gosched()
			}
			if turn() {
				got = append(got, i) // the race detector sees it if two do
			}
			return nil
		})
		want := make([]int, n)
		for i := range want {
			want[i] = i
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%d tasks: %v, %v", n, got, err)
		}
	}
}

// TestInOrderEnds ends with the first error by number, whichever is found first, also
// when a task fails before its turn, and none behind it is done.
func TestInOrderEnds(t *testing.T) {
	for _, before := range []bool{true, false} {
		done := 0
		err := inOrder(t.Context(), 1000, func(_, i int, turn func() bool) error {
			bad := i == 17 || i == 18 || i > 500
			if bad && before {
				return fmt.Errorf("task %d", i)
			}
			if !turn() {
				return nil
			}
			if bad {
				return fmt.Errorf("task %d", i)
			}
			done++
			return nil
		})
		if err == nil || err.Error() != "task 17" || done != 17 {
			t.Errorf("%v after %d tasks", err, done)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := 0
	err := inOrder(ctx, 1000, func(_, i int, turn func() bool) error {
		if i == 9 {
			cancel()
		}
		if turn() {
			done++
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) || done < 9 || done > 9+workers(1000) {
		t.Errorf("cancelled: %v after %d tasks", err, done)
	}
}

// TestAnyNumberOfProcessors writes the same file whatever the number of goroutines.
func TestAnyNumberOfProcessors(t *testing.T) {
	in := []string{invented(t, 700), fixtures + "three_vbz.fast5"}
	dir := t.TempDir()
	var want []byte
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, n := range []int{1, 2, 8} {
		runtime.GOMAXPROCS(n)
		run(t, in, dir+"/x.blow5", Options{Force: true})
		b, err := os.ReadFile(dir + "/x.blow5")
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = b
		}
		if !slices.Equal(b, want) {
			t.Errorf("with %d processors the file differs", n)
		}
	}
}
