// The sessions: search, open, delete; and below them language, theme, and who is here.
import { html, useState } from "./html.js";
import * as store from "./store.js";
import { language, setLanguage, setTheme, t, theme } from "./words.js";

export function Sidebar() {
  const [wanted, setWanted] = useState("");
  const word = wanted.trim().toLowerCase();
  const found = store.sessions.value.filter((each) => !word || `${each.title} ${each.id}`.toLowerCase().includes(word));
  return html`<aside class="side" aria-label=${t("sessions")} onKeyDown=${(event) => { if (event.key === "Escape") store.sideOpen.value = false; }}>
    <button class="primary new" onClick=${() => { store.fresh(); document.getElementById("message")?.focus(); }}>+ ${t("new")}</button>
    <input type="search" aria-label=${t("search")} placeholder=${t("search")} value=${wanted} onInput=${(event) => setWanted(event.target.value)} />
    <nav aria-label=${t("sessions")}>
      ${found.length === 0 && html`<p class="dim">${t("noSessions")}</p>`}
      ${folders(found).map(([name, some]) => (name === "" ? html`<${List} key="" sessions=${some} />` : html`<details class="folder" key=${name} open><summary>${name} <span class="dim">${some.length}</span></summary><${List} sessions=${some} /></details>`))}
      ${store.moreSessions.value && html`<button onClick=${store.loadMoreSessions}>…</button>`}
    </nav>
    ${store.me.value.engine && store.mayOperate() && html`<${Opens} name="fleet" words="fleet" />`}
    ${store.hasServers() && html`<${Opens} name="servers" words="mcp" />`}
    <${Settings} />
  </aside>`;
}

const Opens = ({ name, words }) => html`<button aria-pressed=${store.panel.value === name} onClick=${() => { store.toggle(name); store.sideOpen.value = false; }}>${t(words)}</button>`;

const List = ({ sessions }) => html`<ul class="sessions">${sessions.map((each) => html`<${Session} key=${each.id} about=${each} />`)}</ul>`;

// Folders by name, and behind them what is in none.
function folders(sessions) {
  const found = new Map();
  for (const each of sessions) found.set(each.folder, [...(found.get(each.folder) || []), each]);
  return [...found].sort(([one], [other]) => (one === "") - (other === "") || one.localeCompare(other));
}

function Session({ about }) {
  const [isAsking, setAsking] = useState(false);
  const isOpen = store.current.value === about.id;
  const state = about.state === "running" ? "running" : about.state.startsWith("waiting") ? "waiting" : "";
  const title = about.title || t("untitled");
  if (isAsking) {
    const move = (event) => { event.preventDefault(); store.move(about.id, new FormData(event.target).get("folder").trim()); setAsking(false); };
    return html`<li class="asking"><form onSubmit=${move}><label for="folder">${t("folder")}</label>
      <input id="folder" name="folder" maxlength="60" list="folders" value=${about.folder} /><datalist id="folders">${[...new Set(store.sessions.value.map((each) => each.folder))].map((each) => html`<option key=${each} value=${each} />`)}</datalist>
      <button>${t("move")}</button> <button type="button" class="danger" onClick=${() => store.remove(about.id)}>${t("delete")}</button>
      <button type="button" onClick=${() => setAsking(false)}>${t("cancel")}</button></form></li>`;
  }
  return html`<li class=${isOpen ? "open" : ""}>
    <button class="session" aria-current=${isOpen ? "true" : undefined} onClick=${() => store.open(about.id)}>
      ${state && html`<span class="dot ${state}" role="img" aria-label=${t(state)}></span>`}<span class="title">${title}</span></button>
    <button class="icon" aria-label="${t("change")}: ${title}" onClick=${() => setAsking(true)}>⋯</button></li>`;
}

function Settings() {
  return html`<div class="settings">
    <label>${t("language")} <select value=${language.value} onChange=${(event) => setLanguage(event.target.value)}>
      <option value="en" lang="en">English</option><option value="zh" lang="zh-CN">中文</option></select></label>
    <label>${t("theme")} <select value=${theme.value} onChange=${(event) => setTheme(event.target.value)}>
      ${["system", "light", "dark"].map((each) => html`<option value=${each}>${t(each)}</option>`)}</select></label>
    <p class="dim"><span>${store.me.value.name}</span> <button class="link" onClick=${store.logout}>${t("logout")}</button></p>
  </div>`;
}
