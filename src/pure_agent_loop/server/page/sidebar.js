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
      <ul class="sessions">${found.map((each) => html`<${Session} key=${each.id} about=${each} />`)}</ul>
      ${store.moreSessions.value && html`<button onClick=${store.loadMoreSessions}>…</button>`}
    </nav>
    <${Settings} />
  </aside>`;
}

function Session({ about }) {
  const [isAsking, setAsking] = useState(false);
  const isOpen = store.current.value === about.id;
  const state = about.state === "running" ? "running" : about.state.startsWith("waiting") ? "waiting" : "";
  const title = about.title || t("untitled");
  if (isAsking) {
    return html`<li class="asking"><span>${t("deleteSure")}</span>
      <button class="danger" onClick=${() => store.remove(about.id)}>${t("delete")}</button>
      <button onClick=${() => setAsking(false)}>${t("cancel")}</button></li>`;
  }
  return html`<li class=${isOpen ? "open" : ""}>
    <button class="session" aria-current=${isOpen ? "true" : undefined} onClick=${() => store.open(about.id)}>
      ${state && html`<span class="dot ${state}" role="img" aria-label=${t(state)}></span>`}<span class="title">${title}</span></button>
    <button class="icon" aria-label="${t("delete")}: ${title}" onClick=${() => setAsking(true)}>×</button></li>`;
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
