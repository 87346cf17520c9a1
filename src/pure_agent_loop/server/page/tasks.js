// Tasks of subagents as a tree: below each task are the tasks of its subagents.
import { html, useEffect, useState } from "./html.js";
import * as store from "./store.js";
import { api } from "./wire.js";
import { t } from "./words.js";

export function Tasks() {
  const [tasks, setTasks] = useState([]);
  const session = store.current.value;
  useEffect(() => { api("GET", "/api/tasks?limit=200").then((response) => setTasks(response.tasks)).catch(store.showError); }, [session, store.view.value.version.value]);
  const roots = tasks.filter((task) => task.session === session);
  return html`<section class="panel" aria-label=${t("tasks")}><h2>${t("tasks")}</h2>
    ${roots.length === 0 ? html`<p class="dim">${t("noTasks")}</p>` : html`<${Branch} tasks=${roots} all=${tasks} ancestors=${[]} />`}</section>`;
}

function Branch({ tasks, all, ancestors }) {
  return html`<ul class="tasks">${tasks.map((task) => {
    const children = task.own_session && !ancestors.includes(task.id) ? all.filter((other) => other.session === task.own_session) : [];
    return html`<li key=${task.id}><span class="badge ${task.state}">${task.state}</span> ${task.agent}
      <span class="dim">${t("calls", { n: task.calls })} · ${t("tokens", { n: task.tokens.toLocaleString() })}${task.last_tool && !task.ended ? ` · ${task.last_tool}` : ""}</span>
      ${children.length > 0 && html`<${Branch} tasks=${children} all=${all} ancestors=${[...ancestors, task.id]} />`}</li>`;
  })}</ul>`;
}
