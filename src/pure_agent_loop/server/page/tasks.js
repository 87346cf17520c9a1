// Tasks that agents gave to others, as a tree: below each the tasks that it gave itself.
import { html, useEffect, useState } from "./html.js";
import * as store from "./store.js";
import { api } from "./wire.js";
import { t } from "./words.js";

export function Tasks() {
  const [tasks, setTasks] = useState([]);
  const session = store.current.value;
  useEffect(() => { api("GET", "/api/tasks?limit=200").then((found) => setTasks(found.tasks)).catch(store.tell); }, [session, store.view.value.version.value]);
  const roots = tasks.filter((each) => each.session === session);
  return html`<section class="panel" aria-label=${t("tasks")}><h2>${t("tasks")}</h2>
    ${roots.length === 0 ? html`<p class="dim">${t("noTasks")}</p>` : html`<${Branch} tasks=${roots} all=${tasks} above=${[]} />`}</section>`;
}

function Branch({ tasks, all, above }) {
  return html`<ul class="tasks">${tasks.map((each) => {
    const below = each.own_session && !above.includes(each.id) ? all.filter((one) => one.session === each.own_session) : [];
    return html`<li key=${each.id}><span class="badge ${each.state}">${each.state}</span> ${each.agent}
      <span class="dim">${t("calls", { n: each.calls })} · ${t("tokens", { n: each.tokens.toLocaleString() })}${each.last_tool && !each.ended ? ` · ${each.last_tool}` : ""}</span>
      ${below.length > 0 && html`<${Branch} tasks=${below} all=${all} above=${[...above, each.id]} />`}</li>`;
  })}</ul>`;
}
