// Package tracingtest is a receiver of traces for tests: it speaks OTLP over gRPC and
// HTTP, and keeps what it gets.
package tracingtest

import (
	"compress/gzip"
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"sync"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	_ "google.golang.org/grpc/encoding/gzip" // what exporters pack with
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// Span is a span with the service that sent it.
type Span struct {
	*tracepb.Span
	Service string
}

// ID and Parent are the span's identifiers with its trace's, in hexadecimal.
func (s Span) ID() string { return hex.EncodeToString(s.TraceId) + "/" + hex.EncodeToString(s.SpanId) }
func (s Span) Parent() string {
	return hex.EncodeToString(s.TraceId) + "/" + hex.EncodeToString(s.ParentSpanId)
}

// Root reports whether the span has no parent.
func (s Span) Root() bool { return len(s.ParentSpanId) == 0 }

// Receiver keeps spans. Register it at a gRPC server, or serve it over HTTP.
type Receiver struct {
	collector.UnimplementedTraceServiceServer

	mu      sync.Mutex
	spans   []Span
	headers []map[string][]string
}

// Export takes spans over gRPC.
func (r *Receiver) Export(ctx context.Context, req *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	r.take(req, md)
	return new(collector.ExportTraceServiceResponse), nil
}

// ServeHTTP takes spans over HTTP.
func (r *Receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	if req.Method != http.MethodPost || req.URL.Path != "/v1/traces" {
		http.NotFound(w, req)
		return
	}
	message, err := read(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.take(message, req.Header)
	w.Header().Set("Content-Type", "application/x-protobuf")
}

func read(req *http.Request) (*collector.ExportTraceServiceRequest, error) {
	body := io.Reader(req.Body)
	if req.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(req.Body); err != nil {
			return nil, err
		}
	}
	data, err := io.ReadAll(body)
	message := new(collector.ExportTraceServiceRequest)
	return message, errors.Join(err, proto.Unmarshal(data, message))
}

func (r *Receiver) take(req *collector.ExportTraceServiceRequest, headers map[string][]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.headers = append(r.headers, headers)
	for _, of := range req.GetResourceSpans() {
		service := ""
		for _, a := range of.GetResource().GetAttributes() {
			if a.GetKey() == "service.name" {
				service = a.GetValue().GetStringValue()
			}
		}
		for _, scope := range of.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				r.spans = append(r.spans, Span{s, service})
			}
		}
	}
}

// Spans are those that have come so far.
func (r *Receiver) Spans() []Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Span(nil), r.spans...)
}

// Headers are those of every request.
func (r *Receiver) Headers() []map[string][]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]map[string][]string(nil), r.headers...)
}
