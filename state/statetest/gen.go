package statetest

import (
	"reflect"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline/cache"
	"github.com/tidemark-dev/tidemark/state"
)

// Branches draws branches of any content, also such as no client would cause. All fields are filled by reflection, so that
// a new one is drawn without a word here. Versions are 0.
func Branches() *rapid.Generator[*state.Branch] {
	drawn := rapid.MakeCustom[state.Branch](rapid.MakeConfig{
		Types: map[reflect.Type]*rapid.Generator[any]{
			reflect.TypeFor[state.Digest]():  digests().AsAny(),
			reflect.TypeFor[string]():        Strings().AsAny(),
			reflect.TypeFor[time.Time]():     times().AsAny(),
			reflect.TypeFor[time.Duration](): ttls().AsAny(),
			reflect.TypeFor[[]byte]():        rapid.SliceOf(rapid.Byte()).AsAny(),
		},
	})
	return rapid.Custom(func(t *rapid.T) *state.Branch {
		b := drawn.Draw(t, "branch")
		b.Version = 0
		b.Entries = b.Entries[:min(len(b.Entries), cache.MaxEntries)]
		b.Chain, b.InForce, b.Held, b.Entries = orNil(t, b.Chain), orNil(t, b.InForce), orNil(t, b.Held), orNil(t, b.Entries)
		for i := range b.InForce {
			b.InForce[i].Content = orNil(t, b.InForce[i].Content)
		}
		return &b
	})
}

// orNil returns an empty slice as nil half of the time.
func orNil[E any](t *rapid.T, s []E) []E {
	if len(s) == 0 && rapid.Bool().Draw(t, "nil") {
		return nil
	}
	return s
}

// Originals draws originals of one session, each with an id of its own.
func Originals(key state.SessionKey) *rapid.Generator[[]state.Original] {
	one := rapid.MakeCustom[state.Original](rapid.MakeConfig{
		Types: map[reflect.Type]*rapid.Generator[any]{
			reflect.TypeFor[state.SessionKey](): rapid.Just(key).AsAny(),
			reflect.TypeFor[string]():           Strings().AsAny(),
			reflect.TypeFor[time.Time]():        times().AsAny(),
			reflect.TypeFor[[]byte]():           rapid.SliceOf(rapid.Byte()).AsAny(),
			reflect.TypeFor[int]():              rapid.Just(-1).AsAny(),              // a size is the store's to say,
			reflect.TypeFor[state.Fate]():       rapid.Just(state.Withdrawn).AsAny(), // and so is a fate
		},
	})
	return rapid.SliceOfNDistinct(one, 0, 4, func(o state.Original) string { return o.ID })
}

// Strings draws ids and names: usual ones, and ones that make bad keys, paths and UTF-8.
func Strings() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.StringMatching(`[0-9a-f]{24}`),
		rapid.SampledFrom(hostile),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

var hostile = []string{
	"", "\x00", "a\x00b", "/", "../../etc/passwd", "a/b", `a\b`, "*", "%00", "\xff\xfe", "\n", " ",
	strings.Repeat("0123456789abcdef", 8192), // longer than any key may be
}

func digests() *rapid.Generator[state.Digest] {
	return rapid.Custom(func(t *rapid.T) (d state.Digest) {
		d[0] = rapid.ByteRange(0, 3).Draw(t, "digest") // few, so that some are equal
		d[15] = rapid.ByteRange(0, 1).Draw(t, "last")
		return d
	})
}

func times() *rapid.Generator[time.Time] {
	near := rapid.Map(rapid.Int64Range(0, int64(30*time.Minute)), func(n int64) time.Time {
		return time.Date(2026, 11, 29, 23, 45, 0, 0, time.UTC).Add(time.Duration(n))
	})
	zoned := rapid.Map(near, func(at time.Time) time.Time { return at.In(time.FixedZone("zone", 5*3600+1800)) })
	far := rapid.Custom(func(t *rapid.T) time.Time {
		seconds := rapid.Int64Range(-62_000_000_000, 253_000_000_000).Draw(t, "seconds") // years 5 to 9987
		return time.Unix(seconds, rapid.Int64Range(0, 999_999_999).Draw(t, "nanoseconds"))
	})
	return rapid.OneOf(near, near, zoned, far, rapid.Just(time.Time{}))
}

func ttls() *rapid.Generator[time.Duration] {
	return rapid.OneOf(rapid.SampledFrom([]time.Duration{0, cache.Short, cache.Long}),
		rapid.Map(rapid.Int64Min(0), func(n int64) time.Duration { return time.Duration(n) }))
}
