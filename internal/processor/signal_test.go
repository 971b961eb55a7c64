package processor

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/porestream/porestream/basecall"
)

func TestSignalBounds(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"", ""},
		{"--max-signal-memory 1000000000 --run-timeout 90m --device-timeout 5s", ""},
		{"--max-signal-memory 1000", "--max-signal-memory 1000 is too little"},
		{"--max-signal-memory 1KiB", "--max-signal-memory 1024 is too little"},
		{"--run-timeout 1s", "--run-timeout 1s is too short"},
		{"--partial 10s", ""},
		{"--partial 10ms", "--partial 10ms is too short"},
		{"--partial -1s", "--partial -1s is too short"},
		{"--run-timeout -1h", "--run-timeout -1h0m0s is too short"},
		{"--device-timeout -1s", "--device-timeout -1s is negative"},
	} {
		var f Flags
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Register(flags)
		if err := flags.Parse(append(strings.Fields(c.args), "--ref", "x.fa")); err != nil {
			t.Fatal(err)
		}
		opts, err := f.Options(nil)
		if err == nil != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.args, err, c.want)
		}
		if c.args == "" && (opts.Signal != Signal{MaxMemory: 4 << 30, RunTimeout: 6 * time.Hour} || opts.DeviceTimeout != time.Minute) {
			t.Errorf("defaults %+v, %v", opts.Signal, opts.DeviceTimeout)
		}
	}
}

func TestModelFingerprint(t *testing.T) {
	seen := make(map[string]bool)
	for _, m := range []*basecall.Model{
		{Manifest: basecall.Manifest{Name: "fast"}, Network: []byte("a")},
		{Manifest: basecall.Manifest{Name: "fast"}, Network: []byte("b")},
		{Manifest: basecall.Manifest{Name: "fast", SampleRates: []int{5000}}, Network: []byte("a")},
	} {
		print := modelFingerprint(m)
		if seen[print] || !strings.HasPrefix(print, "fast sha256:") || print != modelFingerprint(m) {
			t.Errorf("fingerprint %q", print)
		}
		seen[print] = true
	}
}
