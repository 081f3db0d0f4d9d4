package app

import (
	"slices"
	"sync"

	"countersign/internal/store/storetest"
)

// strays is what transactions did outside of their scopes, in all tests.
var strays struct {
	sync.Mutex
	all []string
}

// Strays returns what transactions did outside of their scopes until now.
func Strays() []string {
	strays.Lock()
	defer strays.Unlock()
	return slices.Clone(strays.all)
}

func init() {
	ownTx = storetest.Unscoped
	ownAddress = func(a *App) string { return "http://" + a.Addr() }
	wrapStore = func(s keeper) keeper {
		return storetest.NewScoped(s, func(problem string) {
			strays.Lock()
			defer strays.Unlock()
			strays.all = append(strays.all, problem)
		})
	}
}
