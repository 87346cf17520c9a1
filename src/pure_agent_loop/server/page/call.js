// A tool call: one line that says what it does, folded; while it runs, its seconds and the end of its output.
import { Lazy, html, useEffect, useRef, useState } from "./html.js";
import { Counts, Diff, changeOf } from "./diff.js";
import { Icon } from "./icons.js";
import { codeBox } from "./markdown.js";
import { size } from "./sent.js";
import * as store from "./store.js";
import { clock, hasWord, money, seconds, subject, t, verb } from "./words.js";

const MAX_SHOWN = 20000, TAIL_LINES = 6;
const ICONS = { edit_file: "pencil", write_file: "pencil", read_file: "file", read_image: "file", shell: "terminal", grep: "search", glob: "search", list_dir: "list", fetch: "globe", todo_write: "list", tool_search: "search" };
const TODO_MARKS = { pending: "☐", in_progress: "▸", done: "☑" };

export const iconOf = (tool) => ICONS[tool] || "tool";
export const isSettled = (item) => item.state !== "running" && item.state !== "waiting";

export function Call({ item, rev }) {
  const [isOpen, setOpen] = useState(false), { task } = item, isRunning = item.state === "running" || (task && !task.ended && store.isOpen(store.view.value.run.value));
  const used = task && [task.calls && t("calls", { n: task.calls }), money(task.cost)].filter(Boolean).join(" · ");
  const change = changeOf(item), todo = item.tool === "todo_write" && Array.isArray(item.args?.items) && item.args.items;
  if (item.isHidden) return null;
  if (todo && item.state !== "failed") return html`<${Todo} items=${todo} item=${item} />`;
  return html`<details class="item call ${item.state}" id="call-${item.id}" onToggle=${(event) => setOpen(event.target.open)}>
    <summary><span class="mark" role="img" aria-label=${store.stateWord(item.state)}>${isRunning ? html`<i class="spinner"></i>` : html`<${Icon} name=${iconOf(item.tool)} />`}</span>
      <span class="tool">${task?.agent || titleOf(item) || verb(item.tool, item)}</span> <span class="brief">${titleOf(item) ? "" : subject(item.args)}</span>
      ${change && item.state === "done" && html`<${Counts} change=${change} />`}
      ${item.isUndone && html`<span class="by">(${t("isUndone")})</span>`}
      ${item.by && html`<span class="by">${answeredBy(item)}</span>`}${item.unasked && html`<span class="by">${causeOf(item.result)}</span>`}${task && isRunning && html`<span class="by">${doing(item)}</span>`}
      <span class="time">${isRunning ? html`${used}<${Clock} since=${task?.started || item.start} before=${used && " · "} />` : [used, outcome(item)].filter(Boolean).join(" · ")}</span></summary>
    ${isOpen && (task?.session_id ? html`<${Lazy} file="subagent" part="Steps" session=${task.session_id} rev=${rev} isAtWork=${isRunning} />` : html`<${Inside} item=${item} change=${change} rev=${rev} />`)}
  </details>
  ${isRunning && !task && item.progress !== undefined && store.isRunning(store.view.value.run.value) && html`<div class="live item"><pre aria-label=${t("output")}>${tail(item.progress)}</pre><button class="danger small" onClick=${store.stop}>${t("stop")}</button></div>`}
  ${item.state === "failed" && item.command?.tail && !isOpen && html`<pre class="item tail">${tail(item.command.tail, 3)}</pre>`}
  ${item.files && html`<${Files} files=${item.files} />`}`;
}

const answeredBy = ({ by, verdict, answeredAt }) => t(`answered${by === store.me.value.name ? "You" : "By"}_${verdict === "deny" ? "deny" : "allow"}`, { by, at: clock(answeredAt) });
const titleOf = ({ title, state, unasked }) => (state === "denied" || unasked ? "" : state === "running" || state === "waiting" ? title : title?.replace(/[…?？]+$/, "")); // in the words of the tool
const doing = ({ task, last }) => (task.state.startsWith("waiting") ? store.stateWord("waiting") : last ? `${verb(last.tool, { state: last.ended ? "done" : "running" })} ${subject(last.input)}` : task.last_tool); // of a subagent
const causeOf = (result) => /^(?:Error: |错误信息：)(.+)$/m.exec(result ?? "")?.[1] ?? ""; // of a failed call, in one line
const tail = (text, most = TAIL_LINES) => (text || "").trimEnd().split("\n").slice(-most).join("\n");

// The seconds since a time, counted.
export function Clock({ since, before = "" }) {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => { const timer = setInterval(() => setNow(Date.now() / 1000), 1000); return () => clearInterval(timer); }, []);
  return now - since >= 1 ? html`<span aria-hidden="true">${before}${seconds(Math.floor(now - since))}</span>` : null;
}

// How a call ended, or its state; durations under a second are not shown.
function outcome(item) {
  const code = item.command?.exit_code ?? item.exitCode, time = item.seconds >= 1 ? seconds(item.seconds) : "";
  const state = code ? t("exitCode", { n: code }) : item.state === "done" ? "" : item.state === "waiting" && item.verdict ? t("allowed") : item.unasked ? t("notAsked") : store.stateWord(item.state);
  const background = item.state === "done" && !item.command && hasWord(`background_${item.args?.background}`) ? t(`background_${item.args.background}`) : "";
  return [item.command?.read_only && !code ? t("readOnly") : "", background, state, time].filter(Boolean).join(" · ");
}

function Todo({ items, item }) {
  const done = items.filter((each) => each.status === "done").length;
  return html`<section class="item todo" id="call-${item.id}" aria-label=${t("plan")}><h2>${t("plan")} <span class="dim">${done}/${items.length}</span></h2>
    <ul>${items.map((each, at) => html`<li key=${at} class=${each.status}><span aria-hidden="true">${TODO_MARKS[each.status] || "☐"}</span><p>${each.task ?? each.content ?? each.text}</p></li>`)}</ul></section>`;
}

// Consecutive settled calls, folded to one line.
export function Calls({ items }) {
  const [isOpen, setOpen] = useState(false);
  const failed = items.filter((item) => item.state === "failed").length, time = items.reduce((sum, item) => sum + (item.seconds || 0), 0);
  const about = [t("calls", { n: items.length }), failed ? t("nFailed", { n: failed }) : "", time >= 1 ? seconds(time) : ""].filter(Boolean).join(" · ");
  return html`<details class="item calls ${failed ? "failed" : ""}" data-from=${items[0].id} data-to=${items.at(-1).id} onToggle=${(event) => { if (event.target.classList.contains("calls")) setOpen(event.target.open); }}>
    <summary><span class="mark"><${Icon} name="list" /></span><span class="tool">${about}</span>
      <span class="brief">${[...new Set(items.map((item) => verb(item.tool, item)))].join(", ")}</span></summary>
    ${isOpen && html`<div class="members">${items.map((item) => html`<${Call} key=${item.id} item=${{ ...item, files: null }} rev=${item.rev.value} />`)}</div>`}
  </details>${items.map((item) => item.files && html`<${Files} key=${item.id} files=${item.files} />`)}`;
}

// Files of a result: images and audio inline, others as downloads. The server determines the types.
export function Files({ files }) {
  return html`<div class="item files">${files.map((file) => html`<figure key=${file.number}>
    ${file.media_type.startsWith("image/") && html`<img src=${file.url} alt=${t("fileOf", { tool: file.tool })} loading="lazy" />`}
    ${file.media_type.startsWith("audio/") && html`<audio src=${file.url} controls preload="none" aria-label=${file.name}></audio>`}
    <figcaption><a href=${file.url} download=${file.name}>${file.name}</a> <span class="dim">${size(file.bytes)}</span></figcaption></figure>`)}</div>`;
}

// What a command printed: its result without the lines at the end, which are for the model.
function printed({ command, result }) {
  if (!command) return result;
  if (!command.lines) return "";
  const lines = result.split("\n"), last = command.tail.split("\n");
  let end = lines.length;
  while (end >= last.length && !last.every((line, at) => lines[end - last.length + at] === line)) end--;
  return end < last.length ? result : lines.slice(0, end).join("\n");
}

function Inside({ item, change }) {
  const result = item.result === undefined || item.state === "denied" ? undefined : printed({ ...item, result: String(item.result) }).slice(0, MAX_SHOWN);
  const isShell = item.tool === "shell" && typeof item.args?.command === "string";
  return html`<div class="inside">
    ${isShell ? html`<${Code} text=${`$ ${item.args.command}\n${result ?? item.progress ?? ""}`} language="" label="shell" />`
      : change ? html`<${Diff} change=${change} />` : html`<${Args} args=${item.args} />`}
    ${!isShell && result !== undefined && !(change && item.state === "done") && html`<${Code} text=${result} language=${kindOf(result)} label=${t("output")} />`}
  </div>`;
}

// The arguments of a call: commands and texts as they are, the rest as JSON.
export function Args({ args }) {
  if (args === undefined || args === null || args === "") return null;
  if (typeof args !== "object") return html`<${Code} text=${String(args)} language="json" label=${t("input")} />`;
  const long = Object.entries(args).filter(([key, value]) => typeof value === "string" && (value.includes("\n") || key === "command"));
  const rest = Object.fromEntries(Object.entries(args).filter(([key]) => !long.some(([name]) => name === key)));
  return html`<div>${Object.keys(rest).length > 0 && html`<${Code} text=${JSON.stringify(rest, null, 2)} language="json" label=${t("input")} />`}
    ${long.map(([key, value]) => html`<${Code} key=${key} text=${value} language=${key === "command" ? "bash" : kindOf(value)} label=${key} />`)}</div>`;
}

const kindOf = (text) => (/^(diff --git|--- |@@ )/m.test(text) && /^[+-]/m.test(text) ? "diff" : /^\s*[[{]/.test(text) ? "json" : "");

export function Code({ text, language, label }) {
  const box = useRef(null);
  useEffect(() => { box.current.replaceChildren(codeBox(text, language, label)); }, [text, language, label]);
  return html`<div ref=${box}></div>`;
}
