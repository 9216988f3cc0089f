package bill

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/tidemark-dev/tidemark/pipeline"
)

func TestBillsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all, parts Bill
		for range rapid.IntRange(0, 5).Draw(t, "bills") {
			var part Bill
			for range rapid.IntRange(0, 5).Draw(t, "requests") {
				u := &pipeline.Usage{
					Input: rapid.IntRange(0, 9).Draw(t, "input"), Read: rapid.IntRange(0, 9).Draw(t, "read"),
					Write5m: rapid.IntRange(0, 9).Draw(t, "5m"), Write1h: rapid.IntRange(0, 9).Draw(t, "1h"),
				}
				if rapid.Bool().Draw(t, "refused") {
					u = nil
				}
				all.Add(u, 2, 1)
				part.Add(u, 2, 1)
			}
			parts.Join(&part)
		}
		if all != parts {
			t.Fatalf("together %+v, in parts %+v", all, parts)
		}
		if all.Prompt != all.Input+all.Read+all.Write5m+all.Write1h || all.Units != 2*float64(all.Requests) {
			t.Fatalf("does not add up: %+v", all)
		}
		if s := all.ReadShare(); s < 0 || s > 1 {
			t.Fatalf("read share %v", s)
		}
	})
}

func TestSpread(t *testing.T) {
	if SpreadOf(nil) != nil {
		t.Error("a spread of nothing")
	}
	s := SpreadOf([]Point{{"c", 3}, {"a", 1}, {"d", 9}, {"b", 2}})
	if s.Least.Session != "a" || s.Median.Session != "b" || s.Most.Session != "d" || s.Points != 4 {
		t.Errorf("got %+v", s)
	}
	one, other := Bill{Units: 90}, Bill{Units: 100}
	if one.Over(&other) != 0.9 || one.Over(&Bill{}) != 1 {
		t.Error("ratio of bills")
	}
}
