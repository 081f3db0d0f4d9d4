//go:build !linux && !darwin && !windows

package disk

import "errors"

// Of is not known here.
func Of(string) (Space, error) { return Space{}, errors.ErrUnsupported }
