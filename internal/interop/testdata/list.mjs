// Lists tools with the official TypeScript clients, once for each shape of a tool that is written to the server's file.
import { Client as First } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as FirstTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client as Second, StreamableHTTPClientTransport as SecondTransport } from "@modelcontextprotocol/client";
import { readFileSync, writeFileSync } from "node:fs";

const [url, token, shapes, file] = process.argv.slice(-4);
const me = { name: "lists", version: "1" };
const clients = {
  "v1": [new First(me), FirstTransport],
  "v2, legacy": [new Second(me, { versionNegotiation: { mode: "legacy" } }), SecondTransport],
  "v2, modern": [new Second(me, { versionNegotiation: { mode: { pin: "2026-07-28" } } }), SecondTransport],
};
for (const [client, Transport] of Object.values(clients)) {
  await client.connect(new Transport(new URL(url), { requestInit: { headers: { Authorization: `Bearer ${token}` } } }));
}
const said = [];
for (const { name, said: odd } of JSON.parse(readFileSync(shapes, "utf8"))) {
  writeFileSync(file, `{"name":"first","inputSchema":{"type":"object"}},{"name":"odd",${odd}},{"name":"last","inputSchema":{"type":"object"}}`);
  for (const [kind, [client]] of Object.entries(clients)) {
    try {
      const { tools } = await client.listTools({}, { cacheMode: "refresh" });
      said.push({ client: kind, shape: name, tools: tools.map((t) => t.name) });
    } catch (e) {
      said.push({ client: kind, shape: name, error: String(e) });
    }
  }
}
console.log(JSON.stringify(said));
process.exit(0);
