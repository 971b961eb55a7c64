package folder

import (
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/stream/streampb"
)

var testRun = &streampb.Run{Id: "run", Sample: "s", SampleRate: 4000}

func begin(t *testing.T) *journal {
	t.Helper()
	j, err := beginJournal(filepath.Join(t.TempDir(), "run"), testRun, testChunk, testPartitions)
	require.NoError(t, err)
	return j
}

// reopen opens a journal as the next process does.
func reopen(t *testing.T, j *journal) *journal {
	t.Helper()
	require.NoError(t, j.f.Close())
	again, err := openJournal(filepath.Dir(j.path))
	require.NoError(t, err)
	require.NotNil(t, again)
	return again
}

func reads(chunks ...int) (list []record) {
	for i, n := range chunks {
		list = append(list, record{kind: kindRead, id: fmt.Sprint("read-", i), count: n, total: n})
	}
	return list
}

// positions are those behind each event of reads that are sent in order.
func positions(t *testing.T, sent []record) (list []ingest.Position) {
	t.Helper()
	var p ingest.Position
	require.NoError(t, p.Begin(testRun, testChunk, testPartitions))
	list = append(list, p)
	for _, r := range sent {
		for n := range r.count {
			p.Chunk(r.id, r.from+n)
			list = append(list, p)
		}
	}
	return list
}

// recalled is what a journal holds.
func recalled(t *testing.T, j *journal, to ingest.Position) (list []string) {
	t.Helper()
	require.NoError(t, j.rewind(to, known{
		read: func(id string, _ uint32, next, total int) error {
			list = append(list, fmt.Sprintf("%s %d/%d", id, next, total))
			return nil
		},
		file: func(fp fingerprint, runs int) { list = append(list, fmt.Sprintf("file %x of %d", fp[:2], runs)) },
	}))
	return list
}

// TestJournalRewind brings a journal to every position, and there again.
func TestJournalRewind(t *testing.T) {
	sent := reads(1, 3, 2)
	at := positions(t, sent)
	want := [][]string{
		nil,
		{"read-0 1/1"},
		{"read-0 1/1", "file 0102 of 1", "read-1 1/3"},
		{"read-0 1/1", "file 0102 of 1", "read-1 2/3"},
		{"read-0 1/1", "file 0102 of 1", "read-1 3/3"},
		{"read-0 1/1", "file 0102 of 1", "read-1 3/3", "read-2 1/2"},
		{"read-0 1/1", "file 0102 of 1", "read-1 3/3", "read-2 2/2"},
	}
	want[1] = append(want[1], "file 0102 of 1")
	for n, to := range at {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			j := begin(t)
			require.NoError(t, j.append(sent[0], record{kind: kindFile, file: fingerprint{1, 2}, runs: 1}))
			require.NoError(t, j.append(sent[1:]...))
			for range 3 {
				j = reopen(t, j)
				require.Equal(t, want[n], recalled(t, j, to))
			}
			// It goes on with the rest of the read that was cut, and with another.
			more := []record{{kind: kindRead, id: "other", count: 1, total: 1}}
			if n == 3 {
				more = append(more, record{kind: kindRead, id: "read-1", from: 2, count: 1, total: 3})
			}
			require.NoError(t, j.append(more...))
			end := to
			for _, r := range more {
				end.Chunk(r.id, r.from)
			}
			j = reopen(t, j)
			got := recalled(t, j, end)
			require.Equal(t, "other 1/1", got[len(want[n])])
			if n == 3 {
				require.Equal(t, "read-1 3/3", got[len(got)-1])
			}
		})
	}
}

// TestJournalTorn cuts a journal at every byte, as a crash does, and damages each
// byte: what Kafka doesn't have is forgotten, and what it has is missed.
func TestJournalTorn(t *testing.T) {
	sent := reads(1, 2, 1)
	at := positions(t, sent)
	j := begin(t)
	head := j.size
	require.NoError(t, j.append(sent[0]))
	first := j.size
	require.NoError(t, j.append(sent[1:]...))
	whole, err := os.ReadFile(j.path)
	require.NoError(t, err)
	check := func(b []byte, good bool) {
		t.Helper()
		require.NoError(t, os.WriteFile(j.path, b, 0o600))
		again, err := openJournal(filepath.Dir(j.path))
		require.NoError(t, err)
		defer again.f.Close()
		err = again.rewind(at[1], known{read: func(string, uint32, int, int) error { return nil }, file: func(fingerprint, int) {}})
		if good {
			require.NoError(t, err)
			return
		}
		require.ErrorContains(t, err, "knows 1 events of the run, and 2 are in Kafka: give the --journal that the run was begun with, or --restart")
	}
	for n := head; n <= int64(len(whole)); n++ {
		check(whole[:n], n >= first)
	}
	for n := head; n < int64(len(whole)); n++ {
		b := slices.Clone(whole)
		b[n] ^= 0x10
		check(b, n >= first)
	}
	for n := range head { // begun, and nothing sent
		require.NoError(t, os.WriteFile(j.path, whole[:n], 0o600))
		again, err := openJournal(filepath.Dir(j.path))
		require.NoError(t, err)
		require.Nil(t, again)
	}
}

func TestJournalOfOthers(t *testing.T) {
	j := begin(t)
	require.NoError(t, j.append(reads(1, 2, 1)...))
	other := positions(t, []record{{kind: kindRead, id: "somebody's", count: 4, total: 4}})
	err := j.rewind(other[3], known{read: func(string, uint32, int, int) error { return nil }, file: func(fingerprint, int) {}})
	require.ErrorContains(t, err, "is not of the reads that are in Kafka: give the --journal")
}

func TestJournalEnded(t *testing.T) {
	j := begin(t)
	sent := reads(2)
	require.NoError(t, j.append(sent...))
	ended, err := j.ended()
	require.NoError(t, err)
	require.False(t, ended)
	require.NoError(t, j.append(record{kind: kindEnd}))
	j = reopen(t, j)
	ended, err = j.ended()
	require.NoError(t, err)
	require.True(t, ended)
	to := positions(t, sent)[2]
	to.End()
	require.Equal(t, []string{"read-0 2/2"}, recalled(t, j, to))
}

// full is a disk without space, which keeps a part of what is written.
type full struct {
	file
	hasSpace bool
}

func (f *full) WriteAt(b []byte, at int64) (int, error) {
	if f.hasSpace {
		return f.file.WriteAt(b, at)
	}
	n, err := f.file.WriteAt(b[:len(b)/2], at)
	if err != nil {
		return n, err
	}
	return n, syscall.ENOSPC
}

// TestJournalDiskFull writes to a full disk: nothing of it counts, and it goes on
// when there is space.
func TestJournalDiskFull(t *testing.T) {
	j := begin(t)
	disk := &full{file: j.f}
	j.f = disk
	sent := reads(1, 1)
	for range 3 {
		err := j.append(sent[0])
		require.ErrorIs(t, err, syscall.ENOSPC)
		require.ErrorContains(t, err, j.path)
	}
	disk.hasSpace = true
	require.NoError(t, j.append(sent[1]))
	j = reopen(t, j)
	require.Equal(t, []string{"read-1 1/1"}, recalled(t, j, positions(t, sent[1:])[1]))
}

// TestJournalsAreTheSameBytesOnDisk pins the bytes on disk: journals outlive programs.
func TestJournalsAreTheSameBytesOnDisk(t *testing.T) {
	for _, tt := range []struct {
		r    record
		want string
	}{
		{
			record{kind: kindRun, run: &streampb.Run{Id: "r", Sample: "s", SampleRate: 5000}, chunk: 5000, partitions: 12},
			"0f000000d0eb4686010188270c090a0172120173488827",
		},
		{record{kind: kindRead, id: "ab", from: 2, count: 300, total: 302}, "0900000054f4991d0202616202ac02ae02"},
		{record{kind: kindCut, count: 7}, "02000000a0bb4c110307"},
		{record{kind: kindFile, file: fingerprint{0, 1, 2, 15: 255}, runs: 2}, "120000000066488b04000102000000000000000000000000ff02"},
		{record{kind: kindEnd}, "010000004d478c6705"},
	} {
		b, err := appendRecord(nil, &tt.r)
		require.NoError(t, err)
		require.Equal(t, tt.want, hex.EncodeToString(b))
		got, err := parseRecord(b)
		require.NoError(t, err)
		again, err := appendRecord(nil, &got)
		require.NoError(t, err)
		require.Equal(t, b, again)
	}
}

func TestJournalRefuses(t *testing.T) {
	newer, err := appendRecord(nil, &record{kind: kindCut, count: 1})
	require.NoError(t, err)
	j := begin(t)
	require.NoError(t, j.append(record{kind: kindCut, count: 1}))
	require.ErrorContains(t, j.rewind(positions(t, reads(1))[1], known{}), "chunks of a read that hasn't as many")
	require.NoError(t, os.WriteFile(j.path, newer, 0o600))
	_, err = openJournal(filepath.Dir(j.path))
	require.ErrorContains(t, err, "record of kind 3")
	require.NoError(t, os.Remove(j.path))
	none, err := openJournal(filepath.Dir(j.path))
	require.NoError(t, err)
	require.Nil(t, none)
}

func FuzzRecord(f *testing.F) {
	for _, r := range []record{
		{kind: kindRun, run: testRun, chunk: 10, partitions: 3}, {kind: kindRead, id: "a", count: 1, total: 1}, {kind: kindCut, count: 1}, {kind: kindFile, runs: 1}, {kind: kindEnd},
	} {
		b, err := appendRecord(nil, &r)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < frameLen {
			return
		}
		n, err := frameSize(b)
		if err != nil || n != len(b)-frameLen {
			return
		}
		r, err := parseRecord(b)
		if err != nil || r.kind == kindRun {
			return // a run's bytes may come in another order
		}
		again, err := appendRecord(nil, &r)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := parseRecord(again); err != nil || got.kind != r.kind || got.id != r.id || got.count != r.count {
			t.Fatalf("%+v became %+v, %v", r, got, err)
		}
	})
}

func TestSeen(t *testing.T) {
	s := newSeen(t.TempDir(), 700)
	defer s.close()
	for i := range 5000 {
		require.NoError(t, s.add(fmt.Sprint("read-", i), uint32(i)))
	}
	require.Len(t, s.segments, 7)
	require.Less(t, len(s.fresh), 700)
	for i := range 5000 {
		ok, sum, err := s.has(fmt.Sprint("read-", i))
		require.NoError(t, err)
		require.True(t, ok, i)
		require.Equal(t, uint32(i), sum)
		ok, _, err = s.has(fmt.Sprint("other-", i))
		require.NoError(t, err)
		require.False(t, ok, i)
	}
	left, err := os.ReadDir(s.dir)
	require.NoError(t, err)
	require.Empty(t, left, "what is on disk goes away with the process")
}

func BenchmarkSeen(b *testing.B) {
	s := newSeen(b.TempDir(), 1<<16)
	defer s.close()
	for i := range 1 << 20 {
		require.NoError(b, s.add(fmt.Sprint("read-", i), uint32(i)))
	}
	for i := 0; b.Loop(); i++ {
		if _, _, err := s.has(fmt.Sprint("other-", i)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "final_summary_x.txt")
	for text, want := range map[string]string{
		"instrument=MN1\nacquisition_run_id=f7c9\nprocessing_stopped=now\n": "f7c9",
		"acquisition_run_id = f7c9 \r\n":                                    "f7c9",
		"instrument=MN1\nprotocol_run_id=f7c9\n":                            "",
		"":                                                                  "",
		strings.Repeat("x", 1<<20):                                          "",
	} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		got, err := readSummary(path)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := readSummary(path + ".absent")
	require.True(t, errors.Is(err, os.ErrNotExist))
}

func FuzzSummary(f *testing.F) {
	f.Add([]byte("instrument=MN1\nacquisition_run_id=f7c9\n"))
	f.Fuzz(func(_ *testing.T, b []byte) { parseSummary(b) })
}
