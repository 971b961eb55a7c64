package sources

import (
	"bytes"
	"encoding/json"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
)

func TestClaimsOnOneFolderConflict(t *testing.T) {
	for _, tt := range []struct {
		a, b Claim
		want bool
	}{
		{Claim{Folder, "/data"}, Claim{Folder, "/data"}, true},
		{Claim{Folder, "/data"}, Claim{Folder, "/data/run1/pod5"}, true},
		{Claim{Folder, "/data/run1"}, Claim{Folder, "/data/run2"}, false},
		{Claim{Folder, "/data/run1"}, Claim{Folder, "/data/run10"}, false},
		{Claim{Folder, "/data/..x"}, Claim{Folder, "/data"}, true},
		{Claim{Folder, "/"}, Claim{Folder, "/data"}, true},
		{Claim{Folder, "/data"}, Claim{Address, "/data"}, false},
		{Claim{Position, "grid:9501"}, Claim{Position, "grid:9501/X1"}, true},
		{Claim{Position, "grid:9501/X2"}, Claim{Position, "grid:9501/X1"}, false},
		{Claim{Position, "grid:9501"}, Claim{Position, "grid2:9501/X1"}, false},
		{Claim{Address, ":9102"}, Claim{Address, "127.0.0.1:9102"}, true},
		{Claim{Address, "0.0.0.0:9102"}, Claim{Address, "10.0.0.1:9102"}, true},
		{Claim{Address, "[::]:9102"}, Claim{Address, "127.0.0.1:9102"}, true},
		{Claim{Address, "localhost:9102"}, Claim{Address, "127.0.0.1:9102"}, true},
		{Claim{Address, "10.0.0.1:9102"}, Claim{Address, "10.0.0.2:9102"}, false},
		{Claim{Address, ":9102"}, Claim{Address, ":9103"}, false},
		{Claim{Address, "127.0.0.1:0"}, Claim{Address, "127.0.0.1:0"}, false},
	} {
		require.Equal(t, tt.want, tt.a.conflicts(tt.b), "%v and %v", tt.a, tt.b)
		require.Equal(t, tt.want, tt.b.conflicts(tt.a), "%v and %v", tt.b, tt.a)
	}
}

func TestFolderClaimsGoByWhatALinkLeadsTo(t *testing.T) {
	dir := t.TempDir()
	real := filepath.Join(dir, "real")
	require.NoError(t, os.Mkdir(real, 0o700))
	require.NoError(t, os.Symlink(real, filepath.Join(dir, "link")))
	a, err := FolderClaim(filepath.Join(dir, "link", "run1", "not", "there"))
	require.NoError(t, err)
	b, err := FolderClaim(real)
	require.NoError(t, err)
	require.True(t, a.conflicts(b), "%v and %v", a, b)
}

func TestConflictingSourcesAreRefused(t *testing.T) {
	spec := func(name string, claims ...Claim) Spec { return Spec{Name: name, Claims: claims} }
	require.NoError(t, Check([]Spec{spec("a", Claim{Folder, "/a"}), spec("b", Claim{Folder, "/b"}), spec("c")}))
	require.EqualError(t, Check([]Spec{spec("a"), spec("b"), spec("a")}), `source "a" is listed twice`)
	require.EqualError(t, Check([]Spec{spec("a", Claim{Folder, "/a"}), spec("b", Claim{Folder, "/a"})}),
		`source "b" claims folder /a, which is that of source "a"`)
	require.EqualError(t, Check([]Spec{spec("a", Claim{Address, ":1"}), spec("b", Claim{Address, "10.0.0.1:1"})}),
		`source "b" claims address 10.0.0.1:1, which meets address :1 of source "a"`)
}

func TestARunHasOneSource(t *testing.T) {
	var r Runs
	require.NoError(t, r.Claim("run1", "a"))
	require.NoError(t, r.Claim("run1", "a"))
	require.EqualError(t, r.Claim("run1", "b"), `run run1 is that of source "a": two sources can't write one run`)
	require.NoError(t, r.Claim("run2", "b"))
	r.Release("a")
	require.NoError(t, r.Claim("run1", "b"))
}

// The report is a contract: names of fields stay.
const goldenReport = `{
  "version": 1,
  "time": "2026-03-01T12:00:10Z",
  "file": {
    "path": "/etc/porestream/sources.yaml",
    "loaded": "2026-03-01T12:00:00Z",
    "refused": 1,
    "error": "/etc/porestream/sources.yaml:7:3: source \"grid\" has no option \"polll\": did you mean \"poll\"?"
  },
  "sources": [
    {
      "name": "grid",
      "kind": "watch",
      "state": "running",
      "since": "2026-03-01T12:00:00Z",
      "restarts": 0,
      "runs": 1,
      "runs_started": 2,
      "channels": 512,
      "samples_per_second": 2000000,
      "samples": 20000000,
      "chunks": 5000,
      "gaps": 1,
      "gap_samples": 4000,
      "lost_samples": 0,
      "unacknowledged_events": 12,
      "oldest_unacknowledged_seconds": 0.25
    },
    {
      "name": "p2",
      "kind": "minknow",
      "state": "backing-off",
      "since": "2026-03-01T12:00:00Z",
      "reason": "MinKNOW at p2:9501 can't be reached",
      "retry_at": "2026-03-01T12:00:20Z",
      "restarts": 3,
      "last_error": "MinKNOW at p2:9501 can't be reached",
      "last_error_at": "2026-03-01T12:00:00Z",
      "runs": 0,
      "runs_started": 0,
      "channels": 0,
      "samples_per_second": 0,
      "samples": 0,
      "chunks": 0,
      "gaps": 0,
      "gap_samples": 0,
      "lost_samples": 0,
      "unacknowledged_events": 0,
      "oldest_unacknowledged_seconds": 0
    }
  ]
}
`

func TestReport(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	retry := at.Add(20 * time.Second)
	report := Report{
		Version: 1, Time: at.Add(10 * time.Second),
		File: &FileStatus{Path: "/etc/porestream/sources.yaml", Loaded: at, Refused: 1, Error: `/etc/porestream/sources.yaml:7:3: source "grid" has no option "polll": did you mean "poll"?`},
		Sources: []Status{
			{
				Name: "grid", Kind: "watch", State: Running, Since: at, Runs: 1, RunsStarted: 2, Channels: 512, SamplesPerSecond: 2e6, Samples: 2e7,
				Chunks: 5000, Gaps: 1, GapSamples: 4000, Unacknowledged: 12, OldestSeconds: 0.25,
			},
			{
				Name: "p2", Kind: "minknow", State: BackingOff, Since: at, Reason: "MinKNOW at p2:9501 can't be reached", RetryAt: &retry, Restarts: 3,
				LastError: "MinKNOW at p2:9501 can't be reached", LastErrorAt: &at,
			},
		},
	}
	recorder := httptest.NewRecorder()
	Handler(func() Report { return report }).ServeHTTP(recorder, httptest.NewRequest("GET", "/status", nil))
	require.Equal(t, "application/json", recorder.Header().Get("Content-Type"))
	require.Equal(t, goldenReport, recorder.Body.String())
	read, err := ReadReport(recorder.Body)
	require.NoError(t, err)
	require.Equal(t, report, read)

	var text bytes.Buffer
	require.NoError(t, read.WriteText(&text))
	require.Equal(t, `/etc/porestream/sources.yaml, in use since 2026-03-01T12:00:00Z
as it is now it can't be used: /etc/porestream/sources.yaml:7:3: source "grid" has no option "polll": did you mean "poll"?
SOURCE  KIND     STATE        FOR  RUNS  CHANNELS  SAMPLES/S  CHUNKS  GAPS  LOST  LAG
grid    watch    running      10s  1     512       2000000    5000    1     0     12 (300ms)
p2      minknow  backing-off  10s  0     0         0          0       0     0     -
p2: MinKNOW at p2:9501 can't be reached (started again in 10s)
`, text.String())
}

func TestReadReportRefuses(t *testing.T) {
	for _, text := range []string{"", "<html>", `{"status":"ok"}`, "[]"} {
		_, err := ReadReport(bytes.NewBufferString(text))
		require.ErrorContains(t, err, "reading the status: ", text)
	}
}

func TestCollector(t *testing.T) {
	s := New(Config{})
	s.table.list([]Spec{{Name: "a", Kind: "watch"}, {Name: "b", Kind: "play"}}, time.Now())
	reg := prometheus.NewRegistry()
	reg.MustRegister(NewCollector(s, nil))
	problems, err := testutil.GatherAndLint(reg)
	require.NoError(t, err)
	require.Empty(t, problems)
	n, err := testutil.GatherAndCount(reg, "porestream_ingest_source_state")
	require.NoError(t, err)
	require.Equal(t, 2*len(States()), n)
}

func FuzzReadReport(f *testing.F) {
	f.Add([]byte(goldenReport))
	f.Add([]byte(`{"version":1,"sources":[{"since":"x"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		report, err := ReadReport(bytes.NewReader(b))
		if err != nil {
			return
		}
		if _, err := json.Marshal(report); err != nil {
			t.Skip() // times beyond the year 9999
		}
		require.NoError(t, report.WriteText(new(bytes.Buffer)))
	})
}
