// Package runinfo translates what POD5 says of a run into attributes of a BLOW5
// read group, and back.
//
// The attributes have the names that FAST5 gave them, as in other SLOW5 files, in
// one list. POD5 says more: which of its tags stood in which of two lists, that a
// tag is there but empty, times to the millisecond of fields that FAST5 lacks. So
// that nothing of it is lost, the attribute [Exact] keeps the whole where the list
// alone would not give it back. It counts only while it agrees with the list: if a
// user edits an attribute, the edited value counts.
package runinfo

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/porestream/porestream/signal/pod5"
)

// Exact is the attribute that keeps a POD5 run info as JSON.
const Exact = "pod5_run_info"

// word is a field of text: the attribute it is written as, and those it is read
// from, the first that is there.
type word struct {
	at    func(*pod5.RunInfo) *string
	names []string
}

// words are the fields of text. Each is written under its first name.
var words = []word{
	{func(r *pod5.RunInfo) *string { return &r.AcquisitionID }, []string{"run_id", "acquisition_id"}},
	{func(r *pod5.RunInfo) *string { return &r.ExperimentName }, []string{"protocol_group_id", "experiment_name"}},
	{func(r *pod5.RunInfo) *string { return &r.FlowCellID }, []string{"flow_cell_id"}},
	{func(r *pod5.RunInfo) *string { return &r.FlowCellProductCode }, []string{"flow_cell_product_code", "flowcell_type"}},
	{func(r *pod5.RunInfo) *string { return &r.ProtocolName }, []string{"exp_script_name", "protocol_name"}},
	{func(r *pod5.RunInfo) *string { return &r.ProtocolRunID }, []string{"protocol_run_id"}},
	{func(r *pod5.RunInfo) *string { return &r.SampleID }, []string{"sample_id"}},
	{func(r *pod5.RunInfo) *string { return &r.SequencingKit }, []string{"sequencing_kit"}},
	{func(r *pod5.RunInfo) *string { return &r.SequencerPosition }, []string{"device_id", "sequencer_position"}},
	{func(r *pod5.RunInfo) *string { return &r.SequencerPositionType }, []string{"device_type", "sequencer_position_type"}},
	{func(r *pod5.RunInfo) *string { return &r.Software }, []string{"software"}},
	{func(r *pod5.RunInfo) *string { return &r.SystemName }, []string{"host_product_serial_number", "hostname", "system_name"}},
	{func(r *pod5.RunInfo) *string { return &r.SystemType }, []string{"system_type", "host_product_code"}},
}

// contextTags are the attributes that FAST5 kept in its group context_tags; all
// others were in tracking_id.
var contextTags = []string{
	"barcoding_enabled", "basecall_config_filename", "experiment_duration_set", "experiment_type", "fast5_output_fastq_in_hdf",
	"fast5_raw", "fast5_reads_per_folder", "filename", "flowcell_type", "kit_classification", "local_basecalling", "local_bc_comp_model",
	"local_bc_temp_model", "package", "package_version", "sample_frequency", "selected_speed_bases_per_second", "sequencing_kit_type",
	"user_filename_input",
}

// Attributes returns the attributes of a read group for a run.
func Attributes(r *pod5.RunInfo) (map[string]string, error) {
	attr := list(r)
	if read := fromList(filled(attr)); read.Difference(withoutRate(r)) == "" {
		return attr, nil
	}
	exact, err := json.Marshal(toJSON(r))
	if err != nil {
		return nil, fmt.Errorf("run info %q: %w", r.AcquisitionID, err)
	}
	attr[Exact] = string(exact)
	return attr, nil
}

// FromAttributes returns what the attributes of a read group say of a run. BLOW5
// keeps the sample rate with each read: it is zero here. exact reports whether the
// attributes hold the run info of a POD5 file word for word.
func FromAttributes(attr map[string]string) (r *pod5.RunInfo, exact bool) {
	if text, ok := attr[Exact]; ok {
		var whole runJSON
		if err := json.Unmarshal([]byte(text), &whole); err == nil {
			r := whole.runInfo()
			rest := maps.Clone(attr)
			delete(rest, Exact)
			if maps.Equal(filled(list(r)), filled(rest)) {
				return r, true
			}
		}
	}
	return fromList(attr), false
}

func withoutRate(r *pod5.RunInfo) *pod5.RunInfo {
	c := *r
	c.SampleRate = 0
	return &c
}

// filled leaves out attributes that the format takes for missing, the empty and "."
// alone.
func filled(attr map[string]string) map[string]string {
	attr = maps.Clone(attr)
	maps.DeleteFunc(attr, func(_, v string) bool { return v == "" || v == "." })
	return attr
}

// list is the plain list of attributes.
func list(r *pod5.RunInfo) map[string]string {
	attr := make(map[string]string)
	maps.Copy(attr, r.ContextTags)
	maps.Copy(attr, r.TrackingID)
	put := func(name, value string) {
		if value != "" {
			attr[name] = value
		}
	}
	for _, w := range words {
		put(w.names[0], *w.at(r))
	}
	for name, t := range map[string]time.Time{"exp_start_time": r.AcquisitionStartTime, "protocol_start_time": r.ProtocolStartTime} {
		// A tag that says the same may say it more exactly.
		if t.UnixMilli() > 0 && ParseTime(attr[name]).UnixMilli() != t.UnixMilli() {
			attr[name] = t.UTC().Format("2006-01-02T15:04:05.999Z07:00")
		}
	}
	if r.ADCMax != 0 || r.ADCMin != 0 {
		put("adc_max", strconv.Itoa(int(r.ADCMax)))
		put("adc_min", strconv.Itoa(int(r.ADCMin)))
	}
	delete(attr, Exact) // a tag of that name is kept in the attribute itself
	return attr
}

// fromList reads a plain list. All attributes are kept as tags.
func fromList(attr map[string]string) *pod5.RunInfo {
	r := &pod5.RunInfo{ContextTags: make(map[string]string), TrackingID: make(map[string]string)}
	for _, w := range words {
		*w.at(r) = first(attr, w.names...)
	}
	if v := first(attr, "distribution_version", "version"); r.Software == "" && v != "" {
		r.Software = "MinKNOW " + v
	}
	r.AcquisitionStartTime = ParseTime(first(attr, "exp_start_time", "acquisition_start_time"))
	r.ProtocolStartTime = ParseTime(attr["protocol_start_time"])
	r.ADCMax, r.ADCMin = level(attr["adc_max"]), level(attr["adc_min"])
	for k, v := range attr {
		switch {
		case k == Exact:
		case slices.Contains(contextTags, k):
			r.ContextTags[k] = v
		default:
			r.TrackingID[k] = v
		}
	}
	return r
}

// first returns the first attribute that isn't empty.
func first(attr map[string]string, names ...string) string {
	for _, n := range names {
		if v := attr[n]; v != "" {
			return v
		}
	}
	return ""
}

func level(s string) int16 {
	n, err := strconv.ParseInt(s, 10, 16)
	if err != nil {
		return 0
	}
	return int16(n)
}

// ParseTime reads a time as recorders and converters have written it over the
// years: RFC 3339, with a space for the T, or seconds since 1970. It returns the
// zero time for anything else, also for the beginning of 1970, which converters
// write for a time they don't know.
func ParseTime(s string) time.Time {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05Z07:00"} {
		if t, err := time.Parse(layout, s); err == nil && t.Unix() > 0 {
			return t.UTC()
		}
	}
	if sec, err := strconv.ParseInt(s, 10, 40); err == nil && sec > 0 {
		return time.Unix(sec, 0).UTC()
	}
	return time.Time{}
}

// runJSON is a run info in the attribute Exact, with POD5's names.
type runJSON struct {
	AcquisitionID        string            `json:"acquisition_id"`
	AcquisitionStart     int64             `json:"acquisition_start_time"` // milliseconds since 1970
	ADCMax               int16             `json:"adc_max"`
	ADCMin               int16             `json:"adc_min"`
	ContextTags          map[string]string `json:"context_tags"`
	ExperimentName       string            `json:"experiment_name"`
	FlowCellID           string            `json:"flow_cell_id"`
	FlowCellProductCode  string            `json:"flow_cell_product_code"`
	ProtocolName         string            `json:"protocol_name"`
	ProtocolRunID        string            `json:"protocol_run_id"`
	ProtocolStart        int64             `json:"protocol_start_time"` // milliseconds since 1970
	SampleID             string            `json:"sample_id"`
	SequencingKit        string            `json:"sequencing_kit"`
	SequencerPosition    string            `json:"sequencer_position"`
	SequencerPositionTyp string            `json:"sequencer_position_type"`
	Software             string            `json:"software"`
	SystemName           string            `json:"system_name"`
	SystemType           string            `json:"system_type"`
	TrackingID           map[string]string `json:"tracking_id"`
}

func toJSON(r *pod5.RunInfo) runJSON {
	return runJSON{
		AcquisitionID: r.AcquisitionID, AcquisitionStart: milliseconds(r.AcquisitionStartTime), ADCMax: r.ADCMax, ADCMin: r.ADCMin,
		ContextTags: r.ContextTags, ExperimentName: r.ExperimentName, FlowCellID: r.FlowCellID, FlowCellProductCode: r.FlowCellProductCode,
		ProtocolName: r.ProtocolName, ProtocolRunID: r.ProtocolRunID, ProtocolStart: milliseconds(r.ProtocolStartTime), SampleID: r.SampleID,
		SequencingKit: r.SequencingKit, SequencerPosition: r.SequencerPosition, SequencerPositionTyp: r.SequencerPositionType,
		Software: r.Software, SystemName: r.SystemName, SystemType: r.SystemType, TrackingID: r.TrackingID,
	}
}

func (j *runJSON) runInfo() *pod5.RunInfo {
	return &pod5.RunInfo{
		AcquisitionID: j.AcquisitionID, AcquisitionStartTime: time.UnixMilli(j.AcquisitionStart).UTC(), ADCMax: j.ADCMax, ADCMin: j.ADCMin,
		ContextTags: j.ContextTags, ExperimentName: j.ExperimentName, FlowCellID: j.FlowCellID, FlowCellProductCode: j.FlowCellProductCode,
		ProtocolName: j.ProtocolName, ProtocolRunID: j.ProtocolRunID, ProtocolStartTime: time.UnixMilli(j.ProtocolStart).UTC(), SampleID: j.SampleID,
		SequencingKit: j.SequencingKit, SequencerPosition: j.SequencerPosition, SequencerPositionType: j.SequencerPositionTyp,
		Software: j.Software, SystemName: j.SystemName, SystemType: j.SystemType, TrackingID: j.TrackingID,
	}
}

func milliseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// FromFAST5 returns what the groups tracking_id and context_tags of a FAST5 file say
// of a run. FAST5 keeps the sample rate with each read: it is zero here.
func FromFAST5(tracking, context map[string]string) *pod5.RunInfo {
	attr := maps.Clone(context)
	if attr == nil {
		attr = make(map[string]string)
	}
	maps.Copy(attr, tracking)
	r := fromList(attr)
	r.TrackingID, r.ContextTags = tracking, context
	return r
}
