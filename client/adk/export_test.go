package adk

// Remembered is how many runs the gate knows to be under way.
func (g *Gate) Remembered() int {
	g.runs.mu.Lock()
	defer g.runs.mu.Unlock()
	return len(g.runs.m)
}
