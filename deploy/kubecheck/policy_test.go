package main

import (
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// folders are those that are applied.
func folders(t *testing.T) (list []string) {
	t.Helper()
	for _, pattern := range []string{"../kubernetes/overlays/*", "../kubernetes/setup/*"} {
		some, err := filepath.Glob(pattern)
		if err != nil || len(some) == 0 {
			t.Fatalf("%s: %d folders, %v", pattern, len(some), err)
		}
		list = append(list, some...)
	}
	return list
}

func render(t *testing.T, dir string) string {
	t.Helper()
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func decode(t *testing.T, text string, s schemas) ([]Object, error) {
	t.Helper()
	var out []Object
	for doc := range strings.SplitSeq(text, "\n---\n") {
		o, err := Decode([]byte(doc), s)
		if err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

func load(t *testing.T) schemas {
	t.Helper()
	s, err := loadSchemas(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFoldersAreInOrder(t *testing.T) {
	s := load(t)
	for _, dir := range folders(t) {
		objects, err := Render(dir, s)
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		for _, f := range Check(objects) {
			t.Errorf("%s: %s", dir, f)
		}
	}
}

// Each break of what is deployed is found, by the rule that is about it.
func TestBreaksAreFound(t *testing.T) {
	const (
		demo       = "../kubernetes/overlays/cpu-demo"
		gpu        = "../kubernetes/overlays/gpu"
		production = "../kubernetes/overlays/production"
		setup      = "../kubernetes/setup/production"
	)
	s := load(t)
	tests := []struct {
		name, dir, old, new, want string
	}{
		// Found while decoding.
		{"misspelt field", production, "readOnlyRootFilesystem: true", "readOnlyRootFileSystem: true", "unknown field"},
		{"wrong type", production, "runAsUser: 65532", "runAsUser: nonroot", "cannot unmarshal"},
		{"unknown API", production, "apiVersion: apps/v1\n", "apiVersion: apps/v1beta1\n", "no API that is known"},
		{"scaled object, misspelt", production, "maxReplicaCount: 24", "maxReplicas: 24", "additional properties 'maxReplicas' not allowed"},
		{"scaled object, wrong type", production, "minReplicaCount: 2", "minReplicaCount: two", "got string, want integer"},
		{"trigger, misspelt", production, "serverAddress: http", "serverURL: http", "which KEDA's scaler on Prometheus doesn't read"},
		{"monitor, misspelt", production, "podMetricsEndpoints:", "podMetricEndpoints:", "unknown field"},
		{"certificate, misspelt", production, "renewBefore:", "renewedBefore:", "unknown field"},

		// Pods.
		{"root", production, "runAsNonRoot: true", "runAsNonRoot: false", "may run as root"},
		{"seccomp", production, "type: RuntimeDefault", "type: Unconfined", "any system call"},
		{"API token", production, "      automountServiceAccountToken: false", "      automountServiceAccountToken: true", "token of the Kubernetes API"},
		{"host network", production, "      automountServiceAccountToken: false", "      automountServiceAccountToken: false\n      hostNetwork: true", "namespaces with its node"},
		{"privileges", production, "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true", "may gain privileges"},
		{"writable image", production, "readOnlyRootFilesystem: true", "readOnlyRootFilesystem: false", "may write to its image"},
		{"capabilities", production, "            - ALL\n", "            - NET_RAW\n", "keeps capabilities"},
		{"no version", gpu, "registry.example.org/porestream:0.1.0\n", "registry.example.org:5000/porestream\n", "has no version"},
		{"latest", gpu, "registry.example.org/porestream:0.1.0\n", "registry.example.org/porestream:latest\n", "has no version"},
		{"no probe", gpu, "        livenessProbe:", "        livenessProbing:", "unknown field"},
		{"no probe that asks", gpu, "        readinessProbe:\n          httpGet:\n            path: /readyz\n            port: metrics\n", "        readinessProbe:\n", "asks nothing"},
		{"no requests", production, "          requests:\n            cpu: \"6\"\n            memory: 16Gi\n", "", "requests no CPU"},
		{"no limit", production, "            memory: 24Gi\n", "", "no limit of memory"},
		{"signal memory", gpu, "--max-signal-memory=4GiB", "--max-signal-memory=16GiB", "more than half of its memory"},
		{"permissive namespace", production, "enforce: restricted", "enforce: baseline", "not restricted"},
		{"folder of the node", gpu, "      - name: runs\n        persistentVolumeClaim:\n          claimName: runs\n          readOnly: true\n", "      - name: runs\n        hostPath: {path: /runs}\n", "mounts a folder of its node"},

		// Life.
		{"unknown path", production, "path: /readyz", "path: /ready", "which nobody answers"},
		{"unready is dead", production, "          httpGet:\n            path: /healthz", "          httpGet:\n            path: /readyz", "restarted whenever Kafka is away"},
		{"healthy is ready", production, "path: /readyz", "path: /healthz", "ready before it can work"},
		{"port of a probe", gpu, "            path: /readyz\n            port: metrics", "            path: /readyz\n            port: 9103", "which it hasn't got"},
		{"port of the program", gpu, "--listen=:9102", "--listen=:9103", "none of its ports"},
		{"killed while draining", gpu, "--drain-timeout=15s", "--drain-timeout=45s", "is killed after 60 s"},
		{"killed at once", gpu, "terminationGracePeriodSeconds: 60", "terminationGracePeriodSeconds: 10", "is killed after 10 s"},

		// Files and secrets.
		{"no such volume", gpu, "mountPath: /tmp\n          name: tmp", "mountPath: /tmp\n          name: temp", "which is no volume"},
		{"not mounted", gpu, "--ref=/reference/", "--ref=/refs/", "neither in the image nor mounted"},
		{"password in arguments", setup, "--sasl-password-file=/etc/kafka/user/password", "--sasl-password=hunter2", "is no file"},
		{"password in the environment", gpu, "name: NVIDIA_DRIVER_CAPABILITIES", "name: PORESTREAM_SASL_PASSWORD", "secrets are files"},
		{"password in a file of sources", gpu, "    listen: :9101", "    sasl_password: hunter2\n    listen: :9101", "looks like a secret"},
		{"variable that is not set", setup, "PARTITIONS: \"96\"", "PARTITION: \"96\"", "nothing sets $(PARTITIONS)"},

		// Selectors, ports, networks.
		{"budget of nothing", gpu, "  maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/component: processor", "  maxUnavailable: 1\n  selector:\n    matchLabels:\n      app.kubernetes.io/component: processors", "PodDisruptionBudget processor selects 0"},
		{"port of a service", production, "targetPort: push", "targetPort: pushing", "has no port pushing"},
		{"port of a monitor", production, "    port: metrics\n  selector:", "    port: metric\n  selector:", "has no such port"},
		{"job of a monitor", production, "jobLabel: app.kubernetes.io/component", "jobLabel: app.kubernetes.io/name", "is \"porestream\""},
		{"no default denial", setup, "  policyTypes:\n  - Ingress\n  - Egress\n", "  policyTypes:\n  - Egress\n", "no default denial"},
		{"port of a policy", production, "port: 9443", "port: 9444", "opens a port that"},
		{"open to all", production, "  - from:\n    - ipBlock:\n        cidr: 192.0.2.0/24\n    ports:", "  - ports:", "lets in everybody"},
		{"brokers out of reach", production, "BROKERS: kafka-bootstrap.kafka.svc:9093", "BROKERS: kafka-bootstrap.kafka.svc:9094", "may not reach broker"},
		{"sources' brokers out of reach", demo, "brokers: [kafka:9092]", "brokers: [kafka:19092]", "may not reach broker kafka:19092"},

		// The live page.
		{"token of each pod", gpu, "        - --page-token-file=/etc/porestream-page/token\n", "", "a page's token of its own"},
		{"token in a ConfigMap", gpu, "        secret:\n          defaultMode: 288\n          secretName: page\n", "        configMap: {name: page}\n", "is in no Secret"},
		{"token as text", gpu, "--page-token-file=/etc/porestream-page/token", "--page-token-file=0123456789abcdef", "is no file"},
		{"address of a pod's name", gpu, "        - --advertise=$(POD_IP):9102\n", "", "--advertise has to be the pod's address"},
		{"another port", gpu, "--advertise=$(POD_IP):9102", "--advertise=$(POD_IP):9103", "--advertise has to be the pod's address"},
		{"reads out of reach", gpu, "  egress:\n  - ports:\n    - port: 9102\n", "  egress:\n  - ports:\n    - port: 9103\n", "ask each other for the reads"},
		{"page in clear", production, "  tls:\n  - hosts:\n    - page.porestream.example.org\n    secretName: page-tls\n", "", "would go in clear"},
		{"metrics to the outside", production, "        path: /\n        pathType: Exact\n", "        path: /\n        pathType: Prefix\n", "which is not the page's"},
		{"service of an ingress", production, "          service:\n            name: page\n", "          service:\n            name: pages\n", "which is not there"},
		{"port of an ingress", production, "            port:\n              name: http\n", "            port:\n              name: https\n", "has no such port"},
		{"controller kept out", production, "          porestream/page: \"true\"\n", "          kubernetes.io/metadata.name: ingress\n", "come to Deployment processor"},

		// Numbers.
		{"more pods than partitions", gpu, "replicas: 2", "replicas: 13", "13 pods for 12 partitions"},
		{"scales beyond partitions", production, "maxReplicaCount: 24", "maxReplicaCount: 97", "up to 97 pods for 96"},
		{"scales to zero", production, "minReplicaCount: 2", "minReplicaCount: 0", "scales to zero"},
		{"flutters", production, "stabilizationWindowSeconds: 1800", "stabilizationWindowSeconds: 60", "flutters"},
		{"scales what is not there", production, "  scaleTargetRef:\n    name: processor", "  scaleTargetRef:\n    name: processors", "which is not there"},
		{"counted twice", production, "  minReadySeconds: 30", "  replicas: 3\n  minReadySeconds: 30", "by its replicas and by a ScaledObject"},
		{"volume of one node", production, "  - ReadWriteMany", "  - ReadWriteOnce", "is for one node"},
	}
	texts := make(map[string]string)
	for _, dir := range folders(t) {
		texts[dir] = render(t, dir)
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			text := texts[test.dir]
			if !strings.Contains(text, test.old) {
				t.Fatalf("%s has no %q to break", test.dir, test.old)
			}
			objects, err := decode(t, strings.ReplaceAll(text, test.old, test.new), s)
			found := ""
			if err != nil {
				found = err.Error()
			} else {
				found = strings.Join(Check(objects), "\n")
			}
			if !strings.Contains(found, test.want) {
				t.Errorf("found %q, want %q", found, test.want)
			}
		})
	}
}
