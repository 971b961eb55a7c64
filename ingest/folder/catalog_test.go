package folder

import (
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClassify(t *testing.T) {
	for name, want := range map[string]kind{
		"FAX1_pass_0.pod5": readFile, "x.POD5": readFile, "x.blow5": readFile, "x.pod5.tmp": readFile,
		"x.blow5.part": readFile, ".x.pod5.Qw3rTy": readFile, "x.blow5.idx": otherFile,
		".ad29d727-46a3-4517-bfc0-41679919a131.tmp-reads": partFile, ".ad29d727-46a3-4517-bfc0-41679919a131.tmp-run-info": partFile,
		"final_summary_FAX1_a_b.txt": summaryFile, "sequencing_summary.txt": otherFile, "x.fast5": readFile, "fast5_pass": otherFile, "pod5": otherFile,
	} {
		require.Equal(t, want, classify(filepath.Join("/data/run.pod5.d", name), signalFiles{}), name)
	}
}

// shown is a listing of one file.
func shown(path string, inode uint64, size int64) Entry {
	return Entry{Path: path, ID: FileID{1, inode}, Size: size, Mod: time.Unix(size, 0)}
}

// TestCatalog goes through listings, each of which says which files are to be
// read then, and which are lost.
func TestCatalog(t *testing.T) {
	type listing struct {
		entries []Entry
		due     []string
		lost    []string
		outcome error // of what is read; nil is that more may come
		end     bool  // of what is read
	}
	errBad := errors.New("bad")
	for _, tt := range []struct {
		name     string
		settle   time.Duration
		listings []listing
	}{
		{"a file grows", 0, []listing{
			{entries: []Entry{shown("a.pod5", 1, 10)}, due: []string{"a.pod5"}},
			{entries: []Entry{shown("a.pod5", 1, 10)}},
			{entries: []Entry{shown("a.pod5", 1, 20)}, due: []string{"a.pod5"}, end: true},
			{entries: []Entry{shown("a.pod5", 1, 20)}},
			{}, // it may go when it has been read
		}},
		{"an empty file", 0, []listing{
			{entries: []Entry{shown("a.pod5", 1, 0)}},
			{entries: []Entry{shown("a.pod5", 1, 1)}, due: []string{"a.pod5"}},
		}},
		{"renamed when it is finished", 0, []listing{
			{entries: []Entry{shown("a.pod5.tmp", 1, 10)}, due: []string{"a.pod5.tmp"}},
			{entries: []Entry{shown("b/a.pod5", 1, 20)}, due: []string{"b/a.pod5"}, end: true},
			{entries: []Entry{shown("b/a.pod5", 1, 20)}},
		}},
		{"renamed and not changed", 0, []listing{
			{entries: []Entry{shown("a.pod5.tmp", 1, 10)}, due: []string{"a.pod5.tmp"}},
			{entries: []Entry{shown("a.pod5", 1, 10)}},
		}},
		{"a file system without identities", 0, []listing{
			{entries: []Entry{{Path: "a.pod5.tmp", Size: 10}}, due: []string{"a.pod5.tmp"}},
			{entries: []Entry{{Path: "a.pod5", Size: 10}}, due: []string{"a.pod5"}, lost: []string{"a.pod5.tmp"}},
		}},
		{"another file in its place", 0, []listing{
			{entries: []Entry{shown("a.pod5", 1, 10)}, due: []string{"a.pod5"}, end: true},
			{entries: []Entry{shown("a.pod5", 2, 10)}, due: []string{"a.pod5"}},
		}},
		{"written anew, shorter", 0, []listing{
			{entries: []Entry{shown("a.pod5", 1, 10)}, due: []string{"a.pod5"}, end: true},
			{entries: []Entry{shown("a.pod5", 1, 5)}, due: []string{"a.pod5"}},
		}},
		{"gone too early", 0, []listing{
			{entries: []Entry{shown("a.pod5", 1, 10)}, due: []string{"a.pod5"}},
			{lost: []string{"a.pod5"}},
		}},
		{"rotated", 0, []listing{
			{entries: []Entry{shown("a.pod5", 1, 10)}, due: []string{"a.pod5"}},
			{entries: []Entry{shown("a.1.pod5", 1, 12), shown("a.pod5", 2, 5)}, due: []string{"a.pod5", "a.1.pod5"}},
		}},
		{"an error is looked at twice", 0, []listing{
			{entries: []Entry{shown("a.pod5", 1, 10)}, due: []string{"a.pod5"}, outcome: errBad},
			{entries: []Entry{shown("a.pod5", 1, 10)}, due: []string{"a.pod5"}, outcome: errBad},
			{entries: []Entry{shown("a.pod5", 1, 10)}},
			{entries: []Entry{shown("a.pod5", 1, 11)}, due: []string{"a.pod5"}},
		}},
		{"the files beside it grow", 0, []listing{
			{entries: []Entry{shown("a.pod5", 1, 10), shown(".u.tmp-reads", 2, 10)}, due: []string{"a.pod5"}},
			{entries: []Entry{shown("a.pod5", 1, 10), shown(".u.tmp-reads", 2, 20)}, due: []string{"a.pod5"}},
			{entries: []Entry{shown("a.pod5", 1, 10), shown(".u.tmp-reads", 2, 20)}},
		}},
		{"bytes have to be there for a while", 2 * time.Second, []listing{
			{entries: []Entry{shown("a.pod5", 1, 10)}},
			{entries: []Entry{shown("a.pod5", 1, 20)}},
			{entries: []Entry{shown("a.pod5", 1, 30)}, due: []string{"a.pod5"}},
			{entries: []Entry{shown("a.pod5", 1, 30)}},
			{entries: []Entry{shown("a.pod5", 1, 30)}, due: []string{"a.pod5"}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCatalog(tt.settle, signalFiles{})
			now := time.Unix(1e9, 0)
			for i, l := range tt.listings {
				var due, lost []string
				for _, f := range c.update(l.entries, now) {
					lost = append(lost, f.entry.Path)
				}
				for _, f := range c.due() {
					due = append(due, f.entry.Path)
					c.reading(f)
					switch {
					case l.end:
						f.state = finished
					case l.outcome != nil:
						require.Equal(t, i == 1, f.failed(l.outcome))
					}
				}
				require.Equal(t, l.due, due, "listing %d", i)
				require.Equal(t, l.lost, lost, "listing %d", i)
				now = now.Add(time.Second)
			}
		})
	}
}

// TestCatalogTrusts checks what is trusted of a file that grows all the time.
func TestCatalogTrusts(t *testing.T) {
	c := newCatalog(2*time.Second, signalFiles{})
	now := time.Unix(1e9, 0)
	sizes := make(map[time.Time]int64)
	for i := range int64(50) {
		sizes[now] = 100 * i
		c.update([]Entry{shown("a.pod5", 1, 100*i)}, now)
		trusted := c.files["a.pod5"].trusted
		require.LessOrEqual(t, trusted, sizes[now.Add(-2*time.Second)], "bytes were there for less than two seconds")
		if i >= 4 {
			require.GreaterOrEqual(t, trusted, sizes[now.Add(-4*time.Second)])
		}
		now = now.Add(time.Second)
	}
}

func TestCatalogFolders(t *testing.T) {
	c := newCatalog(0, signalFiles{})
	early, late := time.Unix(1e9, 0), time.Unix(1e9+60, 0)
	c.update([]Entry{shown("a/x.pod5", 1, 10), shown("b/y.pod5", 2, 10)}, early)
	c.update([]Entry{shown("a/x.pod5", 1, 10), shown("b/y.pod5", 2, 20)}, late)
	require.Equal(t, early, c.lastChange(map[string]bool{"a": true}))
	require.Equal(t, late, c.lastChange(map[string]bool{"a": true, "b": true}))
	require.Equal(t, late, c.lastChange(nil))
	c.files["a/x.pod5"].state = finished
	require.Empty(t, c.unread(map[string]bool{"a": true}))
	require.Len(t, c.unread(nil), 1)
}
