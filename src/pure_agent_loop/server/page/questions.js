// What waits for a person, as cards: calls to allow or deny, and what a tool at work wants to know.
import { html, useState } from "./html.js";
import { Args } from "./call.js";
import * as store from "./store.js";
import { t } from "./words.js";

export function Questions() {
  return html`<div class="questions" role="region" aria-live="polite" aria-label=${t("waiting")}>
    ${store.questions.value.map((each) => html`<${Card} key=${each.call_id} question=${each} />`)}</div>`;
}

// No blanks push anything out of sight, and no sign is without ink or turns a line round.
const HIDDEN = /[\p{C}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800]|(?! )\p{Zs}/gu;
function plainly(value) {
  if (typeof value === "string") {
    return value.replace(/[^\S\n]{41,}/g, (run) => `·(${run.length} blanks)·`)
      .replace(HIDDEN, (sign) => ("\n\t".includes(sign) ? sign : `\\u{${sign.codePointAt(0).toString(16)}}`));
  }
  if (Array.isArray(value)) return value.map(plainly);
  if (value === null || typeof value !== "object") return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [plainly(name), plainly(each)]));
}

function Card({ question }) {
  const [said, setSaid] = useState("");
  const isWish = question.live; // a tool at work asks; the rest are calls that wait for leave
  const answer = (verdict, about) => (event) => { event.preventDefault(); store.answer(question, verdict, about); };
  const field = `said-${question.call_id}`;
  if (isWish) {
    return html`<form class="card" onSubmit=${answer("allow", { message: said })}>
      <h3>${t("askYou", { tool: question.tool })}</h3>
      <p class="plain">${plainly(question.args.question ?? question.reason)}</p>
      <label for=${field}>${t("answer")}</label>
      <input id=${field} value=${said} onInput=${(event) => setSaid(event.target.value)} />
      <p class="choices"><button class="primary">${t("reply")}</button> <button type="button" onClick=${answer("deny")}>${t("deny")}</button></p></form>`;
  }
  return html`<section class="card" aria-label=${t("askCall", { tool: question.tool })}>
    <h3>${t("askCall", { tool: question.tool })}</h3>
    ${question.reason && html`<p class="dim plain">${question.reason}</p>`}
    <${Args} args=${plainly(question.args)} />
    ${question.commands.length > 1 && html`<ol class="commands">${question.commands.map((each) => html`<li><code>${plainly(each)}</code></li>`)}</ol>`}
    <label for=${field}>${t("reason")}</label>
    <input id=${field} value=${said} onInput=${(event) => setSaid(event.target.value)} />
    <p class="choices"><button class="primary" onClick=${answer("allow")}>${t("allowOnce")}</button>
      <button onClick=${answer("allow", { always: true })}>${t("allowAlways")}</button>
      <button class="danger" onClick=${answer("deny", { message: said })}>${t("deny")}</button></p></section>`;
}
