package standardwebhooks

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"

	"countersign/channels"
	"countersign/internal/secret"
)

func TestConfig(t *testing.T) {
	of := func(n int) secret.List {
		return secret.List{secret.Value("whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("t", n))))}
	}
	for _, tt := range []struct {
		name   string
		config Config
		fields []string // of the problems
	}{
		{"one secret", Config{SigningSecret: secret.List{testSecret}, Notify: []string{"hana", "ken"}}, nil},
		{"two secrets", Config{SigningSecret: secret.List{testSecret, oldSecret}}, nil},
		{"24 bytes", Config{SigningSecret: of(24)}, nil},
		{"64 bytes", Config{SigningSecret: of(64)}, nil},
		{"none", Config{}, []string{"signing_secret"}},
		{"an empty one", Config{SigningSecret: secret.List{testSecret, ""}}, []string{"signing_secret"}},
		{"a short one", Config{SigningSecret: of(23)}, []string{"signing_secret"}},
		{"a long one", Config{SigningSecret: of(65)}, []string{"signing_secret"}},
		{"no base64", Config{SigningSecret: secret.List{"whsec_this-is-no-base64-but-words-that-somebody-typed"}},
			[]string{"signing_secret"}},
		{"the old one is bad", Config{SigningSecret: secret.List{testSecret, "long enough, and no base64"}},
			[]string{"signing_secret"}},
		{"a name twice", Config{SigningSecret: secret.List{testSecret}, Notify: []string{"hana", "hana"}},
			[]string{"notify"}},
	} {
		err := tt.config.Validate()
		var fields []string
		if ps, ok := err.(channels.Problems); ok {
			for _, p := range ps {
				fields = append(fields, p.Field)
			}
		}
		if !slices.Equal(fields, tt.fields) {
			t.Errorf("%s: %v, want problems of %v", tt.name, err, tt.fields)
		}
		if err != nil && (strings.Contains(err.Error(), "somebody") || strings.Contains(err.Error(), "dHR0")) {
			t.Errorf("%s: the problem tells the secret: %v", tt.name, err)
		}
		if ch, err := New(tt.config); (err == nil) != (tt.fields == nil) {
			t.Errorf("%s: New %v", tt.name, err)
		} else if err == nil {
			ch.Close()
		}
	}
}

func TestAddresses(t *testing.T) {
	for _, tt := range []struct {
		address string
		good    bool
		origin  string
	}{
		{"https://hooks.example.com/countersign", true, "https://hooks.example.com"},
		{"https://hooks.example.com", true, "https://hooks.example.com"},
		{"HTTPS://hooks.example.com:8443/x?key=private", true, "https://hooks.example.com:8443"},
		{"https://private:private@hooks.example.com/private", true, "https://hooks.example.com"},
		{"https://[2001:db8::1]/private", true, "https://[2001:db8::1]"},
		{"http://127.0.0.1:9000/private", true, "http://127.0.0.1:9000"},
		{"http://127.8.8.8/private", true, "http://127.8.8.8"},
		{"http://[::1]:9000/private", true, "http://[::1]:9000"},
		{"http://localhost/private", true, "http://localhost"},
		{"http://localhost.example.com/private", false, "http://localhost.example.com"},
		{"http://127.0.0.1.example.com/private", false, "http://127.0.0.1.example.com"},
		{"http://127.0.0.1@hooks.example.com/private", false, "http://hooks.example.com"},
		{"http://10.0.0.1/private", false, "http://10.0.0.1"},
		{"http://0.0.0.0/private", false, "http://0.0.0.0"},
		{"http://[::ffff:10.0.0.1]/private", false, "http://[::ffff:10.0.0.1]"},
		{"https://hooks.example.com/#private", false, "https://hooks.example.com"},
		{"https://hooks.example.com/#", false, "https://hooks.example.com"},
		{"https:hooks.example.com/private", false, ""},
		{"https:///private", false, ""},
		{"https://:443/private", false, "https://:443"},
		{"ftp://hooks.example.com/private", false, "ftp://hooks.example.com"},
		{"hooks.example.com/private", false, ""},
		{"https://hooks.example.com/%zz?private", false, ""},
		{"https://hooks.example.com/\nprivate", false, ""},
		{"https://hooks.example.com/" + strings.Repeat("x", 2000), false, "https://hooks.example.com"},
		{"", false, ""},
	} {
		err := CheckAddress(tt.address)
		if (err == nil) != tt.good {
			t.Errorf("%.60q: %v, want good %t", tt.address, err, tt.good)
		}
		if err != nil && strings.Contains(err.Error(), "private") {
			t.Errorf("%.60q: the problem tells it: %v", tt.address, err)
		}
		if got := Origin(tt.address); got != tt.origin {
			t.Errorf("%.60q has the origin %q, want %q", tt.address, got, tt.origin)
		}
	}
}
