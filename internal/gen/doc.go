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
// [Conversation.As] writes the same structure in another wire format, under the same promises. What a format has no place for
// is left out or becomes the nearest thing that it has:
//
//   - A system prompt is the first message or messages of Chat, instructions and then items of Responses. Attribution blocks,
//     metadata and automatic caching are Anthropic's alone; OpenAI gets prompt_cache_key of the session's name.
//   - Thinking is reasoning_content in Chat, a reasoning item with its signature as encrypted_content in Responses,
//     reasoningContent in Converse, a thought part in Gemini. Redacted thinking stays in Responses and Converse.
//   - Results are messages or items of their own in both APIs of OpenAI, before what else their message says. Only Converse
//     and Gemini can say that a call failed. Images in results are left out of Chat.
//   - Breakpoints are cachePoints in Converse, not in results; a [Dialect] of OpenAI's formats may have them.
//   - Messages of the system between others are left out of Converse and Gemini. Server tools are web searches in Responses,
//     documents and search results are nowhere.
//
// All choices come from a [Source], so equal sources give equal conversations. Package gentest makes a Source of rapid.
package gen
