// The whole page: sidebar, header, log, composer; or the sign-in form.
import { html, useEffect, useState } from "./html.js";
import * as store from "./store.js";
import { connection, here, sessionAt } from "./wire.js";
import { t } from "./words.js";
import { Sidebar } from "./sidebar.js";
import { Log } from "./log.js";
import { Composer } from "./composer.js";

// Panels: file and export, loaded on first use.
const PANELS = { timeline: ["timeline", "Timeline"], tasks: ["tasks", "Tasks"], operator: ["operator", "Operator"], fleet: ["operator", "Fleet"], servers: ["servers", "Servers"] };
const WITHOUT_SESSION = ["fleet", "servers"];

function Panel({ name }) {
  const [loaded, setLoaded] = useState(null), [file, part] = PANELS[name];
  useEffect(() => {
    let isMounted = true;
    import(`./${file}.js`).then((module) => isMounted && setLoaded({ component: module[part] }), store.showError);
    return () => { isMounted = false; };
  }, []);
  return loaded && html`<${loaded.component} />`;
}

export function App() {
  const name = store.panel.value, isShown = name && (store.current.value || WITHOUT_SESSION.includes(name));
  if (!store.me.value) return connection.value === "signedOut" ? html`<${Login} />` : html`<main class="login"><p>${t("connecting")}</p></main>`;
  return html`<a class="skip" href="#message" onClick=${(event) => { event.preventDefault(); document.getElementById("message").focus(); }}>${t("skip")}</a>
    <div class="page ${store.sideOpen.value ? "side-open" : ""}">
      <${Sidebar} />
      <div class="scrim" onClick=${() => { store.sideOpen.value = false; }}></div>
      <main>
        <${Head} />
        ${isShown && html`<${Panel} key=${name} name=${name} />`}
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
    <img src="assets/icon.svg" alt="" width="44" height="44" />
    <h1>${t("loginTitle")}</h1><p>${t("loginHint")}</p>
    <label for="token">${t("token")}</label>
    <input id="token" type="password" autocomplete="current-password" value=${token} onInput=${(event) => setToken(event.target.value)} />
    ${store.problem.value && html`<p class="problem" role="alert">${store.problem.value}</p>`}
    <button class="primary">${t("login")}</button></form></main>`;
}

function Head() {
  const session = store.current.value;
  const info = store.sessions.value.find((other) => other.id === session);
  const run = store.view.value.run.value;
  const undo = async () => {
    const report = await store.undo();
    if (report) store.problem.value = t("undone", { files: [...report.restored, ...report.removed].join(", ") });
  };
  return html`<header>
    <button class="icon menu" aria-label=${t("menu")} aria-expanded=${store.sideOpen.value} onClick=${() => { store.sideOpen.value = !store.sideOpen.value; }}>☰</button>
    <h1 title=${info?.title || ""}>${session ? info?.title || run?.task || t("untitled") : t("new")}</h1>
    ${session && html`<nav class="acts" aria-label=${t("sessions")}>
      ${["timeline", "tasks", ...(store.mayOperate() ? ["operator"] : [])].map((panel) => html`<button key=${panel} aria-pressed=${store.panel.value === panel} onClick=${() => store.toggle(panel)}>${t(panel)}</button>`)}
      <button class="less" onClick=${() => store.fork()}>${t("fork")}</button>
      <button class="less" onClick=${undo}>${t("undo")}</button>
      ${store.mayOperate() && html`<a class="button less" href=${here(`${sessionAt(session)}/export?form=markdown`)} download>${t("export")}</a>`}
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
