// Panels for operators: requests to models with their cacheable part, the audit log, and the fleet.
import { html, useEffect, useState } from "./html.js";
import { Code } from "./call.js";
import { Menu } from "./menu.js";
import * as store from "./store.js";
import { api, sessionAt } from "./wire.js";
import { addWords, ago, cacheWords, clock, hasWord, inLanguage, seconds, subject, t, usedWords } from "./words.js";

addWords({
  failedToday: ["failed today", "今天失败"],
  ofWindow: ["{n}% of {all}", "占 {all} 的 {n}%"],
  pause: ["Pause", "暂停"],
  resume: ["Resume", "恢复"],
  requestsOf: ["{n} sent", "已发送 {n} 个"],
  requestAsSent: ["request", "请求"],
  noAudit: ["No audited calls in this conversation", "此对话没有审计记录"],
  workers: ["Workers", "工作进程"],
  lastSeen: ["Last seen", "上次在线"],
  goneSince: ["gone since {at}", "自 {at} 起失联"],
  nGone: ["{n} gone", "{n} 个失联"],
  costToday: ["Cost today", "今日费用"],
  cost: ["Cost", "费用"],
  person: ["Person", "用户"],
  nUnknown: ["{n} unknown", "{n} 次未知"],
  handovers: ["Restarts", "重启次数"],
  queues: ["Queues", "队列"],
  schedules: ["Schedules", "定时任务"],
  paused: ["paused", "已暂停"],
  lasted: ["Duration", "时长"],
  waitingPeople: ["waiting", "等待中"],
  noSchedules: ["No schedules. A schedule begins a task at the times you give.", "没有定时任务。定时任务会在指定时间开始任务。"],
  whenHint: ["weekdays at 9:00", "工作日 9:00"],
  newSchedule: ["New schedule", "新建定时任务"],
});

const PARTS = ["system", "tools", "user", "assistant", "tool"];
const FLEET_REFRESH_MS = 3000;

// The response for a path, requested again when a dependency changes.
function useApi(path, ...deps) {
  const [response, setResponse] = useState(null);
  useEffect(() => {
    let isMounted = true;
    api("GET", path).then((data) => isMounted && setResponse(data)).catch(store.showError);
    return () => { isMounted = false; };
  }, [path, ...deps]);
  return response;
}

export function Operator() {
  const session = store.current.value, run = store.view.value.run.value;
  const deps = [run?.id, run?.state];
  const response = useApi(`${sessionAt(session)}/requests?limit=100`, ...deps);
  const requests = response?.requests || [];
  const maxTokens = Math.max(1, ...requests.map(total));
  return html`<section class="panel operator" aria-label=${t("operator")}><h2>${t("operator")} <span class="dim">${t("requestsOf", { n: response?.total ?? 0 })}</span></h2>
    <p class="legend">${PARTS.map((part) => html`<span key=${part}><i class="part ${part}"></i>${t(`part_${part}`)}</span>`)}</p>
    <ul class="requests">${requests.map((request) => html`<${RequestItem} key=${request.number} request=${request} session=${session} maxTokens=${maxTokens} />`)}</ul>
  </section>`;
}

export function Audit() {
  const session = store.current.value, run = store.view.value.run.value;
  const audit = useApi(`${sessionAt(session)}/audit?limit=100`, run?.id, run?.state);
  return html`<section class="panel operator" aria-label=${t("audit")}>
    ${audit && audit.calls.length === 0 ? html`<p class="dim">${t("noAudit")}</p>` : html`<ul class="requests">${(audit?.calls || []).map((call) => html`<${AuditedCall} key=${call.number} call=${call} />`)}</ul>`}
  </section>`;
}

const total = (request) => PARTS.reduce((sum, part) => sum + (request.parts[part] || 0), 0);

function RequestItem({ request, session, maxTokens }) {
  const [isOpen, setOpen] = useState(false);
  const numbers = [inLanguage(request.changed ?? request.reused)];
  if (request.prompt_tokens !== null) numbers.push(usedWords(request.prompt_tokens, request.completion_tokens ?? 0, request.cached_tokens));
  if (request.window) numbers.push(t("ofWindow", { n: Math.max(1, Math.round((100 * total(request)) / request.window)), all: request.window.toLocaleString() }));
  numbers.push(...cacheWords(request.cache_write_tokens, request.cache_missed_tokens));
  if (request.seconds >= 0.05) numbers.push(seconds(request.seconds));
  const title = PARTS.map((part) => `${t(`part_${part}`)} ${request.parts[part] || 0}`).join(", ");
  return html`<li><details onToggle=${(event) => setOpen(event.target.open)}>
    <summary><span class="number">${request.number}</span>
      <svg class="context" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=${title}>${bars(request, maxTokens)}</svg>
      <span class="dim">${numbers.filter(Boolean).join(" · ")}</span></summary>
    ${isOpen && html`<${Body} session=${session} number=${request.number} />`}</details></li>`;
}

function bars(request, maxTokens) {
  let x = 0;
  return PARTS.map((part) => {
    const width = ((request.parts[part] || 0) / maxTokens) * 100;
    x += width;
    return html`<rect key=${part} class="part ${part}" x=${x - width} y="0" width=${width} height="8" />`;
  });
}

function Body({ session, number }) {
  const response = useApi(`${sessionAt(session)}/requests/${number}`);
  return response && html`<${Code} text=${JSON.stringify(response.request, null, 2)} language="json" label=${t("requestAsSent")} />`;
}

function AuditedCall({ call }) {
  const [isOpen, setOpen] = useState(false);
  return html`<li><details onToggle=${(event) => setOpen(event.target.open)}>
    <summary><span class="dim">${clock(call.time)}</span><span class="badge ${call.status}">${call.verdict === "deny" && call.status === "error" ? t("notAsked") : call.status}</span><span class="tool">${call.tool} ${subject(call.args)}</span>
      ${call.seconds >= 1 && html`<span class="dim">${seconds(call.seconds)}</span>`}</summary>
    ${isOpen && html`<${Code} text=${JSON.stringify(call, null, 2)} language="json" label=${t("audit")} />`}</details></li>`;
}

export function Fleet() {
  const [tick, setTick] = useState(0);
  useEffect(() => { const timer = setInterval(() => setTick((n) => n + 1), FLEET_REFRESH_MS); return () => clearInterval(timer); }, []);
  const fleet = useApi("/api/fleet?limit=200", tick), scheduleList = useApi("/api/schedules", tick);
  if (!fleet) return html`<section class="panel fleet" aria-label=${t("operate")}></section>`;
  const table = (title, heads, rows, empty = "–") => html`<h2>${title}</h2>${rows.length === 0 ? html`<p class="dim">${empty}</p>` : html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table><thead><tr>${heads.map((head) => (head ? html`<th key=${head}>${head}</th>` : html`<td key="menu"></td>`))}</tr></thead>
    <tbody>${rows.map((row, index) => html`<tr key=${index}>${row.map((cell, at) => html`<td key=${at}>${cell}</td>`)}</tr>`)}</tbody></table></div>`}`;
  const state = (name, words) => html`<span class="badge ${name}">${words ?? (hasWord(`state_${name}`) ? t(`state_${name}`) : name)}</span>`, count = (...names) => names.reduce((sum, name) => sum + (fleet.states[name] || 0), 0);
  const today = new Date().setHours(0, 0, 0, 0) / 1000, gone = fleet.workers.filter((worker) => !worker.alive), failed = fleet.runs.filter((run) => ["failed", "killed"].includes(run.state) && run.updated >= today);
  const costs = fleet.costs_today, sum = (name) => costs.reduce((all, each) => all + each[name], 0), spent = (cost, n) => [...(cost || !n ? [`$${cost.toFixed(2)}`] : []), ...(n ? [t("nUnknown", { n })] : [])].join(" + ");
  const tiles = [[t("running"), count("running", "pending")], [t("waitingPeople"), count("waiting_permission", "waiting_tool")], [t("failedToday"), failed.length], [[t("workers"), ...(gone.length ? [t("nGone", { n: gone.length })] : [])].join(" · "), fleet.workers.length - gone.length], ...(costs.length ? [[t("costToday"), spent(sum("cost"), sum("unknown"))]] : [])];
  const began = (time) => html`<time title=${clock(time)}>${ago(time)}</time>`;
  const title = (run) => html`<button class="link" title=${run.task} onClick=${() => store.open(run.session)}>${run.task || t("untitled")}</button>`;
  return html`<section class="panel fleet" aria-label=${t("operate")}>
    <ul class="tiles">${tiles.map(([name, number]) => html`<li key=${name}><strong>${number}</strong><span class="dim">${name}</span></li>`)}</ul>
    ${table(t("runs"), [t("state"), t("task"), t("agent"), t("started"), t("lasted"), t("worker"), t("handovers")], fleet.runs.slice(0, 50).map((run) => [html`${state(run.state)}${run.error && html` <span class="dim why" title=${run.error}>${inLanguage(run.failure) || run.error}</span>`}`, title(run), run.agent, began(run.created), seconds(Math.round(run.updated - run.created)), run.worker, run.handovers || ""]))}
    ${costs.length > 0 && table(t("costToday"), [t("agent"), t("person"), t("runs"), t("cost")], costs.map((each) => [each.agent, each.person, each.runs, spent(each.cost, each.unknown)]))}
    ${table(t("workers"), [t("worker"), t("host"), t("running"), t("lastSeen")], fleet.workers.map((worker) => [worker.name, worker.host, worker.runs, worker.alive ? worker.seen && began(worker.seen) : html`<span class="badge failed">${worker.seen ? t("goneSince", { at: clock(worker.seen) }) : t("gone")}</span>`]))}
    ${table(t("queues"), [t("queue"), t("agent"), t("pending"), t("running")], fleet.queues.map((queue) => [queue.name, queue.agents.join(", "), queue.pending || "", queue.running || ""]))}
    ${table(t("schedules"), [t("name"), t("agent"), t("when"), t("next"), t("last"), ""], (scheduleList?.schedules || []).map((schedule) => [schedule.name, schedule.agent, html`${inLanguage(schedule.when).replace(schedule.cron, "")}${schedule.cron && html` <span class="dim">${schedule.cron} (${schedule.timezone})</span>`}`, schedule.next ? clock(schedule.next) : t("paused"), schedule.last_state && html`<span title=${schedule.last_detail}>${state(schedule.last_state, inLanguage(schedule.last_words))} ${began(schedule.last)}</span>`, html`<${ScheduleMenu} schedule=${schedule} />`]), t("noSchedules"))}
    <${NewSchedule} />
  </section>`;
}

function ScheduleMenu({ schedule }) {
  const path = `/api/schedules/${encodeURIComponent(schedule.name)}`, act = (method, action = "") => () => api(method, path + action).catch(store.showError);
  return html`<${Menu} label="${t("more")}: ${schedule.name}">
    <button onClick=${act("POST", schedule.next ? "/pause" : "/resume")}>${t(schedule.next ? "pause" : "resume")}</button>
    <button class="danger" onClick=${act("DELETE")}>${t("delete")}</button><//>`;
}

function NewSchedule() {
  const [isOpen, setOpen] = useState(false);
  const make = async (event) => {
    event.preventDefault();
    const fields = Object.fromEntries(new FormData(event.target));
    try { await api("POST", "/api/schedules", { ...fields, timezone: Intl.DateTimeFormat().resolvedOptions().timeZone }); setOpen(false); } catch (error) { store.showError(error); }
  };
  if (!isOpen) return html`<p><button onClick=${() => setOpen(true)}>${t("newSchedule")}</button></p>`;
  const field = (name, words, hint) => html`<label>${t(words)} <input name=${name} required placeholder=${hint} /></label>`;
  return html`<form class="schedule" onSubmit=${make} aria-label=${t("newSchedule")}>
    ${field("name", "name", "daily-report")}<label>${t("agent")} <select name="agent">${store.agents.value.map((agent) => html`<option value=${agent.name}>${agent.name}</option>`)}</select></label>
    ${field("when", "when", t("whenHint"))}${field("prompt", "task", "")}
    <p class="choices"><button class="primary">${t("save")}</button> <button type="button" onClick=${() => setOpen(false)}>${t("cancel")}</button></p></form>`;
}
