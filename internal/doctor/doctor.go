package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/tidemark-dev/tidemark/internal/check"
	"github.com/tidemark-dev/tidemark/internal/routeconfig"
)

// Options say where to look. An empty address is not looked at; both empty is an error.
type Options struct {
	Envoy   string               // Envoy's admin interface: http://host:port, https://host:port or unix:path
	Admin   string               // tidemark's admin listener, the same
	Token   string               // bearer token of tidemark's admin listener; empty: none
	Timeout time.Duration        // for each answer
	Filters []routeconfig.Filter // that routes can name
	Now     time.Time            // what the ages of things are counted to
}

// Finding is one thing that is wrong.
type Finding struct {
	Severity check.Severity `json:"severity"`
	Rule     string         `json:"rule"`  // a rule of package check, or one of docs/doctor.md
	Where    string         `json:"where"` // what it was concluded from: a place in Envoy's config, a metric, an endpoint
	Message  string         `json:"message"`
	Fix      string         `json:"fix"`
}

// String is the finding on one line.
func (f *Finding) String() string {
	return fmt.Sprintf("%s: %s: %s: %s (fix: %s)", f.Severity, f.Rule, f.Where, f.Message, f.Fix)
}

// Report is what was found: errors before warnings, and what Envoy's config says before what metrics say.
type Report struct {
	Envoy    string     `json:"envoy,omitempty"`    // version of the Envoy that was looked at
	Tidemark string     `json:"tidemark,omitempty"` // version of the tidemark
	Findings []*Finding `json:"findings"`
}

// Errors is the number of findings that must be mended.
func (r *Report) Errors() (n int) {
	for _, f := range r.Findings {
		if f.Severity == check.Error {
			n++
		}
	}
	return n
}

// ErrNowhere says that no address was given.
var ErrNowhere = errors.New("neither Envoy's nor tidemark's admin address is given")

// Examine looks at what o names. An error says that something could not be read at all.
func Examine(ctx context.Context, o Options) (*Report, error) {
	if o.Envoy == "" && o.Admin == "" {
		return nil, ErrNowhere
	}
	d := &doctor{Options: o, report: &Report{Findings: []*Finding{}}}
	if o.Admin != "" {
		if err := d.askTidemark(ctx); err != nil {
			return nil, fmt.Errorf("ask tidemark: %w", err)
		}
	}
	if o.Envoy != "" {
		if err := d.askEnvoy(ctx); err != nil {
			return nil, fmt.Errorf("ask Envoy: %w", err)
		}
	}
	if d.metrics != nil {
		d.judgeFaults()
		d.judgeUse()
		d.judgeMoney()
	}
	slices.SortStableFunc(d.report.Findings, func(a, b *Finding) int { return cmp.Compare(a.Severity, b.Severity) }) // "error" < "warning"
	return d.report, nil
}

// doctor holds what was read and what was found.
type doctor struct {
	Options

	report  *Report
	server  map[string]any // tidemark's settings in use, by key; nil if it was not asked
	metrics samples        // nil if it was not asked
}

func (d *doctor) found(s check.Severity, rule, where, fix, format string, args ...any) {
	d.report.Findings = append(d.report.Findings, &Finding{Severity: s, Rule: rule, Where: printable(where), Message: printable(fmt.Sprintf(format, args...)), Fix: fix})
}

// printable is a text on one line and without what a terminal obeys: names in it are somebody else's.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, strings.ToValidUTF8(s, "?"))
}
