// What a session's records tell: runs before the newest, and what was sent with messages. Loaded when a conversation is opened.
import * as store from "./store.js";
import { isEdit } from "./view.js";
import { api, here, oneAtATime, sessionAt } from "./wire.js";
import { verb } from "./words.js";

// Items for entries of a session's records, before what is shown.
export function showEntries(view, entries, session) {
  const later = view.items.value, calls = new Map(), add = (kind, fields) => view.add(kind, { run, final: true, ...fields });
  let run = "", began = 0;
  view.fresh = [];
  for (const entry of entries) {
    const { text, time, step, call_id: callId, seconds } = entry;
    if (entry.kind === "task") { run = `entry ${entry.index}`; began = time; }
    if (entry.kind === "task" || entry.kind === "user") add("user", { text, time, step, index: entry.index, isSteer: entry.kind === "user", media: sentOf(entry, session) });
    else if (entry.kind === "answer") add("answer", { text, time, step });
    else if (entry.kind === "thinking") { if (text) add("reasoning", { text, time, step, seconds }); }
    else if (entry.kind === "call") calls.set(callId, add("call", { tool: entry.tool, callId, title: entry.title, args: parsed(text), state: "stopped", step, progress: "" }));
    else if (entry.kind === "result" && calls.has(callId)) {
      const item = calls.get(callId), isDenied = entry.verdict === "deny", command = Object.keys(entry.command).length > 0 && entry.command;
      Object.assign(item, { result: text, at: time, seconds, command, exitCode: entry.exit_code, state: isDenied ? "denied" : entry.failed ? "failed" : "done" });
      Object.assign(item, { by: entry.by, verdict: entry.verdict, said: entry.said, unasked: entry.unasked, answeredAt: entry.answered_at });
      if (isDenied && entry.by) view.sayDenied(item);
    } else if (entry.kind === "notice" && text) add("note", { plain: text });
    else if (entry.kind === "end") {
      const [why, error] = text.split(/: ([^]*)/), state = ["completed", "cancelled", "killed"].includes(why) ? why : "failed";
      if (error) add("error", { plain: error });
      add("end", { state, why, ...entry.used, seconds: seconds ?? (began && time - began - (entry.used.waited ?? 0)) });
    }
  }
  for (const [id, item] of calls) {
    if (item.tool === "todo_write" && item.state === "done" && Array.isArray(item.args?.items)) view.replan(item);
    if (!view.calls.has(id)) view.calls.set(id, item);
  }
  view.fresh.forEach((item, at) => { if (item.kind === "answer" && ["end", "user", undefined].includes(view.fresh[at + 1]?.kind)) item.isLast = true; });
  view.fresh.push(...later);
  view.take([]);
  if ([...calls.values()].some(({ tool }) => verb(tool) === tool)) showTasks(view, session).catch(() => {});
}

// The tasks of subagents, at the calls that began them.
async function showTasks(view, session) {
  const { tasks } = await api("GET", "/api/tasks?limit=500");
  for (const task of tasks.filter((each) => each.session === session)) {
    const item = view.calls.get(task.call_id);
    if (item && !item.task) { item.task = { ...task, session_id: task.own_session }; view.changed(item); }
  }
  view.take([]);
}

export const parsed = (text) => { try { return JSON.parse(text); } catch { return text; } };

// The files that were sent with a message.
const sentOf = ({ media }, session) => media.map((file) => ({ ...file, url: here(`${sessionAt(session)}/files/${file.number}`) }));

// Files that were sent with messages of which only events are known.
export function showSent(view, entries, session) {
  for (const item of (view.fresh || view.items.value).filter((each) => each.awaits)) {
    const found = entries.find((entry) => entry.text === item.text && entry.media.length);
    if (found) { Object.assign(item, { awaits: 0, media: sentOf(found, session) }); view.changed(item); }
  }
}

// A run of which earlier events are not shown.
export function adopt(view, run) {
  view.runs.push({ ...run, modelName: "", started: run.created, spans: [], step: run.steps });
  view.run.value = { ...view.runs.at(-1) };
}

// Which edits were undone: an edit belongs to the newest step that began before its end.
export function showChanges(view, changes) {
  for (const item of view.items.value.filter(isEdit)) {
    item.isUndone = changes.findLast((step) => step.time <= item.at)?.is_undone;
    view.changed(item);
  }
  view.take([]);
}

// The turns before those that are shown.
export const loadEarlier = oneAtATime(async () => {
  const session = store.current.value, shown = store.view.value;
  if (!session || !shown.earlier) return;
  const { entries } = await api("GET", `${sessionAt(session)}?limit=${store.TURNS}&before=${shown.earlier}`);
  if (store.view.value !== shown) return;
  shown.earlier = entries[0]?.index ?? 0;
  showEntries(shown, entries, session);
  store.loadFiles();
});
