package approval

// Waiting counts those who wait for a request.
func (b *Broker) Waiting(id string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.requests[id])
}
