package tracing

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"google.golang.org/grpc/credentials"

	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/stream/trace"
)

// Flags say where spans go. What is not given is taken from OpenTelemetry's standard
// environment variables; without an endpoint nothing is traced.
type Flags struct {
	Endpoint    string
	Sample      float64
	Protocol    string
	CA          string
	Cert, Key   string
	HeadersFile string

	flags *pflag.FlagSet
}

// defaultSample is the share of reads that are traced. One in a hundred shows how long
// reads take, and costs nothing that can be measured.
const defaultSample = 0.01

// Protocols, as OTEL_EXPORTER_OTLP_PROTOCOL names them.
const (
	protocolGRPC = "grpc"
	protocolHTTP = "http/protobuf"
)

// Register adds the flags.
func (f *Flags) Register(flags *pflag.FlagSet) {
	f.flags = flags
	flags.StringVar(&f.Endpoint, "trace-endpoint", "", "send traces of reads to this OTLP receiver, http(s)://HOST:PORT (docs/operate/traces.md); else as OTEL_EXPORTER_OTLP_ENDPOINT says; off if neither is given")
	flags.Float64Var(&f.Sample, "trace-sample", defaultSample, "share of the reads that are traced, 0 to 1, by a hash of the read's id")
	flags.StringVar(&f.Protocol, "trace-protocol", "", "grpc or http/protobuf (default http/protobuf at port 4318 and where the endpoint has a path, else grpc)")
	flags.StringVar(&f.CA, "trace-ca", "", "PEM file of the authorities to trust for https; the system's if not given")
	flags.StringVar(&f.Cert, "trace-cert", "", "PEM file of this client's certificate for the receiver of traces")
	flags.StringVar(&f.Key, "trace-key", "", "PEM file of this client's key for the receiver of traces")
	flags.StringVar(&f.HeadersFile, "trace-headers-file", "", "file with headers for the receiver of traces, a line each, NAME: VALUE; else the environment variable OTEL_EXPORTER_OTLP_HEADERS")
}

// On reports whether anything is traced.
func (f *Flags) On() bool { return f.endpoint() != "" }

// Files are the names of the flags that name files.
func Files() []string { return []string{"trace-ca", "trace-cert", "trace-key", "trace-headers-file"} }

// endpoint is the receiver's URL; empty if there is none.
func (f *Flags) endpoint() string {
	if f.Endpoint != "" {
		return f.Endpoint
	}
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") || os.Getenv("OTEL_TRACES_EXPORTER") == "none" {
		return ""
	}
	return cmp.Or(os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
}

// target is a receiver with all that is needed to reach it.
type target struct {
	url      *url.URL
	protocol string
	tls      *tls.Config // nil: plain text, or as the environment says
	headers  map[string]string
}

// target checks the settings. Its errors show nothing of headers' values.
func (f *Flags) target() (target, error) {
	u, err := url.Parse(f.endpoint())
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return target{}, errors.New("--trace-endpoint: want http://HOST:PORT, or https://HOST:PORT for TLS")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return target{}, errors.New("--trace-endpoint: no user, password or query belongs there, for it is shown and logged: give --trace-headers-file")
	}
	if !(f.Sample >= 0 && f.Sample <= 1) {
		return target{}, fmt.Errorf("--trace-sample %g: want a share of the reads, from 0 to 1", f.Sample)
	}
	t := target{url: u}
	t.protocol = cmp.Or(f.Protocol, os.Getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), os.Getenv("OTEL_EXPORTER_OTLP_PROTOCOL"))
	switch t.protocol {
	case protocolGRPC, protocolHTTP:
	case "http":
		t.protocol = protocolHTTP
	case "":
		if t.protocol = protocolGRPC; u.Port() == "4318" || strings.Trim(u.Path, "/") != "" {
			t.protocol = protocolHTTP
		}
	default:
		return target{}, fmt.Errorf("--trace-protocol %q: want %s or %s", t.protocol, protocolGRPC, protocolHTTP)
	}
	if t.protocol == protocolGRPC && strings.Trim(u.Path, "/") != "" {
		return target{}, fmt.Errorf("--trace-endpoint: a path is of no use with grpc: give --trace-protocol %s", protocolHTTP)
	}
	// A variable for traces alone is taken as it is, as the standard has it.
	whole := f.Endpoint == "" && os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	if t.protocol == protocolHTTP && !whole && !strings.HasSuffix(u.Path, "/v1/traces") {
		u.Path = strings.TrimSuffix(u.Path, "/") + "/v1/traces"
	}
	if t.tls, err = f.tlsConfig(u.Scheme); err != nil {
		return target{}, err
	}
	t.headers, err = f.headers()
	return t, err
}

func (f *Flags) tlsConfig(scheme string) (*tls.Config, error) {
	if f.CA == "" && f.Cert == "" && f.Key == "" {
		return nil, nil //nolint:nilnil // the defaults will do
	}
	if scheme != "https" {
		return nil, errors.New("--trace-ca, --trace-cert and --trace-key need an endpoint with https://")
	}
	if (f.Cert == "") != (f.Key == "") {
		return nil, errors.New("--trace-cert and --trace-key belong together")
	}
	cfg := &tls.Config{MinVersion: tls.VersionTLS12}
	if f.CA != "" {
		pem, err := os.ReadFile(f.CA)
		if err != nil {
			return nil, fmt.Errorf("--trace-ca: %w", err)
		}
		cfg.RootCAs = x509.NewCertPool()
		if !cfg.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("--trace-ca: %s holds no certificate in PEM", f.CA)
		}
	}
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return nil, fmt.Errorf("--trace-cert, --trace-key: %w", err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return cfg, nil
}

// headers are those for the receiver. Those of the environment are read here and not
// left to the client, which logs what it can't read.
func (f *Flags) headers() (map[string]string, error) {
	if f.HeadersFile != "" {
		data, err := os.ReadFile(f.HeadersFile)
		if err != nil {
			return nil, fmt.Errorf("--trace-headers-file: %w", err)
		}
		return parseHeaderLines(string(data), f.HeadersFile)
	}
	headers := make(map[string]string)
	for _, variable := range []string{"OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS"} {
		of, err := parsePairs(os.Getenv(variable), variable)
		if err != nil {
			return nil, err
		}
		for _, a := range of {
			if !isToken(a.Key) {
				return nil, fmt.Errorf("%s: pair names no header", variable)
			}
			headers[strings.ToLower(a.Key)] = a.Value.(string)
		}
	}
	return headers, nil
}

func parseHeaderLines(text, path string) (map[string]string, error) {
	headers := make(map[string]string)
	n := 0
	for line := range strings.Lines(text) {
		n++
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !isToken(name) || value == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, fmt.Errorf("--trace-headers-file: %s:%d: want NAME: VALUE in ASCII", path, n)
		}
		headers[strings.ToLower(name)] = value
	}
	return headers, nil
}

// isToken reports whether a text can be a header's name.
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}

// parsePairs reads NAME=VALUE,... with values as in URLs, as OpenTelemetry's
// variables have them.
func parsePairs(text, variable string) ([]trace.Attribute, error) {
	var pairs []trace.Attribute
	for i, pair := range strings.Split(text, ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !ok || name == "" || err != nil {
			return nil, fmt.Errorf("%s: pair %d is not NAME=VALUE with the value escaped as in a URL", variable, i+1)
		}
		pairs = append(pairs, trace.String(name, value))
	}
	return pairs, nil
}

// sample is the share of the reads that are traced.
func (f *Flags) sample() (float64, error) {
	if f.flags != nil && f.flags.Changed("trace-sample") {
		return f.Sample, nil
	}
	switch os.Getenv("OTEL_TRACES_SAMPLER") {
	case "always_on", "parentbased_always_on":
		return 1, nil
	case "always_off", "parentbased_always_off":
		return 0, nil
	case "traceidratio", "parentbased_traceidratio":
		text := cmp.Or(os.Getenv("OTEL_TRACES_SAMPLER_ARG"), "1")
		ratio, err := strconv.ParseFloat(text, 64)
		if err != nil || !(ratio >= 0 && ratio <= 1) {
			return 0, errors.New("OTEL_TRACES_SAMPLER_ARG: want a share of the reads, from 0 to 1")
		}
		return ratio, nil
	}
	return f.Sample, nil
}

// Start begins to send spans of the named service. It returns the tracer, nil if
// nothing is traced, and what ends the sending: it waits a moment for what is left.
// Reaching the receiver is no condition.
func (f *Flags) Start(ctx context.Context, service string, reg prometheus.Registerer, log *slog.Logger) (*trace.Tracer, func(), error) {
	if !f.On() {
		return nil, func() {}, nil
	}
	to, err := f.target()
	if err != nil {
		return nil, nil, cli.Usagef("%w", err)
	}
	ratio, err := f.sample()
	if err != nil {
		return nil, nil, cli.Usagef("%w", err)
	}
	of, err := describe(service)
	if err != nil {
		return nil, nil, cli.Usagef("%w", err)
	}
	client := to.client()
	if err := client.Start(ctx); err != nil {
		return nil, nil, fmt.Errorf("--trace-endpoint %s: %w", to.url.Redacted(), err)
	}
	e := newExporter(client, of, reg, log)
	for _, value := range to.headers {
		e.hide = append(e.hide, value)
	}
	// The longest first: one may be part of another.
	slices.SortFunc(e.hide, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	var done sync.WaitGroup
	done.Go(func() { e.Run(running) })
	stop := sync.OnceFunc(func() {
		end()
		done.Wait()
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
		defer cancel()
		_ = client.Stop(closing) // everything that could be sent has been
	})
	log.Info("reads are traced", "endpoint", to.url.Redacted(), "protocol", to.protocol, "share", ratio)
	return trace.New(ratio, e, time.Now), stop, nil
}

// client speaks to the receiver. What the settings don't say, as the timeouts of
// OTEL_EXPORTER_OTLP_*, it takes from the environment itself.
func (t *target) client() otlptrace.Client {
	// Short pauses: spans are not worth much later, and there is a queue to keep small.
	const first, longest = 500 * time.Millisecond, 5 * time.Second
	if t.protocol == protocolHTTP {
		opts := []otlptracehttp.Option{
			otlptracehttp.WithEndpointURL(t.url.String()), otlptracehttp.WithTimeout(uploadTimeout), otlptracehttp.WithCompression(otlptracehttp.GzipCompression),
			otlptracehttp.WithRetry(otlptracehttp.RetryConfig{Enabled: true, InitialInterval: first, MaxInterval: longest, MaxElapsedTime: uploadTimeout}),
		}
		if t.tls != nil {
			opts = append(opts, otlptracehttp.WithTLSClientConfig(t.tls))
		}
		if len(t.headers) > 0 {
			opts = append(opts, otlptracehttp.WithHeaders(t.headers))
		}
		return otlptracehttp.NewClient(opts...)
	}
	opts := []otlptracegrpc.Option{
		otlptracegrpc.WithEndpointURL(t.url.Scheme + "://" + t.url.Host), otlptracegrpc.WithTimeout(uploadTimeout), otlptracegrpc.WithCompressor("gzip"),
		otlptracegrpc.WithRetry(otlptracegrpc.RetryConfig{Enabled: true, InitialInterval: first, MaxInterval: longest, MaxElapsedTime: uploadTimeout}),
	}
	if t.tls != nil {
		opts = append(opts, otlptracegrpc.WithTLSCredentials(credentials.NewTLS(t.tls)))
	}
	if len(t.headers) > 0 {
		opts = append(opts, otlptracegrpc.WithHeaders(t.headers))
	}
	return otlptracegrpc.NewClient(opts...)
}

// describe says who makes the spans.
func describe(service string) (resource, error) {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails
	list := []trace.Attribute{
		trace.String("service.name", service), trace.String("service.version", cli.Version),
		trace.String("service.instance.id", hex.EncodeToString(id[:])), trace.Int("process.pid", os.Getpid()),
	}
	if host, err := os.Hostname(); err == nil {
		list = append(list, trace.String("host.name", host))
	}
	given, err := parsePairs(os.Getenv("OTEL_RESOURCE_ATTRIBUTES"), "OTEL_RESOURCE_ATTRIBUTES")
	if err != nil {
		return resource{}, err
	}
	if name := os.Getenv("OTEL_SERVICE_NAME"); name != "" {
		given = append(given, trace.String("service.name", name))
	}
	for _, a := range given {
		list = slices.DeleteFunc(list, func(own trace.Attribute) bool { return own.Key == a.Key })
		list = append(list, a)
	}
	return resource{version: cli.Version, attributes: list}, nil
}
