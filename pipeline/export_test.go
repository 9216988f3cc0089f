package pipeline

// Forget drops what is in memory, as a restart would; what was not flushed is lost.
func (e *Engine) Forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sessions.Purge()
	clear(e.dirty)
}
