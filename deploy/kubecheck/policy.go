package main

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// workload is what makes pods.
type workload struct {
	kind, name string
	replicas   int32 // 0 where something else counts
	labels     labels.Set
	pod        core.PodSpec
	claims     []core.PersistentVolumeClaim
	service    bool // goes on until it is stopped, so it is probed
}

func (w workload) String() string { return w.kind + " " + w.name }

// manifest is all that was rendered, by kind.
type manifest struct {
	workloads  []workload
	configs    map[string]map[string]string
	services   []*core.Service
	budgets    []*policy.PodDisruptionBudget
	networks   []*networking.NetworkPolicy
	ingresses  []*networking.Ingress
	monitors   []*monitoring.PodMonitor
	scaled     []*ScaledObject
	namespaces []*core.Namespace
	claims     map[string]*core.PersistentVolumeClaim
}

func sortOut(objects []Object) manifest {
	m := manifest{configs: make(map[string]map[string]string), claims: make(map[string]*core.PersistentVolumeClaim)}
	for _, o := range objects {
		switch v := o.Value.(type) {
		case *apps.Deployment:
			w := workload{kind: o.Kind, name: o.Name, labels: v.Spec.Template.Labels, pod: v.Spec.Template.Spec, service: true}
			if v.Spec.Replicas != nil {
				w.replicas = *v.Spec.Replicas
			}
			m.workloads = append(m.workloads, w)
		case *apps.StatefulSet:
			w := workload{kind: o.Kind, name: o.Name, labels: v.Spec.Template.Labels, pod: v.Spec.Template.Spec, claims: v.Spec.VolumeClaimTemplates, service: true}
			if v.Spec.Replicas != nil {
				w.replicas = *v.Spec.Replicas
			}
			m.workloads = append(m.workloads, w)
		case *batch.Job:
			m.workloads = append(m.workloads, workload{kind: o.Kind, name: o.Name, labels: v.Spec.Template.Labels, pod: v.Spec.Template.Spec})
		case *core.ConfigMap:
			m.configs[o.Name] = v.Data
		case *core.Service:
			m.services = append(m.services, v)
		case *policy.PodDisruptionBudget:
			m.budgets = append(m.budgets, v)
		case *networking.NetworkPolicy:
			m.networks = append(m.networks, v)
		case *networking.Ingress:
			m.ingresses = append(m.ingresses, v)
		case *monitoring.PodMonitor:
			m.monitors = append(m.monitors, v)
		case *ScaledObject:
			m.scaled = append(m.scaled, v)
		case *core.Namespace:
			m.namespaces = append(m.namespaces, v)
		case *core.PersistentVolumeClaim:
			m.claims[o.Name] = v
		}
	}
	return m
}

// Check returns what is wrong with the objects of a deployment, one line each:
//
//   - a pod that may be root, gain privileges, keep capabilities, write to its image,
//     make any system call or use a token of the Kubernetes API;
//   - an image without a version; a container without requests or a limit of memory;
//   - a service without the three probes, or with one of a path or port it doesn't have;
//   - a pod that is killed before its program has had the time to stop;
//   - volumes that are not there, or mounted where nothing is;
//   - secrets as text: in arguments, in the environment, in a ConfigMap;
//   - selectors of services, disruption budgets, monitors and network policies that
//     select nothing, and ports that what they select doesn't have;
//   - pods without a default denial around them, without a way to the brokers, or
//     whose metrics are open to all;
//   - a live page whose token is no Secret or is another in each pod, where processors
//     can't ask each other for reads, that is served in clear or beside other paths;
//   - more processors than partitions, and scaling that would flutter;
//   - processors on several nodes with a volume for one.
func Check(objects []Object) []string {
	m := sortOut(objects)
	var faults []string
	fault := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	for _, n := range m.namespaces {
		if n.Labels["pod-security.kubernetes.io/enforce"] != "restricted" {
			fault("Namespace %s lets in pods that are not restricted", n.Name)
		}
	}
	for _, w := range m.workloads {
		m.checkPod(w, fault)
		for i := range w.pod.Containers {
			m.checkContainer(w, &w.pod.Containers[i], fault)
		}
	}
	for name, data := range m.configs {
		for key, value := range data {
			if secretText.MatchString(key) || secretAssigned.MatchString(value) {
				fault("ConfigMap %s: %s looks like a secret", name, key)
			}
		}
	}
	m.checkSelectors(fault)
	m.checkNetwork(fault)
	m.checkPages(fault)
	m.checkScaling(fault)
	slices.Sort(faults)
	return faults
}

type faultf func(format string, args ...any)

func isTrue(b *bool) bool  { return b != nil && *b }
func isFalse(b *bool) bool { return b != nil && !*b }

// grace is how long a pod's programs may take to stop, by what they say themselves.
func grace(w workload) time.Duration {
	const (
		programs = 15 * time.Second // cmd/processor: besides draining
		ingest   = 30 * time.Second // cmd/ingest: for its sources
	)
	longest := time.Duration(0)
	for _, c := range w.pod.Containers {
		switch strings.Join(c.Command, " ") {
		case "processor":
			drain := 15 * time.Second
			if s := flagValue(c.Args, "--drain-timeout"); s != "" {
				if d, err := time.ParseDuration(s); err == nil {
					drain = d
				}
			}
			longest = max(longest, drain+programs)
		case "ingest":
			longest = max(longest, ingest)
		}
	}
	return longest
}

func flagValue(args []string, name string) string {
	for _, a := range args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
	}
	return ""
}

func (m manifest) checkPod(w workload, fault faultf) {
	p := w.pod
	s := p.SecurityContext
	if s == nil {
		s = new(core.PodSecurityContext)
	}
	if !isTrue(s.RunAsNonRoot) || s.RunAsUser == nil || *s.RunAsUser == 0 {
		fault("%s may run as root", w)
	}
	if s.SeccompProfile == nil || s.SeccompProfile.Type != core.SeccompProfileTypeRuntimeDefault {
		fault("%s may make any system call: no seccomp profile", w)
	}
	if !isFalse(p.AutomountServiceAccountToken) {
		fault("%s gets a token of the Kubernetes API", w)
	}
	if p.HostNetwork || p.HostPID || p.HostIPC {
		fault("%s shares namespaces with its node", w)
	}
	for _, v := range p.Volumes {
		if v.HostPath != nil {
			fault("%s mounts a folder of its node: %s", w, v.Name)
		}
		if v.PersistentVolumeClaim != nil && w.replicas != 1 {
			c := m.claims[v.PersistentVolumeClaim.ClaimName]
			if c != nil && !slices.Contains(c.Spec.AccessModes, core.ReadWriteMany) && !slices.Contains(c.Spec.AccessModes, core.ReadOnlyMany) {
				fault("%s has several pods, and the claim %s is for one node", w, c.Name)
			}
		}
	}
	if w.service {
		given := int64(0)
		if p.TerminationGracePeriodSeconds != nil {
			given = *p.TerminationGracePeriodSeconds
		}
		if need := grace(w); time.Duration(given)*time.Second < need+5*time.Second {
			fault("%s is killed after %d s, and may take %v and a moment to stop", w, given, need)
		}
	}
	if len(p.InitContainers) > 0 {
		fault("%s has init containers, which nobody checks here", w)
	}
}

var (
	secretText     = regexp.MustCompile(`(?i)password|passwd|secret|token|private.?key`)
	secretAssigned = regexp.MustCompile(`(?im)^\s*[\w.]*(password|token|secret)\s*[:=]\s*\S`)
	pinned         = regexp.MustCompile(`:([\w.-]+)$|@sha256:[0-9a-f]{64}$`)
)

// served are the paths that the programs answer, by command.
var served = map[string][]string{
	"processor": {"/healthz", "/readyz", "/metrics"},
	"ingest":    {"/healthz", "/readyz", "/metrics", "/status"},
}

func (m manifest) checkContainer(w workload, c *core.Container, fault faultf) {
	at := fmt.Sprintf("%s, container %s", w, c.Name)
	s := c.SecurityContext
	if s == nil {
		s = new(core.SecurityContext)
	}
	if !isFalse(s.AllowPrivilegeEscalation) || isTrue(s.Privileged) {
		fault("%s may gain privileges", at)
	}
	if !isTrue(s.ReadOnlyRootFilesystem) {
		fault("%s may write to its image", at)
	}
	if s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") || len(s.Capabilities.Add) > 0 {
		fault("%s keeps capabilities", at)
	}
	if m := pinned.FindStringSubmatch(c.Image); m == nil || m[1] == "latest" {
		fault("%s: the image %s has no version", at, c.Image)
	}
	switch {
	case c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero():
		fault("%s requests no CPU or no memory", at)
	case c.Resources.Limits.Memory().IsZero():
		fault("%s has no limit of memory", at)
	}
	if v := flagValue(c.Args, "--max-signal-memory"); v != "" {
		if n, ok := mebibytes(v); !ok || 2*n<<20 > c.Resources.Limits.Memory().Value() {
			fault("%s: --max-signal-memory=%s is more than half of its memory", at, v)
		}
	}
	if w.service {
		m.checkProbes(at, c, fault)
	}
	// Mounts.
	have := make(map[string]bool)
	for _, v := range w.pod.Volumes {
		have[v.Name] = true
	}
	for _, claim := range w.claims {
		have[claim.Name] = true
	}
	for _, mount := range c.VolumeMounts {
		if !have[mount.Name] {
			fault("%s mounts %s, which is no volume", at, mount.Name)
		}
	}
	for _, a := range c.Args {
		_, value, _ := strings.Cut(a, "=")
		if strings.HasPrefix(value, "/") && !mounted(c, value) && !strings.HasPrefix(value, imageShare) {
			fault("%s: %s is neither in the image nor mounted", at, a)
		}
	}
	// Secrets.
	for _, e := range c.Env {
		if secretText.MatchString(e.Name) {
			fault("%s: secrets are files, not variables of the environment like %s", at, e.Name)
		}
	}
	for _, e := range c.EnvFrom {
		if e.SecretRef != nil {
			fault("%s: secrets are files, not variables of the environment", at)
		}
	}
	for _, a := range slices.Concat(c.Command, c.Args) {
		name, value, _ := strings.Cut(a, "=")
		if secretText.MatchString(name) && !strings.HasPrefix(value, "/") {
			fault("%s: the argument %s is no file", at, name)
		}
	}
	// $(NAME) that nothing sets stays as it is.
	vars := m.environment(c)
	for _, a := range c.Args {
		for _, ref := range variable.FindAllStringSubmatch(a, -1) {
			if _, ok := vars[ref[1]]; !ok {
				fault("%s: nothing sets %s in %s", at, ref[0], a)
			}
		}
	}
}

// imageShare is what the image for the demo has besides the programs.
const imageShare = "/usr/local/share/porestream/"

func mounted(c *core.Container, file string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(v core.VolumeMount) bool {
		return file == v.MountPath || strings.HasPrefix(file, path.Clean(v.MountPath)+"/")
	})
}

func mebibytes(s string) (int64, bool) {
	for unit, factor := range map[string]int64{"GiB": 1024, "MiB": 1} {
		if v, ok := strings.CutSuffix(s, unit); ok {
			n, err := strconv.ParseInt(v, 10, 64)
			return n * factor, err == nil
		}
	}
	return 0, false
}

var variable = regexp.MustCompile(`\$\(([A-Z_]+)\)`)

// environment is what $(NAME) in a container's arguments stands for.
func (m manifest) environment(c *core.Container) map[string]string {
	vars := make(map[string]string)
	for _, e := range c.EnvFrom {
		if e.ConfigMapRef != nil {
			maps.Copy(vars, m.configs[e.ConfigMapRef.Name])
		}
	}
	for _, e := range c.Env {
		vars[e.Name] = e.Value
		if e.ValueFrom != nil && e.ValueFrom.FieldRef != nil && e.ValueFrom.FieldRef.FieldPath == "status.podIP" {
			vars[e.Name] = somePod
		}
	}
	return vars
}

// somePod stands for a pod's own address, which the cluster makes.
const somePod = "192.0.2.1"

// expand is the command line that the container is started with.
func (m manifest) expand(c *core.Container) []string {
	vars := m.environment(c)
	var out []string
	for _, a := range slices.Concat(c.Command, c.Args) {
		out = append(out, variable.ReplaceAllStringFunc(a, func(ref string) string { return vars[ref[2:len(ref)-1]] }))
	}
	return out
}

func containerPort(c *core.Container, p intstr.IntOrString) bool {
	return slices.ContainsFunc(c.Ports, func(have core.ContainerPort) bool {
		return p.Type == intstr.String && have.Name == p.StrVal || p.Type == intstr.Int && have.ContainerPort == p.IntVal
	})
}

func (m manifest) checkProbes(at string, c *core.Container, fault faultf) {
	probes := map[string]*core.Probe{"startup": c.StartupProbe, "readiness": c.ReadinessProbe, "liveness": c.LivenessProbe}
	for _, kind := range slices.Sorted(maps.Keys(probes)) {
		probe := probes[kind]
		switch {
		case probe == nil:
			fault("%s has no %s probe", at, kind)
		case probe.HTTPGet != nil:
			if !containerPort(c, probe.HTTPGet.Port) {
				fault("%s: the %s probe asks port %s, which it hasn't got", at, kind, probe.HTTPGet.Port.String())
			}
			paths := served[strings.Join(c.Command, " ")]
			if !slices.Contains(paths, probe.HTTPGet.Path) {
				fault("%s: the %s probe asks %s, which nobody answers", at, kind, probe.HTTPGet.Path)
			}
			if kind == "liveness" && probe.HTTPGet.Path == "/readyz" {
				fault("%s would be restarted whenever Kafka is away: its liveness probe asks /readyz", at)
			}
			if kind == "readiness" && probe.HTTPGet.Path != "/readyz" {
				fault("%s is ready before it can work: its readiness probe asks %s", at, probe.HTTPGet.Path)
			}
		case probe.TCPSocket != nil:
			if !containerPort(c, probe.TCPSocket.Port) {
				fault("%s: the %s probe asks port %s, which it hasn't got", at, kind, probe.TCPSocket.Port.String())
			}
		default:
			fault("%s: the %s probe asks nothing", at, kind)
		}
	}
	if listen := flagValue(c.Args, "--listen"); listen != "" {
		n, err := strconv.ParseInt(strings.TrimPrefix(listen, ":"), 10, 32)
		if err != nil || !containerPort(c, intstr.FromInt32(int32(n))) {
			fault("%s listens on %s, which is none of its ports", at, listen)
		}
	}
}

// selected are the workloads whose pods a selector matches.
func (m manifest) selected(s *metav1.LabelSelector) []workload {
	sel, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil
	}
	var out []workload
	for _, w := range m.workloads {
		if sel.Matches(w.labels) {
			out = append(out, w)
		}
	}
	return out
}

func hasPort(w workload, p intstr.IntOrString) bool {
	return slices.ContainsFunc(w.pod.Containers, func(c core.Container) bool { return containerPort(&c, p) })
}

func (m manifest) checkSelectors(fault faultf) {
	for _, s := range m.services {
		found := m.selected(&metav1.LabelSelector{MatchLabels: s.Spec.Selector})
		if len(found) == 0 {
			fault("Service %s selects no pod", s.Name)
		}
		for _, w := range found {
			for _, p := range s.Spec.Ports {
				if !hasPort(w, p.TargetPort) {
					fault("Service %s: %s has no port %s", s.Name, w, p.TargetPort.String())
				}
			}
		}
	}
	for _, b := range m.budgets {
		if len(m.selected(b.Spec.Selector)) != 1 {
			fault("PodDisruptionBudget %s selects %d workloads, want one", b.Name, len(m.selected(b.Spec.Selector)))
		}
	}
	for _, w := range m.workloads {
		budgets := 0
		for _, b := range m.budgets {
			if slices.ContainsFunc(m.selected(b.Spec.Selector), func(o workload) bool { return o.String() == w.String() }) {
				budgets++
			}
		}
		if w.service && budgets != 1 {
			fault("%s has %d disruption budgets, want one", w, budgets)
		}
	}
	for _, p := range m.monitors {
		found := m.selected(&p.Spec.Selector)
		if len(found) == 0 {
			fault("PodMonitor %s selects no pod", p.Name)
		}
		for _, w := range found {
			for _, e := range p.Spec.PodMetricsEndpoints {
				if e.Port == nil || !hasPort(w, intstr.FromString(*e.Port)) {
					fault("PodMonitor %s: %s has no such port", p.Name, w)
				}
			}
			// The alert PorestreamDown goes by the job.
			if job := w.labels[p.Spec.JobLabel]; job != "ingest" && job != "processor" {
				fault("PodMonitor %s: the job of %s is %q", p.Name, w, job)
			}
		}
	}
}

func (m manifest) checkNetwork(fault faultf) {
	denied := slices.ContainsFunc(m.networks, func(p *networking.NetworkPolicy) bool {
		return len(p.Spec.PodSelector.MatchLabels)+len(p.Spec.PodSelector.MatchExpressions) == 0 &&
			len(p.Spec.PolicyTypes) == 2 && len(p.Spec.Ingress)+len(p.Spec.Egress) == 0
	})
	for _, w := range m.workloads {
		incoming, outgoing := denied, denied
		for _, p := range m.networks {
			if !slices.ContainsFunc(m.selected(&p.Spec.PodSelector), func(o workload) bool { return o.String() == w.String() }) {
				continue
			}
			incoming = incoming || slices.Contains(p.Spec.PolicyTypes, networking.PolicyTypeIngress)
			outgoing = outgoing || slices.Contains(p.Spec.PolicyTypes, networking.PolicyTypeEgress)
		}
		if !incoming || !outgoing {
			fault("%s may be reached by, or reach, everybody: no default denial", w)
		}
		m.checkBrokers(w, fault)
	}
	for _, p := range m.networks {
		found := m.selected(&p.Spec.PodSelector)
		if len(found) == 0 {
			fault("NetworkPolicy %s selects no pod", p.Name)
		}
		for _, rule := range p.Spec.Ingress {
			if len(rule.From) == 0 || len(rule.Ports) == 0 {
				fault("NetworkPolicy %s lets in everybody or everything", p.Name)
			}
			for _, port := range rule.Ports {
				for _, w := range found {
					if port.Port == nil || !hasPort(w, *port.Port) {
						fault("NetworkPolicy %s opens a port that %s hasn't got: %s", p.Name, w, port.Port)
					}
				}
			}
		}
		for _, rule := range p.Spec.Egress {
			if len(rule.To) == 0 || len(rule.Ports) == 0 {
				fault("NetworkPolicy %s lets out to everybody or everything", p.Name)
			}
		}
	}
}

// brokers are the addresses of brokers that a workload is given, in its arguments or its
// file of sources.
func (m manifest) brokers(w workload) []string {
	var out []string
	for i := range w.pod.Containers {
		c := &w.pod.Containers[i]
		if v := flagValue(m.expand(c), "--brokers"); v != "" {
			out = append(out, strings.Split(v, ",")...)
		}
		for _, volume := range w.pod.Volumes {
			if volume.ConfigMap == nil {
				continue
			}
			if list := brokersLine.FindStringSubmatch(m.configs[volume.ConfigMap.Name]["sources.yaml"]); list != nil {
				for b := range strings.SplitSeq(list[1], ",") {
					out = append(out, strings.TrimSpace(b))
				}
			}
		}
	}
	return out
}

var brokersLine = regexp.MustCompile(`(?m)^\s+brokers: \[([^\]]*)\]$`)

func (m manifest) checkBrokers(w workload, fault faultf) {
	if w.labels["app.kubernetes.io/name"] != "porestream" {
		return
	}
	brokers := m.brokers(w)
	if len(brokers) == 0 {
		fault("%s is given no brokers", w)
	}
	for _, b := range brokers {
		_, port, _ := strings.Cut(b, ":")
		n, err := strconv.ParseInt(port, 10, 32)
		if err != nil {
			fault("%s: broker %q has no port", w, b)
			continue
		}
		allowed := slices.ContainsFunc(m.networks, func(p *networking.NetworkPolicy) bool {
			if !slices.ContainsFunc(m.selected(&p.Spec.PodSelector), func(o workload) bool { return o.String() == w.String() }) {
				return false
			}
			return slices.ContainsFunc(p.Spec.Egress, func(r networking.NetworkPolicyEgressRule) bool {
				return slices.ContainsFunc(r.Ports, func(q networking.NetworkPolicyPort) bool { return q.Port != nil && q.Port.IntVal == int32(n) })
			})
		})
		if !allowed {
			fault("%s may not reach broker %s: no network policy lets it out to that port", w, b)
		}
	}
}

func (m manifest) checkScaling(fault faultf) {
	for _, w := range m.workloads {
		for i := range w.pod.Containers {
			c := &w.pod.Containers[i]
			if len(c.Command) == 0 || c.Command[0] != "processor" {
				continue
			}
			partitions, err := strconv.Atoi(flagValue(m.expand(c), "--partitions"))
			if err != nil {
				fault("%s: --partitions is no number", w)
				continue
			}
			if int(w.replicas) > partitions {
				fault("%s has %d pods for %d partitions", w, w.replicas, partitions)
			}
			scaled := false
			for _, s := range m.scaled {
				if s.Spec.ScaleTargetRef.Name != w.name {
					continue
				}
				scaled = true
				if s.Spec.MaxReplicaCount > partitions {
					fault("ScaledObject of %s: up to %d pods for %d partitions", w, s.Spec.MaxReplicaCount, partitions)
				}
				if s.Spec.MinReplicaCount < 1 {
					fault("ScaledObject of %s scales to zero, and nothing would be there for the next run", w)
				}
				if s.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior.ScaleDown.StabilizationWindowSeconds < 600 {
					fault("ScaledObject of %s flutters: its window is less than ten minutes before it takes pods away", w)
				}
			}
			if scaled != (w.replicas == 0) {
				fault("%s is counted by its replicas and by a ScaledObject, or by neither", w)
			}
		}
	}
	for _, s := range m.scaled {
		if !slices.ContainsFunc(m.workloads, func(w workload) bool { return w.kind == "Deployment" && w.name == s.Spec.ScaleTargetRef.Name }) {
			fault("ScaledObject scales %s, which is not there", s.Spec.ScaleTargetRef.Name)
		}
	}
}
