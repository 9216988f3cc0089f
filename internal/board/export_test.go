package board

// Update is the flag -update.
var Update = update

// Bytes is how much is counted to be kept.
func (b *Board) Bytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes
}
