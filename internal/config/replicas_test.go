package config

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A database's address has its password, which nothing shows that prints a configuration.
func TestTheStoreShowsNoSecret(t *testing.T) {
	for store, shown := range map[string]string{
		"postgres://gate:a-password@db.example.com:5432/gate?sslmode=verify-full": "postgres://db.example.com:5432/gate",
		"postgresql://gate:a-p@ssword@one:5432,two:5432/gate":                     "postgres://one:5432,two:5432/gate",
		"postgres:///gate?host=/run/postgresql&password=a-password":               "postgres:///gate",
		"postgres://db.example.com":                                               "postgres://db.example.com",
		"postgres://gate:a%2Fp%3Fa-ssword@db.example.com/gate":                    "postgres://db.example.com/gate",
	} {
		cfg, _ := parseText(t, "listen: 10.0.0.5:8787\nstore: "+store+"\nreplicas: {secret: \"${REPLICAS_SECRET_OF_THE_FLEET}\"}\n")
		if cfg.Store != shown || cfg.StorePath != "" || !cfg.IsDatabase() ||
			cfg.StoreURL.Reveal() != strings.Replace(store, "postgresql:", "postgres:", 1) {
			t.Errorf("%s is shown as %s, and used as %s", store, cfg.Store, cfg.StoreURL.Reveal())
		}
		text, err := json.Marshal(cfg)
		if err != nil {
			t.Fatal(err)
		}
		for _, printed := range []string{string(text), fmt.Sprintf("%v %+v %s", cfg, *cfg, cfg)} {
			if strings.Contains(printed, "ssword") || strings.Contains(printed, "value-of-replicas") {
				t.Errorf("%s shows a secret", printed)
			}
		}
	}
}

// Programs are to have the same configuration, but for what is of each one's machine.
func TestConfigurationsOfOneGateAreTheSame(t *testing.T) {
	const text = "store: postgres://db.example.com/gate\nlisten: %s\ntime_zone: %s\n" +
		"agents: [{name: %s, token: \"${A_TOKEN}\"}]\npolicy: {mode: %s}\n" +
		"replicas: {secret: \"${REPLICAS_SECRET_OF_THE_FLEET}\", address: \"http://%s\"}\n"
	digest := func(values ...any) string {
		t.Helper()
		cfg, _ := parseText(t, fmt.Sprintf(text, values...))
		return cfg.Shared
	}
	first := digest("10.0.0.5:8787", "UTC", "bot", "enforce", "10.0.0.5:8787")
	if digest("10.0.0.6:80", "UTC", "bot", "enforce", "10.0.0.6:80") != first {
		t.Error("another machine's is taken for another configuration")
	}
	for _, other := range []string{digest("10.0.0.5:8787", "Asia/Tokyo", "bot", "enforce", "10.0.0.5:8787"),
		digest("10.0.0.5:8787", "UTC", "other", "enforce", "10.0.0.5:8787"),
		digest("10.0.0.5:8787", "UTC", "bot", "observe", "10.0.0.5:8787")} {
		if other == first {
			t.Error("another configuration is taken for the same")
		}
	}
}

// Other programs reach one at its address, or where it listens for all; what is different needs a restart.
func TestReplicasAreReachedWhereTheyListen(t *testing.T) {
	const text = "store: postgres://db.example.com/gate\nlisten: %s\n" +
		"replicas: {secret: \"${REPLICAS_SECRET_OF_THE_FLEET}\"%s}\n"
	first, _ := parseText(t, fmt.Sprintf(text, "10.0.0.5:8787", ""))
	if at := first.ReplicaAddress(); at != "http://10.0.0.5:8787" || first.Replicas.Lossless() {
		t.Errorf("it is reached at %s, lossless: %t", at, first.Replicas.Lossless())
	}
	other, _ := parseText(t, fmt.Sprintf(text, "0.0.0.0:8787", ", address: https://gate-a:8787/, failover: lossless"))
	if at := other.ReplicaAddress(); at != "https://gate-a:8787" || !other.Replicas.Lossless() {
		t.Errorf("it is reached at %s, lossless: %t", at, other.Replicas.Lossless())
	}
	file, _ := parseText(t, "people: []")
	if file.IsDatabase() || file.ReplicaAddress() != "" {
		t.Errorf("a file is reached at %q", file.ReplicaAddress())
	}
}
