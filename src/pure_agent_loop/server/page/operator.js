// Panels for operators: requests to models with their cacheable part, the audit log, and the fleet.
import { html, useEffect, useState } from "./html.js";
import { Code } from "./call.js";
import * as store from "./store.js";
import { api, sessionAt } from "./wire.js";
import { seconds, t } from "./words.js";

const PARTS = ["system", "tools", "user", "assistant", "tool"];
const FLEET_REFRESH_MS = 3000;

// The response of a path, requested again when a dependency changes.
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
  const audit = useApi(`${sessionAt(session)}/audit?limit=100`, ...deps);
  const requests = response?.requests || [];
  const maxTokens = Math.max(1, ...requests.map((request) => request.window || total(request)));
  return html`<section class="panel operator" aria-label=${t("operator")}><h2>${t("operator")} <span class="dim">${t("requestsOf", { n: response?.total ?? 0 })}</span></h2>
    <p class="legend">${PARTS.map((part) => html`<span key=${part}><i class="part ${part}"></i>${t(`part_${part}`)}</span>`)}</p>
    <ul class="requests">${requests.map((request) => html`<${RequestItem} key=${request.number} request=${request} session=${session} maxTokens=${maxTokens} />`)}</ul>
    <h2>${t("audit")}</h2>
    ${audit && audit.calls.length === 0 ? html`<p class="dim">${t("noAudit")}</p>` : html`<ul class="requests">${(audit?.calls || []).map((call) => html`<${AuditedCall} key=${call.number} call=${call} />`)}</ul>`}
  </section>`;
}

const total = (request) => PARTS.reduce((sum, part) => sum + (request.parts[part] || 0), 0);

// The part of the previous request that a prompt cache can reuse.
function cacheable(request, isFirst) {
  if (isFirst) return "";
  if (!request.same_tools) return t("toolsChanged");
  return t("keptMessages", { n: request.same, all: request.messages });
}

function RequestItem({ request, session, maxTokens }) {
  const [isOpen, setOpen] = useState(false);
  const numbers = [cacheable(request, request.number === 1)];
  if (request.prompt_tokens !== null) numbers.push(t("inOut", { in: request.prompt_tokens.toLocaleString(), out: request.completion_tokens ?? 0, cached: (request.cached_tokens ?? 0).toLocaleString() }));
  if (request.seconds !== null) numbers.push(seconds(request.seconds));
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
    <summary><span class="number">${call.number}</span><span class="badge ${call.status}">${call.status}</span><span class="tool">${call.tool}</span>
      <span class="dim">${call.user}@${call.host}${call.seconds === null ? "" : ` · ${seconds(call.seconds)}`}</span></summary>
    ${isOpen && html`<${Code} text=${JSON.stringify(call, null, 2)} language="json" label=${t("audit")} />`}</details></li>`;
}

export function Fleet() {
  const [tick, setTick] = useState(0);
  useEffect(() => { const timer = setInterval(() => setTick((n) => n + 1), FLEET_REFRESH_MS); return () => clearInterval(timer); }, []);
  const fleet = useApi("/api/fleet?limit=200", tick), scheduleList = useApi("/api/schedules", tick);
  if (!fleet) return html`<section class="panel fleet" aria-label=${t("fleet")}><h2>${t("fleet")}</h2></section>`;
  const table = (title, heads, rows) => html`<h2>${title}</h2>${rows.length === 0 ? html`<p class="dim">–</p>` : html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table><thead><tr>${heads.map((head) => html`<th key=${head}>${head}</th>`)}</tr></thead>
    <tbody>${rows.map((row, index) => html`<tr key=${index}>${row.map((cell, at) => html`<td key=${at}>${cell}</td>`)}</tr>`)}</tbody></table></div>`}`;
  const state = (name) => html`<span class="badge ${name}">${name}</span>`;
  return html`<section class="panel fleet" aria-label=${t("fleet")}>
    <p class="legend">${Object.entries(fleet.states).map(([name, count]) => html`<span key=${name}>${state(name)} ${count}</span>`)}</p>
    ${table(t("workers"), [t("worker"), t("host"), t("running")], fleet.workers.map((worker) => [worker.name, worker.host || t("gone"), worker.runs]))}
    ${table(t("queues"), [t("queue"), t("agent"), t("pending"), t("running")], fleet.queues.map((queue) => [queue.name, queue.agents.join(", "), queue.pending, queue.running]))}
    ${table(t("schedules"), [t("name"), t("agent"), t("when"), t("next")], (scheduleList?.schedules || []).map((schedule) => [schedule.name, schedule.agent, schedule.cron ? `${schedule.cron} (${schedule.timezone})` : seconds(schedule.every), schedule.next ? new Date(schedule.next * 1000).toLocaleString() : t("paused")]))}
    ${table(t("runs"), [t("state"), t("agent"), t("worker"), t("handovers"), t("updated")], fleet.runs.slice(0, 50).map((run) => [state(run.state), run.agent, run.worker, run.handovers || "", new Date(run.updated * 1000).toLocaleTimeString()]))}
  </section>`;
}
