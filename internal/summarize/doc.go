// Package summarize has another model write short summaries of old tool results, in the background.
//
// The one rule: nothing waits for it and nothing depends on it. [Worker.Begin] takes a job or leaves it, [Worker.Ready] knows a
// summary or does not. What is not ready, was refused or has failed means an excerpt in its place, so that a summarizer that is
// slow, down or hostile costs no request anything. Summaries are kept in memory alone: once one is used, the decision holds its
// bytes.
//
// A job is a copy of a result's text, cut to its head and tail where it is larger than the summarizer takes. At most 64 jobs
// wait and two are worked on. A job is one HTTP request, never repeated by itself, under the summarizer's timeout; redirects are
// not followed, and of the answer no more than 256 KiB are read. A summarizer that failed is left alone for a second, and twice
// as long with every further failure, up to five minutes, or as long as its Retry-After asks within that.
//
// What comes back was written by a model that had read text from anywhere, and will stand where a tool's output stood. So it is
// audited: every identifier in it must occur in what was summarised, and it must not be long, nor hold control characters,
// markup that sets messages or calls apart, tidemark's own markers, or words that instruct (see [Audit]). What is refused is not
// asked for again.
//
// The credential is sent to the address that the route's config names and to no other. It is never logged, nor is any text.
//
// Requests are made with net/http. The two official SDKs would bring twenty modules, and more code than all of tidemark, for one
// request of four members each, and their retries, redirects and readers would have to be switched off.
package summarize
