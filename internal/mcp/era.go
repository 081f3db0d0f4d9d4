package mcp

// Era tells the two ways of the protocol apart.
type Era int

const (
	Legacy Era = iota // sessions, opened by initialize
	Modern            // every request by itself
)

// Versions of the protocol, by their dates.
const (
	VersionModern = "2026-07-28"
	VersionLegacy = "2025-11-25" // the last with sessions
)

// LegacyVersions are the versions with sessions that are spoken, newest first.
var LegacyVersions = []string{VersionLegacy, "2025-06-18", "2025-03-26", "2024-11-05"}

// Members of _meta that the modern era gives a meaning.
const (
	MetaVersion      = "io.modelcontextprotocol/protocolVersion"
	MetaCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaClient       = "io.modelcontextprotocol/clientInfo"
	MetaServer       = "io.modelcontextprotocol/serverInfo"
	MetaSubscription = "io.modelcontextprotocol/subscriptionId"
	MetaLogLevel     = "io.modelcontextprotocol/logLevel"
	MetaProgress     = "progressToken"
)

// ExtensionTasks is the extension that has a call answered with a task.
const ExtensionTasks = "io.modelcontextprotocol/tasks"

// Result types of the modern era; an absent one is complete.
const (
	ResultComplete      = "complete"
	ResultInputRequired = "input_required"
	ResultTask          = "task"
)
