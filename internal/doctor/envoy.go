package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/tidemark-dev/tidemark/internal/check"
)

// askEnvoy reads Envoy's admin interface and judges what it says.
func (d *doctor) askEnvoy(ctx context.Context) error {
	e, err := d.reach(d.Envoy, "")
	if err != nil {
		return err
	}
	text, _, err := e.get(ctx, "/server_info", maxAnswer)
	if err != nil {
		return err
	}
	if err := d.judgeInfo(text); err != nil {
		return err
	}
	if text, _, err = e.get(ctx, "/config_dump", maxDump); err != nil {
		return err
	}
	dump, err := parseDump(text)
	if err != nil {
		return err
	}
	if text, _, err = e.get(ctx, "/clusters?format=json", maxDump); err != nil {
		return err
	}
	if err := d.judgeHosts(dump, text); err != nil {
		return err
	}
	if err := d.judgeConfig(dump); err != nil {
		return err
	}
	if text, _, err = e.get(ctx, "/stats?filter=ext_proc", maxAnswer); err != nil {
		return err
	}
	d.judgeStats(string(text))
	return nil
}

// oldest is the first minor release of Envoy 1 that has all that tidemark uses but ai_protocol_manager.
const oldest = 39

// judgeInfo looks at /server_info.
func (d *doctor) judgeInfo(text []byte) error {
	var info struct {
		Version string `json:"version"`
		State   string `json:"state"`
	}
	if err := json.Unmarshal(text, &info); err != nil {
		return fmt.Errorf("read server_info: %w", err)
	}
	parts := strings.Split(info.Version, "/") // commit, version, state of the tree, kind of build, library
	if len(parts) < 2 {
		return fmt.Errorf("%s is no admin interface of Envoy: server_info has the version %q", d.Envoy, oneLine([]byte(info.Version)))
	}
	d.report.Envoy = parts[1]
	if numbers := strings.Split(parts[1], "."); len(numbers) > 1 && numbers[0] == "1" {
		if minor, err := strconv.Atoi(numbers[1]); err == nil && minor < oldest {
			d.found(check.Warning, "envoy-version", "/server_info", "docs/envoy.md#versions says what an older Envoy does without; better, Envoy 1.40",
				"Envoy %s has no per-route set_metadata: route configs in it do nothing", parts[1])
		}
	}
	if info.State != "LIVE" {
		d.found(check.Warning, "envoy-state", "/server_info", "wait until it is LIVE; while it drains, its config is about to go", "Envoy is %s", oneLine([]byte(info.State)))
	}
	return nil
}

// noFilter is what is found where Envoy asks nobody.
const noFilter = "no listener of this Envoy asks tidemark: it has no ext_proc filter that says tidemark in its name, stat_prefix, cluster or namespaces"

// judgeConfig has package check judge the config that runs.
func (d *doctor) judgeConfig(dump *dump) error {
	for _, r := range dump.rejected {
		d.found(check.Warning, "rejected-update", "/config_dump", "mend what Envoy's message names; until then the older version runs", "Envoy could not use an update of %s", r)
	}
	sources, err := dump.sources()
	if err != nil {
		return err
	}
	if d.server != nil {
		s, err := d.serverConfig()
		if err != nil {
			return fmt.Errorf("write server config: %w", err)
		}
		sources = append(sources, s)
	}
	report, err := check.Sources(sources, d.Filters)
	if err != nil && !errors.Is(err, check.ErrNothing) {
		return err
	}
	if report == nil || report.Filters == 0 {
		d.found(check.Error, "no-filter", "/config_dump", "put the filter before the router: docs/envoy.md", noFilter)
		return nil
	}
	d.collect(report, sources)
	return nil
}

// collect takes over what check found. The same fault in many places is one finding.
func (d *doctor) collect(report *check.Report, sources []check.Source) {
	type key struct {
		rule    check.Rule
		message string
	}
	roots, first, more := map[string]*yaml.Node{}, map[key]*Finding{}, map[key]int{}
	for _, f := range report.Findings {
		k := key{f.Rule, f.Message}
		if first[k] != nil {
			more[k]++
			continue
		}
		if roots[f.File] == nil {
			roots[f.File] = &yaml.Node{}
			for _, s := range sources {
				if s.Name == f.File {
					_ = yaml.Unmarshal(s.Data, roots[f.File]) // check has read it
				}
			}
		}
		d.found(f.Severity, string(f.Rule), place(roots[f.File], f.Line, "/config_dump"), fixOf(f), "%s", f.Message)
		first[k] = d.report.Findings[len(d.report.Findings)-1]
	}
	for k, n := range more {
		first[k].Where += fmt.Sprintf(" and in %d more places", n)
	}
}

// fixOf is a finding's fix; those of configs name the key in their message.
func fixOf(f *check.Finding) string {
	if f.Fix != "" {
		return f.Fix
	}
	return "docs/config.md has the keys; tidemark check finds it before deployment"
}

// judgeHosts looks at the hosts of the clusters that filters ask, and puts those that are there into the dump.
func (d *doctor) judgeHosts(dump *dump, text []byte) error {
	var all struct {
		Statuses []struct {
			Name  string `json:"name"`
			Hosts []struct {
				Address json.RawMessage `json:"address"`
				Health  map[string]any  `json:"health_status"`
			} `json:"host_statuses"`
		} `json:"cluster_statuses"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("read clusters: %w", err)
	}
	for _, s := range all.Statuses {
		cluster := dump.clusters[s.Name]
		if cluster == nil {
			continue
		}
		endpoints, sick := []any{}, map[string]bool{}
		bad := 0
		for _, h := range s.Hosts {
			endpoints = append(endpoints, tree{"endpoint": tree{"address": h.Address}})
			if faults := faults(h.Health); len(faults) > 0 {
				bad++
				for _, f := range faults {
					sick[f] = true
				}
			}
		}
		cluster["load_assignment"] = tree{"endpoints": []any{tree{"lb_endpoints": endpoints}}}
		where, why := "/clusters, cluster "+s.Name, strings.Join(slices.Sorted(maps.Keys(sick)), ", ")
		switch {
		case len(s.Hosts) == 0:
			d.found(check.Error, "no-host", where, "start tidemark, or correct the address or the name that the cluster resolves", "cluster %q has no host: every request goes on without tidemark", s.Name)
		case bad == len(s.Hosts):
			d.found(check.Error, "unhealthy", where, "look at tidemark's /readyz and log", "all %d hosts of cluster %q are unhealthy: %s", bad, s.Name, why)
		case bad > 0:
			d.found(check.Warning, "unhealthy", where, "look at /readyz and the log of those replicas", "%d of %d hosts of cluster %q are unhealthy: %s", bad, len(s.Hosts), s.Name, why)
		}
	}
	return nil
}

// faults are what is bad about a host's health_status, by the names of Envoy's flags.
func faults(health map[string]any) (names []string) {
	for name, v := range health {
		switch v := v.(type) {
		case bool:
			if v {
				names = append(names, name)
			}
		case string:
			if name == "eds_health_status" && v != "HEALTHY" && v != "UNKNOWN" {
				names = append(names, strings.ToLower(oneLine([]byte(v))))
			}
		}
	}
	return names
}
