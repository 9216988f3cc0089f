// Package gen makes conversations of LLM agents for tests, benchmarks and the demo, and writes them as JSON.
//
// A [Conversation] is a request body as a structure. A [Maker] grows it as a client would: [Maker.Start] gives the head
// and the first human message, each [Maker.Turn] adds what the assistant said and how it was answered, [Maker.Edit]
// changes history, Clone and Truncate make forks and rewinds, Mark moves the breakpoints. After every step the body ends
// with a user message and every call is answered.
//
// [Conversation.Body] writes a structure as JSON. Every message, block and tool carries a seed that says how it is
// written (member order, white space, escapes, forms of numbers); seed 0 is compact. So an item that stays in the
// structure keeps its bytes from one request to the next, as with real clients, while everything around it changes. A
// breakpoint stands anywhere in its object, and taking it away leaves exactly the bytes of the item without it.
//
// All choices come from a [Source], so equal sources give equal conversations. Package gentest makes a Source of rapid.
package gen
