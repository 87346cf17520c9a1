// The whole page: sidebar, header, log, composer; or the sign-in form.
import { Lazy, html, useEffect, useModule, useState } from "./html.js";
import * as store from "./store.js";
import { connection, here, sessionAt } from "./wire.js";
import { t } from "./words.js";
import { Sidebar } from "./sidebar.js";
import { Log } from "./log.js";
import { Composer } from "./composer.js";
import { Icon } from "./icons.js";
import { Menu } from "./menu.js";

// Panels: file and export, loaded on first use.
const PANELS = { login: ["login", "Login"], timeline: ["timeline", "Timeline"], tasks: ["tasks", "Tasks"], operator: ["operator", "Operator"], audit: ["operator", "Audit"], fleet: ["operator", "Fleet"], servers: ["servers", "Servers"], inbox: ["inbox", "Inbox"], time: ["time", "Time"] };
const OF_SESSION = ["timeline", "operator", "tasks", "audit"]; // tabs of one drawer
const FOR_OPERATORS = ["operator", "audit"];
const TITLES = { fleet: "operate", servers: "mcp", inbox: "inbox" };

const Panel = ({ name }) => html`<${Lazy} file=${PANELS[name][0]} part=${PANELS[name][1]} />`;

// The open dialog.
function Dialog() {
  const asked = store.dialog.value, known = useModule("dialogs", Boolean(asked));
  return asked && known && html`<${known.DIALOGS[asked.name]} key=${asked.name} ...${asked} />`;
}

// Pending questions. The region is there before them, so that a screen reader reads them out.
function Questions() {
  const asked = store.questions.value, known = useModule("questions", asked.length > 0);
  return html`<div class="questions" role="region" aria-live="polite" aria-label=${store.stateWord("waiting")}>
    ${known && asked.map((question) => html`<${known.Card} key=${question.call_id} question=${question} />`)}</div>`;
}

// Keys that work everywhere on the page.
function pressed(event) {
  const isText = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName), ask = (name) => { event.preventDefault(); store.dialog.value = store.dialog.value ? null : { name }; };
  if (!store.me.value || !store.mayUse() || event.isComposing) return;
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k") ask("palette");
  else if (event.key === "?" && !isText) ask("keys");
}

// A panel next to the conversation; the panels of a session share tabs.
function Drawer({ name }) {
  const tabs = OF_SESSION.filter((tab) => !FOR_OPERATORS.includes(tab) || store.mayOperate());
  return html`<div class="drawer" onKeyDown=${(event) => { if (event.key === "Escape") store.panel.value = ""; }}>
    <div class="drawer-head">${OF_SESSION.includes(name) ? tabs.map((tab) => html`<button key=${tab} aria-pressed=${tab === name} onClick=${() => { store.panel.value = tab; }}>${t(tab)}</button>`) : html`<strong>${t(TITLES[name])}</strong>`}
      <span class="grow"></span><button class="icon" aria-label=${t("close")} onClick=${() => { store.panel.value = ""; }}><${Icon} name="close" /></button></div>
    <${Panel} key=${name} name=${name} /></div>`;
}

export function App() {
  useEffect(() => { addEventListener("keydown", pressed); return () => removeEventListener("keydown", pressed); }, []);
  const name = store.panel.value, isPlace = store.isPlace(name), isDrawer = name && !isPlace && (store.current.value || !OF_SESSION.includes(name));
  if (connection.value === "signedOut") return html`<main class="login"><${Panel} key="login" name="login" /></main>`;
  if (!store.me.value) return html`<main class="login"><p>${t("connecting")}</p></main>`;
  const isFresh = store.isFresh(), { items, earlier } = store.view.value, hasSteps = earlier > 0 || items.value.filter((item) => ["call", "answer"].includes(item.kind)).length > 1;
  return html`<${Dialog} />${!isPlace && html`<a class="skip" href="#message" onClick=${(event) => { event.preventDefault(); document.getElementById("message")?.focus(); }}>${t("skip")}</a>`}
    <div class="page ${store.sideOpen.value ? "side-open" : ""} ${isDrawer ? "with-drawer" : ""}">
      <${Sidebar} />
      <div class="scrim" onClick=${() => { store.sideOpen.value = false; }}></div>
      <main class=${isFresh && !isPlace ? "fresh" : ""}>
        <${Head} place=${isPlace ? TITLES[name] : ""} />
        ${isPlace ? html`<${Panel} key=${name} name=${name} /><${Status} />` : html`${!isFresh && html`<div class="time-line">${store.current.value && hasSteps && html`<${Panel} key=${store.current.value} name="time" />`}</div>`}<${Log} /><${Status} /><${Questions} /><${Composer} />`}
      </main>
      ${isDrawer && html`<${Drawer} name=${name} />`}
    </div>`;
}

// The title of the open conversation; a click renames it.
function Title({ session, title }) {
  const [isEditing, setEditing] = useState(false);
  if (!isEditing) return html`<button class="title" title=${`${title}: ${t("rename")}`} onClick=${() => setEditing(true)}><span>${title}</span></button>`;
  const save = (event) => {
    const name = event.target.value.trim();
    setEditing(false);
    if (name !== title) store.rename(session, name);
  };
  const key = (event) => { if (event.key === "Enter") event.target.blur(); if (event.key === "Escape") { event.target.value = title; event.target.blur(); } };
  return html`<input aria-label=${t("title")} maxlength="200" defaultValue=${title} onBlur=${save} onKeyDown=${key} ref=${(box) => box && document.activeElement !== box && box.select()} />`;
}

function Head({ place }) {
  const session = store.current.value, run = store.view.value.run.value;
  const info = store.infoOf(session);
  const title = place ? t(place) : session ? store.titleOf(session) || t("untitled") : t("new");
  const waits = store.waiting.value.length, about = [store.agents.value.length > 1 && run?.agent, run?.modelName].filter(Boolean).join(" · ");
  const isInspected = OF_SESSION.includes(store.panel.value);
  return html`<header>
    <button class="icon menu" aria-label=${t("menu")} aria-expanded=${store.sideOpen.value} onClick=${() => { store.sideOpen.value = !store.sideOpen.value; }}><${Icon} name="menu" /></button>
    <h1>${session && !place ? html`<${Title} key=${`${session} ${title}`} session=${session} title=${title} />` : title}</h1>
    ${!place && session && about && html`<span class="dim about">${about}</span>`}<span class="grow"></span>
    ${waits > 0 && store.mayApprove() && html`<button class="waits" aria-label=${t("nWaiting", { n: waits })} aria-pressed=${store.panel.value === "inbox"} onClick=${() => { store.panel.value = "inbox"; }}><${Icon} name="inbox" /> <span class="wide">${t("nWaiting", { n: waits })}</span><span class="narrow">${waits}</span></button>`}
    ${session && !place && html`<button class="icon wide" aria-label=${t("inspect")} title=${t("inspect")} aria-pressed=${isInspected} onClick=${() => { store.panel.value = isInspected ? "" : "timeline"; }}><${Icon} name="chart" /></button>
    <${Menu} label=${t("more")}>
      <button class="narrow" onClick=${() => { store.panel.value = "timeline"; }}><${Icon} name="chart" /> ${t("inspect")}</button>
      <button onClick=${() => store.later.fork()}><${Icon} name="fork" /> ${t("fork")}</button>
      ${store.canUndo() && html`<button onClick=${store.later.undo}><${Icon} name="undo" /> ${t("undo")}</button>`}
      ${store.mayOperate() && ["markdown", "html"].map((form) => html`<a class="button" key=${form} href=${here(`${sessionAt(session)}/export?form=${form}`)} download><${Icon} name="download" /> ${t("export")} (${form === "html" ? "HTML" : "Markdown"})</a>`)}
      ${store.me.value.share && html`<button onClick=${() => { store.dialog.value = { name: "share", session }; }}><${Icon} name="globe" /> ${t("share")}…</button>`}
      <hr /><button class="danger" onClick=${() => store.change("delete", info ?? { id: session, title, folder: "" })}><${Icon} name="trash" /> ${t("delete")}…</button>
    <//>`}
  </header>`;
}

function Status() {
  return html`<div class="status">
    ${connection.value === "offline" && html`<p class="offline" role="status">${t("offline")}</p>`}
    ${store.problem.value && html`<p class="problem" role="alert"><span>${store.problem.value}</span>
      <button class="icon" aria-label=${t("close")} onClick=${() => { store.problem.value = ""; }}><${Icon} name="close" /></button></p>`}
    ${store.note.value && html`<p class="quiet-note" role="status"><span>${store.note.value}</span>
      <button class="icon" aria-label=${t("close")} onClick=${() => { store.note.value = ""; }}><${Icon} name="close" /></button></p>`}
    <div class="heard" role="log" aria-live="polite">${store.view.value.said.value}</div>
  </div>`;
}
