// The page as a whole: sidebar, head, log, composer; or the form to sign in.
import { html, useEffect, useState } from "./html.js";
import * as store from "./store.js";
import { connection } from "./wire.js";
import { t } from "./words.js";
import { Sidebar } from "./sidebar.js";
import { Log } from "./log.js";
import { Composer } from "./composer.js";

// Panels: the file and what of it; it is loaded when it is opened.
const PANELS = { timeline: ["timeline", "Timeline"], tasks: ["tasks", "Tasks"], operator: ["operator", "Operator"], fleet: ["operator", "Fleet"], servers: ["servers", "Servers"] };
const OF_NO_SESSION = ["fleet", "servers"];

function Panel({ name }) {
  const [found, setFound] = useState(null), [file, part] = PANELS[name];
  useEffect(() => {
    let isHere = true;
    import(`./${file}.js`).then((module) => isHere && setFound({ shown: module[part] }), store.tell);
    return () => { isHere = false; };
  }, []);
  return found && html`<${found.shown} />`;
}

export function App() {
  const name = store.panel.value, isShown = name && (store.current.value || OF_NO_SESSION.includes(name));
  if (!store.me.value) return connection.value === "nobody" ? html`<${Login} />` : html`<main class="login"><p>${t("connecting")}</p></main>`;
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
  const undo = async () => {
    const done = await store.undo();
    if (done) store.problem.value = t("undone", { files: [...done.restored, ...done.removed].join(", ") });
  };
  return html`<header>
    <button class="icon menu" aria-label=${t("menu")} aria-expanded=${store.sideOpen.value} onClick=${() => { store.sideOpen.value = !store.sideOpen.value; }}>☰</button>
    <h1 title=${found?.title || ""}>${session ? found?.title || run?.task || t("untitled") : t("new")}</h1>
    ${session && html`<nav class="acts" aria-label=${t("sessions")}>
      ${["timeline", "tasks", ...(store.mayOperate() ? ["operator"] : [])].map((each) => html`<button key=${each} aria-pressed=${store.panel.value === each} onClick=${() => store.toggle(each)}>${t(each)}</button>`)}
      <button class="less" onClick=${() => store.fork()}>${t("fork")}</button>
      <button class="less" onClick=${undo}>${t("undo")}</button>
      ${store.mayOperate() && html`<a class="button less" href="/api/sessions/${session}/export?form=markdown" download>${t("export")}</a>`}
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
