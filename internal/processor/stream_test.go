package processor

import (
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/kafka"
)

func TestStreamFlags(t *testing.T) {
	tests := map[string]struct {
		args    []string
		want    func(s *Stream)
		wantErr string
	}{
		"defaults":       {want: func(*Stream) {}},
		"at least once":  {args: []string{"--delivery", "at-least-once"}, want: func(s *Stream) { s.Delivery = kafka.AtLeastOnce }},
		"bounds":         {args: []string{"--max-buffered", "1000", "--max-unresolved", "2MiB"}, want: func(s *Stream) { s.MaxBuffered, s.MaxUnresolvedBytes = 1000, 2<<20 }},
		"times":          {args: []string{"--commit-interval", "1s", "--snapshot-interval", "5m"}, want: func(s *Stream) { s.CommitInterval, s.SnapshotInterval = time.Second, 5*time.Minute }},
		"at most once":   {args: []string{"--delivery", "at-most-once"}, wantErr: "want exactly-once or at-least-once"},
		"rare commits":   {args: []string{"--commit-interval", "1m"}, wantErr: "--commit-interval 1m0s is too long"},
		"busy snapshots": {args: []string{"--snapshot-interval", "1ms"}, wantErr: "--snapshot-interval 1ms is too short"},
		"long drain":     {args: []string{"--drain-timeout", "40s"}, wantErr: "--drain-timeout 40s: at most"},
		"negative":       {args: []string{"--max-buffered", "-1"}, wantErr: `"-1" is no size`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var got Stream
			flags := pflag.NewFlagSet("", pflag.ContinueOnError)
			got.Register(flags)
			err := flags.Parse(tc.args)
			if err == nil {
				err = got.Validate()
			}
			if tc.wantErr != "" {
				require.ErrorContains(t, err, tc.wantErr)
				return
			}
			require.NoError(t, err)
			want := Stream{SessionTimeout: defaultSession, SnapshotInterval: time.Minute, DrainTimeout: 15 * time.Second, MaxBuffered: defaultMaxBuffered, MaxUnresolvedBytes: defaultMaxUnresolved}
			tc.want(&want)
			assert.Equal(t, want, got)
		})
	}
}
