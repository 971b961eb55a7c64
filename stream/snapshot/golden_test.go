package snapshot

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
)

// The golden snapshots are what versions of the format are: they may be added
// to, never rewritten. -update writes the current version's if it is missing.
var update = flag.Bool("update", false, "write the golden snapshot if it does not exist yet")

// goldenTopic is two snapshots, of which the second shares a section with the
// first, has one in several parts, and one that is gone.
func goldenTopic(t *testing.T) *topic {
	t.Helper()
	var log topic
	state := newToy()
	w := NewWriter(WriterConfig{Topic: "state", Epoch: 5, Origin: 20}, log.index(), nil, state)
	w.split = 16
	put := func(name, content string, version uint64) {
		state.sections[name], state.versions[name] = content, version
	}
	take := func(offset int64) {
		for out, err := range w.Take(state, offset) {
			require.NoError(t, err)
			log.append(out)
		}
		w.Durable()
		w.Committed(offset)
	}
	put("a", "alpha", 1)
	put("b", "", 1)
	put("gone", "soon", 1)
	take(100)
	put("b", "a section in several parts", 2)
	delete(state.sections, "gone")
	delete(state.versions, "gone")
	take(1 << 40)
	return &log
}

func goldenText(log *topic) []byte {
	var b bytes.Buffer
	for _, r := range log.records {
		fmt.Fprintf(&b, "%d %s %s\n", r.Offset, strconv.Quote(string(r.Key)), hex.EncodeToString(r.Value))
	}
	return b.Bytes()
}

func readGolden(t testing.TB, path string) *topic {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	log := &topic{}
	for line := range strings.Lines(string(text)) {
		offset, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		quoted, value, _ := strings.Cut(rest, " ")
		key, err := strconv.Unquote(quoted)
		require.NoError(t, err)
		var r stream.Record
		r.Key, r.Time = []byte(key), time.Unix(0, 0)
		r.Offset, err = strconv.ParseInt(offset, 10, 64)
		require.NoError(t, err)
		r.Value, err = hex.DecodeString(value)
		require.NoError(t, err)
		log.records = append(log.records, r)
	}
	return log
}

// TestGoldenSnapshots reads the snapshots of every version of the format.
func TestGoldenSnapshots(t *testing.T) {
	current := filepath.Join("testdata", "golden", fmt.Sprintf("snapshot.v%d.txt", recordVersion))
	written := goldenText(goldenTopic(t))
	if _, err := os.Stat(current); os.IsNotExist(err) && *update {
		require.NoError(t, os.WriteFile(current, written, 0o644))
	}
	text, err := os.ReadFile(current)
	require.NoError(t, err)
	require.Equal(t, string(text), string(written), "other bytes are written")

	paths, err := filepath.Glob(filepath.Join("testdata", "golden", "snapshot.v*.txt"))
	require.NoError(t, err)
	require.Len(t, paths, recordVersion, "there is one of every version")
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			log := readGolden(t, path)
			for committed, want := range map[int64]map[string]string{
				100:     {"a": "alpha", "b": "", "gone": "soon"},
				1 << 40: {"a": "alpha", "b": "a section in several parts"},
			} {
				chosen, refused := log.index().Choose(toyFormat, stream.PositionAt(20, committed), 0)
				require.NotNil(t, chosen, "%v", refused)
				require.Equal(t, committed, chosen.Offset())
				restored, err := log.restore(chosen)
				require.NoError(t, err)
				require.Equal(t, want, restored.sections)
			}
		})
	}
}

// TestVersionsOfTheState: a newer program reads every older version and writes
// all of it anew; an older one refuses a newer version.
func TestVersionsOfTheState(t *testing.T) {
	log := goldenTopic(t)
	newer, older := toyFormat, toyFormat
	newer.Version++
	older.Version--

	chosen, refused := log.index().Choose(older, stream.PositionAt(20, 1<<40), 0)
	require.Nil(t, chosen)
	require.Len(t, refused, 2)
	require.Contains(t, refused[0].Reason, "written by a newer Porestream, in version 3 of the state of stage toy; this program reads up to 2: update it")

	chosen, _ = log.index().Choose(newer, stream.PositionAt(20, 1<<40), 0)
	require.NotNil(t, chosen)
	state, err := log.restore(chosen)
	require.NoError(t, err)
	state.format = newer
	w := NewWriter(WriterConfig{Epoch: 6, Origin: 20}, log.index(), chosen, state)
	for out, err := range w.Take(state, 1<<40+1) {
		require.NoError(t, err)
		log.append(out)
	}
	chosen, refused = log.index().Choose(newer, stream.PositionAt(20, 1<<40+1), 0)
	require.Empty(t, refused)
	require.Equal(t, newer, chosen.Format())
	for _, e := range chosen.entries {
		require.Equal(t, int64(1<<40+1), e.taken, "section %q is written anew", e.name)
	}
}

func TestChooseSaysWhyNot(t *testing.T) {
	log := goldenTopic(t)
	for _, tt := range []struct {
		name      string
		format    stream.StateFormat
		committed stream.Position
		logStart  int64
		want      string
	}{
		{"stage", stream.StateFormat{Stage: "other", Version: 3, Fingerprint: "f00d"}, stream.PositionAt(20, 1<<40), 0, `it is the state of stage "toy", not of "other"`},
		{"fingerprint", stream.StateFormat{Stage: "toy", Version: 3, Fingerprint: "beef"}, stream.PositionAt(20, 1<<40), 0, "made with another reference, model or thresholds, or by another version of the stage (fingerprint f00d, now beef)"},
		{"ahead", toyFormat, stream.PositionAt(20, 99), 0, "it is ahead of the committed offset 99"},
		{"reset", toyFormat, stream.PositionAt(50, 1<<40), 0, "it began with offset 20, the group with 50: the group was reset"},
		{"cut", toyFormat, stream.PositionAt(20, 1<<50), 1<<40 + 1, "the log no longer has the records behind it: it begins at offset 1099511627777"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chosen, refused := log.index().Choose(tt.format, tt.committed, tt.logStart)
			require.Nil(t, chosen)
			require.Len(t, refused, 2)
			require.Contains(t, refused[0].String(), "snapshot at offset 1099511627776 of ")
			require.Contains(t, refused[0].Reason, tt.want)
		})
	}
	t.Run("record version", func(t *testing.T) {
		newer := &topic{records: slices.Clone(log.records)}
		last := &newer.records[len(newer.records)-1]
		last.Value = bytes.Clone(last.Value)
		last.Value[3]++
		sealEnvelope(last.Value)
		chosen, refused := newer.index().Choose(toyFormat, stream.PositionAt(20, 1<<40), 0)
		require.Equal(t, int64(100), chosen.Offset())
		require.Contains(t, refused[0].Reason, "written by a newer Porestream, in version 2 of the snapshot format")
	})
	t.Run("refused by the handler", func(t *testing.T) {
		index := log.index()
		chosen, _ := index.Choose(toyFormat, stream.PositionAt(20, 1<<40), 0)
		index.Refuse(chosen, fmt.Errorf("%w: section %q", ErrUnusable, "a"))
		chosen, refused := index.Choose(toyFormat, stream.PositionAt(20, 1<<40), 0)
		require.Equal(t, int64(100), chosen.Offset())
		require.Contains(t, refused[0].Reason, `can't be restored: section "a"`)
	})
}

func TestList(t *testing.T) {
	log := goldenTopic(t)
	require.Empty(t, NewIndex(toySource).List())
	list := log.index().List()
	require.Len(t, list, 2)
	require.Equal(t, Summary{Format: toyFormat, Origin: 20, Offset: 1 << 40, Sections: 2, Bytes: 31, Time: list[0].Time}, list[0])
	require.NoError(t, list[1].Fault)
	damaged := &topic{records: slices.Clone(log.records)}
	damaged.records[0].Value = []byte("x")
	list = damaged.index().List()
	require.ErrorContains(t, list[0].Fault, `section "a": part 0 is damaged`)
	require.ErrorContains(t, list[1].Fault, `section "a": part 0 is damaged`)
}
