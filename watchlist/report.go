package watchlist

import (
	"cmp"
	"fmt"
	"strings"
)

// Resolved is what a rule, or one of the alleles that it names, means on the reference.
type Resolved struct {
	Panel   string `json:"panel"`
	Rule    string `json:"rule"`
	Line    int    `json:"line"` // in the panel's file
	Scope   Scope  `json:"scope"`
	Subject string `json:"subject,omitempty"` // see [Alert.Subject]
	Allele  string `json:"allele,omitempty"`  // contig:pos:ref:alt, if it is one allele whose place is known
	Model   string `json:"model,omitempty"`   // name, version and output of the model that is asked
	// Methylation is what is asked of a region: methylated, unmethylated or half. DepthNeeded and ReadsNeeded are then in molecules of a region that is
	// as clear as can be: for NEGATIVE, and for DETECTED.
	Methylation string `json:"methylation,omitempty"`
	// Places are empty if it is one allele whose place is not known.
	Places    []Target `json:"places,omitempty"`
	Positions int      `json:"positions"`
	// DepthNeeded is the depth that NEGATIVE needs at every position, and Miss the probability of a miss there.
	DepthNeeded int     `json:"depth_needed"`
	Miss        float64 `json:"miss"`
	// ReadsNeeded is how many reads at DepthNeeded have to show an allele for DETECTED.
	ReadsNeeded int `json:"reads_needed"`
	// FalseAlarm bounds the probability of DETECTED for one change that is not there.
	FalseAlarm float64 `json:"false_alarm"`
}

// Resolve describes the rules' meaning, in the order of the panels.
func (w *Watch) Resolve() []Resolved {
	var out []Resolved
	for _, s := range w.subjects {
		if s.hidden {
			continue
		}
		if s.region != nil {
			out = append(out, s.resolveRegion())
			continue
		}
		r := Resolved{
			Panel: s.panel.ID, Rule: s.rule.id, Line: s.rule.line, Scope: s.scope, Subject: s.name,
			DepthNeeded: s.test.needed, Miss: s.test.missed(s.test.needed), ReadsNeeded: s.test.reads(s.test.needed),
			FalseAlarm: s.test.alpha,
		}
		if a := s.allele; a != nil {
			r.Allele = fmt.Sprintf("%s:%d:%s:%s", a.Contig, a.Pos, a.Ref, a.Alt)
		}
		if s.area != nil {
			r.Positions = s.area.positions
			for _, p := range union(s.area.chunks) {
				r.Places = append(r.Places, Target{p.contig, p.start, p.end})
			}
		}
		if s.scope == ScopeModel {
			m := &s.use.model.Manifest
			r.Model = fmt.Sprintf("%s %s %s", m.Name, m.Version, m.Outputs[s.output].Name)
			s.use.resolve(&r)
		}
		out = append(out, r)
	}
	return out
}

// resolve adds what a model takes of methylation, which has no bounds: of that alone it needs calls.
func (u *modelUse) resolve(r *Resolved) {
	var spans []span
	for _, at := range u.regions {
		spans = append(spans, span{at.Contig, at.Start, at.End})
	}
	for _, p := range union(spans) {
		r.Places = append(r.Places, Target{p.contig, p.start, p.end})
		r.Positions += p.end - p.start
	}
	if len(u.model.Codons)+len(u.model.Alleles) == 0 {
		r.DepthNeeded, r.Miss, r.ReadsNeeded, r.FalseAlarm = max(1, u.model.Manifest.Encoding.Calls), 0, 0, 0
	}
}

// resolveRegion describes a rule on methylation.
func (s *subject) resolveRegion() Resolved {
	r, limits := s.region, &s.rule.thresholds
	detected, negative := r.Needed(errorOf(limits.Alpha, 0, true), errorOf(limits.Beta, 0, true))
	return Resolved{
		Panel: s.panel.ID, Rule: s.rule.id, Line: s.rule.line, Scope: s.scope, Methylation: string(r.Kind),
		Places: []Target{{r.Contig, r.Start, r.End}}, Positions: r.End - r.Start,
		DepthNeeded: max(limits.MinDepth, negative), ReadsNeeded: max(limits.MinDepth, detected), Miss: limits.Beta, FalseAlarm: limits.Alpha,
	}
}

// String is contig:start-end, counted from 1, or contig:position.
func (t Target) String() string {
	if t.End == t.Start+1 {
		return fmt.Sprintf("%s:%d", t.Contig, t.End)
	}
	return fmt.Sprintf("%s:%d-%d", t.Contig, t.Start+1, t.End)
}

// shownPlaces is how many places one line names.
const shownPlaces = 3

// Text is r on one line for people: the rule, what it means on the reference, and the depth that NEGATIVE needs,
// separated by tabs.
func (r Resolved) Text() string {
	var places []string
	for i, p := range r.Places {
		if i == shownPlaces && len(r.Places) > shownPlaces+1 {
			places = append(places, fmt.Sprintf("and %d more", len(r.Places)-i))
			break
		}
		places = append(places, p.String())
	}
	target := r.Allele
	if target == "" {
		target = strings.Join(places, ",")
	}
	if target == "" {
		target = "."
	}
	subject := r.Subject
	if r.Model != "" {
		subject = r.Model
	}
	subject = cmp.Or(subject, r.Methylation, ".")
	return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%.2g", r.Panel, r.Rule, r.Scope, subject, target, r.Positions, r.DepthNeeded, r.ReadsNeeded, r.Miss)
}

// ResolvedColumns are the columns of [Resolved.Text].
const ResolvedColumns = "#panel\trule\tscope\tsubject\ttarget\tpositions\tdepth_needed\treads_needed\tmiss"
