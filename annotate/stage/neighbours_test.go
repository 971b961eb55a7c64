package stage

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// hundreds takes together what lies in the same hundred bases.
type hundreds struct{}

func (hundreds) Locus(_ string, start, end int) (int, int) {
	return start / 100 * 100, (end-1)/100*100 + 100
}

func (hundreds) Together(_ string, alleles []event.Allele) ([][]event.Compound, error) {
	out := make([][]event.Compound, len(alleles))
	for hundred := range alleles[len(alleles)-1].Pos/100 + 1 {
		var members []int
		for i, a := range alleles {
			if first, last := (a.Pos-1)/100, (a.Pos+int64(len(a.Ref))-2)/100; first <= hundred && hundred <= last {
				members = append(members, i)
			}
		}
		for _, i := range members {
			var with []string
			for _, j := range members {
				if j != i {
					with = append(with, alleles[j].VRSID)
				}
			}
			if len(with) > 0 {
				out[i] = append(out[i], event.Compound{Transcript: fmt.Sprint("t", hundred), Terms: []string{"missense"}, With: with})
			}
		}
	}
	return out, nil
}

// neighbourly is a fresh handler that takes hundreds together.
func neighbourly(t *testing.T) stream.Handler {
	t.Helper()
	h, err := New(Config{Topics: stream.NewTopics(""), VariantsPartitions: 3, Annotator: brokenAnnotator{}, Haplotypes: hundreds{}})("calls", 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// together hands the calls to a fresh handler and returns its events as
// "allele revision status [transcript with …]".
func together(t *testing.T, calls ...*streampb.Call) []string {
	t.Helper()
	var got []string
	h := neighbourly(t)
	for i, c := range calls {
		for _, e := range handle(t, h, records(callRecord(t, c))) {
			for _, o := range e.outs {
				v, _ := read(t, o)
				got = append(got, fmt.Sprintf("%d: %s", i, describe(v)))
			}
		}
	}
	return got
}

// apart can't take anything together.
type apart struct{ hundreds }

func (apart) Together(string, []event.Allele) ([][]event.Compound, error) {
	return nil, errors.New("contig is not in the reference")
}

// A call holds whether or not the effects of its neighbours can be determined.
func TestCallsGoOnWithoutNeighbours(t *testing.T) {
	h, err := New(Config{Topics: stream.NewTopics(""), VariantsPartitions: 3, Annotator: brokenAnnotator{}, Haplotypes: apart{}})("calls", 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	emissions := handle(t, h, records(
		callRecord(t, testCall(20, "A", "T", 1, streampb.CallStatus_PROVISIONAL)), callRecord(t, testCall(30, "A", "G", 1, streampb.CallStatus_FINAL)),
	))
	for i, want := range []string{"20T rev 1 PROVISIONAL", "30G rev 1 FINAL"} {
		if v, _ := read(t, emissions[i].outs[0]); len(emissions[i].outs) != 1 || describe(v) != want {
			t.Errorf("record %d gives %d events, the first %s, want %s", i, len(emissions[i].outs), describe(v), want)
		}
	}
}

func describe(v *event.Variant) string {
	s := fmt.Sprintf("%d%s rev %d %s", v.Allele.Pos, v.Allele.Alt, v.Revision, v.Status)
	for _, c := range v.Haplotype {
		s += " " + c.Transcript
		for _, id := range c.With {
			s += "+" + strings.TrimPrefix(id, "ga4gh:VA.")
		}
	}
	return s
}

func TestNeighboursAreRevised(t *testing.T) {
	const provisional, final, retracted = streampb.CallStatus_PROVISIONAL, streampb.CallStatus_FINAL, streampb.CallStatus_RETRACTED
	filtered := testCall(30, "A", "G", 2, provisional)
	filtered.Filters = []string{"LowQual"}
	het := testCall(40, "A", "G", 1, provisional)
	het.Genotype = []uint32{0, 1}
	compound := testCall(40, "A", "G", 1, provisional)
	compound.Genotype, compound.Others = []uint32{1, 2}, []*streampb.OtherAllele{{Pos: 40, Ref: "A", Alt: "T"}}
	deletion := testCall(98, "ACGTAC", "A", 1, provisional)
	other := testCall(30, "A", "G", 1, provisional)
	other.Sample = "another"
	for _, c := range []struct {
		name  string
		calls []*streampb.Call
		want  []string
	}{
		{"one that comes changes the other", []*streampb.Call{testCall(20, "A", "T", 1, provisional), testCall(30, "A", "G", 1, provisional)},
			[]string{"0: 20T rev 1 PROVISIONAL", "1: 30G rev 1 PROVISIONAL t0+20T", "1: 20T rev 2 PROVISIONAL t0+30G"}},
		{"another locus does not", []*streampb.Call{testCall(20, "A", "T", 1, provisional), testCall(130, "A", "G", 1, provisional)},
			[]string{"0: 20T rev 1 PROVISIONAL", "1: 130G rev 1 PROVISIONAL"}},
		{"nor another sample", []*streampb.Call{testCall(20, "A", "T", 1, provisional), other},
			[]string{"0: 20T rev 1 PROVISIONAL", "1: 30G rev 1 PROVISIONAL"}},
		{"nor a phase that is not known", []*streampb.Call{testCall(20, "A", "T", 1, provisional), het},
			[]string{"0: 20T rev 1 PROVISIONAL", "1: 40G rev 1 PROVISIONAL"}},
		{"nor an allele beside another one", []*streampb.Call{testCall(20, "A", "T", 1, provisional), compound},
			[]string{"0: 20T rev 1 PROVISIONAL", "1: 40G rev 1 PROVISIONAL"}},
		{"one that goes", []*streampb.Call{testCall(20, "A", "T", 1, provisional), testCall(30, "A", "G", 1, provisional), testCall(30, "A", "G", 2, retracted)},
			[]string{"0: 20T rev 1 PROVISIONAL", "1: 30G rev 1 PROVISIONAL t0+20T", "1: 20T rev 2 PROVISIONAL t0+30G",
				"2: 30G rev 2 RETRACTED", "2: 20T rev 3 PROVISIONAL"}},
		{"one that fails a filter from now on", []*streampb.Call{testCall(20, "A", "T", 1, provisional), testCall(30, "A", "G", 1, provisional), filtered},
			[]string{"0: 20T rev 1 PROVISIONAL", "1: 30G rev 1 PROVISIONAL t0+20T", "1: 20T rev 2 PROVISIONAL t0+30G",
				"2: 30G rev 2 PROVISIONAL", "2: 20T rev 3 PROVISIONAL"}},
		{"the neighbour's next call comes after its event", []*streampb.Call{testCall(20, "A", "T", 1, provisional), testCall(30, "A", "G", 1, provisional), testCall(20, "A", "T", 2, final)},
			[]string{"0: 20T rev 1 PROVISIONAL", "1: 30G rev 1 PROVISIONAL t0+20T", "1: 20T rev 2 PROVISIONAL t0+30G", "2: 20T rev 3 FINAL t0+30G"}},
		{"a repetition says nothing", []*streampb.Call{testCall(20, "A", "T", 2, provisional), testCall(20, "A", "T", 2, provisional), testCall(20, "A", "T", 1, provisional)},
			[]string{"0: 20T rev 2 PROVISIONAL"}},
		{"a deletion joins two loci", []*streampb.Call{testCall(20, "A", "T", 1, provisional), testCall(150, "A", "G", 1, provisional), deletion},
			[]string{"0: 20T rev 1 PROVISIONAL", "1: 150G rev 1 PROVISIONAL",
				"2: 98A rev 1 PROVISIONAL t0+20T t1+150G", "2: 20T rev 2 PROVISIONAL t0+98A", "2: 150G rev 2 PROVISIONAL t1+98A"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := together(t, c.calls...); !slices.Equal(got, c.want) {
				t.Errorf("published\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

// Whatever the order in which calls come and go, what stands in the end says the
// same of the same neighbours; revisions of an allele only rise; and a handler that
// is restored anywhere goes on as one that never stopped.
func TestNeighboursInAnyOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var want map[string]string
	for range 40 {
		var calls []*streampb.Call
		for i := range 12 {
			pos := int64(10 + 25*i)
			last := streampb.CallStatus_FINAL
			if i%5 == 4 {
				last = streampb.CallStatus_RETRACTED
			}
			ref := strings.Repeat("A", 1+i%3*20)
			calls = append(calls, testCall(pos, ref, "C", 1, streampb.CallStatus_PROVISIONAL), testCall(pos, ref, "C", 5, last))
		}
		rng.Shuffle(len(calls), func(i, j int) { calls[i], calls[j] = calls[j], calls[i] })
		list := make([]testRecord, len(calls))
		for i, c := range calls {
			list[i] = callRecord(t, c)
		}
		recs := records(list...)

		restoredAt := rng.IntN(len(recs))
		h, restored := neighbourly(t), neighbourly(t)
		for _, rec := range recs[:restoredAt] {
			if err := restored.Replay(t.Context(), rec); err != nil {
				t.Fatal(err)
			}
		}
		emissions := handle(t, h, recs)
		if again := handle(t, restored, recs[restoredAt:]); !reflect.DeepEqual(again, emissions[restoredAt:]) {
			t.Fatalf("restored at %d, the events are others", restoredAt)
		}
		newest := map[string]*event.Variant{}
		for _, e := range emissions {
			for _, o := range e.outs {
				v, _ := read(t, o)
				if old := newest[v.Allele.VRSID]; old != nil && v.Revision <= old.Revision {
					t.Fatalf("%s: revision %d after %d", v.Allele.VRSID, v.Revision, old.Revision)
				}
				newest[v.Allele.VRSID] = v
			}
		}
		got := map[string]string{}
		for id, v := range newest {
			v.Revision = 0
			got[id] = describe(v)
		}
		if want == nil {
			want = got
		}
		if !maps.Equal(got, want) {
			t.Fatalf("in the end\n%v\nwant\n%v", got, want)
		}
	}
	if len(want) != 12 || !strings.Contains(fmt.Sprint(want), "+") {
		t.Errorf("nothing was taken together: %v", want)
	}
}
