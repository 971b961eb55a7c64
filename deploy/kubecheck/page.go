package main

import (
	"slices"

	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// pagePaths are what the live page is made of, and how an Ingress may name them. What else is
// on its port is not for the outside.
var pagePaths = map[string]networking.PathType{
	"/": networking.PathTypeExact, "/assets": networking.PathTypePrefix, "/api": networking.PathTypePrefix,
}

// checkPages checks how processors serve the live page.
func (m manifest) checkPages(fault faultf) {
	for _, w := range m.workloads {
		for i := range w.pod.Containers {
			c := &w.pod.Containers[i]
			if len(c.Command) > 0 && c.Command[0] == "processor" && !slices.Contains(c.Args, "--no-page") {
				m.checkPage(w, c, fault)
			}
		}
	}
	for _, i := range m.ingresses {
		m.checkIngress(i, fault)
	}
}

func (m manifest) checkPage(w workload, c *core.Container, fault faultf) {
	token := flagValue(c.Args, "--page-token-file")
	if token == "" && w.replicas != 1 {
		fault("%s has several pods, each with a page's token of its own: give --page-token-file", w)
	}
	if token != "" && !fromSecret(w, c, token) {
		fault("%s: the page's token is in no Secret: %s", w, token)
	}
	if w.replicas == 1 {
		return
	}
	listen := flagValue(c.Args, "--listen")
	if at := flagValue(m.expand(c), "--advertise"); at != somePod+listen {
		fault("%s can't ask other processors for the reads at a place: --advertise has to be the pod's address with the port of --listen, and is %q", w, at)
	}
	port := intstr.Parse(listen[min(1, len(listen)):])
	among := func(peers []networking.NetworkPolicyPeer, ports []networking.NetworkPolicyPort) bool {
		return slices.ContainsFunc(ports, func(p networking.NetworkPolicyPort) bool { return p.Port != nil && *p.Port == port }) &&
			slices.ContainsFunc(peers, func(p networking.NetworkPolicyPeer) bool {
				return p.PodSelector != nil && p.NamespaceSelector == nil && m.selects(p.PodSelector, w)
			})
	}
	in, out := false, false
	for _, p := range m.networks {
		if !m.selects(&p.Spec.PodSelector, w) {
			continue
		}
		in = in || slices.ContainsFunc(p.Spec.Ingress, func(r networking.NetworkPolicyIngressRule) bool { return among(r.From, r.Ports) })
		out = out || slices.ContainsFunc(p.Spec.Egress, func(r networking.NetworkPolicyEgressRule) bool { return among(r.To, r.Ports) })
	}
	if !in || !out {
		fault("%s: no network policy lets its pods ask each other for the reads at a place", w)
	}
}

// fromSecret reports whether a file of the container is mounted from a Secret.
func fromSecret(w workload, c *core.Container, file string) bool {
	for _, mount := range c.VolumeMounts {
		if !mounted(&core.Container{VolumeMounts: []core.VolumeMount{mount}}, file) {
			continue
		}
		return slices.ContainsFunc(w.pod.Volumes, func(v core.Volume) bool { return v.Name == mount.Name && v.Secret != nil })
	}
	return false
}

func (m manifest) selects(s *metav1.LabelSelector, w workload) bool {
	return slices.ContainsFunc(m.selected(s), func(o workload) bool { return o.String() == w.String() })
}

func (m manifest) checkIngress(i *networking.Ingress, fault faultf) {
	var encrypted []string
	for _, t := range i.Spec.TLS {
		if t.SecretName != "" {
			encrypted = append(encrypted, t.Hosts...)
		}
	}
	if i.Spec.DefaultBackend != nil {
		fault("Ingress %s lets every path through: it has a default backend", i.Name)
	}
	for _, r := range i.Spec.Rules {
		if r.Host == "" || !slices.Contains(encrypted, r.Host) {
			fault("Ingress %s: the page's token would go in clear to %q: tls doesn't name it", i.Name, r.Host)
		}
		if r.HTTP == nil {
			continue
		}
		for _, p := range r.HTTP.Paths {
			if want, known := pagePaths[p.Path]; !known || p.PathType == nil || *p.PathType != want {
				fault("Ingress %s lets %s through, which is not the page's, or not so", i.Name, p.Path)
			}
			m.checkBackend(i.Name, p.Backend.Service, fault)
		}
	}
}

// checkBackend wants the service, its port, and a way in for the ingress controller, which
// is in another namespace.
func (m manifest) checkBackend(ingress string, b *networking.IngressServiceBackend, fault faultf) {
	if b == nil {
		fault("Ingress %s leads to no Service", ingress)
		return
	}
	at := slices.IndexFunc(m.services, func(s *core.Service) bool { return s.Name == b.Name })
	if at < 0 {
		fault("Ingress %s leads to the Service %s, which is not there", ingress, b.Name)
		return
	}
	s := m.services[at]
	at = slices.IndexFunc(s.Spec.Ports, func(p core.ServicePort) bool {
		return b.Port.Name != "" && p.Name == b.Port.Name || b.Port.Number != 0 && p.Port == b.Port.Number
	})
	if at < 0 {
		fault("Ingress %s: the Service %s has no such port", ingress, s.Name)
		return
	}
	for _, w := range m.selected(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}) {
		number := portNumber(w, s.Spec.Ports[at].TargetPort)
		reached := slices.ContainsFunc(m.networks, func(p *networking.NetworkPolicy) bool {
			return m.selects(&p.Spec.PodSelector, w) && slices.ContainsFunc(p.Spec.Ingress, func(r networking.NetworkPolicyIngressRule) bool {
				return slices.ContainsFunc(r.Ports, func(q networking.NetworkPolicyPort) bool { return q.Port != nil && q.Port.IntVal == number }) &&
					slices.ContainsFunc(r.From, func(f networking.NetworkPolicyPeer) bool {
						return f.NamespaceSelector != nil && f.NamespaceSelector.MatchLabels[pageLabel] != ""
					})
			})
		})
		if !reached {
			fault("Ingress %s: no network policy lets namespaces with the label %s come to %s", ingress, pageLabel, w)
		}
	}
}

// pageLabel is what namespaces have whose pods may come to the page.
const pageLabel = "porestream/page"

// portNumber is the number of a pod's port.
func portNumber(w workload, p intstr.IntOrString) int32 {
	for _, c := range w.pod.Containers {
		for _, have := range c.Ports {
			if p.Type == intstr.String && have.Name == p.StrVal {
				return have.ContainerPort
			}
		}
	}
	return p.IntVal
}
