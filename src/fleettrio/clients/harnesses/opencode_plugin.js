// The plugin of fleettrio in opencode: it tells the daemon what happens in a session, by the same hook that other
// harnesses run, and puts what waits for the agent behind the prompt that it is sent with.
//
// Rules: without a daemon nothing happens and nothing is said; opencode never waits for it longer than LIMIT_MS; a plugin
// that is loaded twice is one.

import { spawn } from "node:child_process"

const HOOK = JSON.parse(process.env.FLEETTRIO_HOOK || '["fleettrio-hook"]')
const LIMIT_MS = 8000
const MOST = 262144 // characters of a prompt, or of last words, that are passed on

export const Fleettrio = async ({ client, serverUrl }) => {
  const loaded = Symbol.for("fleettrio.plugin")
  if (globalThis[loaded]) return {}
  globalThis[loaded] = true

  const api = serverUrl ? String(serverUrl) : ""
  const parents = new Map() // session → the session that it helps; "" for one of the person's
  const aborted = new Set() // sessions whose turn was interrupted, until they are idle

  const parentOf = async (session) => {
    if (!parents.has(session)) {
      const found = await client.session.get({ path: { id: session } }).catch(() => undefined)
      parents.set(session, found?.data?.parentID ?? "")
    }
    return parents.get(session)
  }

  const tell = async (event, session, more = {}) => {
    const parent = session ? await parentOf(session) : ""
    return run(JSON.stringify({ event, session, parent, api, ...more }))
  }

  const lastWords = async (session) => {
    const found = await client.session.messages({ path: { id: session } }).catch(() => undefined)
    const said = (found?.data ?? []).filter((message) => message.info?.role === "assistant").at(-1)
    return text(said?.parts)
  }

  const happened = {
    "session.idle": async ({ sessionID }) => {
      if (aborted.delete(sessionID)) return tell("session.interrupted", sessionID)
      return tell("session.idle", sessionID, { words: await lastWords(sessionID) })
    },
    "session.error": async ({ sessionID, error }) => {
      if (!sessionID) return
      if (error?.name === "MessageAbortedError") aborted.add(sessionID)
      else await tell("session.error", sessionID)
    },
    "session.created": async ({ info }) => {
      parents.set(info.id, info.parentID ?? "")
      await tell("session.created", info.id)
    },
    "session.deleted": ({ info }) => tell("session.deleted", info.id),
    "permission.asked": ({ sessionID }) => tell("permission.asked", sessionID),
    "permission.replied": ({ sessionID }) => tell("permission.replied", sessionID),
  }

  await tell("plugin.started", "")
  return {
    event: async ({ event }) => {
      await happened[event.type]?.(event.properties ?? {})
    },
    "chat.message": async (input, output) => {
      const answer = await tell("chat.message", input.sessionID, {
        message: output.message?.id ?? input.messageID ?? "",
        prompt: text(output.parts),
      })
      if (answer?.context) output.parts.push(behind(output, input.sessionID, answer.context))
    },
  }
}

export default Fleettrio

// Parts are shown in the order of their ids: this one goes behind the person's own.
const behind = (output, sessionID, context) => {
  const ids = output.parts.map((part) => part.id ?? "").sort()
  return {
    id: `${ids.at(-1) || "prt_"}z`,
    sessionID,
    messageID: output.message?.id,
    type: "text",
    text: context,
    synthetic: true,
  }
}

const text = (parts) =>
  (parts ?? [])
    .filter((part) => part.type === "text" && !part.synthetic)
    .map((part) => part.text)
    .join("\n")
    .slice(0, MOST)

// What the daemon answers, by the hook; undefined for nothing. Never rejects.
const run = (input) =>
  new Promise((resolve) => {
    const child = spawn(HOOK[0], [...HOOK.slice(1), "opencode"], { stdio: ["pipe", "pipe", "ignore"] })
    const chunks = []
    const timer = setTimeout(() => child.kill("SIGKILL"), LIMIT_MS)
    child.on("error", () => done())
    child.on("close", () => done())
    child.stdout.on("data", (chunk) => chunks.push(chunk))
    child.stdin.on("error", () => {})
    child.stdin.end(input)
    const done = () => {
      clearTimeout(timer)
      try {
        resolve(JSON.parse(Buffer.concat(chunks).toString("utf8")))
      } catch {
        resolve(undefined)
      }
    }
  })
