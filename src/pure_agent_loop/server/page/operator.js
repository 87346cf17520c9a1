// For who operates: what was sent to the model, how much of it a cache can use, what the audit log says; and the fleet.
import { html, useEffect, useState } from "./html.js";
import { Code } from "./call.js";
import * as store from "./store.js";
import { api } from "./wire.js";
import { seconds, t } from "./words.js";

const PARTS = ["system", "tools", "user", "assistant", "tool"];
const FLEET_EVERY = 3000; // milliseconds

// What a path answers, asked for again when something changes.
function useFound(path, ...when) {
  const [found, setFound] = useState(null);
  useEffect(() => {
    let isHere = true;
    api("GET", path).then((answer) => isHere && setFound(answer)).catch(store.tell);
    return () => { isHere = false; };
  }, [path, ...when]);
  return found;
}

export function Operator() {
  const session = store.current.value, run = store.view.value.run.value;
  const when = [run?.id, run?.state];
  const found = useFound(`/api/sessions/${session}/requests?limit=100`, ...when);
  const audit = useFound(`/api/sessions/${session}/audit?limit=100`, ...when);
  const requests = found?.requests || [];
  const most = Math.max(1, ...requests.map((each) => each.window || total(each)));
  return html`<section class="panel operator" aria-label=${t("operator")}><h2>${t("operator")} <span class="dim">${t("requestsOf", { n: found?.total ?? 0 })}</span></h2>
    <p class="legend">${PARTS.map((each) => html`<span key=${each}><i class="part ${each}"></i>${t(`part_${each}`)}</span>`)}</p>
    <ul class="requests">${requests.map((each) => html`<${Sent} key=${each.number} about=${each} session=${session} most=${most} />`)}</ul>
    <h2>${t("audit")}</h2>
    ${audit && audit.calls.length === 0 ? html`<p class="dim">${t("noAudit")}</p>` : html`<ul class="requests">${(audit?.calls || []).map((each) => html`<${Audited} key=${each.number} call=${each} />`)}</ul>`}
  </section>`;
}

const total = (about) => PARTS.reduce((sum, each) => sum + (about.parts[each] || 0), 0);

// How much of the request before a cache can use: all of it, or up to what was changed.
function kept(about, isFirst) {
  if (isFirst) return "";
  if (!about.same_tools) return t("toolsChanged");
  return t("keptMessages", { n: about.same, all: about.messages });
}

function Sent({ about, session, most }) {
  const [isOpen, setOpen] = useState(false);
  const numbers = [kept(about, about.number === 1)];
  if (about.prompt_tokens !== null) numbers.push(t("inOut", { in: about.prompt_tokens.toLocaleString(), out: about.completion_tokens ?? 0, cached: (about.cached_tokens ?? 0).toLocaleString() }));
  if (about.seconds !== null) numbers.push(seconds(about.seconds));
  const title = PARTS.map((each) => `${t(`part_${each}`)} ${about.parts[each] || 0}`).join(", ");
  return html`<li><details onToggle=${(event) => setOpen(event.target.open)}>
    <summary><span class="number">${about.number}</span>
      <svg class="context" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" aria-label=${title}>${bars(about, most)}</svg>
      <span class="dim">${numbers.filter(Boolean).join(" · ")}</span></summary>
    ${isOpen && html`<${Body} session=${session} number=${about.number} />`}</details></li>`;
}

function bars(about, most) {
  let x = 0;
  return PARTS.map((each) => {
    const width = ((about.parts[each] || 0) / most) * 100;
    x += width;
    return html`<rect key=${each} class="part ${each}" x=${x - width} y="0" width=${width} height="8" />`;
  });
}

function Body({ session, number }) {
  const found = useFound(`/api/sessions/${session}/requests/${number}`);
  return found && html`<${Code} text=${JSON.stringify(found.request, null, 2)} language="json" label=${t("requestAsSent")} />`;
}

function Audited({ call }) {
  const [isOpen, setOpen] = useState(false);
  return html`<li><details onToggle=${(event) => setOpen(event.target.open)}>
    <summary><span class="number">${call.number}</span><span class="badge ${call.status}">${call.status}</span><span class="tool">${call.tool}</span>
      <span class="dim">${call.user}@${call.host}${call.seconds === null ? "" : ` · ${seconds(call.seconds)}`}</span></summary>
    ${isOpen && html`<${Code} text=${JSON.stringify(call, null, 2)} language="json" label=${t("audit")} />`}</details></li>`;
}

export function Fleet() {
  const [round, setRound] = useState(0);
  useEffect(() => { const timer = setInterval(() => setRound((each) => each + 1), FLEET_EVERY); return () => clearInterval(timer); }, []);
  const fleet = useFound("/api/fleet?limit=200", round), planned = useFound("/api/schedules", round);
  if (!fleet) return html`<section class="panel fleet" aria-label=${t("fleet")}><h2>${t("fleet")}</h2></section>`;
  const table = (title, heads, rows) => html`<h2>${title}</h2>${rows.length === 0 ? html`<p class="dim">–</p>` : html`<div class="scroll" tabindex="0" role="region" aria-label=${title}><table><thead><tr>${heads.map((each) => html`<th key=${each}>${each}</th>`)}</tr></thead>
    <tbody>${rows.map((row, index) => html`<tr key=${index}>${row.map((cell, at) => html`<td key=${at}>${cell}</td>`)}</tr>`)}</tbody></table></div>`}`;
  const state = (each) => html`<span class="badge ${each}">${each}</span>`;
  return html`<section class="panel fleet" aria-label=${t("fleet")}>
    <p class="legend">${Object.entries(fleet.states).map(([name, count]) => html`<span key=${name}>${state(name)} ${count}</span>`)}</p>
    ${table(t("workers"), [t("worker"), t("host"), t("running")], fleet.workers.map((each) => [each.name, each.host || t("gone"), each.runs]))}
    ${table(t("queues"), [t("queue"), t("agent"), t("pending"), t("running")], fleet.queues.map((each) => [each.name, each.agents.join(", "), each.pending, each.running]))}
    ${table(t("schedules"), [t("name"), t("agent"), t("when"), t("next")], (planned?.schedules || []).map((each) => [each.name, each.agent, each.cron ? `${each.cron} (${each.timezone})` : seconds(each.every), each.next ? new Date(each.next * 1000).toLocaleString() : t("paused")]))}
    ${table(t("runs"), [t("state"), t("agent"), t("worker"), t("handovers"), t("updated")], fleet.runs.slice(0, 50).map((each) => [state(each.state), each.agent, each.worker, each.handovers || "", new Date(each.updated * 1000).toLocaleTimeString()]))}
  </section>`;
}
