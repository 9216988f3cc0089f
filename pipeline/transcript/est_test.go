package transcript

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tiktoken-go/tokenizer"
	"pgregory.net/rapid"
)

// What Est gives for the texts of testdata/est. Another figure means another EstVersion.
var estimates = map[string]int{
	"go_code.txt": 356, "prose.txt": 223, "python_code.txt": 239, "records.txt": 260, "shell_log.txt": 412, "languages.txt": 432,
}

// Est keeps what it promises on texts of the kind that it was fitted to, and stays low on others.
func TestEst(t *testing.T) {
	codec, err := tokenizer.Get(tokenizer.O200kBase)
	if err != nil {
		t.Fatal(err)
	}
	off := func(name, text string, least, most float64) float64 {
		want, err := codec.Count(text)
		if err != nil {
			t.Fatal(err)
		}
		e := float64(Est(text)-want) / float64(want)
		if e < least || e > most {
			t.Errorf("%s: Est %d for %d tokens, %+.1f %%", name, Est(text), want, 100*e)
		}
		return math.Abs(e)
	}
	files, err := filepath.Glob("testdata/est/*.txt")
	if err != nil || len(files) != len(estimates) {
		t.Fatal("not the texts that are known: ", files, err)
	}
	sum := 0.0
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(f)
		if got := Est(string(raw)); got != estimates[name] || EstVersion != 1 {
			t.Errorf("%s: Est %d of version %d, not %d of version 1", name, got, EstVersion, estimates[name])
		}
		if name != "languages.txt" {
			sum += off(name, string(raw), -0.2, 0.15)
			continue
		}
		for line := range strings.Lines(string(raw)) {
			off(line, line, -0.45, 0.25)
		}
	}
	if mean := sum / float64(len(files)-1); mean > 0.08 {
		t.Errorf("mean error %.1f %%", 100*mean)
	}
}

// An estimate is bounded by the bytes of a text, and that of two texts together by those of both, but for what meets.
func TestEstBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.String().Draw(t, "a"), rapid.String().Draw(t, "b")
		if n := Est(a); n < 0 || n > 2*len(a) || (n == 0) != (a == "") && strings.TrimSpace(a) != "" {
			t.Fatalf("Est %d for %d bytes", n, len(a))
		}
		if Est(a)+Est(b) < Est(a+"\n"+b)-2 {
			t.Fatalf("Est %d and %d, together %d", Est(a), Est(b), Est(a+"\n"+b))
		}
	})
}

// The tables give what weigh gives byte by byte, however a text is cut in pieces.
func TestEstTables(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.RuneFrom([]rune("abcXYZ019 \t\r\n.,{é漢ก→🙂"))),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(t *rapid.T) {
		pieces := rapid.SliceOf(text).Draw(t, "pieces")
		var e estimate
		sum, kind, n := 0, classPunct, 0
		for _, p := range pieces {
			e.add(p)
			for i := range len(p) {
				var w int
				w, kind, n = weigh(kind, n, int(classes[p[i]]))
				sum += w
			}
		}
		if e.sum != sum || Est(strings.Join(pieces, "")) != e.tokens() {
			t.Fatalf("%d and %d, not %d thousandths for %q", e.sum, Est(strings.Join(pieces, "")), sum, pieces)
		}
	})
}

func TestRound2(t *testing.T) {
	for n, want := range map[int]int{
		0: 0, 7: 7, 99: 99, 100: 100, 104: 100, 105: 110, 994: 990, 995: 1000, 999: 1000, 1000: 1000, 1049: 1000, 1050: 1100, 12_345: 12_000,
		99_499: 99_000, 99_500: 100_000, 123_456_789: 120_000_000,
	} {
		if got := Round2(n); got != want {
			t.Errorf("Round2(%d) = %d, not %d", n, got, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1<<40).Draw(t, "n")
		got := Round2(n)
		if d := got - n; d > n/20+1 || -d > n/20+1 {
			t.Fatalf("Round2(%d) = %d", n, got)
		}
		if Round2(got) != got || Round2(n+1) < got {
			t.Fatalf("Round2(%d) = %d is not settled, or falls to %d", n, got, Round2(n+1))
		}
	})
}
