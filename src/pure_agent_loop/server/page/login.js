// The form for signing in.
import { html, useState } from "./html.js";
import * as store from "./store.js";
import { t } from "./words.js";

export function Login() {
  const [token, setToken] = useState("");
  const enter = (event) => { event.preventDefault(); if (token.trim()) store.login(token.trim()); };
  return html`<form onSubmit=${enter}>
    <img src="assets/icon.svg" alt="" width="44" height="44" />
    <h1>${t("loginTitle")}</h1><p>${t("loginHint")}</p>
    <label for="token">${t("token")}</label>
    <input id="token" type="password" autocomplete="current-password" value=${token} onInput=${(event) => setToken(event.target.value)} />
    ${store.problem.value && html`<p class="problem" role="alert">${store.problem.value}</p>`}
    <button class="primary">${t("login")}</button></form>`;
}
