// Package routeconfig turns what a route says about tidemark into what the pipeline runs.
//
// A route's config comes from the first place that holds one (design §13): dynamic metadata, gRPC initial metadata, the
// name of a pipeline, the server's default. [New] takes the server's part once; [Resolver.Resolve] is asked per request
// and compiles each distinct config once.
//
// The one rule: decoding is strict, and a config that cannot be used never stops a request. Its route replays only
// (pipeline.Config.Bad), the failure is reported once, and whatever could be read of tenant, session and mode still
// counts, so that what is in force on the route's conversations is found and replayed.
//
// Routes are immutable and shared. A Resolver is safe for concurrent use; a changed server config makes a new one.
//
// # Where a config starts from
//
// A config whose pipeline is a list stands alone. Where pipeline is a name, the named config of the server is the base and
// the other keys are laid over it; without pipeline the base is the server's default. Of components single keys are laid
// over, of everything else whole values. The names that every server has are those of [Presets]; a pipeline of the server
// that has one of them takes its place.
package routeconfig
