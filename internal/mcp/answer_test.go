package mcp

import "testing"

// What a server answers is understood where it can mean only one thing.
func TestAnswersWithOneMeaningAreUnderstood(t *testing.T) {
	for raw, want := range map[string]string{
		`{"jsonrpc":"2.0","id":"7","result":{}}`:                       `{"jsonrpc":"2.0","id":7,"result":{}}`,
		`{"jsonrpc":"2.0","id":7.0,"result":{"a":1.0}}`:                `{"jsonrpc":"2.0","id":7,"result":{"a":1.0}}`,
		`{"jsonrpc":"2.0","id":7,"result":{},"error":null}`:            `{"jsonrpc":"2.0","id":7,"result":{}}`,
		`{"jsonrpc":"2.0","id":7.00,"error":{"code":1},"result":null}`: `{"jsonrpc":"2.0","id":7,"error":{"code":1}}`,
		`{"jsonrpc":"2.0","id":"7","error":null,"result":null}`:        `{"jsonrpc":"2.0","id":7,"result":null}`,
		`{"jsonrpc":"2.0","id":7,"result":null}`:                       `{"jsonrpc":"2.0","id":7,"result":null}`,
		`{"jsonrpc":"2.0","id":"x7","result":{}}`:                      `{"jsonrpc":"2.0","id":"x7","result":{}}`,
		`{"jsonrpc":"2.0","id":"07","result":{}}`:                      `{"jsonrpc":"2.0","id":"07","result":{}}`,
		`{"jsonrpc":"2.0","id":"7","method":"ping"}`:                   `{"jsonrpc":"2.0","id":"7","method":"ping"}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`: `{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"m"}}`,
	} {
		if m, err := ParseAnswer([]byte(raw)); err != nil || string(m.Bytes()) != want {
			t.Errorf("%s is %s, %v, want %s", raw, m.Bytes(), err, want)
		}
	}
	for _, raw := range []string{
		`{"jsonrpc":"2.0","id":1.5,"result":{}}`, `{"jsonrpc":"2.0","id":7,"error":null}`,
		`{"jsonrpc":"2.0","id":null,"result":{}}`,
		`{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1}}`, `{"jsonrpc":"2.0","id":7.0,"id":8,"result":{}}`,
		`{"id":7,"result":{}}`, `{"jsonrpc":"2.0","id":true,"result":{}}`,
	} {
		if m, err := ParseAnswer([]byte(raw)); err == nil {
			t.Errorf("%s is %s", raw, m.Bytes())
		}
	}
}

// Of clients nothing is repaired: what they send is judged as it stands.
func TestClientsMessagesAreNotRepaired(t *testing.T) {
	for _, raw := range []string{`{"jsonrpc":"2.0","id":1.0,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":1,"result":{},"error":null}`} {
		if _, err := Parse([]byte(raw)); err == nil {
			t.Errorf("%s is taken", raw)
		}
	}
}
