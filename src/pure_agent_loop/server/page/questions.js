// Pending questions as cards: calls to allow or deny, and questions of running tools.
import { html, useState } from "./html.js";
import { Args } from "./call.js";
import * as store from "./store.js";
import { t } from "./words.js";

export function Questions() {
  return html`<div class="questions" role="region" aria-live="polite" aria-label=${t("waiting")}>
    ${store.questions.value.map((question) => html`<${Card} key=${question.call_id} question=${question} />`)}</div>`;
}

// Make long blanks, invisible characters and direction marks visible, so that nothing in a call can be hidden.
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;
function reveal(value) {
  if (typeof value === "string") {
    return value.replace(/[^\S\n]{41,}/g, (run) => `·(${run.length} blanks)·`)
      .replace(HIDDEN, (char) => ("\n\t".includes(char) ? char : `\\u{${char.codePointAt(0).toString(16)}}`));
  }
  if (Array.isArray(value)) return value.map(reveal);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [reveal(name), reveal(item)]));
}

function Card({ question }) {
  const [text, setText] = useState("");
  const isFromTool = question.live; // a running tool asks; otherwise a call waits for approval
  const answer = (verdict, options) => (event) => { event.preventDefault(); store.answer(question, verdict, options); };
  const field = `said-${question.call_id}`;
  if (isFromTool) {
    return html`<form class="card" onSubmit=${answer("allow", { message: text })}>
      <h3>${t("askYou", { tool: question.tool })}</h3>
      <p class="plain">${reveal(question.args.question ?? question.reason)}</p>
      <label for=${field}>${t("answer")}</label>
      <input id=${field} value=${text} onInput=${(event) => setText(event.target.value)} />
      <p class="choices"><button class="primary">${t("reply")}</button> <button type="button" onClick=${answer("deny")}>${t("deny")}</button></p></form>`;
  }
  return html`<section class="card" aria-label=${t("askCall", { tool: question.tool })}>
    <h3>${t("askCall", { tool: question.tool })}</h3>
    ${question.reason && html`<p class="dim plain">${question.reason}</p>`}
    <${Args} args=${reveal(question.args)} />
    ${question.commands.length > 1 && html`<ol class="commands">${question.commands.map((command) => html`<li><code>${reveal(command)}</code></li>`)}</ol>`}
    <label for=${field}>${t("reason")}</label>
    <input id=${field} value=${text} onInput=${(event) => setText(event.target.value)} />
    <p class="choices"><button class="primary" onClick=${answer("allow")}>${t("allowOnce")}</button>
      <button onClick=${answer("allow", { always: true })}>${t("allowAlways")}</button>
      <button class="danger" onClick=${answer("deny", { message: text })}>${t("deny")}</button></p></section>`;
}
