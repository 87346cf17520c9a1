// The sidebar: sessions with search, panels, language, theme and sign-out.
import { html, useState } from "./html.js";
import * as store from "./store.js";
import { language, setLanguage, setTheme, t, theme } from "./words.js";

export function Sidebar() {
  const [query, setQuery] = useState("");
  const word = query.trim().toLowerCase();
  const matches = store.sessions.value.filter((session) => !word || `${session.title} ${session.id}`.toLowerCase().includes(word));
  return html`<aside class="side" aria-label=${t("sessions")} onKeyDown=${(event) => { if (event.key === "Escape") store.sideOpen.value = false; }}>
    <button class="primary new" onClick=${() => { store.fresh(); document.getElementById("message")?.focus(); }}>+ ${t("new")}</button>
    <input type="search" aria-label=${t("search")} placeholder=${t("search")} value=${query} onInput=${(event) => setQuery(event.target.value)} />
    <nav aria-label=${t("sessions")}>
      ${matches.length === 0 && html`<p class="dim">${t("noSessions")}</p>`}
      ${folders(matches).map(([name, members]) => (name === "" ? html`<${List} key="" sessions=${members} />` : html`<details class="folder" key=${name} open><summary>${name} <span class="dim">${members.length}</span></summary><${List} sessions=${members} /></details>`))}
      ${store.moreSessions.value && html`<button onClick=${store.loadMoreSessions}>…</button>`}
    </nav>
    ${store.me.value.engine && store.mayOperate() && html`<${PanelButton} name="fleet" words="fleet" />`}
    ${store.hasServers() && html`<${PanelButton} name="servers" words="mcp" />`}
    <${Settings} />
  </aside>`;
}

const PanelButton = ({ name, words }) => html`<button aria-pressed=${store.panel.value === name} onClick=${() => { store.toggle(name); store.sideOpen.value = false; }}>${t(words)}</button>`;

const List = ({ sessions }) => html`<ul class="sessions">${sessions.map((session) => html`<${Session} key=${session.id} session=${session} />`)}</ul>`;

// Sessions grouped by folder, sorted by name; those without a folder last.
function folders(sessions) {
  const groups = new Map();
  for (const session of sessions) groups.set(session.folder, [...(groups.get(session.folder) || []), session]);
  return [...groups].sort(([one], [other]) => (one === "") - (other === "") || one.localeCompare(other));
}

function Session({ session }) {
  const [isEditing, setEditing] = useState(false);
  const isOpen = store.current.value === session.id;
  const state = session.state === "running" ? "running" : session.state.startsWith("waiting") ? "waiting" : "";
  const title = session.title || t("untitled");
  if (isEditing) {
    const move = (event) => { event.preventDefault(); store.move(session.id, new FormData(event.target).get("folder").trim()); setEditing(false); };
    return html`<li class="asking"><form onSubmit=${move}><label for="folder">${t("folder")}</label>
      <input id="folder" name="folder" maxlength="60" list="folders" value=${session.folder} /><datalist id="folders">${[...new Set(store.sessions.value.map((other) => other.folder))].map((name) => html`<option key=${name} value=${name} />`)}</datalist>
      <button>${t("move")}</button> <button type="button" class="danger" onClick=${() => store.remove(session.id)}>${t("delete")}</button>
      <button type="button" onClick=${() => setEditing(false)}>${t("cancel")}</button></form></li>`;
  }
  return html`<li class=${isOpen ? "open" : ""}>
    <button class="session" aria-current=${isOpen ? "true" : undefined} onClick=${() => store.open(session.id)}>
      ${state && html`<span class="dot ${state}" role="img" aria-label=${t(state)}></span>`}<span class="title">${title}</span></button>
    <button class="icon" aria-label="${t("change")}: ${title}" onClick=${() => setEditing(true)}>⋯</button></li>`;
}

function Settings() {
  return html`<div class="settings">
    <label>${t("language")} <select value=${language.value} onChange=${(event) => setLanguage(event.target.value)}>
      <option value="en" lang="en">English</option><option value="zh" lang="zh-CN">中文</option></select></label>
    <label>${t("theme")} <select value=${theme.value} onChange=${(event) => setTheme(event.target.value)}>
      ${["system", "light", "dark"].map((name) => html`<option value=${name}>${t(name)}</option>`)}</select></label>
    <p class="dim"><span>${store.me.value.name}</span> <button class="link" onClick=${store.logout}>${t("logout")}</button></p>
  </div>`;
}
