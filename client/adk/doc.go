// Package adk puts the gate in front of the tools of agents that are built with Google's Agent
// Development Kit (google.golang.org/adk/v2).
//
//	gate := adk.New(c, adk.Options{Wait: 30 * time.Second})
//	p, err := gate.Plugin()
//	r, err := runner.New(runner.Config{…, PluginConfig: runner.PluginConfig{Plugins: []*plugin.Plugin{p}}})
//
// asks about every tool call of every agent that the runner runs. A call that the policy allows, or a
// person approved, runs as if no person had been asked. Any other does not run, and its result tells the model
// why, in the gate's own words:
//
//	{"status": "approval_pending", "message": "⏳ Approval requested (id: …). …", "approval_id": "…"}
//
// The approver of a call may change its args: these run, and the model is told so with its next request.
//
// A gate that does not answer is never a yes: the call does not run, and the result says so. The run
// goes on either way.
//
// Three callbacks do it, and [Gate.Plugin] and [Gate.Guard] install them together. [Gate.BeforeTool] is
// the gate, and is whole by itself. [Gate.AfterModel] asks about several calls of one model response at
// once, so that people get one card for them. [Gate.BeforeModel] tells the model how earlier requests of
// its session ended, and these endings are acknowledged when the model has answered.
//
// An approval covers the args as the gate's callback sees them. Callbacks that rewrite args must run
// before it, so it stands last in a list of plugins or callbacks.
//
// What cannot be asked about: a streaming tool, whose run the ADK starts without asking any callback
// ([Gate.BeforeModel] stops a run that offers one to the model; live runs do not come by there), and
// what the model's own side runs, such as its search or its code execution.
package adk
