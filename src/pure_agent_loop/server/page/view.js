// The view of one session: earlier runs from its records, the newest and those to come from events (see docs/server.md).
// Items keep their identity and have a counter `rev`, so that a new delta of an answer redraws only that answer.
import { here, sessionAt } from "./wire.js";
import { batch, signal } from "./html.js";

// Whether a notice says that the model reads a message; only some people are shown its text.
export const isRead = (text, { synthetic, message = text }) => synthetic === false && message === text;

// Whether an item is a change of a file, done.
export const isEdit = (item) => item.kind === "call" && item.state === "done" && ["edit_file", "write_file"].includes(item.tool);

export class View {
  constructor() {
    this.items = signal([]);
    this.run = signal(null); // the newest run: {id, state, agent, ...}
    this.runs = []; // all of them, for the timeline
    this.said = signal(""); // announced by screen readers: finished answers only
    this.version = signal(0);
    this.calls = new Map();
    this.files = new Set();
    this.open = new Map(); // unfinished items of the current step, by kind
    this.serial = 0;
    this.due = new Set();
    this.notices = new Set();
    this.plans = new Map(); // the first plan of each run
    this.steered = []; // messages that a run has taken, and the model has not read yet
    this.canUndo = signal(false); // the conversation has changed files
    this.versions = signal([]); // messages with several versions: their entry's number, the version shown, and the session of each
    this.next = undefined; // number of the next message's entry, if known
    this.earlier = 0; // number of entries before those that are shown
    this.onSent = null; // called for a message: its files are in the records
  }

  add(kind, fields) {
    const item = { id: ++this.serial, kind, rev: signal(0), ...fields };
    this.fresh = this.fresh || this.items.value.slice();
    this.fresh.push(item);
    return item;
  }

  drop(item) { this.fresh = (this.fresh || this.items.value).filter((other) => other !== item); }

  changed(item) { this.due.add(item); }

  update(callId, fields) {
    const item = this.calls.get(callId);
    if (item) this.changed(Object.assign(item, fields));
    return item;
  }

  // Apply events and redraw once.
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
    const run = this.runs.find((other) => other.id === event.run);
    if (run) run.updated = event.timestamp;
    this[`on_${event.type}`]?.(event.data, event, run);
  }

  on_run_start(data, event, known) {
    if (known) {
      this.dropUnfinished();
      this.endWaiting(known, event);
      if (known.state === "running") this.add("note", { text: "wentOn" });
      known.attempt = data.attempt;
      known.state = "running";
      known.modelFrom = event.timestamp;
      this.run.value = { ...known };
      return;
    }
    const run = { id: event.run, agent: data.agent, modelName: data.model, task: data.task, state: "running", attempt: data.attempt,
      started: event.timestamp, updated: event.timestamp, spans: [], step: 0, tokens: 0, cost: 0 };
    this.runs.push(run);
    this.run.value = { ...run };
    this.drop((this.fresh || this.items.value).find((item) => item.isLost && item.text === data.task)); // sent again
    if (data.task || data.media) this.add("user", { text: data.task, run: run.id, time: event.timestamp, awaits: data.media, index: this.next });
    this.next = undefined;
    this.onSent?.();
  }

  // Waiting for a person is not working.
  endWaiting(run, event) {
    if (!run.waitsSince) return;
    run.waited = (run.waited || 0) + event.timestamp - run.waitsSince;
    run.waits = [...(run.waits || []), [run.waitsSince, event.timestamp]];
    run.waitsSince = 0;
  }

  on_steered(data, event) { this.steered.push({ text: data.text, isSteer: true, run: event.run, time: event.timestamp }); }

  dropUnfinished() {
    for (const item of this.open.values()) this.drop(item);
    this.open.clear();
  }

  delta(kind, data, event, run) {
    if (run) this.beginModel(run, event);
    if (data.content === undefined) return; // not everybody sees reasoning
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
      const before = (this.fresh || this.items.value).findLast?.((other) => other.kind === kind && other.run === event.run);
      if (!data.content || (before && before.step === event.step && before.text === data.content)) return;
      item = this.add(kind, { run: event.run, step: event.step, time: event.timestamp });
    }
    this.open.delete(kind);
    Object.assign(item, { text: data.content, final: true });
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
    if (run?.model && !run.model.end) run.model.end = event.timestamp;
  }

  on_loop_start(data, event, run) { if (run) run.modelFrom = event.timestamp; }
  on_text_delta(data, event, run) { this.delta("answer", data, event, run); }
  on_reasoning_delta(data, event, run) { this.delta("reasoning", data, event, run); }
  on_tool_call_delta(data, event, run) { if (run) this.beginModel(run, event); }
  on_thought(data, event, run) { if (run) this.beginModel(run, event); this.whole("answer", data, event); this.endModel(run, event); }
  on_reasoning(data, event) { this.whole("reasoning", data, event); }

  // The item of a call, added when the first event about it comes.
  call(data, event) {
    let item = this.calls.get(data.call_id);
    if (item) return item;
    item = this.add("call", { tool: data.tool, callId: data.call_id, args: data.args, state: "running", start: event.timestamp, run: event.run, step: event.step, progress: "" });
    this.calls.set(data.call_id, item);
    if (data.tool === "todo_write" && Array.isArray(data.args?.items)) this.replan(item);
    return item;
  }

  // A run shows one plan: a later one replaces the first.
  replan(item) {
    const first = this.plans.get(item.run);
    if (!first) { this.plans.set(item.run, item); return; }
    item.isHidden = true;
    first.args = item.args;
    this.changed(first);
  }

  // A call is known from here on, even while it is tried or pending; later events report its outcome.
  on_part(data, event, run) {
    const part = data.part || {}, kind = part.type === "text" ? "answer" : part.type;
    if (kind === "tool" && part.state === "pending") this.call({ tool: part.tool, call_id: part.call_id, args: part.input }, event);
    if (kind === "tool" || !part.ended || part.output === undefined) return;
    if (!this.open.has(kind)) this.delta(kind, { content: "" }, event, run);
    const item = this.open.get(kind);
    item.text = item.written = (item.written ?? "") + part.output; // a response may have several parts of a kind
    item.seconds = (item.seconds ?? 0) + part.ended - part.started;
    this.changed(item);
  }

  on_action(data, event, run) {
    if (run) { if (run.model?.step !== event.step) this.beginModel(run, event); this.endModel(run, event); }
    const item = this.call(data, event);
    // Output from the trial of a command is discarded: the command runs again.
    Object.assign(item, { args: data.args ?? item.args, title: data.title, state: "running", progress: "", start: item.state === "waiting" ? event.timestamp : item.start });
    if (run) run.spans.push({ kind: "tool", tool: data.tool, callId: data.call_id, step: event.step, start: event.timestamp, end: 0 });
    this.changed(item);
  }

  on_observation(data, event, run) {
    const item = this.calls.get(data.call_id);
    const span = run?.spans.findLast((other) => other.callId === data.call_id);
    if (span) Object.assign(span, { end: event.timestamp, failed: data.is_error || Boolean(data.command?.exit_code), start: Math.min(span.start, event.timestamp - (data.duration || 0)) });
    if (run) run.modelFrom = event.timestamp;
    if (!item) return;
    const failed = data.is_error || data.command?.exit_code;
    if (item.isHidden && failed) item.isHidden = false;
    Object.assign(item, { result: data.result, at: event.timestamp, state: item.verdict === "deny" ? "denied" : failed ? "failed" : "done", seconds: data.duration, command: data.command, unasked: data.unasked });
    this.changed(item);
  }

  // Files of calls that are not shown yet come with those calls.
  takeFiles(session, files) {
    for (const file of files.filter((each) => each.call_id)) {
      const item = this.calls.get(file.call_id), entry = { ...file, url: here(`${sessionAt(session)}/files/${file.number}`) };
      if (!item || this.files.has(file.number)) continue;
      this.files.add(file.number);
      item.files = [...(item.files || []), entry];
      this.changed(item);
    }
    this.take([]);
  }

  // What a subagent does for a call, and the call that it made last.
  on_task({ task, part }) { this.update(task.call_id, { task, ...(part?.tool && { last: part }) }); }

  on_progress(data, event) {
    const item = this.calls.get(data.call_id);
    if (item?.state === "waiting" && item.verdict) Object.assign(item, { state: "running", progress: "", start: event.timestamp }); // it may be tried once more after the answer
    if (item && data.text) { item.progress = (item.progress + data.text).slice(-20000); this.changed(item); }
    else if (data.text && !data.call_id) this.on_notice({ message: data.text }, event); // progress from a toolset
  }

  on_permission(data, event, run) {
    if (data.behavior === "ask") {
      this.endModel(run, event);
      this.changed(Object.assign(this.call(data, event), { state: "waiting", title: data.title }));
    } else if (data.behavior === "deny" && !this.update(data.call_id, { verdict: "deny" })) this.add("note", { text: "deniedCall", about: { tool: data.tool } });
  }

  on_answered(data, event) {
    const item = this.update(data.call_id, { verdict: data.behavior, by: data.by, said: data.message, answeredAt: event.timestamp });
    if (item && data.behavior === "deny") { item.state = "denied"; this.sayDenied(item); }
  }

  // The words of a denial are a message; one message may deny several calls.
  sayDenied({ said, by, answeredAt }) {
    const items = this.fresh || this.items.value, last = items.findLast((other) => other.kind === "user");
    if (said && !(last?.isDenial && last.text === said && items.slice(items.indexOf(last) + 1).every((other) => other.kind === "call"))) this.add("user", { text: said, isSteer: true, isDenial: true, by, time: answeredAt });
  }

  on_retry(data, event) {
    if (data.discard) this.dropUnfinished();
    this.drop(this.retrying); // one line that counts
    this.retrying = this.add("retry", { title: data.title, plain: data.error || "", n: (data.attempt ?? 0) + 1, all: data.attempts, delay: data.delay, until: event.timestamp + data.delay });
  }

  on_notice(data, event, run) {
    const read = this.steered.findIndex((other) => other.run === event.run && isRead(other.text, data));
    if (read >= 0) { this.add("user", this.steered.splice(read, 1)[0]); return; }
    if (data.model && run && data.model !== run.modelName) { run.modelName = data.model; this.run.value = { ...run }; }
    const isModel = event?.step === 0 && run?.modelName && data.message?.includes(run.modelName); // in the head of the page
    if (!data.message || isModel || this.notices.has(data.message)) return; // show each notice once
    this.notices.add(data.message);
    const last = (this.fresh || this.items.value).at(-1);
    if (event?.step !== 0) this.add("note", { plain: data.message });
    else if (last?.kind === "start") { last.plain += `\n${data.message}`; this.changed(last); } else this.add("start", { plain: data.message }); // before the first step: folded
  }

  on_error({ error: plain = "", title, fix }) {
    this.drop(this.retrying);
    if (plain || title) this.add("error", { plain, title, fix });
  }
  on_run_state(data, event, run) {
    if (!run) return;
    Object.assign(run, { state: data.state, waitsSince: event.timestamp });
    this.endModel(run, event);
    this.run.value = { ...run };
  }

  on_step_end(data, event, run) {
    if (!run) return;
    const usage = data.usage || {};
    run.step = event.step;
    const model = run.model?.step === event.step && run.model, before = run.usage || {};
    const delta = (name) => (usage[name] ?? 0) - (before[name] ?? 0);
    if (model) model.used = { in: delta("prompt_tokens"), out: delta("completion_tokens"), cached: delta("cached_tokens"), written: delta("cache_write_tokens"), missed: delta("cache_missed_tokens") };
    run.usage = usage;
    run.marks = [...(run.marks || []), { step: event.step, at: event.timestamp, tokens: usage.total_tokens ?? 0 }];
    run.modelFrom = event.timestamp;
  }

  on_run_end(data, event, run) {
    for (const item of this.open.values()) { item.final = true; this.changed(item); }
    this.open.clear();
    const isStopped = data.state === "cancelled";
    for (const item of this.calls.values()) {
      if (item.run === event.run && ["running", "waiting"].includes(item.state)) { item.state = isStopped ? "stopped" : "failed"; this.changed(item); }
    }
    const answer = (this.fresh || this.items.value).findLast((item) => item.kind === "answer" && item.run === event.run);
    if (answer) { answer.isLast = true; this.changed(answer); }
    for (const unread of this.steered.splice(0)) this.add("user", { ...unread, isLost: true });
    if (!run) return;
    this.endWaiting(run, event);
    for (const span of run.spans) span.end = span.end || event.timestamp;
    Object.assign(run, { state: data.state, steps: data.steps, tokens: data.tokens, cost: data.cost, ended: event.timestamp });
    this.run.value = { ...run };
    this.add("end", { run: run.id, state: data.state, why: data.stop_reason, steps: data.steps, tokens: data.tokens, cost: data.cost, waited: run.waited || 0, seconds: event.timestamp - run.started - (run.waited || 0) });
  }
}
