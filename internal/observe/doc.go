// Package observe tells what tidemark does: metrics, dynamic metadata for access logs, logs and the admin endpoints.
//
// The one rule: no content and no raw id leaves through it. Labels come from config or from closed lists and are bounded
// (see [Metrics]); sessions and branches appear as hashes, and in metadata and logs only; log lines never hold bytes of a
// body ([NewLogger]).
//
// A [Metrics] is safe for concurrent use. Counting never fails and never blocks a request for longer than a mutex.
package observe
