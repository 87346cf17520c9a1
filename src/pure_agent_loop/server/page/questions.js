// Pending questions as cards: calls to allow or deny, and questions from running tools.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Code, iconOf } from "./call.js";
import { Counts, Diff, MAX_ROWS, changeOf } from "./diff.js";
import { Icon } from "./icons.js";
import * as store from "./store.js";
import { clock, hasWord, seconds, subject, t, verb } from "./words.js";

const MAX_TITLE = 48; // characters of what is asked about

// Asks for permission to show notifications, if the browser has no decision yet.
export function Notify() {
  const [allowed, setAllowed] = useState(globalThis.Notification?.permission);
  if (allowed === "default") return html`<button type="button" onClick=${async () => setAllowed(await Notification.requestPermission())}>${t("notify")}</button>`;
  return html`<p class="dim notify">${t(allowed ? `notify_${allowed}` : "notify_denied")}</p>`;
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

// A question on one line: `Run npm test?`; long ones end after a word.
export function questionOf({ title, tool, args, live }) {
  if (title || live) return title || t("askYou", { tool });
  const named = verb(tool), about = subject(reveal(args)), cut = about.length > MAX_TITLE ? `${about.slice(0, MAX_TITLE).replace(/[^\S]+\S*$/, "")}…` : about;
  return named === tool && !changeOf({ tool, args }) ? t("askTool", { tool }) : t("askEdit", { what: `${named} ${cut}` }); // the card has the rest
}

// What an answer may allow besides this call: the button's words, and the fields of the answer.
function kindOf({ tool, rules, origins }) {
  const known = origins.filter((origin) => origin.recipient).map((origin) => reveal(origin.value));
  if (known.length) return [t("allowKnown", { who: known.join(", ") }), { similar: true }];
  if (origins.length) return null; // no answer allows further calls
  const pattern = /=(.*)\)$/.exec(rules[0] ?? "")?.[1], similar = { similar: true };
  if (pattern && tool === "fetch") return [t("allowPages", { host: new URL(pattern).host }), similar];
  if (pattern) return [pattern.endsWith("/*") ? t("allowEdits", { path: reveal(pattern.slice(0, -1)) }) : t("allowEdit", { path: reveal(pattern) }), similar];
  if (tool === "shell") return [t("allowSame"), similar];
  return [hasWord(`allowAll_${tool}`) ? t(`allowAll_${tool}`) : t("allowAll", { tool }), { always: true }];
}

// Where each value comes from, the strange ones first.
const Origins = ({ origins }) => origins.length > 0 && html`<ul class="origins">${origins.map((origin) => {
  const { argument, value, kind, is_strange, source, around } = reveal(origin);
  return html`<li class=${is_strange ? "strange" : "dim"}>${t(`origin_${kind}${is_strange ? "_strange" : ""}`, { argument, value, source })}
    ${is_strange && around && html`<q>${around}</q>`}</li>`;
})}</ul>`;

// Arguments as names and values.
const Facts = ({ args }) => html`<dl>${Object.entries(args).map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${typeof value === "string" ? value : JSON.stringify(value)}</dd></div>`)}</dl>`;

// Who asks, and since when; with `isFar`, also in which conversation, for a card outside of it.
export function Asked({ question, isFar }) {
  const [now, setNow] = useState(Date.now() / 1000);
  useEffect(() => { const timer = setInterval(() => setNow(Date.now() / 1000), 10000); return () => clearInterval(timer); }, []);
  const who = [question.owner !== store.me.value.name && question.owner, question.agent].filter(Boolean).join(" · ");
  const waits = question.asked_at ? t("waitsFor", { time: seconds(Math.max(0, Math.floor(now - question.asked_at))) }) : "";
  const parts = isFar ? [who, t("quoted", { text: question.conversation || t("untitled") }), waits] : [question.owner !== store.me.value.name && who, waits];
  return html`<span class="dim since" title=${question.asked_at && clock(question.asked_at)}>${parts.filter(Boolean).join(" · ")}</span>`;
}

// What a call would do, and its details. Lines that do not fit are counted: the end of a command may be the dangerous part.
// `undrawn` are lines of a long change behind those drawn.
function What({ children, details, undrawn }) {
  const box = useRef(null), [hidden, setHidden] = useState(0), [isWhole, setWhole] = useState(false);
  const measure = () => {
    const content = box.current.firstElementChild, below = content.getBoundingClientRect().bottom - box.current.getBoundingClientRect().bottom;
    const line = parseFloat(getComputedStyle(content.querySelector("pre") ?? content).lineHeight);
    setHidden(below < line / 2 ? 0 : Math.round(below / line) + undrawn);
  };
  useLayoutEffect(() => {
    const sizes = new ResizeObserver(measure);
    for (const element of [box.current, box.current.firstElementChild]) sizes.observe(element);
    return () => sizes.disconnect();
  }, []);
  return html`<div class="what ${isWhole ? "whole" : ""}" ref=${box} onScroll=${measure}><div>${children}</div>${details}</div>
    ${hidden > 0 && html`<button type="button" class="link" onClick=${() => setWhole(true)}>${t("moreRows", { n: hidden })}</button>`}`;
}

export function Card({ question, where = "said" }) {
  const [text, setText] = useState(""), [isDenying, setDenying] = useState(false), [isDetailed, setDetailed] = useState(false);
  const reason = useRef(null), box = useRef(null);
  useEffect(() => { if (isDenying) reason.current?.focus(); }, [isDenying]);
  const answer = (verdict, options) => (event) => { event.preventDefault(); store.answer(question, verdict, options); };
  const field = `${where}-${question.session}-${question.call_id}`, args = reveal(question.args), may = store.mayAnswer(question);
  useLayoutEffect(() => { // takes the focus from nothing and from a message field with nothing to send, and gives it back
    const own = box.current, field = document.getElementById("message"), isFree = [document.body, field].includes(document.activeElement) && !document.querySelector(".composer .primary:enabled");
    if (own && isFree && where === "said") own.focus();
    return () => { if (own && document.activeElement === own) (own.nextElementSibling ?? field)?.focus(); };
  }, []);
  if (question.live) { // a running tool asks; otherwise a call waits for approval
    return html`<form class="card" onSubmit=${answer("allow", { message: text })}>
      <header><${Icon} name="inbox" /><h2>${questionOf(question)}</h2>${where === "said" && html`<${Asked} question=${question} />`}</header>
      <p class="plain">${reveal(question.args.question ?? question.reason)}</p>
      <label for=${field}>${t("answer")}</label>
      <input id=${field} value=${text} onInput=${(event) => setText(event.target.value)} />
      <p class="choices"><button class="primary">${t("reply")}</button> <button type="button" onClick=${answer("deny")}>${t("deny")}</button></p></form>`;
  }
  const change = changeOf({ ...question, args, around: reveal(question.around) }), isCommand = typeof args.command === "string", title = questionOf(question);
  const more = kindOf(question);
  const key = (event) => {
    if (event.target !== event.currentTarget || !may) return;
    if (event.key === "Enter" && !event.repeat) answer("allow")(event);
    if (/^[\p{L}\p{N}]$/u.test(event.key) && !event.ctrlKey && !event.metaKey) document.getElementById("message")?.focus(); // a message begins
    if (event.key === "Escape") { event.preventDefault(); setDenying(true); }
  };
  const details = html`<details onToggle=${(event) => setDetailed(event.target.open)}><summary class="dim">${t("details")}</summary>
    ${isDetailed && html`${question.commands.length > 1 && html`<ol class="commands">${question.commands.map((command) => html`<li><code>${reveal(command)}</code></li>`)}</ol>`}
      <${Code} text=${JSON.stringify(args, null, 2)} language="json" label=${question.tool} />`}</details>`;
  return html`<div class="card" role="group" tabindex="0" ref=${box} aria-label=${title} onKeyDown=${key}>
    <header><${Icon} name=${iconOf(question.tool)} /><h2 title=${title}>${title}</h2>${change && html`<${Counts} change=${change} />`}${where === "said" && html`<${Asked} question=${question} />`}</header>
    ${question.reason && html`<p class="dim why">${t("asksBecause", { why: question.reason })}</p>`}
    <${What} details=${details} undrawn=${Math.max(0, (change?.rows.length ?? 0) - MAX_ROWS)}>
      ${change ? html`<${Diff} change=${change} />` : isCommand ? html`<pre class="command" tabindex="0">${args.command}</pre>` : html`<${Facts} args=${args} />`}
      <${Origins} origins=${question.origins} />
    <//>
    ${!may ? html`<p class="dim">${t("notYours")}</p>`
      : isDenying ? html`<form class="choices" onSubmit=${answer("deny", { message: text })} onKeyDown=${(event) => { if (event.key === "Escape") setDenying(false); }}>
        <label class="heard" for=${field}>${t("instead")}</label>
        <input id=${field} ref=${reason} value=${text} placeholder=${t("instead")} onInput=${(event) => setText(event.target.value)} />
        <button class="danger">${t("deny")}</button><button type="button" onClick=${() => setDenying(false)}>${t("cancel")}</button></form>`
      : html`<p class="choices"><button class="primary" title="Enter" onClick=${answer("allow")}>${t("allow")}</button>
        ${more && html`<button class="wider" title=${question.origins.length ? "" : t("allowAllHint")} onClick=${answer("allow", more[1])}>${more[0]}</button>`}
        <button class="danger" title="Esc" onClick=${() => setDenying(true)}>${t("deny")}</button></p>`}</div>`;
}
