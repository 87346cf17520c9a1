// The view of one session, put together from its events (docs/server.md says how). Items keep their identity:
// each has a counter `rev`, so that a new piece of an answer draws that answer again and nothing else.
import { batch, signal } from "./html.js";

export class View {
  constructor() {
    this.items = signal([]);
    this.run = signal(null); // the newest run: {id, state, agent, ...}
    this.runs = []; // all of them, for the timeline
    this.said = signal(""); // what a screen reader is told: finished things only
    this.version = signal(0);
    this.calls = new Map();
    this.files = new Set();
    this.open = new Map(); // pieces of the open step, by kind
    this.serial = 0;
    this.due = new Set();
    this.notices = new Set();
  }

  add(kind, about) {
    const item = { id: ++this.serial, kind, rev: signal(0), ...about };
    this.fresh = this.fresh || this.items.value.slice();
    this.fresh.push(item);
    return item;
  }

  drop(item) {
    this.fresh = (this.fresh || this.items.value).filter((each) => each !== item);
  }

  changed(item) { this.due.add(item); }

  // Take events; the page is drawn once for all of them.
  take(events) {
    for (const event of events) this.apply(event);
    batch(() => {
      if (this.fresh) { this.items.value = this.fresh; this.fresh = null; }
      for (const item of this.due) item.rev.value++;
      this.due.clear();
      this.version.value++;
    });
  }

  apply(event) {
    const how = this[`on_${event.type}`];
    const run = this.runs.find((each) => each.id === event.run);
    if (run) run.updated = event.timestamp;
    if (how) how.call(this, event.data, event, run);
  }

  on_run_start(data, event, known) {
    if (known) {
      this.dropPieces();
      if (known.state === "running") this.add("note", { text: "wentOn" });
      known.attempt = data.attempt;
      known.state = "running";
      known.modelFrom = event.timestamp;
      this.run.value = { ...known };
      return;
    }
    const run = { id: event.run, agent: data.agent, task: data.task, state: "running", attempt: data.attempt,
      started: event.timestamp, updated: event.timestamp, spans: [], step: 0, tokens: 0, cost: 0 };
    this.runs.push(run);
    this.run.value = { ...run };
    this.add("user", { text: data.task, run: run.id, time: event.timestamp });
  }

  on_steered(data, event) { this.add("user", { text: data.text, isSteer: true, run: event.run, time: event.timestamp }); }

  dropPieces() {
    for (const item of this.open.values()) this.drop(item);
    this.open.clear();
  }

  piece(kind, data, event, run) {
    if (run) this.beginModel(run, event);
    let item = this.open.get(kind);
    if (!item) {
      item = this.add(kind, { text: "", final: false, run: event.run, step: event.step, time: event.timestamp });
      this.open.set(kind, item);
    }
    item.text += data.content;
    this.changed(item);
  }

  whole(kind, data, event) {
    let item = this.open.get(kind);
    if (!item) {
      const before = (this.fresh || this.items.value).findLast?.((each) => each.kind === kind && each.run === event.run);
      if (!data.content || (before && before.step === event.step && before.text === data.content)) return;
      item = this.add(kind, { run: event.run, step: event.step, time: event.timestamp });
    }
    this.open.delete(kind);
    Object.assign(item, { text: data.content, final: true, ended: event.timestamp });
    if (kind === "answer") this.said.value = data.content;
    this.changed(item);
  }

  beginModel(run, event) {
    const last = run.spans.at(-1);
    if (!last || last.end || last.kind !== "model") {
      run.spans.push(run.model = { kind: "model", step: event.step, start: last?.kind === "tool" && last.end ? last.end : Math.min(run.modelFrom ?? event.timestamp, event.timestamp), end: 0 });
    }
  }

  endModel(run, event) {
    const last = run?.model;
    if (last && !last.end) last.end = event.timestamp;
  }

  on_loop_start(data, event, run) { if (run) run.modelFrom = event.timestamp; }
  on_text_delta(data, event, run) { this.piece("answer", data, event, run); }
  on_reasoning_delta(data, event, run) { this.piece("reasoning", data, event, run); }
  on_tool_call_delta(data, event, run) { if (run) this.beginModel(run, event); }
  on_thought(data, event, run) { if (run) this.beginModel(run, event); this.whole("answer", data, event); this.endModel(run, event); }
  on_reasoning(data, event) { this.whole("reasoning", data, event); }

  on_action(data, event, run) {
    if (run) { if (run.model?.step !== event.step) this.beginModel(run, event); this.endModel(run, event); }
    let item = this.calls.get(data.call_id);
    if (!item) {
      item = this.add("call", { tool: data.tool, callId: data.call_id, run: event.run, step: event.step, progress: "" });
      this.calls.set(data.call_id, item);
    }
    Object.assign(item, { args: data.args ?? item.args, state: "running", start: event.timestamp });
    if (run) run.spans.push({ kind: "tool", tool: data.tool, callId: data.call_id, step: event.step, start: event.timestamp, end: 0 });
    this.changed(item);
  }

  on_observation(data, event, run) {
    const item = this.calls.get(data.call_id);
    const span = run?.spans.findLast((each) => each.callId === data.call_id);
    if (span) Object.assign(span, { end: event.timestamp, failed: data.is_error, start: Math.min(span.start, event.timestamp - (data.duration || 0)) });
    if (run) run.modelFrom = event.timestamp;
    if (!item) return;
    Object.assign(item, { result: data.result, state: data.is_error ? "failed" : "done", seconds: data.duration });
    this.changed(item);
  }

  // Those of a conversation that is put together from its records have no ids: they stand at its end.
  takeFiles(session, files) {
    for (const each of files) {
      const item = this.calls.get(each.call_id), about = { ...each, url: `/api/sessions/${session}/files/${each.number}` };
      if (this.files.has(each.number)) continue;
      this.files.add(each.number);
      if (item) { item.files = [...(item.files || []), about]; this.changed(item); } else this.add("files", { files: [about] });
    }
    this.take([]);
  }

  on_progress(data) {
    const item = this.calls.get(data.call_id);
    if (item && data.text) { item.progress = (item.progress + data.text).slice(-20000); this.changed(item); }
    else if (data.text && !data.call_id) this.on_notice({ message: data.text }); // a toolset has something to say
  }

  on_permission(data, event) {
    if (data.behavior === "ask" && !this.calls.has(data.call_id)) {
      const item = this.add("call", { tool: data.tool, callId: data.call_id, args: data.args, state: "waiting", run: event.run, step: event.step, progress: "" });
      this.calls.set(data.call_id, item);
    } else if (data.behavior === "deny") this.add("note", { text: "denied", about: { tool: data.tool } });
  }

  on_answered(data) {
    const item = this.calls.get(data.call_id);
    if (item) { item.verdict = data.behavior; this.changed(item); }
  }

  on_retry(data) {
    if (data.discard) this.dropPieces();
    this.add("note", { text: "retry", about: { why: data.error || "" } });
  }

  on_notice(data) {
    if (!data.message || this.notices.has(data.message)) return; // said once, it is known
    this.notices.add(data.message);
    this.add("note", { plain: data.message });
  }

  on_error(data) { if (data.error) this.add("error", { plain: data.error }); }
  on_run_state(data, event, run) {
    if (!run) return;
    run.state = data.state;
    this.endModel(run, event);
    this.run.value = { ...run };
  }

  on_step_end(data, event, run) {
    if (!run) return;
    const usage = data.usage || {};
    run.step = event.step;
    const model = run.model?.step === event.step && run.model, before = run.usage || {};
    const more = (name) => (usage[name] ?? 0) - (before[name] ?? 0);
    if (model) model.used = { in: more("prompt_tokens"), out: more("completion_tokens"), cached: more("cached_tokens") };
    run.usage = usage;
    run.marks = [...(run.marks || []), { step: event.step, at: event.timestamp, tokens: usage.total_tokens ?? 0 }];
    run.modelFrom = event.timestamp;
  }

  on_run_end(data, event, run) {
    for (const item of this.open.values()) { item.final = true; this.changed(item); }
    this.open.clear();
    for (const item of this.calls.values()) if (item.run === event.run && item.state === "running") { item.state = "failed"; this.changed(item); }
    if (!run) return;
    for (const span of run.spans) span.end = span.end || event.timestamp;
    Object.assign(run, { state: data.state, steps: data.steps, tokens: data.tokens, cost: data.cost, ended: event.timestamp });
    this.run.value = { ...run };
    this.add("end", { run: run.id, state: data.state, why: data.stop_reason, steps: data.steps, tokens: data.tokens, cost: data.cost, seconds: event.timestamp - run.started });
  }

  // What the records of a session say, where its events are gone.
  fromEntries(entries) {
    const calls = [];
    for (const each of entries) {
      const about = { text: each.text, final: true, step: each.step, time: each.time };
      if (each.kind === "task" || each.kind === "user") this.add("user", { ...about, isSteer: each.kind === "user" });
      else if (each.kind === "answer") this.add("answer", about);
      else if (each.kind === "thinking") this.add("reasoning", about);
      else if (each.kind === "call") calls.push(this.add("call", { tool: each.tool, args: each.text, state: "done", step: each.step, seconds: each.seconds, progress: "" }));
      else if (each.kind === "result") { const call = calls.find((one) => one.tool === each.tool && one.result === undefined); if (call) Object.assign(call, { result: each.text, state: each.failed ? "failed" : "done" }); }
      else if (each.kind === "notice" && each.text) this.add("note", { plain: each.text });
    }
    this.take([]);
  }
}
