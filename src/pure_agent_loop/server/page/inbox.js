// Pending questions in all conversations, for people who may approve.
import { html } from "./html.js";
import { Asked, Card, Notify } from "./questions.js";
import * as store from "./store.js";
import { t } from "./words.js";

export function Inbox() {
  const waiting = store.waiting.value, known = new Set(store.sessions.value.map((session) => session.id));
  return html`<section class="panel inbox" aria-label=${t("inbox")}>
    ${waiting.length === 0 && html`<p class="dim">${t("inboxEmpty")}</p>`}
    ${waiting.map((question) => html`<div key=${store.callKey(question)}><${Asked} question=${question} isFar />
      <${Card} question=${question} where="inbox" />
      ${known.has(question.session) && html`<button class="link" onClick=${() => store.open(question.session)}>${t("openIt")}</button>`}</div>`)}
    <${Notify} />
  </section>`;
}
