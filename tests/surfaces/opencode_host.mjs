// Stands in for opencode: loads a plugin as it does, feeds it events from stdin (JSON a line), prints what came of each.
import { createInterface } from "node:readline"
import { pathToFileURL } from "node:url"

const sessions = { child: { parentID: "parent" } }
const said = [
  { info: { role: "user" }, parts: [{ type: "text", text: "go" }] },
  { info: { role: "assistant" }, parts: [{ type: "tool" }, { type: "text", text: "all is well" }] },
]
const client = {
  session: {
    get: async ({ path }) => ({ data: { id: path.id, ...sessions[path.id] } }),
    messages: async () => ({ data: said }),
  },
}

const load = async () => {
  const found = await import(pathToFileURL(process.argv[2]).href)
  const input = { client, serverUrl: new URL("http://127.0.0.1:4096"), directory: process.cwd() }
  const made = [...new Set(Object.values(found))]
  return Promise.all(made.map((plugin) => plugin(input)))
}

// The terminal's front end initialises plugins twice.
const plugins = [...(await load()), ...(await load())]
console.log(JSON.stringify({ ready: true }))
for await (const line of createInterface({ input: process.stdin })) {
  const { prompt, session, ...event } = JSON.parse(line)
  const output = { message: { id: "msg_1" }, parts: [{ id: "prt_1", type: "text", text: prompt ?? "" }] }
  for (const hooks of plugins) {
    if (prompt === undefined) await hooks.event?.({ event })
    else await hooks["chat.message"]?.({ sessionID: session }, output)
  }
  console.log(JSON.stringify({ parts: prompt === undefined ? [] : output.parts.sort((a, b) => (a.id < b.id ? -1 : 1)) }))
}
