package pod5

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestRowsFromManyGoroutines takes rows of all batches of the signal table in any order,
// from several goroutines at once.
func TestRowsFromManyGoroutines(t *testing.T) {
	r, err := Open("../../testdata/lambda/reads.pod5")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var reads []Read
	var want [][]int16
	batches := make(map[uint64]bool)
	for i := range r.Batches() {
		all, err := r.Batch(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, rd := range all {
			if rd.Samples > 15_000 {
				continue
			}
			samples, err := r.Samples(&rd, nil)
			if err != nil {
				t.Fatal(err)
			}
			reads, want = append(reads, rd), append(want, samples)
			for _, row := range rd.Rows {
				batches[row/r.signal.batchRows] = true
			}
		}
	}
	if len(batches) < 2 {
		t.Fatalf("reads of %d batches", len(batches))
	}
	var group sync.WaitGroup
	for g := range 8 {
		group.Go(func() {
			var buf []int16
			for _, i := range rand.New(rand.NewPCG(uint64(g), 0)).Perm(len(reads)) {
				var err error
				if buf, err = r.Samples(&reads[i], buf[:0]); err != nil || !slices.Equal(buf, want[i]) {
					t.Errorf("read %x: %d samples, %v", reads[i].ID, len(buf), err)
				}
			}
		})
	}
	group.Wait()
}
