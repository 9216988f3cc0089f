package eventtest

import (
	"reflect"
	"time"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/internal/event"
)

// Drawn makes events of every kind whose fields hold anything, but sums of money that add up to a number.
func Drawn() *rapid.Generator[event.Event] {
	c := rapid.MakeConfig{Types: map[reflect.Type]*rapid.Generator[any]{
		reflect.TypeFor[time.Time](): rapid.Map(rapid.Int64Range(0, 4e9), func(s int64) any { return time.Unix(s, s%1e9).UTC() }).AsAny(),
		reflect.TypeFor[float64]():   rapid.Float64Range(-1e100, 1e100).AsAny(),
	}}
	return rapid.OneOf(
		as(rapid.MakeCustom[event.Request](c), event.NameRequest), as(rapid.MakeCustom[event.Decision](c), event.NameDecision),
		as(rapid.MakeCustom[event.Move](c), event.NameMove), as(rapid.MakeCustom[event.Usage](c), event.NameUsage),
		as(rapid.MakeCustom[event.Loss](c), event.NameLoss), as(rapid.MakeCustom[event.Restore](c), event.NameRestore),
		as(rapid.MakeCustom[event.Reuse](c), event.NameReuse), as(rapid.MakeCustom[event.Spend](c), event.NameSpend),
		as(rapid.MakeCustom[event.Config](c), event.NameConfig),
	)
}

func as[T any](g *rapid.Generator[T], name string) *rapid.Generator[event.Event] {
	return rapid.Map(g, func(v T) event.Event {
		e := any(&v).(event.Event)
		e.Of().V, e.Of().Event = event.Version, name
		return e
	})
}
