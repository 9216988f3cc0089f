package simkit

import "slices"

// KeptRecords is the most records in a log: the oldest go first.
const KeptRecords = 4096

// keptBodies is the most bytes of bodies in a log.
const keptBodies = 256 << 20

// Log keeps the newest records; the zero value is empty.
type Log[T any] struct {
	list  []T
	sizes []int
	bytes int
}

// Add appends a record that holds a body of that many bytes.
func (l *Log[T]) Add(rec T, size int) {
	l.list, l.sizes = append(l.list, rec), append(l.sizes, size)
	l.bytes += size
	drop := 0
	for len(l.list)-drop > KeptRecords || l.bytes > keptBodies && len(l.list)-drop > 1 {
		l.bytes -= l.sizes[drop]
		clear(l.list[drop : drop+1]) // the array behind the list outlives it
		drop++
	}
	l.list, l.sizes = l.list[drop:], l.sizes[drop:]
}

// List returns the records, oldest first.
func (l *Log[T]) List() []T { return slices.Clone(l.list) }
