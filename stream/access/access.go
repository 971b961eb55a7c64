// Package access says which rights each part of a deployment needs at the
// brokers, and no more: the table in docs/operate/security.md, the output of pore acls
// and the tests against a real broker come from here.
package access

import (
	"fmt"
	"slices"
	"strings"

	"github.com/porestream/porestream/stream"
)

// Resource is what a right is about, as kafka-acls.sh names it.
type Resource string

// The kinds of resources that rights are about.
const (
	Topic           Resource = "topic"
	Group           Resource = "group"
	TransactionalID Resource = "transactional-id"
)

// Operation is what a right allows, as kafka-acls.sh names it. Read and Write
// include Describe.
type Operation string

// The operations of rights.
const (
	Read            Operation = "Read"
	Write           Operation = "Write"
	Create          Operation = "Create"
	Describe        Operation = "Describe"
	DescribeConfigs Operation = "DescribeConfigs"
)

// Right allows one operation.
type Right struct {
	Resource Resource
	// Name is the resource's, or with Prefixed what its name begins with.
	Name      string
	Prefixed  bool
	Operation Operation
	// For says what it is needed for.
	For string
}

// Deployment is what the names of resources depend on.
type Deployment struct {
	// Prefix is that of all topic names (--topic-prefix).
	Prefix string
	// Group is the prefix of the processors' consumer groups (--group).
	Group string
	// Panels says that samples are held against watch-lists.
	Panels bool
	// Adaptive says that reads are decided about while they are sequenced.
	Adaptive bool
	// Basecalls says that called reads are published.
	Basecalls bool
	// Methylation says that modified bases are counted.
	Methylation bool
}

// Roles. A processor has those of its stages.
const (
	RoleIngest    = "ingest"
	RoleAdaptive  = "adaptive"
	RoleBasecall  = "basecall"
	RoleAlign     = "align"
	RoleVariant   = "variant"
	RoleMethylate = "methylate"
	RoleAnnotate  = "annotate"
	RoleWatch     = "watch"
	RolePage      = "page"
	RoleConsumer  = "consumer"
	RoleNotify    = "notify"
	RoleOperator  = "operator"
	RoleAdmin     = "admin"
)

// Roles lists all roles, in the order of the flow.
func Roles() []string {
	return []string{RoleIngest, RoleAdaptive, RoleBasecall, RoleAlign, RoleVariant, RoleMethylate, RoleAnnotate, RoleWatch, RolePage, RoleConsumer, RoleNotify, RoleOperator, RoleAdmin}
}

// About says in a few words who has a role.
func About(role string) string {
	return map[string]string{
		RoleIngest:    "`ingest`",
		RoleAdaptive:  "`processor --stages adaptive`",
		RoleBasecall:  "`processor --stages basecall`",
		RoleAlign:     "`processor --stages align`",
		RoleVariant:   "`processor --stages variant`",
		RoleMethylate: "`processor --methylation --stages methylate`",
		RoleAnnotate:  "`processor --stages annotate`",
		RoleWatch:     "`processor --stages watch`",
		RolePage:      "`processor` with a live page: not with `--no-page`",
		RoleConsumer:  "`pore consume`, and your own programs in groups named `consumer-...`",
		RoleNotify:    "`pore notify`, with `--panels`",
		RoleOperator:  "`pore dlq`, `pore replay`, `pore reset`, `pore topics check`",
		RoleAdmin:     "`pore topics create`",
	}[role]
}

// stage is what a stage with state reads and writes: topics.
type stage struct {
	input   string
	outputs []string
}

// stages are those of the processors, by role.
func (d Deployment) stages() map[string]stage {
	t := stream.NewTopics(d.Prefix)
	annotated := []string{t.Variants}
	if d.Panels {
		annotated = append(annotated, t.Watch)
	}
	methylated := []string{t.Methylation}
	if d.Panels {
		methylated = append(methylated, t.Watch)
	}
	return map[string]stage{
		RoleBasecall:  {t.Signal, []string{t.Reads}},
		RoleAlign:     {t.Called, []string{t.Reads}},
		RoleVariant:   {t.Reads, []string{t.Calls}},
		RoleMethylate: {t.Reads, methylated},
		RoleAnnotate:  {t.Calls, annotated},
		RoleWatch:     {t.Watch, []string{t.Alerts}},
	}
}

// Topics lists the settings of all topics of the deployment; partitions is as in
// [stream.Topics.Settings].
func (d Deployment) Topics(partitions int) []stream.TopicSettings {
	t := stream.NewTopics(d.Prefix)
	all := t.Settings(partitions)
	if d.Panels {
		all = append(all, t.WatchSettings(partitions)...)
	}
	if d.Adaptive {
		all = append(all, t.DecisionSettings(partitions)...)
	}
	if d.Methylation {
		all = append(all, t.MethylationSettings(partitions)...)
	}
	if d.Basecalls {
		all = append(all, t.BasecallSettings(partitions)...)
	}
	return all
}

// GroupOf is the consumer group of a stage.
func (d Deployment) GroupOf(stage string) string { return d.Prefix + d.Group + "-" + stage }

// ConsumerGroups is what the names of your own consumers' groups begin with.
func (d Deployment) ConsumerGroups() string { return d.Prefix + "consumer-" }

// NotifyGroups is what the names of the groups of pore notify begin with; each destination has one.
func (d Deployment) NotifyGroups() string { return d.GroupOf(RoleNotify) + "-" }

// OperatorID is the transactional id of pore dlq and pore replay.
func (d Deployment) OperatorID() string { return d.Prefix + "pore" }

// Rights lists what a role needs in a deployment.
func (d Deployment) Rights(role string) ([]Right, error) {
	t := stream.NewTopics(d.Prefix)
	var l list
	if s, is := d.stages()[role]; is {
		l.stage(d, role, s)
		return l, nil
	}
	switch role {
	case RoleIngest:
		l.topic(Write, "signal and run markers", t.Signal)
		l.topic(Write, "called reads and run markers (reads)", t.Called)
		l.topic(Write, "descriptions of runs", t.Runs)
		l.topic(Read, "what a pushed run was registered as (serve)", t.Runs)
		l.topic(Read, "going on where it stopped", t.Cursors)
		l.topic(Write, "how far it is", t.Cursors)
		l.topic(Write, "reports for the live page", t.Status)
		l.add(Right{Resource: TransactionalID, Name: d.Prefix + "ingest/", Prefixed: true, Operation: Write, For: "transactions"})
		if d.Adaptive {
			l.topic(Read, "what is to become of reads (minknow)", t.Decisions)
		}
		l.settings(d)
	case RoleAdaptive:
		l.topic(Read, "its input", t.Signal)
		l.topic(Read, "descriptions of runs that have begun before", t.Runs)
		l.topic(Write, "its results", t.Decisions)
		l.topic(Write, "reports for the live page", t.Status)
		l.add(Right{Resource: Group, Name: d.GroupOf(role), Operation: Read, For: "its place in the consumer group"})
		l.settings(d)
	case RolePage:
		l.topic(Read, "what is shown", t.Status, t.Runs, t.Variants, t.DeadLetters)
		if d.Panels {
			l.topic(Read, "what is shown", t.Alerts)
		}
		if d.Methylation {
			l.topic(Read, "what is shown", t.Methylation)
		}
		l.settings(d)
	case RoleConsumer:
		l.topic(Read, "results", t.Variants)
		if d.Panels {
			l.topic(Read, "results", t.Alerts)
		}
		if d.Basecalls {
			l.topic(Read, "called reads", t.Basecalls)
		}
		if d.Methylation {
			l.topic(Read, "counts of modified bases", t.Methylation)
		}
		l.add(Right{Resource: Group, Name: d.ConsumerGroups(), Prefixed: true, Operation: Read, For: "consumer groups of your programs"})
	case RoleNotify:
		if d.Panels {
			l.topic(Read, "its input", t.Alerts)
			l.topic(Write, "alerts that it gave up", t.DeadLetters)
			l.add(Right{Resource: Group, Name: d.NotifyGroups(), Prefixed: true, Operation: Read, For: "how far each destination is"})
		}
	case RoleOperator:
		l.operator(d)
	case RoleAdmin:
		for _, s := range d.Topics(0) {
			l.topic(Create, "making the topics", s.Name)
		}
		l.settings(d)
	default:
		return nil, fmt.Errorf("unknown role %q, want one of %s", role, strings.Join(Roles(), ", "))
	}
	return l, nil
}

// list is a list of rights.
type list []Right

// stage adds what a stage with state needs.
func (l *list) stage(d Deployment, role string, s stage) {
	t := stream.NewTopics(d.Prefix)
	l.topic(Read, "its input", s.input)
	l.topic(Write, "its results", s.outputs...)
	if role == RoleBasecall || role == RoleAlign {
		if d.Basecalls {
			l.topic(Write, "called reads", t.Basecalls)
		}
		l.topic(Write, "ending runs of which nothing comes any more", s.input)
		l.topic(Write, "how runs ended", t.Runs)
	}
	if role == RoleVariant {
		l.topic(Write, "what partitions ask each other of carry-over, and haplotypes of reads", s.input)
	}
	if role == RoleMethylate {
		l.topic(Write, "how sure calls are, for all partitions", s.input)
	}
	l.topic(Write, "records it can't process", t.DeadLetters)
	l.topic(Write, "reports for the live page", t.Status)
	l.topic(Read, "restoring its state", t.State)
	l.topic(Write, "snapshots of its state", t.State)
	l.add(Right{Resource: Group, Name: d.GroupOf(role), Operation: Read, For: "its place in the consumer group"})
	l.add(Right{Resource: TransactionalID, Name: d.GroupOf(role) + "/", Prefixed: true, Operation: Write, For: "transactions"})
	l.settings(d)
}

// operator adds what the commands for dead letters, replay and states need.
func (l *list) operator(d Deployment) {
	t := stream.NewTopics(d.Prefix)
	inputs := []string{t.Signal, t.Called, t.Reads, t.Calls}
	if d.Panels {
		inputs = append(inputs, t.Watch)
	}
	l.topic(Read, "reading dead letters", t.DeadLetters)
	l.topic(Write, "marking what was redriven", t.DeadLetters)
	l.topic(Read, "replay", inputs...)
	l.topic(Write, "redriving dead letters", inputs...)
	l.topic(Read, "reading states", t.State)
	l.topic(Write, "reset of states", t.State)
	for _, stage := range []string{RoleBasecall, RoleAlign, RoleVariant, RoleMethylate, RoleAnnotate, RoleWatch} {
		if (stage != RoleWatch || d.Panels) && (stage != RoleMethylate || d.Methylation) {
			l.add(Right{Resource: Group, Name: d.GroupOf(stage), Operation: Read, For: "replay and reset"})
		}
	}
	l.add(Right{Resource: TransactionalID, Name: d.OperatorID(), Operation: Write, For: "redriving each record once"})
	l.settings(d)
}

func (l *list) add(r Right) { *l = append(*l, r) }

func (l *list) topic(op Operation, why string, names ...string) {
	for _, name := range names {
		l.add(Right{Resource: Topic, Name: name, Operation: op, For: why})
	}
}

// settings adds what checking the topics' settings needs: a program that starts
// makes sure that the guarantees can hold.
func (l *list) settings(d Deployment) {
	for _, s := range d.Topics(0) {
		implied := slices.ContainsFunc(*l, func(r Right) bool {
			return r.Resource == Topic && r.Name == s.Name && (r.Operation == Read || r.Operation == Write)
		})
		if !implied {
			l.topic(Describe, "checking topics", s.Name)
		}
		l.topic(DescribeConfigs, "checking topics", s.Name)
	}
}

// Commands are those of kafka-acls.sh that give rights to a principal, such as
// "User:ingest". options are passed on, for example --command-config FILE.
func Commands(bootstrap, principal string, rights []Right, options ...string) []string {
	type resource struct {
		kind     Resource
		name     string
		prefixed bool
	}
	var order []resource
	operations := make(map[resource][]Operation)
	for _, r := range rights {
		key := resource{r.Resource, r.Name, r.Prefixed}
		if _, seen := operations[key]; !seen {
			order = append(order, key)
		}
		if !slices.Contains(operations[key], r.Operation) {
			operations[key] = append(operations[key], r.Operation)
		}
	}
	commands := make([]string, 0, len(order))
	for _, res := range order {
		words := append([]string{"kafka-acls.sh", "--bootstrap-server", bootstrap}, options...)
		words = append(words, "--add", "--allow-principal", quoted(principal))
		for _, op := range operations[res] {
			words = append(words, "--operation", string(op))
		}
		words = append(words, "--"+string(res.kind), quoted(res.name))
		if res.prefixed {
			words = append(words, "--resource-pattern-type", "prefixed")
		}
		commands = append(commands, strings.Join(words, " "))
	}
	return commands
}

// quoted is a word of a shell's command line.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
