package gen

// rng is a splitmix64 generator: small, and the same on every version of Go.
type rng uint64

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// n returns a number from 0 to k-1.
func (r *rng) n(k int) int { return int(r.next() % uint64(k)) }

// How white space is written.
const (
	dense     = iota // none
	spaced           // one after every comma and colon, as Python does
	scattered        // anything anywhere
)

// How strings are escaped.
const (
	plainly = iota // what JSON demands
	ascii          // what is not ASCII, and < > & as Go does
	rarely         // any character now and then
	often          // every second character
)

// marked is the number of the style that a breakpoint is written in.
const marked = 1 << 20

// style says how one value is written. The zero style is compact.
type style struct {
	seed     uint64
	spaces   int
	escaping int
	shuffle  bool
	numbers  bool
}

// styleOf makes a style of a seed; what is inside the value has styles of its own, of the same kind.
func styleOf(seed uint64) style {
	if seed == 0 {
		return style{}
	}
	r := rng(seed)
	return style{seed: r.next(), spaces: r.n(3), escaping: r.n(4), shuffle: r.n(2) == 1, numbers: r.n(2) == 1}
}

func (s style) sub(i int) style {
	if s.seed != 0 {
		r := rng(s.seed ^ uint64(i)*0x9e3779b97f4a7c15)
		s.seed = r.next() | 1
	}
	return s
}

func (s style) rng() rng        { return rng(s.seed) }
func (s style) markerRng() *rng { r := s.sub(marked).rng(); return &r }
func (s style) flip() bool      { r := s.rng(); return s.seed != 0 && r.n(2) == 1 }

// order is the order in which n members are written.
func (s style) order(n int) []int {
	if !s.shuffle {
		order := make([]int, n)
		for i := range order {
			order[i] = i
		}
		return order
	}
	return shuffled(n, s.sub(marked+1).rng())
}

// place is the number of members before the marker.
func (s style) place(n int) int {
	if !s.shuffle {
		return n
	}
	r := s.sub(marked + 2).rng()
	return r.n(n + 1)
}

// escapes reports whether a character that need not be is escaped.
func (s style) escapes(c rune, r *rng) bool {
	switch s.escaping {
	case ascii:
		return c > 0x7e || c == '<' || c == '>' || c == '&'
	case rarely:
		return r.n(16) == 0
	case often:
		return r.n(2) == 0
	}
	return false
}

// number writes an integer in one of its forms.
func (s style) number(n string) string {
	if !s.numbers || n == "0" {
		return n
	}
	for _, c := range n {
		if c < '0' || c > '9' {
			return n
		}
	}
	r := s.rng()
	return [...]string{n, n + ".0", n + "e0", n + "E+00", n + "0e-1", n + ".00E0"}[r.n(6)]
}
