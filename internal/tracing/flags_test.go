package tracing

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/porestream/porestream/internal/tracing/tracingtest"
	"github.com/porestream/porestream/stream/trace"
)

// variables are all of the environment that the settings are taken from.
var variables = []string{
	"OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
	"OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS",
	"OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SERVICE_NAME",
}

// parse returns the settings of a command line, in an environment that holds env alone.
func parse(t *testing.T, env map[string]string, args ...string) *Flags {
	t.Helper()
	for _, v := range variables {
		t.Setenv(v, env[v])
	}
	set := pflag.NewFlagSet("test", pflag.ContinueOnError)
	f := new(Flags)
	f.Register(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestTarget(t *testing.T) {
	file := func(text string) string {
		path := filepath.Join(t.TempDir(), "headers")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	type env = map[string]string
	for _, c := range []struct {
		name    string
		env     env
		args    []string
		want    string // protocol and URL, or part of the error
		headers string // name=value,...
	}{
		{name: "off", want: "off"},
		{name: "plain", args: []string{"--trace-endpoint", "http://collector:4317"}, want: "grpc http://collector:4317"},
		{name: "port of HTTP", args: []string{"--trace-endpoint", "http://collector:4318"}, want: "http/protobuf http://collector:4318/v1/traces"},
		{name: "with a path", args: []string{"--trace-endpoint", "https://host/otlp/"}, want: "http/protobuf https://host/otlp/v1/traces"},
		{name: "with the whole path", args: []string{"--trace-endpoint", "https://host/otlp/v1/traces"}, want: "http/protobuf https://host/otlp/v1/traces"},
		{name: "HTTP by flag", args: []string{"--trace-endpoint", "http://h:1", "--trace-protocol", "http"}, want: "http/protobuf http://h:1/v1/traces"},
		{name: "gRPC by variable", env: env{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, args: []string{"--trace-endpoint", "http://h:4318"}, want: "grpc http://h:4318"},
		{name: "by variable", env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318"}, want: "http/protobuf http://h:4318/v1/traces"},
		{name: "by variable for traces", env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://other:1", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://h:4318/in"}, want: "http/protobuf http://h:4318/in"},
		{name: "flag before variable", env: env{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://other:4318"}, args: []string{"--trace-endpoint", "http://h:4318"}, want: "http/protobuf http://h:4318/v1/traces"},
		{name: "disabled", env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_SDK_DISABLED": "true"}, want: "off"},
		{name: "no exporter", env: env{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h:4318", "OTEL_TRACES_EXPORTER": "none"}, want: "off"},
		{name: "no scheme", args: []string{"--trace-endpoint", "collector:4317"}, want: "want http://HOST:PORT"},
		{name: "password", args: []string{"--trace-endpoint", "http://me:secret@h:1"}, want: "no user, password or query"},
		{name: "key in the query", args: []string{"--trace-endpoint", "http://h:1/?key=secret"}, want: "no user, password or query"},
		{name: "other protocol", args: []string{"--trace-endpoint", "http://h:1", "--trace-protocol", "zipkin"}, want: `--trace-protocol "zipkin"`},
		{name: "path with gRPC", args: []string{"--trace-endpoint", "http://h:1/x", "--trace-protocol", "grpc"}, want: "a path is of no use with grpc"},
		{name: "share", args: []string{"--trace-endpoint", "http://h:1", "--trace-sample", "1.5"}, want: "--trace-sample 1.5"},
		{name: "certificate without TLS", args: []string{"--trace-endpoint", "http://h:1", "--trace-ca", "x"}, want: "need an endpoint with https://"},
		{name: "certificate without key", args: []string{"--trace-endpoint", "https://h:1", "--trace-cert", "x"}, want: "belong together"},
		{name: "no authorities", args: []string{"--trace-endpoint", "https://h:1", "--trace-ca", file("x")}, want: "holds no certificate"},
		{name: "headers", args: []string{"--trace-endpoint", "http://h:1", "--trace-headers-file", file("# ours\n\nAuthorization: Bearer secret\nX-Org: 7\n")},
			want: "grpc http://h:1", headers: "authorization=Bearer secret,x-org=7"},
		{name: "headers by variable", env: env{"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Basic%20secret, x-a=b"}, args: []string{"--trace-endpoint", "http://h:1"},
			want: "grpc http://h:1", headers: "authorization=Basic secret,x-a=b"},
		{name: "bad header", args: []string{"--trace-endpoint", "http://h:1", "--trace-headers-file", file("X: y\nsecret")}, want: ":2: want NAME: VALUE"},
		{name: "bad headers by variable", env: env{"OTEL_EXPORTER_OTLP_HEADERS": "a=b,secret"}, args: []string{"--trace-endpoint", "http://h:1"}, want: "OTEL_EXPORTER_OTLP_HEADERS: pair 2"},
		{name: "bad escape by variable", env: env{"OTEL_EXPORTER_OTLP_HEADERS": "a=secret%zz"}, args: []string{"--trace-endpoint", "http://h:1"}, want: "OTEL_EXPORTER_OTLP_HEADERS: pair 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := parse(t, c.env, c.args...)
			if !f.On() {
				if c.want != "off" {
					t.Fatalf("it is off")
				}
				return
			}
			to, err := f.target()
			if err != nil {
				if !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "secret") {
					t.Errorf("%v, want ...%s... and no secret", err, c.want)
				}
				return
			}
			if got := to.protocol + " " + to.url.String(); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			var headers []string
			for name, value := range to.headers {
				headers = append(headers, name+"="+value)
			}
			slices.Sort(headers)
			if got := strings.Join(headers, ","); got != c.headers {
				t.Errorf("headers %s, want %s", got, c.headers)
			}
		})
	}
}

func TestSample(t *testing.T) {
	type env = map[string]string
	for _, c := range []struct {
		env  env
		args []string
		want float64 // negative: an error
	}{
		{want: 0.01},
		{args: []string{"--trace-sample", "0.25"}, want: 0.25},
		{env: env{"OTEL_TRACES_SAMPLER": "always_on"}, want: 1},
		{env: env{"OTEL_TRACES_SAMPLER": "parentbased_always_off"}, want: 0},
		{env: env{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.5"}, want: 0.5},
		{env: env{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "many"}, want: -1},
		{env: env{"OTEL_TRACES_SAMPLER": "always_on"}, args: []string{"--trace-sample", "0.25"}, want: 0.25},
	} {
		if got, err := parse(t, c.env, c.args...).sample(); got != c.want && !(c.want < 0 && err != nil) {
			t.Errorf("%v %v: %g %v, want %g", c.env, c.args, got, err, c.want)
		}
	}
}

// TestReceivers sends spans as a service does, to a receiver over gRPC and over HTTP,
// with TLS and a header.
func TestReceivers(t *testing.T) {
	authority := httptest.NewTLSServer(http.NotFoundHandler())
	defer authority.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	headers := filepath.Join(t.TempDir(), "headers")
	if err := os.WriteFile(headers, []byte("authorization: Bearer secret-of-the-lab\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	serving := &tls.Config{Certificates: authority.TLS.Certificates, NextProtos: []string{"h2"}}
	for _, protocol := range []string{protocolGRPC, protocolHTTP} {
		t.Run(protocol, func(t *testing.T) {
			receiver := new(tracingtest.Receiver)
			var addr string
			if protocol == protocolGRPC {
				listener, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				server := grpc.NewServer(grpc.Creds(credentials.NewTLS(serving)))
				collector.RegisterTraceServiceServer(server, receiver)
				go func() { _ = server.Serve(listener) }()
				defer server.Stop()
				addr = listener.Addr().String()
			} else {
				server := httptest.NewUnstartedServer(receiver)
				server.TLS = &tls.Config{Certificates: authority.TLS.Certificates}
				server.StartTLS()
				defer server.Close()
				addr = server.Listener.Addr().String()
			}
			f := parse(t, map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "lab=north%20wing", "OTEL_SERVICE_NAME": "mine"},
				"--trace-endpoint", "https://"+addr, "--trace-protocol", protocol, "--trace-ca", ca, "--trace-headers-file", headers, "--trace-sample", "1")
			var log bytes.Buffer
			reg := prometheus.NewRegistry()
			tracer, stop, err := f.Start(t.Context(), "test", reg, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
			if err != nil {
				t.Fatal(err)
			}
			place := trace.ReadPlace("run", "read")
			span := tracer.At(time.Unix(10, 5), place, "basecall", trace.Consumer)
			span.Attributes = []trace.Attribute{trace.String("s", "x"), trace.Int("i", 7), trace.Float("f", 0.5), trace.Bool("b", true)}
			span.Add(trace.Event{Name: "complete", Time: time.Unix(11, 0)})
			other := trace.ReadPlace("run", "other")
			span.Link(other)
			tracer.EndAt(span, time.Unix(12, 0))
			stop()
			got := receiver.Spans()
			if len(got) != 1 {
				t.Fatalf("%d spans came; log: %s", len(got), log.String())
			}
			s := got[0]
			if s.Service != "mine" || s.Name != "basecall" || s.Parent() != place.Trace.String()+"/"+place.Span.String() || s.Kind.String() != "SPAN_KIND_CONSUMER" ||
				s.StartTimeUnixNano != 10e9+5 || s.EndTimeUnixNano != 12e9 || len(s.Events) != 1 || s.Events[0].TimeUnixNano != 11e9 ||
				len(s.Links) != 1 || !bytes.Equal(s.Links[0].TraceId, other.Trace[:]) || !slices.Equal(values(s.Attributes), []any{"x", int64(7), 0.5, true}) {
				t.Errorf("span %v of %s", s.Span, s.Service)
			}
			if h := receiver.Headers()[0]; !slices.Contains(append(h["authorization"], h["Authorization"]...), "Bearer secret-of-the-lab") {
				t.Errorf("headers %v", h)
			}
			if strings.Contains(log.String(), "secret") {
				t.Errorf("log %s", log.String())
			}
			if n := testutil.ToFloat64(prometheusCounter(t, reg, "sent")); n != 1 {
				t.Errorf("%g spans are counted as sent", n)
			}
		})
	}
}

func values(list []*commonpb.KeyValue) []any {
	var out []any
	for _, kv := range list {
		switch v := kv.GetValue().GetValue().(type) {
		case *commonpb.AnyValue_StringValue:
			out = append(out, v.StringValue)
		case *commonpb.AnyValue_IntValue:
			out = append(out, v.IntValue)
		case *commonpb.AnyValue_DoubleValue:
			out = append(out, v.DoubleValue)
		case *commonpb.AnyValue_BoolValue:
			out = append(out, v.BoolValue)
		}
	}
	return out
}

// prometheusCounter is the counter of spans with a result.
func prometheusCounter(t *testing.T, reg *prometheus.Registry, result string) prometheus.Collector {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "x"})
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == "porestream_trace_spans_total" && m.GetLabel()[0].GetValue() == result {
				c.Add(m.GetCounter().GetValue())
			}
		}
	}
	return c
}
