// Package part takes parts out of originals: what a result said as text, and of a text its first or last lines, a range of lines,
// the lines that match a pattern, or as many bytes as a reader can take. All ways of getting an original back share it: HTTP, MCP
// and the tool that is offered inside of requests, whose name, description and schema are here too.
//
// It promises that a part is byte for byte what stands in the text, that parts which follow each other make up the whole, and that
// no text and no pattern costs more than time linear in what is searched. What it cannot carry out is an error whose words are
// meant for whoever asked, a model mostly; they quote neither text nor pattern.
//
// The package is a leaf. Its functions are pure and safe for concurrent use.
package part
