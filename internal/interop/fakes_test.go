//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// fakes are the servers that this test binary can be.
var fakes = map[string]func(){"recorder": recorder, "echo": echo, "echo over stdio": echoStdio, "lister": lister}

// recordEnv names the file that the recorder writes to.
const recordEnv = "COUNTERSIGN_INTEROP_RECORD"

// serveLines is a stdio server: answer says, of a request and its line, what its answer has beside the id; "": there is
// no such method.
func serveLines(answer func(method string, line []byte) string) {
	in := bufio.NewReader(os.Stdin)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
		}
		if err := json.Unmarshal(line, &m); err != nil {
			log.Fatal(err)
		}
		if m.ID == nil {
			continue
		}
		a := answer(m.Method, line)
		if a == "" {
			a = `"error":{"code":-32601,"message":"Method not found"}`
		}
		fmt.Printf(`{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, a)
	}
}

// recorder is a stdio server that writes down the calls which it gets, line by line as they came.
func recorder() {
	record, err := os.OpenFile(os.Getenv(recordEnv), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		log.Fatal(err)
	}
	serveLines(func(method string, line []byte) string {
		switch method {
		case "initialize":
			return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"recorder","version":"1"}}`
		case "tools/list":
			return `"result":{"tools":[{"name":"record","inputSchema":{"type":"object"}}]}`
		case "tools/call":
			if _, err := record.Write(line); err != nil {
				log.Fatal(err)
			}
			return `"result":{"content":[{"type":"text","text":"recorded"}],"structuredContent":{"big":9007199254740993,"small":1.10}}`
		}
		return ""
	})
}

// listEnv names the file that the lister offers, modernEnv says that it is of the modern era.
const (
	listEnv   = "COUNTERSIGN_INTEROP_LIST"
	modernEnv = "COUNTERSIGN_INTEROP_MODERN"
)

// lister is a stdio server whose tools are what stands in a file, read anew each time.
func lister() {
	modern := os.Getenv(modernEnv) != ""
	serveLines(func(method string, _ []byte) string {
		switch {
		case method == "server/discover" && modern:
			return `"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}`
		case method == "initialize" && !modern:
			return `"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"lister","version":"1"}}`
		case method == "tools/list":
			tools, err := os.ReadFile(os.Getenv(listEnv))
			if err != nil {
				log.Fatal(err)
			}
			return fmt.Sprintf(`"result":{"tools":[%s],"resultType":"complete","ttlMs":0,"cacheScope":"private"}`, tools)
		}
		return ""
	})
}

// echoEnv is where echo listens.
const echoEnv = "COUNTERSIGN_INTEROP_ECHO"

func echoServer() *mcp.Server {
	type in struct {
		Text string `json:"text"`
	}
	s := mcp.NewServer(&mcp.Implementation{Name: "up", Version: "1"}, nil)
	mcp.AddTool(s, &mcp.Tool{Name: "echo", Description: "echo"}, func(_ context.Context, _ *mcp.CallToolRequest,
		a in) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: a.Text}}}, nil, nil
	})
	return s
}

// echo is the reference SDK's server with one tool, over streamable HTTP.
func echo() {
	s := echoServer()
	log.Fatal(http.ListenAndServe(os.Getenv(echoEnv), mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server {
		return s
	}, nil)))
}

func echoStdio() {
	if err := echoServer().Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}
