package minimap_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/porestream/porestream/align/minimap"
)

// TestPoolMapsAsAnAligner: whatever the number of threads and of callers, each read gets what an aligner says of it,
// short and long ones, those that are nowhere and those that can't be aligned.
func TestPoolMapsAsAnAligner(t *testing.T) {
	g := random(t, 200_000)
	x := index(t, g, minimap.Config{})
	rnd := rand.New(rand.NewPCG(5, 6))
	reads := []read{{"empty", nil}, {"short", []byte("ACGTAC")}, {"nowhere", []byte(strings.Repeat("A", 500))}, {"", g.Contigs[0].Seq[100:900]}}
	for i := range 200 {
		n := 300 + rnd.IntN(3000)
		if i%40 == 0 {
			n = 60_000
		}
		at := rnd.IntN(200_000 - n)
		seq := append([]byte(nil), g.Contigs[0].Seq[at:at+n]...)
		for range n / 20 {
			seq[rnd.IntN(n)] = "ACGT"[rnd.IntN(4)]
		}
		reads = append(reads, read{fmt.Sprint("read", i), seq})
	}
	aligner := x.NewAligner()
	defer aligner.Close()
	for _, tc := range []struct{ threads, callers int }{{1, 1}, {1, 16}, {3, 2}, {4, 32}} {
		t.Run(fmt.Sprintf("%d threads, %d callers", tc.threads, tc.callers), func(t *testing.T) {
			p, err := x.NewPool(tc.threads)
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			for caller := range tc.callers {
				wg.Go(func() {
					for i := caller; i < len(reads); i += tc.callers {
						got, err := p.Map(reads[i].name, reads[i].seq)
						want, wantErr := aligner.Map(reads[i].name, reads[i].seq)
						if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
							t.Errorf("read %q: %v, %v; an aligner says %v, %v", reads[i].name, got, err, want, wantErr)
						}
					}
				})
			}
			wg.Wait()
			for range 2 {
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
			if _, err := p.Map("r", []byte("ACGT")); !errors.Is(err, minimap.ErrClosed) {
				t.Errorf("mapping with a closed pool: %v", err)
			}
		})
	}
}

// TestPoolClosesBehindItsReads: closing waits for the reads that are being aligned, and there are some all the time.
func TestPoolClosesBehindItsReads(t *testing.T) {
	g := random(t, 50_000)
	x := index(t, g, minimap.Config{})
	p, err := x.NewPool(2)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	aligned := make(chan struct{}, 1)
	for i := range 8 {
		wg.Go(func() {
			for {
				alignments, err := p.Map("r", g.Contigs[0].Seq[100*i:100*i+2000])
				select {
				case aligned <- struct{}{}:
				default:
				}
				if errors.Is(err, minimap.ErrClosed) {
					return
				}
				if err != nil || len(alignments) != 1 {
					t.Errorf("read %d: %v, %v", i, alignments, err)
					return
				}
			}
		})
	}
	<-aligned
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := x.Close(); err != nil {
		t.Error(err)
	}
	if _, err := x.NewPool(1); !errors.Is(err, minimap.ErrClosed) {
		t.Errorf("a pool of a closed index: %v", err)
	}
}

// TestPoolThreadsReportTheirFaults: a pool's threads leave signals to Go's, but for those of their own faults, which would end
// the process without a word if they were blocked.
func TestPoolThreadsReportTheirFaults(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc")
	}
	x := index(t, random(t, 10_000), minimap.Config{})
	p, err := x.NewPool(3)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	// The C library has all signals blocked in a thread that is starting, until it runs what it is started for.
	found, starting := blockedSignals(t)
	for range 10_000 {
		if starting == 0 {
			break
		}
		runtime.Gosched()
		found, starting = blockedSignals(t)
	}
	if found != 3 {
		t.Errorf("%d threads have SIGTERM blocked and SIGSEGV not, of a pool of 3, and %d have both", found, starting)
	}
}

// blockedSignals counts this process' threads that have Go's signals blocked: those that still get the signals of their own faults,
// and those that don't.
func blockedSignals(t *testing.T) (reporting, silent int) {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range threads {
		status, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(status), "\nSigBlk:\t")
		mask, _, _ := strings.Cut(rest, "\n")
		blocked, err := strconv.ParseUint(mask, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		has := func(sig syscall.Signal) bool { return blocked>>(sig-1)&1 != 0 }
		switch {
		case !has(syscall.SIGTERM) || !has(syscall.SIGURG):
		case has(syscall.SIGSEGV) || has(syscall.SIGBUS) || has(syscall.SIGABRT):
			silent++
		default:
			reporting++
		}
	}
	return reporting, silent
}
