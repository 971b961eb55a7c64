package watchlist

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
)

// State is what can be said about a rule, or about one allele, in a sample.
type State string

// The states.
const (
	Pending     State = "PENDING"
	Suspected   State = "SUSPECTED"
	Detected    State = "DETECTED"
	Negative    State = "NEGATIVE"
	NotCallable State = "NOT_CALLABLE"
)

// The answers of rules that ask a model; such a rule is PENDING before and NOT_CALLABLE without.
const (
	Resistant    State = "RESISTANT"
	Intermediate State = "INTERMEDIATE"
	Susceptible  State = "SUSCEPTIBLE"
	// Classified is an answer in classes of the model's own, given in [ModelAnswer].
	Classified State = "CLASSIFIED"
)

// States are all states, in the order of how much they say.
func States() []State {
	return []State{Pending, Suspected, Detected, Negative, NotCallable, Resistant, Intermediate, Susceptible, Classified}
}

// Scope says what an alert is about.
type Scope string

// The scopes.
const (
	// ScopeRule is a rule that several alleles can fulfil: the answer to the rule as a whole.
	ScopeRule Scope = "rule"
	// ScopeAllele is one allele.
	ScopeAllele Scope = "allele"
	// ScopeProtein is one change of a protein, by whatever allele.
	ScopeProtein Scope = "protein"
	// ScopeModel is a rule that asks a model.
	ScopeModel Scope = "model"
	// ScopeMethylation is a rule on the methylation of a region.
	ScopeMethylation Scope = "methylation"
)

// AlertVersion is the version of [Alert] that this package writes.
const AlertVersion = 1

// Alert is one revision of the state of one rule, or one allele, in one sample: the public document. Consumers fold
// by [Alert.Key] and keep the highest revision.
type Alert struct {
	SchemaVersion int    `json:"schema_version"`
	ID            string `json:"id"` // the same when the alert is sent again
	Sample        string `json:"sample"`
	Run           string `json:"run,omitempty"` // of the newest read behind the evidence; without evidence the last by name
	Panel         Source `json:"panel"`
	Rule          string `json:"rule"`
	Label         string `json:"label,omitempty"`    // the panel's words
	Severity      string `json:"severity,omitempty"` // the panel's word

	Scope Scope `json:"scope"`
	// Subject distinguishes the subjects of a rule's alerts: a VRS id, a protein change, or "" for the rule as a
	// whole.
	Subject string `json:"subject,omitempty"`

	State    State  `json:"state"`
	Previous State  `json:"previous"`
	Revision uint64 `json:"revision"`
	// Final says that all runs of the sample known of have ended.
	Final  bool   `json:"final"`
	Reason string `json:"reason"`

	Allele *event.Allele `json:"variant,omitempty"`
	// Consequence is the one that the rule matched, or the most relevant.
	Consequence *annotate.Consequence `json:"consequence,omitempty"`
	Evidence    *Evidence             `json:"evidence,omitempty"` // of the reads that show the allele
	// Carried is the reads that show what the alert is about by their bases, called or not; of several the most.
	Carried  *Carried `json:"carried,omitempty"`
	Coverage *Covered `json:"coverage,omitempty"` // of the places that the rule covers
	// CarryOver is what makes the answer doubtful, in runs with controls: of the allele that says most.
	CarryOver   *event.CarryOver `json:"carry_over,omitempty"`
	Probability Probability      `json:"probability"`
	// Model is what a model says, of rules that ask one.
	Model *ModelAnswer `json:"model,omitempty"`
	// Methylation is what the calls of a region are, of rules that ask for its methylation.
	Methylation *MethylationAnswer `json:"methylation,omitempty"`
	// Alleles lists the alleles seen that fulfil a rule or make a protein change, by place; of more than 100 the ones
	// that say most. AlleleCount is the number of all.
	Alleles     []AlleleState `json:"alleles,omitempty"`
	AlleleCount int           `json:"allele_count,omitempty"`
}

// Source names a panel so that the words of an alert can be found again.
type Source struct {
	ID      string `json:"id"`
	Version string `json:"version"`
	Hash    string `json:"hash"` // "sha256:" and the digest of the panel's file and of the files it names
}

// Evidence is what the reads at an allele show.
type Evidence struct {
	Status         string   `json:"status"` // of the variant: PROVISIONAL STABLE FINAL AMENDED RETRACTED
	Depth          uint32   `json:"depth"`
	AltForward     uint32   `json:"alt_forward"`
	AltReverse     uint32   `json:"alt_reverse"`
	AlleleFraction float64  `json:"allele_fraction"`
	Qual           float64  `json:"qual"`
	Filters        []string `json:"filters,omitempty"`
	// LogLikelihoodRatio is the natural logarithm of how much more probable the reads are if the allele is there, at
	// the rule's allele fraction, than if they are errors; DETECTED needs Threshold.
	LogLikelihoodRatio float64 `json:"log_likelihood_ratio"`
	Threshold          float64 `json:"threshold"`
}

// Carried is the reads that show something by their bases, whatever the caller says.
type Carried struct {
	Depth              uint32  `json:"depth"` // reads that show its presence or absence
	AltForward         uint32  `json:"alt_forward"`
	AltReverse         uint32  `json:"alt_reverse"`
	AlleleFraction     float64 `json:"allele_fraction"`
	LogLikelihoodRatio float64 `json:"log_likelihood_ratio"`
	Explained          uint32  `json:"explained"` // reads that errors explain at the rule's error rate
}

// Covered is the coverage of the places that a rule evaluates.
type Covered struct {
	Positions   int    `json:"positions"`
	NotCallable int    `json:"not_callable"`       // positions below DepthNeeded
	Doubtful    int    `json:"doubtful,omitempty"` // positions where reads show something else that is not called
	DepthNeeded int    `json:"depth_needed"`       // for NEGATIVE
	Worst       *Place `json:"worst,omitempty"`
}

// Place is a position with its depth.
type Place struct {
	Contig string `json:"contig"`
	Pos    int    `json:"pos"` // 1-based
	Depth  int    `json:"depth"`
}

// Probability bounds the two errors. A bound that does not apply to the state is absent.
type Probability struct {
	// FalseAlarm is, with DETECTED and SUSPECTED, the greatest probability of DETECTED ever being said of this subject
	// if nothing is there.
	FalseAlarm *float64 `json:"false_alarm,omitempty"`
	// Miss is, with NEGATIVE, the probability that an allele at the rule's allele fraction would have gone unseen at
	// the worst callable position; with NOT_CALLABLE the same at the worst position.
	Miss *float64 `json:"miss,omitempty"`
}

// AlleleState is the state of one allele within a rule.
type AlleleState struct {
	VRSID string `json:"vrs_id"`
	State State  `json:"state"`
}

// keyEscapes keeps the parts of a key apart.
var keyEscapes = strings.NewReplacer("%", "%25", "/", "%2F")

// Key identifies what the alert is about: sample, panel, rule and subject, with "/" between them and percent-encoded
// within them. All revisions of one key are in order.
func (a *Alert) Key() string {
	parts := [...]string{a.Sample, a.Panel.ID, a.Rule, a.Subject}
	for i := range parts {
		parts[i] = keyEscapes.Replace(parts[i])
	}
	return strings.Join(parts[:], "/")
}

// JSON is the alert's document, without a line end.
func (a *Alert) JSON() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // HGVS is full of ">"
	if err := enc.Encode(a); err != nil {
		return nil, fmt.Errorf("encoding alert %s: %w", a.Key(), err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// idBytes is how much of the digest an alert's id keeps.
const idBytes = 18

// identify sets the id, which follows from key, panel and revision alone.
func (a *Alert) identify() {
	sum := sha256.Sum256([]byte(a.Key() + "\x00" + a.Panel.Hash + "\x00" + strconv.FormatUint(a.Revision, 10)))
	a.ID = base64.RawURLEncoding.EncodeToString(sum[:idBytes])
}

// Answer is what an alert says in a word or two: its state, or the class where the model has classes of its own.
func (a *Alert) Answer() State {
	if a.State == Classified && a.Model != nil && a.Model.Class != "" {
		return State(a.Model.Class)
	}
	return a.State
}
