// The conversation. Only the newest items are in the document; earlier ones are added on request.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Blocks } from "./markdown.js";
import * as store from "./store.js";
import { seconds, t } from "./words.js";
import { Call, Files } from "./call.js";
import { Questions } from "./questions.js";

const PAGE = 120, NEAR_END = 80, TOUCH_MS = 500;

export function Log() {
  const view = store.view.value, items = view.items.value;
  const [page, setPage] = useState({ view, shown: PAGE });
  const shown = page.view === view ? page.shown : PAGE;
  const boxRef = useRef(null), isAtEnd = useRef(true), before = useRef(0), last = useRef({ top: 0, height: 0 }), touched = useRef(-1e9);
  const [isAway, setAway] = useState(false);
  const version = view.version.value, questions = store.questions.value.length;
  useLayoutEffect(() => {
    const box = boxRef.current;
    if (before.current) { box.scrollTop += box.scrollHeight - before.current; before.current = 0; }
    else if (isAtEnd.current) box.scrollTop = box.scrollHeight;
  }, [version, questions, shown, view]);
  useEffect(() => { isAtEnd.current = true; boxRef.current.scrollTop = boxRef.current.scrollHeight; setAway(false); }, [view]);
  useEffect(() => { // content grows after it is drawn: highlighted code, images, cards
    const grown = new ResizeObserver(() => { if (isAtEnd.current) boxRef.current.scrollTop = boxRef.current.scrollHeight; });
    grown.observe(boxRef.current.firstElementChild);
    grown.observe(boxRef.current); // a panel makes it smaller
    return () => grown.disconnect();
  }, []);
  const scrolled = () => {
    const box = boxRef.current;
    const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;
    // Follow the end until the person scrolls up. Content that shrinks and grows between two frames also scrolls, but without input.
    const isInput = box.scrollHeight === last.current.height || performance.now() - touched.current < TOUCH_MS;
    if (isNear || (box.scrollTop < last.current.top && isInput)) isAtEnd.current = isNear;
    last.current = { top: box.scrollTop, height: box.scrollHeight };
    if (isAway === isAtEnd.current) setAway(!isAtEnd.current);
  };
  const touch = () => { touched.current = performance.now(); };
  const more = () => { before.current = boxRef.current.scrollHeight; setPage({ view, shown: shown + PAGE }); };
  const end = () => { boxRef.current.scrollTop = boxRef.current.scrollHeight; };
  const isEmpty = items.length === 0 && !store.current.value;
  return html`<div class="log-frame"><section class="log" ref=${boxRef} onScroll=${scrolled} onWheel=${touch} onTouchMove=${touch} onKeyDown=${touch} onPointerDown=${touch} onPointerMove=${touch} tabindex="0" aria-label=${t("log")}>
    <div class="column">
      ${isEmpty && html`<div class="welcome"><img src="assets/icon.svg" alt="" width="56" height="56" /><h2>${t("welcome")}</h2><p>${t("welcomeHint")}</p></div>`}
      ${items.length > shown && html`<button class="earlier" onClick=${more}>${t("earlier")}</button>`}
      ${items.slice(-shown).map((item) => html`<${Item} key=${item.id} item=${item} />`)}
      <${Working} view=${view} />
      <${Questions} />
    </div></section>
    ${isAway && html`<button class="latest" onClick=${end}>↓ ${t("latest")}</button>`}</div>`;
}

function Item({ item }) {
  const rev = item.rev.value; // redraw only this item when it changes
  if (item.kind === "user") return html`<${UserMessage} item=${item} />`;
  if (item.kind === "answer") return html`<article class="item answer ${item.final ? "" : "open"}"><${Markdown} text=${item.text} /></article>`;
  if (item.kind === "reasoning") return html`<details class="item reasoning"><summary>${t("thinking")}${item.ended ? html` <span class="dim">${seconds(item.ended - item.time)}</span>` : ""}</summary><div class="plain">${item.text}</div></details>`;
  if (item.kind === "call") return html`<${Call} item=${item} rev=${rev} />`;
  if (item.kind === "files") return html`<${Files} files=${item.files} />`;
  if (item.kind === "error") return html`<p class="item error" role="alert">${item.plain}</p>`;
  if (item.kind === "end") return html`<${End} item=${item} />`;
  return html`<p class="item note">${item.plain || t(item.text, item.about)}</p>`;
}


function Markdown({ text }) {
  const boxRef = useRef(null), blocks = useRef(null);
  useLayoutEffect(() => {
    blocks.current = blocks.current || new Blocks(boxRef.current);
    blocks.current.draw(text);
  }, [text]);
  return html`<div class="prose" ref=${boxRef}></div>`;
}

function UserMessage({ item }) {
  const [draft, setDraft] = useState(null);
  const canEdit = !item.isSteer && store.current.value;
  if (draft !== null) {
    const resend = (event) => { event.preventDefault(); if (draft.trim()) store.edit(item, draft); };
    return html`<form class="item said editing" onSubmit=${resend}>
      <textarea aria-label=${t("message")} rows="3" value=${draft} onInput=${(event) => setDraft(event.target.value)} ref=${(box) => box && !box.dataset.seen && (box.dataset.seen = "1", box.focus())}></textarea>
      <p><button class="primary">${t("send")}</button> <button type="button" onClick=${() => setDraft(null)}>${t("cancel")}</button></p></form>`;
  }
  return html`<article class="item said ${item.isSteer ? "steer" : ""}" aria-label=${t("you")}><div class="bubble">${item.text}</div>
    ${canEdit && html`<button class="quiet" onClick=${() => setDraft(item.text)}>${t("edit")}</button>`}</article>`;
}

function End({ item }) {
  const parts = [seconds(item.seconds)];
  if (item.steps) parts.push(t("steps", { n: item.steps }));
  if (item.tokens) parts.push(t("tokens", { n: item.tokens.toLocaleString() }));
  if (item.cost) parts.push(`$${item.cost.toFixed(4)}`);
  const isFine = item.state === "completed";
  return html`<p class="item end ${isFine ? "" : "bad"}">${!isFine && html`<strong>${t("ended", { why: item.why || item.state })}</strong> · `}${parts.join(" · ")}</p>`;
}

function Working({ view }) {
  const run = view.run.value;
  view.version.value;
  if (!run || run.state !== "running" || view.open.has("answer")) return null;
  return html`<p class="item working"><span class="pulse" aria-hidden="true"></span>${t("running")}</p>`;
}
