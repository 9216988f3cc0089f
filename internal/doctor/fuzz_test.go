package doctor

import (
	"encoding/json"
	"strings"
	"testing"
)

// FuzzEnvoy: whatever Envoy's admin interface says, there is an error or findings that say something, each with a fix.
func FuzzEnvoy(f *testing.F) {
	listener := `{"name":"in","filter_chains":[{"filters":[{"typed_config":{"rds":{"route_config_name":"r"},"http_filters":[{"name":"x","typed_config":` +
		`{"@type":"a/envoy.extensions.filters.http.ext_proc.v3.ExternalProcessor","stat_prefix":"tidemark","grpc_service":{"envoy_grpc":{"cluster_name":"c"}}}}]}}]}]}`
	dump := `{"configs":[{"static_listeners":[{"listener":` + listener + `}]},{"dynamic_active_clusters":[{"cluster":{"name":"c","connect_timeout":"1s"}}]},` +
		`{"dynamic_route_configs":[{"route_config":{"name":"r","virtual_hosts":[{"name":"v"}]},"error_state":{"details":"no"}}]}]}`
	f.Add(dump, `{"cluster_statuses":[{"name":"c","host_statuses":[{"health_status":{"failed_active_health_check":true}}]}]}`, "http.x.ext_proc.tidemark.failure_mode_allowed: 3\n", `{"version":"a/1.38.0/b","state":"DRAINING"}`)
	f.Add(strings.ReplaceAll(dump, `"name":"in"`, `"name":"in\n\u001b[2J"`), `{}`, "", `{"version":"a/1.40.0/b","state":"LIVE"}`)
	f.Add(`{"configs":[]}`, `{}`, "", `{"version":"/"}`)
	f.Fuzz(func(t *testing.T, config, clusters, stats, info string) {
		if len(config)+len(clusters)+len(stats) > 1<<16 {
			return
		}
		d := &doctor{report: &Report{Findings: []*Finding{}}}
		if d.judgeInfo([]byte(info)) != nil {
			return
		}
		parsed, err := parseDump([]byte(config))
		if err != nil || d.judgeHosts(parsed, []byte(clusters)) != nil || d.judgeConfig(parsed) != nil {
			return
		}
		d.judgeStats(stats)
		judge(t, d)
	})
}

// FuzzTidemark is the same for tidemark's admin listener.
func FuzzTidemark(f *testing.F) {
	f.Add(`{"settings":[{"key":"state","value":"memory:"},{"key":"mode","value":"off"}]}`, "tidemark_panics_total 1\ntidemark_requests_total{route=\"r\",mode=\"active\"} 900\n")
	f.Add(`{}`, "tidemark_cost_usd_total{basis=\"observed\"} 5\ntidemark_cache_lost_usd_total{cause=\"ttl\"} NaN\ntidemark_net_saved_usd{route=\"r\"} -3\n")
	f.Fuzz(func(t *testing.T, config, metrics string) {
		d := &doctor{report: &Report{Findings: []*Finding{}}}
		var err error
		if d.server, err = settings([]byte(config)); err != nil {
			return
		}
		if d.metrics, err = parseSamples([]byte(metrics)); err != nil {
			return
		}
		if s, err := d.serverConfig(); err != nil || !json.Valid(s.Data) {
			t.Fatal(err)
		}
		d.judgeFaults()
		d.judgeUse()
		d.judgeMoney()
		judge(t, d)
	})
}

func judge(t *testing.T, d *doctor) {
	t.Helper()
	for _, f := range d.report.Findings {
		if f.Message == "" || f.Where == "" || f.Fix == "" || f.Rule == "" || strings.ContainsAny(f.String(), "\n\r\x1b") || len(f.Message) > 4096 {
			t.Fatalf("%q", f.String())
		}
	}
}
