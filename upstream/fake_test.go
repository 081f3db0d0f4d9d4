package upstream

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

// The test binary is also the servers of the tests, told apart by this variable.
const fakeVar = "COUNTERSIGN_FAKE_SERVER"

func TestMain(m *testing.M) {
	if kind := os.Getenv(fakeVar); kind != "" {
		fakes[kind]()
		return
	}
	goleak.VerifyTestMain(m)
}

// fake is the configuration of one of the fakes.
func fake(kind string) Config {
	exe, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return Config{Name: kind, Command: []string{exe}, Env: append(os.Environ(), fakeVar+"="+kind)}
}

var fakes map[string]func()

func init() {
	fakes = map[string]func(){
		"sdk":        func() { runSDK(false) },
		"sdk-legacy": func() { runSDK(true) },
	}
}
