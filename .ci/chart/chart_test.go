// Package chart tests the Helm chart in deploy/helm. It is a module of its own: Helm and Kubernetes are none of the
// product's.
package chart

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"countersign/internal/config"
)

const path = "../../deploy/helm/countersign"

// needed are the values that the chart has no default for.
func needed(more map[string]any) map[string]any {
	values := map[string]any{"secret": "gate", "image": map[string]any{"tag": "v1.2.3"}}
	maps.Copy(values, more)
	return values
}

// rendered is what a release has, each of the kinds once.
type rendered struct {
	deployment apps.Deployment
	service    core.Service
	config     core.Secret
	disruption policy.PodDisruptionBudget
	network    networking.NetworkPolicy
	kinds      []string
}

func render(t *testing.T, values map[string]any) (r rendered, err error) {
	t.Helper()
	c, err := loader.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(c, values, chartutil.ReleaseOptions{Name: "gate", Namespace: "default"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := engine.Render(c, all)
	for _, text := range files {
		var of struct{ Kind string }
		if strings.TrimSpace(text) == "" {
			continue
		}
		if err := yaml.Unmarshal([]byte(text), &of); err != nil {
			t.Fatalf("%v\nin %s", err, text)
		}
		r.kinds = append(r.kinds, of.Kind)
		to := map[string]any{"Deployment": &r.deployment, "Service": &r.service, "Secret": &r.config,
			"PodDisruptionBudget": &r.disruption, "NetworkPolicy": &r.network}[of.Kind]
		if err := yaml.UnmarshalStrict([]byte(text), to); err != nil {
			t.Fatalf("%s: %v\nin %s", of.Kind, err, text)
		}
	}
	slices.Sort(r.kinds)
	return r, err
}

func TestTheChartIsClean(t *testing.T) {
	for _, m := range lint.AllWithKubeVersion(path, needed(nil), "default", nil).Messages {
		if m.Severity >= support.WarningSev {
			t.Error(m)
		}
	}
}

// What Kubernetes is given has the fields that it knows, and what belongs together has the same names.
func TestTheChartIsWhatTheGateNeeds(t *testing.T) {
	r, err := render(t, needed(map[string]any{"replicas": 3, "config": map[string]any{
		"people": []any{map[string]any{"name": "hana", "roles": []any{"approver"}}},
		"policy": map[string]any{"rules": []any{map[string]any{"tools": []any{"pay"}, "risk": "high"}}},
	}}))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"Deployment", "NetworkPolicy", "PodDisruptionBudget", "Secret", "Service"}
	if !slices.Equal(r.kinds, want) {
		t.Fatalf("rendered %v", r.kinds)
	}
	pod := r.deployment.Spec.Template
	for what, selector := range map[string]map[string]string{
		"the deployment": r.deployment.Spec.Selector.MatchLabels, "the service": r.service.Spec.Selector,
		"the budget": r.disruption.Spec.Selector.MatchLabels, "the network": r.network.Spec.PodSelector.MatchLabels,
	} {
		for name, value := range selector {
			if pod.Labels[name] != value || len(selector) < 2 {
				t.Errorf("%s selects %v, the pods have %v", what, selector, pod.Labels)
			}
		}
	}
	gate := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range gate.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, p := range r.service.Spec.Ports {
		if ports[p.TargetPort.StrVal] != p.Port {
			t.Errorf("the service leads to %s, the gate has %v", p.TargetPort.StrVal, ports)
		}
	}
	if *r.deployment.Spec.Replicas != 3 || gate.Image != "countersign:v1.2.3" ||
		gate.EnvFrom[0].SecretRef.Name != "gate" || pod.Spec.Volumes[0].Secret.SecretName != r.config.Name ||
		!*gate.SecurityContext.ReadOnlyRootFilesystem {
		t.Errorf("%+v", pod.Spec)
	}

	env := func(name string) (string, bool) {
		v, ok := map[string]string{"DATABASE_URL": "postgres://u:p@db/gate", "FLEET_SECRET": strings.Repeat("s", 32),
			gate.Env[0].Name: "10.1.2.3"}[name]
		return v, ok
	}
	cfg, problems, err := config.Parse("countersign.yaml", []byte(r.config.StringData["countersign.yaml"]), env)
	if err != nil {
		t.Fatalf("%v\n%v", err, problems)
	}
	if cfg.Listen != "0.0.0.0:8787" || cfg.WebhookListen != "0.0.0.0:8788" || !cfg.IsDatabase() ||
		cfg.ReplicaAddress() != "http://10.1.2.3:8787" {
		t.Errorf("it listens at %s and %s, and is reached at %s", cfg.Listen, cfg.WebhookListen, cfg.ReplicaAddress())
	}
}

// Callers and the other programs reach the API, and everybody the webhooks.
func TestTheNetworkIsClosed(t *testing.T) {
	r, err := render(t, needed(nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range r.network.Spec.Ingress {
		if port := rule.Ports[0].Port.StrVal; (port == "webhooks") != (len(rule.From) == 0) || len(rule.Ports) != 1 {
			t.Errorf("%s is open to %v", port, rule.From)
		}
	}
	r, err = render(t, needed(map[string]any{"networkPolicy": map[string]any{"enabled": false}}))
	if err != nil || slices.Contains(r.kinds, "NetworkPolicy") {
		t.Errorf("without it: %v, %v", r.kinds, err)
	}
}

func TestWhatIsMissingIsSaid(t *testing.T) {
	for _, values := range []map[string]any{{"secret": "gate"}, {"image": map[string]any{"tag": "v1"}}} {
		if _, err := render(t, values); err == nil || !strings.Contains(err.Error(), " is the ") {
			t.Errorf("with %v alone: %v", values, err)
		}
	}
}
