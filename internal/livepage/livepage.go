// Package livepage has a process take part in the live page: it writes the process's
// reports, follows the topics that the page is made from, and serves it.
package livepage

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/porestream/porestream/ingest"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/monitor/ops"
	"github.com/porestream/porestream/monitor/page"
	"github.com/porestream/porestream/monitor/report"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
)

// TokenVariable is the environment variable with the page's token.
const TokenVariable = "PORESTREAM_PAGE_TOKEN"

// ReportFlags say whether a process reports.
type ReportFlags struct{ Interval time.Duration }

// Register adds the flag.
func (f *ReportFlags) Register(flags *pflag.FlagSet) {
	flags.DurationVar(&f.Interval, "report-interval", report.DefaultInterval, "time between two reports of this process for the live page; 0 writes none")
}

// Validate says what is wrong with the flags.
func (f *ReportFlags) Validate() error {
	if f.Interval != 0 && (f.Interval < 100*time.Millisecond || f.Interval > 5*time.Second) {
		return cli.Usagef("--report-interval %v: give 100ms to 5s, or 0", f.Interval)
	}
	return nil
}

// Flags say how the page is served.
type Flags struct {
	Off       bool
	TokenFile string
	Advertise string
}

// Register adds the flags.
func (f *Flags) Register(flags *pflag.FlagSet) {
	flags.BoolVar(&f.Off, "no-page", false, "serve no live page on --listen (docs/operate/live-page.md)")
	flags.StringVar(&f.TokenFile, "page-token-file", "", "file with the token that the live page needs, the same for all processes; also in "+TokenVariable+" (default: a random one, printed at the start)")
	flags.StringVar(&f.Advertise, "advertise", "", "HOST:PORT at which other processes reach --listen, to ask for the reads at a place (default: from --listen)")
}

// Token is the page's token: the one given, or a new one.
func (f *Flags) Token() (ops.Token, error) {
	token, err := ops.ReadToken(f.TokenFile, TokenVariable)
	if err == nil && token.IsZero() {
		token = ops.NewToken()
	}
	return token, err
}

// Config says what of the page a process has.
type Config struct {
	Client  *kafka.Client
	Topics  stream.Topics
	Kind    string // ingest, processor or run
	Stages  []string
	Version string
	// Interval is the time between two reports; 0: none.
	Interval time.Duration
	Registry *prometheus.Registry
	// Channels are what the sources' channels do, by source; nil: there are none.
	Channels func() map[string][]ingest.Channels
	// Depths are the regions whose depth is to be reported, a number of them at most,
	// and Reads those of the regions that this process holds; nil: it holds none.
	Depths func(now time.Time, limit int) []*streampb.DepthReport
	Reads  page.Reads
	// Namer makes what names the alleles of samples; nil: none are named.
	Namer func() monitor.Namer
	// Server shows the page; nil: it is not served.
	Server    *ops.Server
	Token     ops.Token
	Advertise string
	// Eager follows the topics always, not only while the page is in use.
	Eager  bool
	Logger *slog.Logger
}

// Page is a process's part in the live page.
type Page struct {
	cfg      Config
	reporter *report.Reporter
	server   *page.Server
}

// New prepares a process's part, and has its page served.
func New(cfg Config) *Page {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Page{cfg: cfg}
	who := report.Process{Kind: cfg.Kind, Version: cfg.Version, Stages: cfg.Stages}
	if cfg.Server != nil {
		who.Address = Address(cfg.Advertise, cfg.Server.Addr())
	}
	r := report.Config{
		Topic: cfg.Topics.Status, Interval: cfg.Interval, Process: who,
		Gatherer: cfg.Registry, Metrics: monitor.ReportedMetrics(), Registerer: cfg.Registry, Logger: cfg.Logger,
	}
	if cfg.Channels != nil {
		r.Channels = func() []*streampb.ChannelReport { return channelReports(cfg.Channels()) }
	}
	r.Depths = cfg.Depths
	p.reporter = report.New(r)
	if cfg.Server == nil {
		return p
	}
	pages := page.Config{
		Version: cfg.Version, Instance: p.reporter.Instance(), Started: p.reporter.Started(), Token: cfg.Token,
		NewView: func() *monitor.View {
			view := monitor.NewView(cfg.Topics, monitor.Limits{})
			if cfg.Namer != nil {
				view.Name(cfg.Namer())
			}
			return view
		},
		Follow: p.follow, Eager: cfg.Eager, Logger: cfg.Logger,
	}
	pages.Local = cfg.Reads
	p.server = page.New(pages)
	cfg.Server.Handle("/", p.server.Handler())
	return p
}

// Generated reports whether the page's token was made for this start.
func (p *Page) Generated() bool { return p.cfg.Token.Origin() == ops.NewToken().Origin() }

// Address is where the page is, without the token.
func (p *Page) Address() string { return p.address(false) }

// address is the page's address.
func (p *Page) address(withToken bool) string {
	host := p.cfg.Server.Addr()
	if h, port, err := net.SplitHostPort(host); err == nil {
		if ip := net.ParseIP(h); ip != nil && ip.IsUnspecified() {
			host = net.JoinHostPort(cmp.Or(hostname(), "localhost"), port)
		}
	}
	at := &url.URL{Scheme: "http", Host: host, Path: "/"}
	if withToken {
		at.RawQuery = url.Values{"token": {p.cfg.Token.Secret()}}.Encode()
	}
	return at.String()
}

// Announce writes to out where the page is. A token that was made for this start
// stands in the address, and nowhere else.
func (p *Page) Announce(out io.Writer) {
	if p.server == nil {
		return
	}
	if p.Generated() {
		fmt.Fprintf(out, "live page: %s\n", p.address(true))
		return
	}
	fmt.Fprintf(out, "live page: %s (%v)\n", p.address(false), p.cfg.Token)
}

// Address is where other processes reach a page: what was given, or what is listened
// on, with this machine's name for all of its addresses.
func Address(given, listen string) string {
	if given != "" {
		return bracketed(given)
	}
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return listen
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = cmp.Or(hostname(), "localhost")
	}
	return net.JoinHostPort(host, port)
}

// bracketed puts the brackets around an IPv6 address before a port: what puts
// addresses together, as Kubernetes does with $(POD_IP):9102, knows nothing of them.
func bracketed(address string) string {
	at := strings.LastIndexByte(address, ':')
	if at < 0 {
		return address
	}
	host, port := address[:at], address[at+1:]
	if ip, err := netip.ParseAddr(host); err == nil && ip.Is6() {
		return net.JoinHostPort(host, port)
	}
	return address
}

// Validate says what is wrong with the flags.
func (f *Flags) Validate() error {
	if f.Advertise == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(bracketed(f.Advertise))
	if n, notANumber := strconv.ParseUint(port, 10, 16); err != nil || host == "" || notANumber != nil || n == 0 {
		return cli.Usagef("--advertise %s: give HOST:PORT, as other processes can reach it", f.Advertise)
	}
	return nil
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

// Times of trying again.
const (
	producerRetry = 10 * time.Second
	topicRetry    = 5 * time.Second
	closeTimeout  = 2 * time.Second
)

// Run takes part until ctx ends. It never fails: the pipeline does without the page.
func (p *Page) Run(ctx context.Context) {
	var work sync.WaitGroup
	if p.cfg.Interval > 0 {
		work.Go(func() { p.report(ctx) })
	}
	if p.server != nil {
		work.Go(func() {
			if err := p.server.Run(ctx); err != nil {
				p.cfg.Logger.Warn("the live page is gone", "err", err)
			}
		})
	}
	work.Wait()
}

func (p *Page) report(ctx context.Context) {
	for ctx.Err() == nil {
		producer, err := kafka.NewProducer(ctx, p.cfg.Client, kafka.ProducerConfig{
			MaxBufferedBytes: 4 << 20, DeliveryTimeout: 10 * time.Second, Zstd: []string{p.cfg.Topics.Status},
		})
		if err != nil {
			if ctx.Err() == nil {
				p.cfg.Logger.Warn("reports for the live page can't be written", "err", err)
			}
			pause(ctx, producerRetry)
			continue
		}
		p.reporter.Run(ctx, producer)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		_ = producer.Close(closing) // what is lost is counted
		cancel()
	}
}

// follow keeps the view until ctx ends. A topic that can't be read is shown as such,
// and tried again.
func (p *Page) follow(ctx context.Context, s *page.Server) error {
	var topics []string
	s.Update(func(v *monitor.View) { topics = v.Topics() })
	var work sync.WaitGroup
	for _, topic := range topics {
		work.Go(func() {
			for ctx.Err() == nil {
				_, err := p.cfg.Client.Partitions(ctx, topic)
				if err == nil {
					s.Update(func(v *monitor.View) { v.Unreadable(topic, nil) })
					err = p.cfg.Client.Consume(ctx, topic, kafka.ConsumeOptions{From: kafka.FromStart}, func(rec stream.Record) error {
						s.Update(func(v *monitor.View) {
							if err := v.Add(rec); err != nil {
								p.cfg.Logger.Debug("the live page leaves out a record", "topic", topic, "partition", rec.Partition, "offset", rec.Offset, "err", err)
							}
						})
						return nil
					})
				}
				if err != nil && ctx.Err() == nil {
					s.Update(func(v *monitor.View) { p.cfg.unreadable(v, topic, err) })
				}
				pause(ctx, topicRetry)
			}
		})
	}
	work.Wait()
	return nil
}

// idle reports whether an error says no more than that nobody has made an optional topic: there are no alerts where nobody watches, and no
// counts where nobody counts modified bases.
func (c *Config) idle(topic string, err error) bool {
	return kafka.IsMissingTopic(err) && (topic == c.Topics.Alerts || topic == c.Topics.Methylation)
}

// unreadable has the page show why a topic can't be read. Of an optional one that nobody has made nothing is shown, nor what kept the page from
// asking for it before: brokers that were away, say.
func (c *Config) unreadable(v *monitor.View, topic string, err error) {
	if c.idle(topic, err) {
		err = nil
	}
	v.Unreadable(topic, err)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

func channelReports(by map[string][]ingest.Channels) []*streampb.ChannelReport {
	var out []*streampb.ChannelReport
	for source, runs := range by {
		for _, c := range runs {
			out = append(out, &streampb.ChannelReport{Source: source, Run: c.Run, States: c.States, Reads: c.Reads, Samples: c.Samples, Ended: c.Ended, Sequencer: c.Sequencer})
		}
	}
	return out
}
