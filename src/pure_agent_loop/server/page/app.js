// The page as a whole: sidebar, head, log, composer; or the form to sign in.
import { html, useEffect, useRef, useState } from "./html.js";
import * as store from "./store.js";
import { api, connection } from "./wire.js";
import { t } from "./words.js";
import { Sidebar } from "./sidebar.js";
import { Log } from "./log.js";
import { Composer } from "./composer.js";
import { Timeline } from "./timeline.js";

export function App() {
  if (!store.me.value) return connection.value === "nobody" ? html`<${Login} />` : html`<main class="login"><p>${t("connecting")}</p></main>`;
  return html`<a class="skip" href="#message" onClick=${(event) => { event.preventDefault(); document.getElementById("message").focus(); }}>${t("skip")}</a>
    <div class="page ${store.sideOpen.value ? "side-open" : ""}">
      <${Sidebar} />
      <div class="scrim" onClick=${() => { store.sideOpen.value = false; }}></div>
      <main>
        <${Head} />
        ${store.panel.value === "timeline" && html`<${Timeline} />`}
        ${store.panel.value === "tasks" && html`<${Tasks} />`}
        <${Log} />
        <${Status} />
        <${Composer} />
      </main>
    </div>`;
}

function Login() {
  const [token, setToken] = useState("");
  const enter = (event) => { event.preventDefault(); if (token.trim()) store.login(token.trim()); };
  return html`<main class="login"><form onSubmit=${enter}>
    <img src="/assets/icon.svg" alt="" width="44" height="44" />
    <h1>${t("loginTitle")}</h1><p>${t("loginHint")}</p>
    <label for="token">${t("token")}</label>
    <input id="token" type="password" autocomplete="current-password" value=${token} onInput=${(event) => setToken(event.target.value)} />
    ${store.problem.value && html`<p class="problem" role="alert">${store.problem.value}</p>`}
    <button class="primary">${t("login")}</button></form></main>`;
}

function Head() {
  const session = store.current.value;
  const found = store.sessions.value.find((each) => each.id === session);
  const run = store.view.value.run.value;
  const toggle = (name) => () => { store.panel.value = store.panel.value === name ? "" : name; };
  const undo = async () => {
    const done = await store.undo();
    if (done) store.problem.value = t("undone", { files: [...done.restored, ...done.removed].join(", ") });
  };
  return html`<header>
    <button class="icon menu" aria-label=${t("menu")} aria-expanded=${store.sideOpen.value} onClick=${() => { store.sideOpen.value = !store.sideOpen.value; }}>☰</button>
    <h1 title=${found?.title || ""}>${session ? found?.title || run?.task || t("untitled") : t("new")}</h1>
    ${session && html`<nav class="acts" aria-label=${t("sessions")}>
      <button aria-pressed=${store.panel.value === "timeline"} onClick=${toggle("timeline")}>${t("timeline")}</button>
      <button aria-pressed=${store.panel.value === "tasks"} onClick=${toggle("tasks")}>${t("tasks")}</button>
      <button class="less" onClick=${() => store.fork()}>${t("fork")}</button>
      <button class="less" onClick=${undo}>${t("undo")}</button>
      ${store.me.value.roles.includes("operate") && html`<a class="button less" href="/api/sessions/${session}/export?form=markdown" download>${t("export")}</a>`}
    </nav>`}
  </header>`;
}

function Status() {
  return html`<div class="status">
    ${connection.value === "offline" && html`<p class="offline" role="status">${t("offline")}</p>`}
    ${store.problem.value && html`<p class="problem" role="alert"><span>${store.problem.value}</span>
      <button class="icon" aria-label=${t("close")} onClick=${() => { store.problem.value = ""; }}>×</button></p>`}
    <div class="heard" role="log" aria-live="polite">${store.view.value.said.value}</div>
  </div>`;
}

function Tasks() {
  const [tasks, setTasks] = useState([]);
  const place = useRef(null);
  useEffect(() => { api("GET", "/api/tasks?limit=50").then((found) => setTasks(found.tasks)).catch(store.tell); }, [store.view.value.version.value]);
  return html`<section class="panel" ref=${place} aria-label=${t("tasks")}><h2>${t("tasks")}</h2>
    ${tasks.length === 0 ? html`<p class="dim">${t("noTasks")}</p>` : html`<ul class="tasks">${tasks.map((each) => html`<li key=${each.id}>
      <span class="badge ${each.state}">${each.state}</span> ${each.agent} <span class="dim">${t("tokens", { n: each.tokens })}</span></li>`)}</ul>`}</section>`;
}
