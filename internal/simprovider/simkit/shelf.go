package simkit

import "time"

// Shelf keeps values by the id of the answer they belong to, each for a time; the oldest go first where room is short.
type Shelf[T any] struct {
	room   int // weight of everything that may be kept
	used   int
	values map[string]kept[T]
	order  []string // ids, oldest first
}

// kept is a value that can be had through until.
type kept[T any] struct {
	value  T
	until  time.Time
	weight int
}

// NewShelf returns an empty shelf.
func NewShelf[T any](room int) *Shelf[T] { return &Shelf[T]{room: room, values: map[string]kept[T]{}} }

// Put keeps a value. Ids do not come twice.
func (s *Shelf[T]) Put(id string, v T, weight int, until time.Time) {
	s.values[id] = kept[T]{v, until, weight}
	s.order = append(s.order, id)
	s.used += weight
	for s.used > s.room && len(s.order) > 1 {
		s.used -= s.values[s.order[0]].weight
		delete(s.values, s.order[0])
		s.order = s.order[1:]
	}
}

// Get returns the value of an id, false if it is not or no longer kept.
func (s *Shelf[T]) Get(id string, at time.Time) (T, bool) {
	k, ok := s.values[id]
	if !ok || k.until.Before(at) {
		var none T
		return none, false
	}
	return k.value, true
}
