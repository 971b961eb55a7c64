package spool

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

func open(t testing.TB, dir string, opts Options) *Log {
	t.Helper()
	l, _, err := Open(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// content reads a log record by record.
func content(t testing.TB, l *Log, maxBytes int64) map[uint64]string {
	t.Helper()
	out := make(map[uint64]string)
	for n, end := l.Bounds(); n < end; {
		payloads, err := l.Read(n, maxBytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range payloads {
			out[n] = string(p)
			n++
		}
	}
	return out
}

func payloads(from uint64, n int) [][]byte {
	out := make([][]byte, n)
	for i := range out {
		out[i] = fmt.Appendf(nil, "%d%s", from+uint64(i), strings.Repeat(".", int(from+uint64(i))%97))
	}
	return out
}

func TestRandomHistories(t *testing.T) {
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 1))
		dir := t.TempDir()
		quota := NewQuota(1 << 20)
		opts := Options{SegmentBytes: 500, Quota: quota}
		l, _, err := Open(dir, opts)
		if err != nil {
			t.Fatal(err)
		}
		want := make(map[uint64]string)
		first := uint64(rng.IntN(50))
		next := first
		for range 60 {
			switch rng.IntN(5) {
			case 0, 1:
				ps := payloads(next, 1+rng.IntN(12))
				if err := l.Append(next, ps); err != nil {
					t.Fatal(err)
				}
				for _, p := range ps {
					want[next] = string(p)
					next++
				}
			case 2:
				first += uint64(rng.IntN(int(next-first) + 1))
				if err := l.TrimBefore(first); err != nil {
					t.Fatal(err)
				}
			case 3: // the process ends, in order or not
				if rng.IntN(2) == 0 {
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
				}
				quota = NewQuota(1 << 20)
				opts.Quota = quota
				var cut *Cut
				if l, cut, err = Open(dir, opts); err != nil || cut != nil {
					t.Fatalf("seed %d: %v, %v was cut", seed, err, cut)
				}
			case 4:
				if next > first {
					n := first + uint64(rng.IntN(int(next-first)))
					got, err := l.Read(n, int64(rng.IntN(300)))
					if err != nil || len(got) == 0 || string(got[0]) != want[n] {
						t.Fatalf("seed %d: record %d is %q, %v; want %q", seed, n, got, err, want[n])
					}
				}
			}
			got := content(t, l, 200)
			for n := first; n < next; n++ {
				if got[n] != want[n] {
					t.Fatalf("seed %d: record %d is %q, want %q", seed, n, got[n], want[n])
				}
			}
			if first == next && len(got) > 0 {
				t.Fatalf("seed %d: all is trimmed, and %d records are left", seed, len(got))
			}
			if onDisk := size(t, dir); onDisk != quota.Used() {
				t.Fatalf("seed %d: %d bytes are on disk and %d counted", seed, onDisk, quota.Used())
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func size(t testing.TB, dir string) (n int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// TestTornTail cuts the last segment at every length, and damages every byte of
// it: what is before the damage stays, what follows is cut, and the log goes on.
func TestTornTail(t *testing.T) {
	source := t.TempDir()
	l := open(t, source, Options{SegmentBytes: 150})
	if err := l.Append(5, payloads(5, 6)); err != nil {
		t.Fatal(err)
	}
	if err := l.Append(11, payloads(11, 3)); err != nil {
		t.Fatal(err)
	}
	names, err := filepath.Glob(filepath.Join(source, "*"+suffix))
	if err != nil || len(names) != 2 {
		t.Fatalf("%d segments, %v", len(names), err)
	}
	earlier, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	last, err := os.ReadFile(names[1])
	if err != nil {
		t.Fatal(err)
	}
	try := func(what string, damaged []byte, intact int) {
		dir := t.TempDir()
		for name, b := range map[string][]byte{names[0]: earlier, names[1]: damaged} {
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(name)), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		l, cut, err := Open(dir, Options{SegmentBytes: 150})
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		defer l.Close()
		keep, n := uint64(11), headerBytes
		for _, p := range payloads(11, 3) {
			if n += int(recordSize(len(p))); n > intact {
				break
			}
			keep++
		}
		if _, next := l.Bounds(); next != keep {
			t.Fatalf("%s: goes on with record %d, want %d", what, next, keep)
		}
		if boundary := keep > 11 || intact < headerBytes; cut == nil && !boundary && len(damaged) > headerBytes {
			t.Fatalf("%s: nothing was said of a torn tail", what)
		}
		if err := l.Append(keep, payloads(keep, 2)); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := content(t, l, 1); got[keep] != string(payloads(keep, 1)[0]) || len(got) != int(keep)-5+2 {
			t.Fatalf("%s: %d records", what, len(got))
		}
	}
	for n := 0; n < len(last); n += 1 + n/headerBytes { // all of the header
		try(fmt.Sprint("cut to ", n), last[:n], n)
		bad := slices.Clone(last)
		bad[n] ^= 0x40
		if n != len(magic) && n >= len(magic) { // another magic or version is no torn tail
			try(fmt.Sprint("damaged at ", n), bad, n)
		}
	}
	try("zeros behind", append(slices.Clone(last), make([]byte, 4096)...), len(last))

	bad := slices.Clone(earlier)
	bad[60] ^= 1
	if err := os.WriteFile(names[0], bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(source, Options{}); err == nil || !strings.Contains(err.Error(), "damaged at byte") {
		t.Errorf("damage before the last segment: %v", err)
	}
	if err := os.Remove(names[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(source, fmt.Sprintf("%020d%s", 3, suffix)), appendRecord(appendHeader(nil, 3), 3, []byte("x")), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(source, Options{}); err == nil || !strings.Contains(err.Error(), "a segment is missing") {
		t.Errorf("a missing segment: %v", err)
	}
}

// failing is a file on a disk with space for so many bytes, or one that can't sync.
type failing struct {
	File
	space *int
	sync  *error
}

func (f *failing) Write(b []byte) (int, error) {
	if len(b) > *f.space {
		n, err := f.File.Write(b[:*f.space])
		*f.space -= n
		return n, errors.Join(err, &os.PathError{Op: "write", Path: "spool", Err: syscall.ENOSPC})
	}
	n, err := f.File.Write(b)
	*f.space -= n
	return n, err
}

func (f *failing) Sync() error {
	if err := *f.sync; err != nil {
		*f.sync = nil
		return err
	}
	return f.File.Sync()
}

func TestFullAndFailingDisk(t *testing.T) {
	dir := t.TempDir()
	space, syncErr := 10_000, error(nil)
	quota := NewQuota(1 << 20)
	opts := Options{Quota: quota, SegmentBytes: 1000, Open: func(path string) (File, error) {
		f, err := openFile(path)
		return &failing{f, &space, &syncErr}, err
	}}
	l := open(t, dir, opts)
	next := uint64(0)
	for {
		err := l.Append(next, payloads(next, 3))
		if err == nil {
			next += 3
			continue
		}
		if !errors.Is(err, ErrFull) || !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		break
	}
	check := func(what string) {
		t.Helper()
		reopened := open(t, dir, Options{})
		if got := content(t, reopened, 1); len(got) != int(next) {
			t.Errorf("%s: %d records are on disk, want %d", what, len(got), next)
		}
		if onDisk := size(t, dir); onDisk != quota.Used() {
			t.Errorf("%s: %d bytes are on disk and %d counted", what, onDisk, quota.Used())
		}
	}
	check("full disk")
	space = 10_000
	if err := l.Append(next, payloads(next, 3)); err != nil {
		t.Fatalf("with room again: %v", err)
	}
	next += 3
	check("room again")
	syncErr = syscall.EIO
	if err := l.Append(next, payloads(next, 3)); !errors.Is(err, syscall.EIO) || errors.Is(err, ErrFull) {
		t.Errorf("a sync that fails: %v", err)
	}
	check("failed sync")
	if err := l.Append(next+1, payloads(next+1, 1)); err == nil {
		t.Error("a number was left out, and no error")
	}
}

func TestQuotaBoundsAllSpoolsTogether(t *testing.T) {
	quota := NewQuota(2000)
	a, b := open(t, t.TempDir(), Options{Quota: quota, SegmentBytes: 300}), open(t, t.TempDir(), Options{Quota: quota})
	if err := a.Append(0, [][]byte{make([]byte, 900)}); err != nil {
		t.Fatal(err)
	}
	if err := b.Append(7, [][]byte{make([]byte, 900)}); err != nil {
		t.Fatal(err)
	}
	if err := b.Append(8, [][]byte{make([]byte, 900)}); !errors.Is(err, ErrFull) {
		t.Fatalf("beyond the quota: %v", err)
	}
	if err := a.TrimBefore(1); err != nil {
		t.Fatal(err)
	}
	if err := b.Append(8, [][]byte{make([]byte, 900)}); err != nil {
		t.Errorf("after the other log gave space back: %v", err)
	}
	if first, next := a.Bounds(); first != 0 || next != 0 {
		t.Errorf("an empty log reaches from %d to %d", first, next)
	}
	if err := a.Append(100, [][]byte{{1}}); err != nil {
		t.Errorf("an empty log goes on anywhere: %v", err)
	}
}

func TestSpoolIsLockedForOthers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	f, err := Lock("spool", dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Lock("spool", dir); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second lock: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	f, err = Lock("spool", dir)
	if err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
	f.Close()
}

func TestRefusesForeignFiles(t *testing.T) {
	for want, content := range map[string][]byte{
		"not a segment of a spool": []byte("something else of some length, to be sure"),
		"spool format 2":           func() []byte { b := newerHeader(); return b }(),
		"holds records from 8 on":  appendHeader(nil, 8),
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%020d%s", 7, suffix)), content, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want ...%s...", err, want)
		}
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x"+suffix), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "not a name of a segment") {
		t.Errorf("%v", err)
	}
}

func BenchmarkAppend(b *testing.B) {
	l := open(b, b.TempDir(), Options{})
	batch := make([][]byte, 200)
	for i := range batch {
		batch[i] = bytes.Repeat([]byte{byte(i)}, 5000)
	}
	b.SetBytes(200 * 5000)
	next := uint64(0)
	for b.Loop() {
		if err := l.Append(next, batch); err != nil {
			b.Fatal(err)
		}
		next += 200
		if err := l.TrimBefore(next - 200); err != nil {
			b.Fatal(err)
		}
	}
}
