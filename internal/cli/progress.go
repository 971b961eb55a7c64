package cli

import (
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

// ShowProgress keeps a line with rate, fraction and time left on a terminal
// until the returned function is called, which may happen more than once. get
// returns what is done and what there is; total 0 means not known yet. Where w is
// no terminal it shows nothing.
func ShowProgress(w *os.File, unit string, get func() (done, total int64)) (stop func()) {
	if !term.IsTerminal(int(w.Fd())) {
		return func() {}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		ticker := time.NewTicker(500 * time.Millisecond)
		defer ticker.Stop()
		begun := time.Now()
		for {
			select {
			case <-quit:
				fmt.Fprint(w, "\r\x1b[K")
				return
			case now := <-ticker.C:
				done, total := get()
				if done == 0 || total == 0 {
					begun = now
					continue
				}
				fmt.Fprint(w, "\r\x1b[K"+progressLine(unit, done, total, now.Sub(begun)))
			}
		}
	}()
	var once sync.Once
	return func() {
		once.Do(func() { close(quit); <-gone })
	}
}

// progressLine is what is known after elapsed.
func progressLine(unit string, done, total int64, elapsed time.Duration) string {
	total = max(total, done) // what is done twice counts twice
	line := fmt.Sprintf("%5.1f %%  %s of %s %s", 100*float64(done)/float64(total), SI(done), SI(total), unit)
	if seconds := elapsed.Seconds(); seconds > 0 {
		rate := float64(done) / seconds
		left := time.Duration(float64(total-done) / rate * float64(time.Second)).Round(time.Second)
		line += fmt.Sprintf("  %s/s  %v left", SI(int64(rate)), left)
	}
	return line
}

// SI shortens a count: 16.4 M.
func SI(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprint(n)
}
