package ingest

import (
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porestream/porestream/ingest/spool"
)

func logger(t *testing.T) *slog.Logger {
	return slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func TestAlarm(t *testing.T) {
	var out strings.Builder
	quota := spool.NewQuota(10_000)
	a := &spoolAlarm{quota: quota, log: slog.New(slog.NewTextHandler(&out, nil))}
	log, _, err := spool.Open(filepath.Join(t.TempDir(), "x"), spool.Options{Quota: quota, SegmentBytes: 1})
	if err != nil {
		t.Fatal(err)
	}
	next := uint64(0)
	said := func(what string, lines int, share string) {
		t.Helper()
		if n := strings.Count(out.String(), "\n"); n != lines || lines > 0 && !strings.Contains(out.String(), share) {
			t.Errorf("%s: %d messages, want %d with %q: %s", what, n, lines, share, out.String())
		}
		out.Reset()
	}
	grow := func(n int) {
		for range n {
			a.spooled(log.Append(next, [][]byte{make([]byte, 1000-headerOverhead)}))
			next++
		}
	}
	grow(4)
	said("40 %", 0, "")
	grow(2)
	said("60 %", 1, "percent=50")
	grow(1)
	said("70 %", 0, "")
	grow(1)
	said("80 %", 1, "percent=80")
	if err := log.TrimBefore(1); err != nil {
		t.Fatal(err)
	}
	grow(1)
	said("to and fro", 0, "")
	grow(2)
	said("full", 1, "percent=100")
	grow(1)
	said("refused", 1, "the spool takes nothing")
	grow(3)
	said("refused again", 0, "")
	if err := log.TrimBefore(next); err != nil {
		t.Fatal(err)
	}
	if err := log.TrimBefore(3); err != nil {
		t.Fatal(err)
	}
	log.Close()
}

// headerOverhead is what a segment with one record takes besides the payload.
const headerOverhead = 36
