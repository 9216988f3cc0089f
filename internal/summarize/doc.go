// Package summarize has another model write short summaries of old tool results, in the background.
//
// The one rule: nothing waits for it and nothing depends on it. [Worker.Begin] takes a job or leaves it, [Worker.Ready] knows a
// summary or does not. What is not ready, was refused or has failed means an excerpt in its place, so that a summarizer that is
// slow, down or hostile costs no request anything. Summaries are kept in memory alone: once one is used, the decision holds its
// bytes.
//
// A job is a copy of a result's text, cut to its head and tail where it is larger than the summarizer takes. At most 64 jobs
// wait and two are worked on. A job is one HTTP request, never repeated by itself but where a server refuses the member that
// bounds the answer and knows the other one, under the summarizer's timeout; redirects are not followed, and of the answer no
// more than 256 KiB are read. A server that ignores both members is bounded by those two alone. A summarizer that failed is left
// alone for a second, and twice as long with every further failure, up to five minutes, or as long as its Retry-After asks
// within that. Every job that was taken is reported, those that wait when the worker is closed too.
//
// What comes back was written by a model that had read text from anywhere, and will stand where a tool's output stood. So it is
// audited (see [Audit]): every identifier in it, and every number of two digits or more, must stand in what was summarised as a
// whole word or one that is cut at a separator, and it must not be long, nor hold control characters, letters that nobody sees
// or that imitate others, markup that sets messages or calls apart, tidemark's own markers, or words that instruct. What is
// refused is not asked for again.
//
// The audit is best effort. It knows instructions in English alone, and the plainest of them; it does not know whole words of
// other scripts that look like Latin ones, nor a name of plain words that the source does not have; and it cannot tell whether
// what is said is true, or which of two numbers of the source belongs where. A summary is text of another model, which is why
// its marker says so, why the original is kept unless the config says otherwise, and why summaries are off by default.
//
// The credential is sent to the address that the route's config names and to no other, over https, or over http to a loopback
// address; to another it is not sent at all, which is logged once. It is never logged, nor is any text.
//
// Requests are made with net/http. The two official SDKs would bring twenty modules, and more code than all of tidemark, for one
// request of four members each, and their retries, redirects and readers would have to be switched off.
package summarize
