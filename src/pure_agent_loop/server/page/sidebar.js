// The sidebar: sessions with search, panels, and the settings' button.
import { html, useRef, useState } from "./html.js";
import { Menu } from "./menu.js";
import { Icon } from "./icons.js";
import * as store from "./store.js";
import { ago, t } from "./words.js";

const SEARCH_MS = 200;

export function Sidebar() {
  const [query, setQuery] = useState(""), words = query.trim(), due = useRef(0), found = store.search.value;
  const typed = (event) => {
    setQuery(event.target.value);
    clearTimeout(due.current);
    due.current = setTimeout(store.find, event.target.value.trim() ? SEARCH_MS : 0, event.target.value.trim());
  };
  const here = (session) => session.title.toLowerCase().includes(words.toLowerCase()) || session.id === words;
  const matches = !words ? store.sessions.value : found?.words === words ? found.sessions : store.sessions.value.filter(here);
  const pinned = matches.filter((session) => session.pinned), others = matches.filter((session) => !session.pinned);
  return html`<aside class="side" aria-label=${t("sessions")} onKeyDown=${(event) => { if (event.key === "Escape") store.sideOpen.value = false; }}>
    ${!store.mayUse() ? html`<span class="grow"></span>` : html`<button class="primary new" onClick=${() => { store.fresh(); document.getElementById("message")?.focus(); }}><${Icon} name="plus" /> ${t("new")}</button>
    <input type="search" aria-label=${t("search")} placeholder=${t("search")} value=${query} onInput=${typed} />
    <nav aria-label=${t("sessions")}>
      ${words ? html`<p class="dim found" role="status">${matches.length || found?.words !== words ? t("nFound", { n: matches.length, query: words }) : t("noMatch", { query: words })}</p><${List} sessions=${matches} />`
      : html`${matches.length === 0 && html`<p class="dim found">${t("noSessions")}</p>`}
        ${pinned.length > 0 && html`<section><h2 class="day">${t("pinned")}</h2><${List} sessions=${pinned} /></section>`}
        ${folders(others).map(([name, members]) => (name === "" ? dated(members).map(([day, those]) => html`<section key=${day}><h2 class="day">${t(day)}</h2><${List} sessions=${those} /></section>`) : html`<details class="folder" key=${name} open><summary>${name} <span class="dim">${members.length}</span></summary><${List} sessions=${members} /></details>`))}
        ${store.moreSessions.value && html`<button class="link" onClick=${store.loadMoreSessions}>${t("showMore")}</button>`}`}
    </nav>`}
    ${store.mayApprove() && html`<${PlaceButton} name="inbox" words="inbox" icon="inbox" count=${store.waiting.value.length} />`}
    ${store.me.value.engine && store.mayOperate() && html`<${PlaceButton} name="fleet" words="operate" icon="server" />`}
    ${store.hasServers() && html`<${PlaceButton} name="servers" words="mcp" icon="tool" />`}
    <${Settings} />
  </aside>`;
}

const PlaceButton = ({ name, words, icon, count }) => html`<button class="place" aria-pressed=${store.panel.value === name} onClick=${() => { if (store.mayUse()) store.toggle(name); store.sideOpen.value = false; }}><${Icon} name=${icon} /> ${t(words)}${count ? html` <span class="count">${count}</span>` : ""}</button>`;

const List = ({ sessions }) => html`<ul class="sessions">${sessions.map((session) => html`<${Session} key=${session.id} session=${session} />`)}</ul>`;

// Sessions grouped by folder, sorted by name; those without a folder last.
function folders(sessions) {
  const groups = new Map();
  for (const session of sessions) groups.set(session.folder, [...(groups.get(session.folder) || []), session]);
  return [...groups].sort(([one], [other]) => (one === "") - (other === "") || one.localeCompare(other));
}

// Sessions grouped by the day of their last use.
function dated(sessions) {
  const today = new Date().setHours(0, 0, 0, 0) / 1000, groups = { today: [], yesterday: [], before: [] };
  for (const session of sessions) groups[session.updated >= today ? "today" : session.updated >= today - 86400 ? "yesterday" : "before"].push(session);
  return Object.entries(groups).filter(([, members]) => members.length);
}

function Session({ session }) {
  const isOpen = [session.id, ...session.versions].includes(store.current.value);
  const state = session.state === "running" ? "running" : session.state.startsWith("waiting") ? "waiting" : "";
  const title = session.title || t("untitled"), change = (what) => () => store.change(what, session);
  return html`<li class=${isOpen ? "open" : ""}>
    <a class="session" title="${title} · ${ago(session.updated)}" href=${store.addressOf(session.id)} aria-current=${isOpen ? "page" : undefined} onClick=${(event) => { if (event.ctrlKey || event.metaKey || event.shiftKey) return; event.preventDefault(); store.open(session.id); }}>
      ${state && html`<span class="dot ${state}" role="img" aria-label=${store.stateWord(state)}></span>`}<span class="title">${title}${session.found && html`<span class="dim">${session.found}</span>`}</span></a>
    <${Menu} label="${t("change")}: ${title}">
      <button onClick=${change("title")}><${Icon} name="pencil" /> ${t("rename")}</button>
      <button onClick=${() => store.pin(session.id, !session.pinned)}><${Icon} name="pin" /> ${t(session.pinned ? "unpin" : "pin")}</button>
      <button onClick=${change("folder")}><${Icon} name="folder" /> ${t("moveTo")}</button>
      <hr /><button class="danger" onClick=${change("delete")}><${Icon} name="trash" /> ${t("delete")}…</button>
    <//></li>`;
}

function Settings() {
  return html`<div class="settings"><span class="name">${store.me.value.name}</span>
    <button class="icon" aria-label=${t("settings")} title=${t("settings")} onClick=${() => { store.dialog.value = { name: "settings" }; }}><${Icon} name="gear" /></button></div>`;
}
