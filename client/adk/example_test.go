package adk_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"google.golang.org/genai"

	"google.golang.org/adk/v2/agent"
	"google.golang.org/adk/v2/agent/llmagent"
	"google.golang.org/adk/v2/model"
	"google.golang.org/adk/v2/plugin"
	"google.golang.org/adk/v2/runner"
	"google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/tool"
	"google.golang.org/adk/v2/tool/functiontool"

	"countersign/client"
	"countersign/client/adk"
)

// An agent pays an invoice: its first try waits for a person, who approves it; in the next turn the
// model hears of that and makes the call again. The model is a script, the gate is the real one.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	addr, _, stop, err := countersign(ctx) // countersign serve
	if err != nil {
		log.Fatal(err)
	}
	defer stop()
	c, err := client.New("http://"+addr, env["AGENT_TOKEN"])
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	gate := adk.New(c, adk.Options{})
	asks, err := gate.Plugin()
	if err != nil {
		log.Fatal(err)
	}
	pay, err := functiontool.New(functiontool.Config{Name: "transfer", Description: "Pays an invoice."},
		func(_ agent.Context, in struct{ To string }) (struct{ Paid string }, error) {
			fmt.Println("tool: paying", in.To)
			return struct{ Paid string }{in.To}, nil
		})
	if err != nil {
		log.Fatal(err)
	}
	call := &genai.FunctionCall{Name: "transfer", Args: map[string]any{"To": "acme"}}
	treasurer, err := llmagent.New(llmagent.Config{Name: "treasurer", Tools: []tool.Tool{pay},
		Model: &script{lines: []func(*model.LLMRequest) []*model.LLMResponse{
			says("Acme's invoice is due.", call), says("I have asked for approval."),
			says("It was approved.", call), says("Acme is paid."),
		}}})
	if err != nil {
		log.Fatal(err)
	}
	r, err := runner.New(runner.Config{AppName: "treasury", Agent: treasurer, SessionService: session.InMemoryService(),
		AutoCreateSession: true,
		PluginConfig:      runner.PluginConfig{Plugins: []*plugin.Plugin{asks}}})
	if err != nil {
		log.Fatal(err)
	}
	turn := func(text string) {
		fmt.Println("user:", text)
		for e, err := range r.Run(ctx, "mia", "s1", genai.NewContentFromText(text, genai.RoleUser), agent.RunConfig{}) {
			if err != nil {
				log.Fatal(err)
			}
			for _, p := range e.LLMResponse.Content.Parts {
				switch {
				case p.Text != "":
					fmt.Println("model:", p.Text)
				case p.FunctionResponse != nil && p.FunctionResponse.Response["status"] != nil:
					fmt.Println("gate:", p.FunctionResponse.Response["status"])
				}
			}
		}
	}

	turn("Pay what is due.")
	approveAll(ctx, addr) // hana taps Approve
	turn("Any news?")
	// Output:
	// user: Pay what is due.
	// model: Acme's invoice is due.
	// gate: approval_pending
	// model: I have asked for approval.
	// user: Any news?
	// model: It was approved.
	// tool: paying acme
	// model: Acme is paid.
}

// approveAll approves what hana is asked.
func approveAll(ctx context.Context, addr string) {
	hana, err := client.New("http://"+addr, env["HANA_TOKEN"])
	if err != nil {
		log.Fatal(err)
	}
	defer hana.Close()
	open, err := hana.Approvals(ctx, client.ApprovalQuery{Status: "pending"})
	if err != nil {
		log.Fatal(err)
	}
	for _, a := range open.Items {
		if _, err := hana.Decide(ctx, a.ID, client.Approve, ""); err != nil {
			log.Fatal(err)
		}
	}
}
