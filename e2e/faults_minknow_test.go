package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream/streamtest"
)

// wrongToken is what MinKNOW does not want to be shown.
const wrongToken = "marked-mistake-3e9f44"

// sequencer starts a simulated MinKNOW for one fault.
func (f *fault) sequencer(args ...string) *simulated {
	f.Helper()
	return startMinKNOW(f, lambda("reads.pod5"), append([]string{"--channels", "16", "--pace", "2"}, args...)...)
}

// following follows it until there is signal.
func (f *fault) following(sim *simulated, args ...string) {
	f.Helper()
	f.kafka()
	f.runs(sim.follow(args...)...)
	f.signalComes()
}

func (f *fault) instruct(sim *simulated, lines ...string) {
	f.Helper()
	for _, line := range lines {
		require.NoError(f, sim.Command(line))
	}
}

// certificate issues one for a time and writes it and its key.
func (f *fault) certificate(valid time.Duration) (ca, cert, key string) {
	f.Helper()
	authority, err := streamtest.NewAuthority()
	require.NoError(f, err)
	id, err := authority.Issue("localhost", valid)
	require.NoError(f, err)
	return f.write("ca.crt", id.CAPEM), f.write("x.crt", id.CertPEM), f.write("x.key", id.KeyPEM)
}

// taken is an address that somebody listens on who does not answer.
func (f *fault) taken() string {
	f.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(f, err)
	f.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

var minknowFaults = map[string]func(*fault){
	"MinKNOW's host or port is wrong": func(f *fault) {
		ca, _, _ := f.certificate(time.Hour)
		f.fails("minknow", "--host", "127.0.0.1", "--port", "1", "--minknow-ca", ca)
	},
	"something else than MinKNOW listens there": func(f *fault) {
		f.kafka()
		ca, _, _ := f.certificate(time.Hour)
		_, port, err := net.SplitHostPort(f.addr) // Kafka, for example
		require.NoError(f, err)
		f.fails("minknow", "--host", "127.0.0.1", "--port", port, "--minknow-ca", ca)
	},
	"MinKNOW's token is wrong": func(f *fault) {
		sim := f.sequencer()
		require.NoError(f, os.WriteFile(sim.token(), []byte(wrongToken), 0o600))
		f.fails(sim.follow()...)
	},
	"MinKNOW's token is none": func(f *fault) {
		sim := f.sequencer()
		require.NoError(f, os.WriteFile(sim.token(), []byte(wrongToken+"\n"+wrongToken), 0o600))
		f.fails(sim.follow()...)
	},
	"MinKNOW's token can't be read": func(f *fault) {
		sim := f.sequencer()
		require.NoError(f, os.Remove(sim.token()))
		f.fails(sim.follow()...)
	},
	"MinKNOW's local token has expired": func(f *fault) {
		local := f.write("local.json", []byte(`{"token": "`+minknowToken+`", "expires": "2020-01-01T00:00:00Z"}`))
		sim := f.sequencer("--local-token", local)
		f.env = []string{"MINKNOW_API_USE_LOCAL_TOKEN=1"}
		f.fails("minknow", "--host", "127.0.0.1", "--port", strconv.Itoa(sim.Port), "--minknow-ca", filepath.Join(sim.certs, "ca.crt"))
	},
	"MinKNOW's token expires during a run": func(f *fault) {
		sim := f.sequencer()
		f.following(sim)
		f.instruct(sim, "token another", "cut")
	},
	"MinKNOW's certificate has expired": func(f *fault) {
		sim := f.sequencerWith(-time.Hour)
		f.fails(sim.follow()...)
	},
	"MinKNOW's certificate is of another authority": func(f *fault) {
		sim := f.sequencer()
		ca, _, _ := f.certificate(time.Hour)
		f.fails("minknow", "--host", "127.0.0.1", "--port", strconv.Itoa(sim.Port), "--minknow-ca", ca, "--token-file", sim.token())
	},
	"MinKNOW's authority is no certificate": func(f *fault) {
		f.fails("minknow", "--host", "127.0.0.1", "--minknow-ca", f.write("ca.crt", []byte("nonsense")))
	},
	"the client certificate for MinKNOW has expired": func(f *fault) {
		ca, cert, key := f.certificate(-time.Hour)
		f.fails("minknow", "--host", "127.0.0.1", "--minknow-ca", ca, "--minknow-cert", cert, "--minknow-key", key)
	},
	"MinKNOW asks for a client certificate": func(f *fault) {
		sim := f.sequencer("--client-certificates")
		f.fails(sim.follow()...)
	},
	"MinKNOW has no such position": func(f *fault) {
		sim := f.sequencer("--positions", "X1,X2")
		f.fails(sim.follow("--position", "X3")...)
	},
	"MinKNOW knows none of the read classes": func(f *fault) {
		sim := f.sequencer()
		f.kafka()
		f.runs(sim.follow("--classes", "nonsense")...)
	},
	"MinKNOW is of another version": func(f *fault) {
		sim := f.sequencer("--old")
		f.kafka()
		f.runs(sim.follow()...)
	},
	"MinKNOW goes away": func(f *fault) {
		sim := f.sequencer()
		f.following(sim)
		sim.Kill()
	},
	"MinKNOW says another sample than before": func(f *fault) {
		sim := f.sequencer()
		f.following(sim)
		f.instruct(sim, "sample other", "cut")
	},
	"MinKNOW's clock goes back": func(f *fault) {
		sim := f.sequencer()
		f.following(sim)
		f.instruct(sim, "rewind")
	},
	"MinKNOW leaves out signal": func(f *fault) {
		sim := f.sequencer("--drop", "0.2")
		f.following(sim)
		f.eventually("a gap", func() bool { return f.counter(`minknow_gaps_total{within="read"}`) > 0 })
		f.instruct(sim, "end")
	},
	"a second ingest follows MinKNOW's run": func(f *fault) {
		sim := f.sequencer()
		f.kafka()
		f.runs(sim.follow()...)
		f.signalComes()
		younger := f.command(sim.follow())
		require.NoError(f, younger.Start())
		f.Cleanup(func() { younger.Process.Kill(); younger.Wait() })
	},
	"live signal finds no space": func(f *fault) {
		sim := f.sequencer("--pace", "20")
		broker := f.kafka()
		f.runs(sim.follow("--max-buffered", "4MiB")...)
		f.signalComes()
		broker.Close()
	},
}

// sequencerWith starts one whose certificate holds for a time.
func (f *fault) sequencerWith(valid time.Duration) *simulated {
	f.Helper()
	return startMinKNOWWith(f, lambda("reads.pod5"), valid, "--channels", "16")
}
