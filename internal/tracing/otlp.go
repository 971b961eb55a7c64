package tracing

import (
	"fmt"
	"time"

	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/porestream/porestream/stream/trace"
)

// scope names what makes the spans.
const scope = "github.com/porestream/porestream"

// resource is who makes the spans.
type resource struct {
	version    string
	attributes []trace.Attribute
}

// spans are spans as OTLP has them.
func (r *resource) spans(batch []*trace.Span) []*tracepb.ResourceSpans {
	spans := make([]*tracepb.Span, len(batch))
	for i, s := range batch {
		spans[i] = encode(s)
	}
	return []*tracepb.ResourceSpans{{
		Resource:   &resourcepb.Resource{Attributes: attributes(r.attributes)},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: scope, Version: r.version}, Spans: spans}},
	}}
}

// sampled is the W3C flag that every span of ours has.
const sampled = 1

func encode(s *trace.Span) *tracepb.Span {
	out := &tracepb.Span{
		TraceId: s.Trace[:], SpanId: s.Span[:], Flags: sampled,
		Name: s.Name, Kind: kinds[s.Kind],
		StartTimeUnixNano: nanos(s.Start), EndTimeUnixNano: nanos(s.End),
		Attributes:         attributes(s.Attributes),
		DroppedEventsCount: uint32(s.DroppedEvents), DroppedLinksCount: uint32(s.DroppedLinks),
	}
	if s.Parent != (trace.SpanID{}) {
		out.ParentSpanId = s.Parent[:]
	}
	for i := range s.Events {
		e := &s.Events[i]
		out.Events = append(out.Events, &tracepb.Span_Event{Name: e.Name, TimeUnixNano: nanos(e.Time), Attributes: attributes(e.Attributes)})
	}
	for i := range s.Links {
		l := &s.Links[i]
		out.Links = append(out.Links, &tracepb.Span_Link{TraceId: l.Trace[:], SpanId: l.Span[:], Flags: sampled})
	}
	return out
}

var kinds = map[trace.Kind]tracepb.Span_SpanKind{
	trace.Internal: tracepb.Span_SPAN_KIND_INTERNAL,
	trace.Producer: tracepb.Span_SPAN_KIND_PRODUCER,
	trace.Consumer: tracepb.Span_SPAN_KIND_CONSUMER,
}

func nanos(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	return uint64(max(t.UnixNano(), 0))
}

func attributes(list []trace.Attribute) []*commonpb.KeyValue {
	out := make([]*commonpb.KeyValue, len(list))
	for i, a := range list {
		v := new(commonpb.AnyValue)
		switch x := a.Value.(type) {
		case string:
			v.Value = &commonpb.AnyValue_StringValue{StringValue: x}
		case int64:
			v.Value = &commonpb.AnyValue_IntValue{IntValue: x}
		case float64:
			v.Value = &commonpb.AnyValue_DoubleValue{DoubleValue: x}
		case bool:
			v.Value = &commonpb.AnyValue_BoolValue{BoolValue: x}
		default:
			v.Value = &commonpb.AnyValue_StringValue{StringValue: fmt.Sprint(x)}
		}
		out[i] = &commonpb.KeyValue{Key: a.Key, Value: v}
	}
	return out
}
