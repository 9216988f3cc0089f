package openai

import "encoding/json"

// chatUsage is usage as Chat writes it.
type chatUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
	PromptOf   struct {
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"`
		Audio   int `json:"audio_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionOf struct {
		Reasoning int `json:"reasoning_tokens"`
		Audio     int `json:"audio_tokens"`
		Accepted  int `json:"accepted_prediction_tokens"`
		Rejected  int `json:"rejected_prediction_tokens"`
	} `json:"completion_tokens_details"`
}

// itemUsage is usage as Responses writes it.
type itemUsage struct {
	Input   int `json:"input_tokens"`
	InputOf struct {
		Cached  int `json:"cached_tokens"`
		Written int `json:"cache_write_tokens"`
	} `json:"input_tokens_details"`
	Output   int `json:"output_tokens"`
	OutputOf struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"output_tokens_details"`
	Total int `json:"total_tokens"`
}

func (u Usage) chat() chatUsage {
	w := chatUsage{Prompt: u.Input + u.Read + u.Write, Completion: u.Output, Total: u.Input + u.Read + u.Write + u.Output}
	w.PromptOf.Cached, w.PromptOf.Written, w.CompletionOf.Reasoning = u.Read, u.Write, u.Reasoning
	return w
}

func (u Usage) items() itemUsage {
	w := itemUsage{Input: u.Input + u.Read + u.Write, Output: u.Output, Total: u.Input + u.Read + u.Write + u.Output}
	w.InputOf.Cached, w.InputOf.Written, w.OutputOf.Reasoning = u.Read, u.Write, u.Reasoning
	return w
}

// completion is an answer of Chat as the provider writes it.
type completion struct {
	ID          string    `json:"id"`
	Object      string    `json:"object"`
	Created     int64     `json:"created"`
	Model       string    `json:"model"`
	Choices     []choice  `json:"choices"`
	Usage       chatUsage `json:"usage"`
	ServiceTier string    `json:"service_tier"`
	Fingerprint *string   `json:"system_fingerprint"`
}

type choice struct {
	Index    int             `json:"index"`
	Message  json.RawMessage `json:"message"`
	Logprobs *string         `json:"logprobs"`
	Finish   string          `json:"finish_reason"`
}

// response is an answer of Responses as the provider writes it; usage is null until it is complete.
type response struct {
	ID         string            `json:"id"`
	Object     string            `json:"object"`
	Created    int64             `json:"created_at"`
	Status     string            `json:"status,omitempty"`
	Background bool              `json:"background"`
	Error      *failure          `json:"error"`
	Incomplete *string           `json:"incomplete_details"`
	Model      string            `json:"model,omitempty"`
	Output     []json.RawMessage `json:"output"`
	Parallel   bool              `json:"parallel_tool_calls"`
	Store      bool              `json:"store"`
	Tools      []string          `json:"tools"`
	ToolChoice string            `json:"tool_choice"`
	Usage      *itemUsage        `json:"usage"`
	Metadata   map[string]string `json:"metadata"`
}

// failure is why an answer of Responses failed.
type failure struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (r *Result) completion() completion {
	return completion{
		ID: r.ID, Object: "chat.completion", Created: r.Created, Model: r.Model, Usage: r.Usage.chat(), ServiceTier: "default",
		Choices: []choice{{Message: r.Output[0], Finish: r.Stop}},
	}
}

// compaction is a shortened conversation as the provider writes it.
type compaction struct {
	ID      string            `json:"id"`
	Object  string            `json:"object"`
	Created int64             `json:"created_at"`
	Output  []json.RawMessage `json:"output"`
	Usage   itemUsage         `json:"usage"`
}

// response is the answer in one of its states.
func (r *Result) response(status string) response {
	w := response{
		ID: r.ID, Object: "response", Created: r.Created, Status: status, Model: r.Model, Output: []json.RawMessage{}, Parallel: true,
		Store: r.stored, Tools: []string{}, ToolChoice: "auto", Metadata: map[string]string{},
	}
	if status == statusDone {
		usage := r.Usage.items()
		w.Usage, w.Output = &usage, append(w.Output, r.Output...)
	}
	return w
}

// States of an answer of Responses.
const (
	statusGoing  = "in_progress"
	statusDone   = "completed"
	statusFailed = "failed"
)

// wire is an answer that is no stream.
func (r *Result) wire() any {
	switch r.api {
	case chat:
		return r.completion()
	case compact:
		return compaction{r.ID, "response.compaction", r.Created, r.Output, r.Usage.items()}
	default:
		return r.response(statusDone)
	}
}
