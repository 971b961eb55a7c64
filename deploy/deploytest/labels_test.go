package deploytest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/porestream/porestream/adaptive"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/ingest/sources"
	"github.com/porestream/porestream/modbase/record"
	"github.com/porestream/porestream/push/pushpb"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// label is what bounds a label's values: a list of all of them, or something that an
// operator sets up and that does not grow with what is sequenced.
type label struct {
	values []string
	bound  string
}

// labels are those of all metrics, by name, or by metric and name where a name has
// other values for one metric than for another. Add a new label here with what bounds
// its values: reads, runs, samples, channels and text that users write are no labels.
var labels = func() map[string]label {
	values := func(v ...string) label { return label{values: v} }
	var topics []string
	for _, name := range reflect.ValueOf(stream.NewTopics("")).Fields() {
		topics = append(topics, name.String())
	}
	var states, verdicts, actions, refusals, statuses []string
	for _, s := range sources.States() {
		states = append(states, string(s))
	}
	for _, r := range adaptive.Reasons() {
		verdicts = append(verdicts, r.String())
	}
	for _, a := range []adaptive.Action{adaptive.Wait, adaptive.Continue, adaptive.Unblock} {
		actions = append(actions, a.String())
	}
	for n, name := range pushpb.Reason_name {
		if n != 0 {
			refusals = append(refusals, strings.ToLower(strings.TrimPrefix(name, "REASON_")))
		}
	}
	for n, name := range streampb.CallStatus_name {
		if n != 0 {
			statuses = append(statuses, strings.ToLower(name))
		}
	}
	return map[string]label{
		"version":   {bound: "one of a build"},
		"commit":    {bound: "one of a build"},
		"go":        {bound: "one of a build"},
		"modified":  values("true", "false"),
		"model":     {bound: "models that processors are given"},
		"device":    {bound: "devices that processors compute on"},
		"source":    {bound: "sources that ingest is told of: a process has one, or those of its file"},
		"position":  {bound: "positions of the sequencers that sources follow"},
		"group":     {bound: "stages and destinations of pore notify, which have a consumer group each"},
		"partition": {bound: "partitions of the topics"},
		"topic":     values(topics...),
		"stage":     values("basecall", "align", "variant", "methylate", "annotate", "watch"),
		"code": values(stream.CodeForeign, stream.CodeVersion, stream.CodeTruncated, stream.CodeChecksum, stream.CodePayload,
			stream.CodeInvalid, stream.CodeConflict, stream.CodeLate),
		"direction":                            values("in", "out"),
		"dispatch":                             values("full", "short", "delay", "drain", "retry"),
		"outcome":                              values("mapped", "unmapped", "short", "unsupported", "low_quality", "unclassified", "no_model"),
		"match":                                values("untold", "unnamed", "matched", "mismatched"),
		"motif":                                {bound: "the first 32 motifs that a process meets, and other"},
		"impact":                               values("HIGH", "MODERATE", "LOW", "MODIFIER"),
		"status":                               values(statuses...),
		"type":                                 values("snp", "insertion", "deletion", "complex"),
		"phase":                                values("fence", "position", "snapshot", "replay"),
		"fate":                                 values("decided", "ended", "missed", "control", "memory", "unsupported"),
		"verdict":                              values(actions...),
		"kind":                                 values("play", "folder", "reads", "minknow", "serve"),
		"within":                               values("read", "other"),
		"what":                                 values("file", "folder", "journal", "gone", "read"),
		"why":                                  values("failed", "empty", "duplex_parent"),
		"porestream_infer_kernels_refused/why": values("device", "library", "network", "result"),
		"when":                                 values("at_once", "later", "awaited", "not"),
		"step":                                 values("sent", "answered"),
		"cause":                                values("skipped", "disconnected", "overrun", "stopped"),
		"ends":                                 values("both", "mixed", "one", "none", "nothing_left"),
		"destination":                          {bound: "destinations of pore notify's file"},
		"channels":                             {bound: "eight groups of a flow cell's channels, for each size of flow cell"},
		"operation":                            {bound: "kinds of requests to brokers, named in the code"},

		"porestream_stream_transactions_total/result":                 values("committed", "aborted", "fenced", "unknown"),
		"porestream_notify_alerts_total/outcome":                      values("delivered", "unwanted", "refused", "expired", "unreadable"),
		"porestream_notify_tries_total/result":                        values("ok", "failed", "timeout", "refused"),
		"porestream_ingest_transactions_total/result":                 values("committed", "failed"),
		"porestream_ingest_push_device_reloads_total/result":          values("read", "refused"),
		"porestream_variant_segments_total/result":                    values("applied", "ignored", "partial", "uncertain"),
		"porestream_trace_spans_total/result":                         values("sent", "full", "refused"),
		"porestream_ingest_source_state/state":                        values(states...),
		"porestream_ingest_watch_files/state":                         values("growing", "finished", "broken"),
		"porestream_watch_alerts_total/state":                         values("PENDING", "SUSPECTED", "DETECTED", "NEGATIVE", "NOT_CALLABLE", "RESISTANT", "INTERMEDIATE", "SUSCEPTIBLE", "CLASSIFIED"),
		"porestream_adaptive_decisions_total/action":                  values(actions...),
		"porestream_adaptive_decisions_total/reason":                  values(verdicts...),
		"porestream_adaptive_looks_total/reason":                      values(verdicts...),
		"porestream_align_modified_base_faults_total/reason":          values(record.Reasons()...),
		"porestream_adaptive_skipped_looks_total/reason":              values("late", "crowded", "unknown_run", "stopped"),
		"porestream_ingest_spool_refusals_total/reason":               values("full", "disk"),
		"porestream_basecall_model_loads_total/result":                values("loaded", "failed"),
		"porestream_basecall_modified_parts_total/result":             values("called", "no_model", "no_numbers"),
		"porestream_basecall_runs_without_model_total/reason":         values("no_rule", "left_out", "none_fits", "load_failed"),
		"porestream_basecall_read_parts_without_barcode_total/reason": values(demux.Reasons[1:]...),
		"porestream_align_read_parts_without_barcode_total/reason":    values(demux.Reasons[1:]...),
		"porestream_ingest_push_refusals_total/reason":                values(refusals...),
		"porestream_ingest_push_notices_total/reason":                 values(refusals...),
		"porestream_variant_left_out_haplotypes_total/bound":          values("alleles", "combinations", "proposals", "wide"),
		"porestream_ingest_minknow_refused_chunks_total/reason":       values("message", "clock"),
		"porestream_ingest_minknow_faults_total/reason": values("token", "certificate", "unreachable", "version", "call", "metadata",
			"position", "signal", "other"),
		"porestream_ingest_minknow_decisions_total/action":  values("continue", "stop_receiving", "unblock", "unknown"),
		"porestream_ingest_minknow_actions_total/action":    values("continue", "stop_receiving", "unblock", "unknown"),
		"porestream_ingest_minknow_decisions_total/outcome": values("sent", "dry_run", "kept", "read_ended", "repeated", "disconnected", "overrun"),
		"porestream_ingest_minknow_actions_total/answer":    values("success", "read_finished", "read_too_long", "unknown", "disconnected", "none"),
	}
}()

// labelOf is what bounds a label of a metric.
func labelOf(metric, name string) (key string, l label, known bool) {
	for _, key := range []string{metric + "/" + name, name} {
		if l, known := labels[key]; known {
			return key, l, true
		}
	}
	return "", label{}, false
}

// maxValues is what a list of values may have.
const maxValues = 40

func TestLabelsAreBounded(t *testing.T) {
	used := make(map[string]bool)
	for _, m := range catalogue(t) {
		for _, name := range m.labels {
			key, l, known := labelOf(m.name, name)
			if assert.True(t, known, "%s: nothing is said of what bounds label %s", m.name, name) {
				used[key] = true
				assert.LessOrEqual(t, len(l.values), maxValues, key)
				assert.NotEqual(t, len(l.values) > 0, l.bound != "", "%s has values or a bound", key)
			}
		}
	}
	for key := range labels {
		assert.True(t, used[key], "no metric has label %s", key)
	}
}

// Series that exist before anything has happened have values that are listed.
func TestLabelsOfTheRegistryAreListed(t *testing.T) {
	catalogue(t)
	checked := 0
	for _, f := range collected.families {
		for _, m := range f.GetMetric() {
			for _, pair := range m.GetLabel() {
				_, l, known := labelOf(f.GetName(), pair.GetName())
				if !known || len(l.values) == 0 {
					continue
				}
				assert.Contains(t, l.values, pair.GetValue(), "%s: label %s", f.GetName(), pair.GetName())
				checked++
			}
		}
	}
	assert.Greater(t, checked, 40)
}

// labelsTable is the documentation of the labels.
func labelsTable(metrics map[string]metric) string {
	of := make(map[string][]string)
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		for _, l := range metrics[name].labels {
			if key, _, known := labelOf(name, l); known && strings.Contains(key, "/") {
				of[key] = append(of[key], name)
			}
		}
	}
	var b strings.Builder
	b.WriteString("\n| label | of | values |\n|---|---|---|\n")
	name := func(key string) string { return key[strings.LastIndex(key, "/")+1:] }
	keys := slices.SortedFunc(maps.Keys(labels), func(a, b string) int {
		if c := strings.Compare(name(a), name(b)); c != 0 {
			return c
		}
		return strings.Compare(a, b)
	})
	for _, key := range keys {
		l, metrics := labels[key], ""
		if len(of[key]) > 0 {
			metrics = "`" + of[key][0] + "`"
		}
		values := l.bound
		if len(l.values) > 0 {
			values = "`" + strings.Join(slices.Sorted(slices.Values(l.values)), "` `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", name(key), metrics, values)
	}
	b.WriteString("\n")
	return b.String()
}
