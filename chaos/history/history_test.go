package history_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/chaos/history"
)

func TestWhatIsWrittenIsRead(t *testing.T) {
	at := time.Unix(1000, 0)
	var file bytes.Buffer
	log := history.NewLog(&file, func() time.Time { return at })
	log.Add(history.Event{Kind: history.RunBegins, Name: "chaos --seed 1"})
	at = at.Add(1500 * time.Millisecond)
	log.Add(history.Event{Kind: history.FaultBegins, Fault: 1, Name: "kill", Target: "processor-2"})
	log.Add(history.Event{Kind: history.Sample, Group: "g", Topic: "in", Partition: 3, Offset: -1, End: 9})
	want, err := log.Events()
	require.NoError(t, err)
	require.Equal(t, 1500*time.Millisecond, want[1].Since())
	require.Equal(t, `{"at_ms":1500,"kind":"sample","group":"g","topic":"in","partition":3,"offset":-1,"end":9}`,
		strings.Split(file.String(), "\n")[2])

	got, err := history.Read(&file)
	require.NoError(t, err)
	require.Equal(t, want, got)
}

func TestReadNamesTheBadLine(t *testing.T) {
	for _, tt := range []struct{ file, want string }{
		{"{\"kind\":\"note\"}\n{\"kind\"", "line 2: unexpected end"},
		{"{}\n", "line 1: an event without a kind"},
		{"{\"kind\":\"note\",\"detail\":\"" + strings.Repeat("x", 2<<20) + "\"}\n", "too long"},
	} {
		_, err := history.Read(strings.NewReader(tt.file))
		require.ErrorContains(t, err, tt.want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("disk full") }

func TestAHistoryThatCantBeWrittenSaysSo(t *testing.T) {
	log := history.NewLog(broken{}, time.Now)
	log.Add(history.Event{Kind: history.Note})
	_, err := log.Events()
	require.ErrorContains(t, err, "writing the history: disk full")
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("{\"at_ms\":1,\"kind\":\"note\"}\n{\"kind\":\"sample\",\"offset\":-1}\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		events, err := history.Read(bytes.NewReader(file))
		if err != nil {
			return
		}
		for _, e := range events {
			require.NotEmpty(t, e.Kind)
		}
	})
}
