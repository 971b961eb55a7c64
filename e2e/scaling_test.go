package e2e

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
)

// scalingVariable asks for the measurement; its value is the simulated device's
// latency and batch, such as 400ms:8, and behind another colon the file of
// recorded scores if there is one already.
const scalingVariable = "PORESTREAM_SCALING"

// TestScaling shares a recording among 1, 2 and 4 processors, each with a device
// that takes a fixed time for a batch. What they do together while all of them
// are busy must grow in proportion, and the result must be the same bytes. It is
// a measurement of minutes, for a machine that has nothing else to do.
func TestScaling(t *testing.T) {
	device := os.Getenv(scalingVariable)
	if device == "" {
		t.Skipf("measures for minutes: set %s=LATENCY:BATCH, such as 400ms:8", scalingVariable)
	}
	if strings.Count(device, ":") == 1 {
		scores := filepath.Join(t.TempDir(), "scores.pssc")
		recordScores(t, scores, lambda("reads.pod5"))
		device += ":" + scores
	}
	device = "sim:" + device

	var alone, aloneTakes float64
	var want string
	for _, n := range []int{1, 2, 4} {
		rate, takes, vcf := scale(t, n, device)
		if n == 1 {
			alone, aloneTakes, want = rate, takes, vcf
		}
		t.Logf("%d processors: %.0f samples/s while all are busy, %.3f of linear; the whole run in %.1f s, %.3f of linear",
			n, rate, rate/(float64(n)*alone), takes, aloneTakes/(float64(n)*takes))
		require.InEpsilon(t, float64(n)*alone, rate, 0.05, "%d processors", n)
		require.Equal(t, want, vcf, "%d processors", n)
	}
}

// scale runs a recording through n processors and returns the samples per second
// that their devices took while all were busy, the seconds until the run's end,
// and the VCF.
func scale(t *testing.T, n int, device string) (rate, takes float64, vcf string) {
	broker, err := embedded.Start(embedded.Config{DataDir: filepath.Join(t.TempDir(), "broker")})
	require.NoError(t, err)
	defer broker.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	client := connect(ctx, t, broker.Addr())
	require.NoError(t, client.EnsureTopics(t.Context(), stream.NewTopics("").Settings(24), 1))
	// All of the signal is there before anybody works on it.
	start(t, cancel, "ingest", "--brokers", broker.Addr(), "--listen", "127.0.0.1:0", lambda("reads.pod5")).ended(t)

	began := time.Now()
	var services []*service
	var urls []string
	for range n {
		listen := freeAddress(t)
		urls = append(urls, "http://"+listen+"/metrics")
		services = append(services, start(t, cancel, "processor", "--brokers", broker.Addr(), "--ref", lambda("reference.fa"), "--gff", lambda("genes.gff3"),
			"--device", device, "--listen", listen))
	}
	ended := make(chan struct{})
	measured := make(chan float64, 1)
	go func() { measured <- busyRate(urls, ended) }()
	follow(ctx, t, client, nil)
	takes = time.Since(began).Seconds()
	close(ended)
	rate = <-measured
	for _, s := range services {
		s.stop(t)
	}
	res := pore(t, "consume", "--brokers", broker.Addr(), "--format", "vcf", "--ref", lambda("reference.fa"))
	require.Zero(t, res.code, res.stderr)
	return rate, takes, res.stdout
}

// busyRate polls the processors' metrics until ended is closed. It returns the
// samples per second of all devices from the moment when every one has begun until
// the first has no more to do: in the longest stretch in which each went on from one
// poll to the next.
func busyRate(urls []string, ended <-chan struct{}) float64 {
	type reading struct {
		at      time.Time
		samples []float64
	}
	var first, last reading
	var rate, longest float64
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ended:
			return rate
		case <-ticker.C:
		}
		now := reading{at: time.Now(), samples: make([]float64, len(urls))}
		busy := true
		for i, url := range urls {
			now.samples[i] = samplesOf(url)
			busy = busy && len(last.samples) > 0 && now.samples[i] > last.samples[i] && last.samples[i] > 0
		}
		if !busy {
			first = now
		} else if seconds := now.at.Sub(first.at).Seconds(); seconds > longest {
			total := 0.0
			for i := range urls {
				total += now.samples[i] - first.samples[i]
			}
			rate, longest = total/seconds, seconds
		}
		last = now
	}
}

// samplesOf reads how many samples a processor's device has taken; 0 if it can't
// be asked yet.
func samplesOf(url string) float64 {
	return metric(url, "porestream_infer_samples_total")
}

// metric adds up the series of a counter, or of a histogram's sum or count, on a
// service's page of metrics; 0 if the service can't be asked yet.
func metric(url, name string) float64 {
	resp, err := http.Get(url) //nolint:noctx // the processor is here, and the test ends it
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	total := 0.0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), name+"{"); ok {
			_, value, _ := strings.Cut(rest, "} ")
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				total += v
			}
		}
	}
	return total
}

// freeAddress is an address that nobody listens on, and that no other call returns: a
// program takes a while until it listens. Its port is below those that systems give to
// a program that asks for any: a broker of another test would else take it meanwhile.
func freeAddress(t testing.TB) string {
	t.Helper()
	const first, last = 20_000, 32_000
	for range 100 {
		port := first + (firstPort+portsTried.Add(1))%(last-first)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			defer l.Close()
			return fmt.Sprint(l.Addr())
		}
	}
	require.FailNow(t, "no port is free")
	return ""
}

// firstPort is where freeAddress begins, so that two runs of the tests seldom meet.
var (
	firstPort  = rand.Int64N(10_000)
	portsTried atomic.Int64
)
