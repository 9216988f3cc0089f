package simprovider

import "time"

// shelf keeps values by the id of the answer they belong to, each for a time; the oldest go first where room is short.
type shelf[T any] struct {
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

func newShelf[T any](room int) *shelf[T] { return &shelf[T]{room: room, values: map[string]kept[T]{}} }

// put keeps a value. Ids do not come twice.
func (s *shelf[T]) put(id string, v T, weight int, until time.Time) {
	s.values[id] = kept[T]{v, until, weight}
	s.order = append(s.order, id)
	s.used += weight
	for s.used > s.room && len(s.order) > 1 {
		s.used -= s.values[s.order[0]].weight
		delete(s.values, s.order[0])
		s.order = s.order[1:]
	}
}

// get returns the value of an id, false if it is not or no longer kept.
func (s *shelf[T]) get(id string, at time.Time) (T, bool) {
	k, ok := s.values[id]
	if !ok || k.until.Before(at) {
		var none T
		return none, false
	}
	return k.value, true
}
