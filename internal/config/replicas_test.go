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
		"postgres://db.example.com":                                               "postgres://db.example.com/",
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
