package gateway

// TakesUpOrWaits reports whether a task is there, or whoever takes up tasks waits for those that clients are beginning.
func (g *Gateway) TakesUpOrWaits() bool {
	if !g.beginning.TryRLock() {
		return true
	}
	g.beginning.RUnlock()
	g.tasks.mu.Lock()
	defer g.tasks.mu.Unlock()
	return len(g.tasks.byID) > 0
}
