package channels

import (
	"errors"
	"reflect"

	"github.com/go-json-experiment/json"
)

// errSpelling is of JSON that one decoder reads in one way and another in another.
var errSpelling = errors.New("channels: a name is spelled almost as one that is known")

// Strictly decodes what a platform sent into v, which is zero: names count only as they are spelled, none
// comes twice, all is valid UTF-8. Names that are not known are fine, since platforms add some, but for those
// that a laxer decoder would take for one that is.
func Strictly(data []byte, v any) error {
	if err := json.Unmarshal(data, v); err != nil {
		return err
	}
	lax := reflect.New(reflect.TypeOf(v).Elem()).Interface()
	if err := json.Unmarshal(data, lax, json.MatchCaseInsensitiveNames(true)); err != nil {
		return err
	}
	if !reflect.DeepEqual(v, lax) {
		return errSpelling
	}
	return nil
}
