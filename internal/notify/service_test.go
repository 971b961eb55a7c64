package notify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/access"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

// hook is a webhook's receiver: it notes what it is sent, in order, and answers as it is configured.
type hook struct {
	*httptest.Server
	mu    sync.Mutex
	ids   []string // of the requests that it took
	tries int
}

// newHook answers the n-th request, counted from 1, as a function says: with a code, or once the request is given up.
func newHook(t *testing.T, answer func(n int, r *http.Request) int) *hook {
	h := new(hook)
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then is it seen that a client has gone
		h.mu.Lock()
		h.tries++
		n := h.tries
		h.mu.Unlock()
		code := answer(n, r)
		if code == http.StatusOK {
			h.mu.Lock()
			h.ids = append(h.ids, r.Header.Get("Ce-Id"))
			h.mu.Unlock()
		}
		w.WriteHeader(code)
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *hook) taken() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.ids)
}

func ok(int, *http.Request) int { return http.StatusOK }

// site is a cluster with a topic of alerts.
type site struct {
	t       *testing.T
	cluster *kfake.Cluster
	client  *kafka.Client
	written []string
}

func newSite(t *testing.T) *site {
	s := &site{t: t, cluster: streamtest.Kfake(t, kfake.SeedTopics(2, "alerts", "dlq"))}
	var err error
	s.client, err = kafka.Connect(t.Context(), kafka.Config{Brokers: s.cluster.ListenAddrs()})
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	return s
}

// write writes alerts of a sample; all of one sample are in one partition.
func (s *site) write(sample string, from, to int) {
	s.t.Helper()
	p, err := kafka.NewProducer(s.t.Context(), s.client, kafka.ProducerConfig{})
	require.NoError(s.t, err)
	for i := from; i < to; i++ {
		out := detected(s.t, sample, uint64(i+1)) // revisions begin at 1
		s.written = append(s.written, fmt.Sprintf("id-%s-%c", sample, 'b'+rune(i)))
		require.NoError(s.t, p.Send(s.t.Context(), []stream.Out{out}, nil))
	}
	require.NoError(s.t, p.Close(s.t.Context()))
}

// run runs the service until stop is called.
func (s *site) run(destinations ...Destination) (stop func()) {
	s.t.Helper()
	client, err := kafka.Connect(s.t.Context(), kafka.Config{Brokers: s.cluster.ListenAddrs()})
	require.NoError(s.t, err)
	ctx, cancel := context.WithCancel(s.t.Context())
	service := Service{Client: client, Config: &Config{Destinations: destinations}, Deployment: access.Deployment{Group: "porestream", Panels: true},
		Metrics: NewMetrics(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler)}
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			require.NoError(s.t, err)
		}
		client.Close()
	})
	s.t.Cleanup(stop)
	return stop
}

func to(name string, h *hook) Destination {
	d := Destination{Name: name, Webhook: &Webhook{URL: h.URL}}
	d.withDefaults("")
	return d
}

// of are those of a list that are of a sample.
func of(sample string, ids []string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasPrefix(id, "id-"+sample+"-") })
}

// A receiver that fails, one that hangs and one that answers late keep nobody else waiting, and each gets all, in order.
func TestDestinationsAreApart(t *testing.T) {
	s := newSite(t)
	release := make(chan struct{})
	good := newHook(t, ok)
	failing := newHook(t, func(n int, _ *http.Request) int {
		if n%2 == 1 {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	hanging := newHook(t, func(_ int, r *http.Request) int {
		select {
		case <-release:
			return http.StatusOK
		case <-r.Context().Done():
			return http.StatusGatewayTimeout
		}
	})
	s.run(to("good", good), to("failing", failing), to("hanging", hanging))
	s.write("s", 0, 3)
	s.write("u", 0, 3)
	streamtest.Eventually(t.Context(), t, "the good receiver to have all", func() bool { return len(good.taken()) == 6 })
	require.Empty(t, hanging.taken())
	close(release)
	streamtest.Eventually(t.Context(), t, "the others to have all", func() bool { return len(hanging.taken()) == 6 && len(failing.taken()) == 6 })
	for _, h := range []*hook{good, failing, hanging} {
		for _, sample := range []string{"s", "u"} {
			require.Equal(t, of(sample, s.written), of(sample, h.taken()))
		}
	}
}

// A service that is started before any processor waits for the topic of alerts, and misses none of them; it can be stopped meanwhile.
func TestServiceBeforeItsTopic(t *testing.T) {
	s := &site{t: t, cluster: streamtest.Kfake(t, kfake.SeedTopics(1, "dlq"))}
	var err error
	s.client, err = kafka.Connect(t.Context(), kafka.Config{Brokers: s.cluster.ListenAddrs()})
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	asked := make(chan struct{}, 1)
	s.cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		s.cluster.KeepControl()
		if topics := r.(*kmsg.MetadataRequest).Topics; len(topics) == 1 && *topics[0].Topic == "alerts" {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		return nil, nil, false
	})
	h := newHook(t, ok)
	stop := s.run(to("lims", h))
	<-asked
	stop()
	select {
	case <-asked:
	default:
	}
	s.run(to("lims", h))
	<-asked
	require.NoError(t, s.client.EnsureTopics(t.Context(), []stream.TopicSettings{{Name: "alerts", Partitions: 2}}, 1))
	s.write("s", 0, 3)
	streamtest.Eventually(t.Context(), t, "all alerts", func() bool { return len(h.taken()) == 3 })
	require.Equal(t, s.written, h.taken())
}

// Over restarts nothing is lost, and what had been committed isn't sent again.
func TestRestart(t *testing.T) {
	s := newSite(t)
	h := newHook(t, ok)
	stop := s.run(to("lims", h))
	s.write("s", 0, 5)
	streamtest.Eventually(t.Context(), t, "the first", func() bool { return len(h.taken()) == 5 })
	stop()
	s.write("s", 5, 10) // while nobody listens
	stop = s.run(to("lims", h))
	streamtest.Eventually(t.Context(), t, "the others", func() bool { return len(h.taken()) == 10 })
	stop()
	require.Equal(t, s.written, h.taken())
}

// A crash before a commit has alerts sent again, with the ids that they had.
func TestCrashSendsAgainWithTheSameID(t *testing.T) {
	s := newSite(t)
	h := newHook(t, ok)
	stop := s.run(to("lims", h))
	s.write("s", 0, 2)
	streamtest.Eventually(t.Context(), t, "the first to be committed", func() bool { return s.committed("porestream-notify-lims") == 2 })
	// From now on no commit is taken, as if the process were killed before.
	fault := s.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.UnknownMemberID, Count: 1 << 30})
	s.write("s", 2, 5)
	streamtest.Eventually(t.Context(), t, "the others", func() bool { return len(of("s", h.taken())) >= 5 })
	stop()
	fault.Remove()
	again := newHook(t, ok)
	stop = s.run(to("lims", again))
	streamtest.Eventually(t.Context(), t, "what wasn't committed", func() bool { return len(again.taken()) == 3 })
	stop()
	require.Equal(t, s.written[2:], again.taken())
	require.Subset(t, h.taken(), again.taken()) // sent twice, each with its id
}

// committed is how many alerts a group is done with.
func (s *site) committed(group string) int64 {
	n := int64(0)
	for p := range int32(2) {
		at, _, err := s.client.CommittedOffset(s.t.Context(), group, "alerts", p)
		require.NoError(s.t, err)
		n += max(0, at)
	}
	return n
}

// What a receiver refuses is kept, and doesn't stop what follows.
func TestRefusedAlertIsADeadLetter(t *testing.T) {
	s := newSite(t)
	h := newHook(t, func(_ int, r *http.Request) int {
		if r.Header.Get("Ce-Id") == "id-s-b" {
			return http.StatusUnprocessableEntity
		}
		return http.StatusOK
	})
	stop := s.run(to("lims", h))
	s.write("s", 0, 3)
	streamtest.Eventually(t.Context(), t, "the others", func() bool { return len(h.taken()) == 2 })
	stop()
	var letters []*stream.BadLetter
	require.NoError(t, s.client.Consume(t.Context(), "dlq", kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}, func(rec stream.Record) error {
		l, err := stream.ParseDeadLetter(rec)
		letters = append(letters, l)
		return err
	}))
	require.Len(t, letters, 1)
	require.Equal(t, "refused: destination lims: the receiver answers 422 Unprocessable Entity", letters[0].Reason)
}

// A destination that is new gets no alerts that are older than give_up.
func TestNewDestinationBeginsWithWhatIsNew(t *testing.T) {
	s := newSite(t)
	p, err := kafka.NewProducer(t.Context(), s.client, kafka.ProducerConfig{})
	require.NoError(t, err)
	for i, age := range []time.Duration{48 * time.Hour, time.Hour} {
		out := detected(t, "s", uint64(i+1))
		out.Time = time.Now().Add(-age)
		require.NoError(t, p.Send(t.Context(), []stream.Out{out}, nil))
	}
	require.NoError(t, p.Close(t.Context()))
	h := newHook(t, ok)
	s.run(to("lims", h))
	streamtest.Eventually(t.Context(), t, "the new one", func() bool { return len(h.taken()) > 0 })
	require.Equal(t, []string{"id-s-c"}, h.taken())
}

func TestTry(t *testing.T) {
	good, bad := newHook(t, ok), newHook(t, func(int, *http.Request) int { return http.StatusForbidden })
	said := make(map[string]error)
	err := Try(t.Context(), &Config{Destinations: []Destination{to("good", good), to("bad", bad)}}, slog.New(slog.DiscardHandler), func(name string, err error) { said[name] = err })
	require.EqualError(t, err, "1 of 2 destinations don't take the test")
	require.NoError(t, said["good"])
	require.ErrorContains(t, said["bad"], "403 Forbidden")
	require.Equal(t, []string{"test-of-pore-notify"}, good.taken())
}
