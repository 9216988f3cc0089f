// Package doctor looks at a running Envoy and at a running tidemark, and says what is wrong and how it is mended.
//
// It asks Envoy's admin interface (config_dump, clusters, stats, server_info) and tidemark's admin listener (readyz, config,
// metrics), changes nothing and sends no LLM request. What Envoy's config gets wrong is judged by package check, which judges
// the same of files; the doctor adds what only a running system tells: which hosts are there and healthy, what failed open, what
// the provider billed, and which client settings would save more than any filter.
//
// The one rule: a finding names what it was concluded from and something to do about it. Figures are those since the process
// started, and findings about money wait until there is enough of it to say so.
//
// Answers are bounded in size and in time ([Options.Timeout]); those that cannot be read are an error of [Examine], not a finding.
package doctor
