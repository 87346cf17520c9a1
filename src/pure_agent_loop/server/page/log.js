// The conversation. Only the newest items are in the document; earlier ones are added on request.
import { html, useEffect, useLayoutEffect, useRef, useState } from "./html.js";
import { Blocks } from "./markdown.js";
import { Sent, withFiles, withoutFiles } from "./sent.js";
import { giveBack, outbox, send, waitingIn } from "./outbox.js";
import * as store from "./store.js";
import { connection } from "./wire.js";
import { hasWord, inLanguage, money, seconds, t } from "./words.js";
import { Call, Calls, Clock, isSettled } from "./call.js";
import { Icon } from "./icons.js";

const history = store.later;
const MIN_FOLDED = 3; // settled calls in a row
const PAGE = 120, NEAR_END = 80, NEAR_TOP = 400, TOUCH_MS = 500;

export function Log() {
  const view = store.view.value, items = upTo(store.past.value, view.items.value);
  const [page, setPage] = useState({ view, shown: PAGE });
  const shown = page.view === view ? page.shown : PAGE;
  const boxRef = useRef(null), isAtEnd = useRef(true), before = useRef(0), last = useRef({ top: 0, height: 0 }), touched = useRef(-1e9);
  const sent = store.sent.value, lastSent = useRef(sent);
  const [isAway, setAway] = useState(false), [room, setRoom] = useState({}); // a view, and the turn after which its newest turn has room below
  const turns = inTurns(items, items.length - shown), newest = turns.at(-1)?.[0] ?? 0, hasRoom = room.view === view && newest > room.after;
  const version = view.version.value, questions = store.questions.value.length, run = view.run.value; // redrawn when it ends
  useLayoutEffect(() => {
    const box = boxRef.current;
    if (before.current) { box.scrollTop += box.scrollHeight - before.current; before.current = 0; }
    else if (isAtEnd.current) box.scrollTop = box.scrollHeight;
  }, [version, questions, shown, view, run, hasRoom, outbox.value]);
  useLayoutEffect(() => {
    if (sent === lastSent.current) return;
    lastSent.current = sent;
    isAtEnd.current = true;
    setRoom((before) => (before.view === view ? before : { view, after: Math.max(newest, 1) })); // one's own message goes up, the answer grows below
  }, [sent]);
  useEffect(() => { isAtEnd.current = true; boxRef.current.scrollTop = boxRef.current.scrollHeight; setAway(false); }, [view]);
  useEffect(() => { // content grows after it is drawn: highlighted code, images, cards
    const grown = new ResizeObserver(() => { if (isAtEnd.current && boxRef.current) boxRef.current.scrollTop = boxRef.current.scrollHeight; });
    grown.observe(boxRef.current.firstElementChild);
    grown.observe(boxRef.current); // a panel makes the box smaller
    return () => grown.disconnect();
  }, []);
  const scrolled = () => {
    const box = boxRef.current;
    if (!box) return; // removed in the meantime
    const isNear = box.scrollHeight - box.scrollTop - box.clientHeight < NEAR_END;
    // Follow the end until the person scrolls up. Content that shrinks and grows between two frames also scrolls, but without input.
    const isInput = box.scrollHeight === last.current.height || performance.now() - touched.current < TOUCH_MS;
    if (isNear || (box.scrollTop < last.current.top && isInput)) isAtEnd.current = isNear;
    last.current = { top: box.scrollTop, height: box.scrollHeight };
    if (isAway === isAtEnd.current) setAway(!isAtEnd.current);
    if (box.scrollTop < NEAR_TOP && performance.now() - touched.current < TOUCH_MS && !isAtEnd.current && (items.length > shown || view.earlier > 0) && !before.current) more();
  };
  const touch = () => { touched.current = performance.now(); };
  const more = async () => { // earlier messages: from here, else from the server
    const count = view.items.value.length;
    if (count <= shown) await (await import("./records.js")).loadEarlier();
    if (!boxRef.current) return;
    before.current = boxRef.current.scrollHeight;
    setPage({ view, shown: shown + PAGE });
  };
  const end = () => { boxRef.current.scrollTop = boxRef.current.scrollHeight; };
  useEffect(() => { if (store.past.value && !items.length && view.earlier > 0) more(); }); // the step that is looked at is not here yet
  const isEmpty = store.isFresh();
  return html`<div class="log-frame"><section class="log" ref=${boxRef} onScroll=${scrolled} onWheel=${touch} onTouchMove=${touch} onKeyDown=${touch} onPointerDown=${touch} onPointerMove=${touch} tabindex="0" aria-label=${t("log")}>
    <div class="column">
      ${isEmpty && html`<div class="welcome"><img src="assets/icon.svg" alt="" width="56" height="56" /><h2>${t("welcome")}</h2>
        <p>${store.agents.value.find((agent) => agent.name === store.agent.value)?.description || t("welcomeHint")}</p>
        ${store.starters().length > 0 && html`<ul class="starters">${store.starters().map((task) => html`<li key=${task}><button onClick=${() => send(task, [])}>${task}</button></li>`)}</ul>`}</div>`}
      ${(items.length > shown || view.earlier > 0) && html`<button class="earlier" onClick=${more}>${t("earlier")}</button>`}
      ${turns.map(([number, members]) => html`<div key=${number} class="turn ${hasRoom && number === newest ? "newest" : ""}">
        ${grouped(members).map((item) => (Array.isArray(item) ? html`<${Calls} key=${`calls-${item[0].id}`} items=${item} />` : html`<${Item} key=${item.id} item=${item} />`))}
        ${number === newest && html`<${Working} view=${view} /><${Unsent} view=${view} />`}</div>`)}
      ${!turns.length && html`<${Unsent} view=${view} />`}
    </div></section>
    ${isAway && html`<button class="latest" onClick=${end}>↓ ${t("latest")}</button>`}</div>`;
}

// The items until the end of the step that the time line shows. Live items count the steps of their run, others those of the session.
function upTo(past, items) {
  if (!past) return items;
  const isTask = (item) => item.kind === "user" && !item.isSteer, last = items.filter(isTask).length - past.later;
  let turn = 0;
  const end = items.findIndex((item) => {
    if (isTask(item)) turn++;
    return turn > last || (turn === last && item.step > (String(item.run).startsWith("entry ") ? past.step : past.own));
  });
  return end < 0 ? items : items.slice(0, end);
}

// Items from an index on, in turns: a message and what follows it. Pairs of the message's id and its items.
function inTurns(items, from) {
  const turns = [];
  let number = 0;
  items.forEach((item, at) => {
    const begins = item.kind === "user" && !item.isSteer;
    if (begins) number = item.id;
    if (at < from) return;
    if (begins || !turns.length) turns.push([number, []]);
    turns.at(-1)[1].push(item);
  });
  return turns;
}

// Groups settled calls in a row into lists. Running calls, the newest call and calls that a person answered stay in view.
function grouped(items) {
  const out = [];
  let row = [];
  const close = (isEnd) => { out.push(...(row.length >= MIN_FOLDED && !isEnd ? [row] : row)); row = []; };
  for (const item of items) {
    if (item.kind === "call" && isSettled(item) && !item.by && item.tool !== "todo_write") { row.push(item); continue; }
    close(false);
    out.push(item);
  }
  close(store.isRunning(store.view.value.run.value));
  return out;
}

export function Item({ item }) {
  const rev = item.rev.value; // redraw only this item when it changes
  if (item.kind === "user") return html`<${UserMessage} item=${item} rev=${rev} />`;
  if (item.kind === "answer") return html`<h3 class="heard">${agentName()}</h3><article class="item answer ${item.final ? "" : "open"}" aria-label=${agentName()}><${Markdown} text=${item.text} />${item.isLast && html`<${Actions} item=${item} />`}</article>`;
  if (item.kind === "reasoning") return html`<details class="item reasoning"><summary>${!item.final && item.seconds === undefined ? html`${t("thinking")}… <${Clock} since=${item.time} />` : item.seconds >= 1 ? t("thoughtFor", { time: seconds(Math.round(item.seconds)) }) : t("thought")}</summary><div class="plain">${item.text}</div></details>`;
  if (item.kind === "call") return html`<${Call} item=${item} rev=${rev} />`;
  if (item.kind === "error") return html`<${Failure} item=${item} />`;
  if (item.kind === "retry") return html`<${Retry} item=${item} />`;
  if (item.kind === "start") return html`<details class="item note"><summary>${t("startNotes")}</summary><p class="plain">${item.plain}</p></details>`;
  if (item.kind === "end") return html`<${End} item=${item} />`;
  return html`<p class="item note">${item.plain || t(item.text, item.about)}</p>`;
}

const agentName = () => store.view.value.run.value?.agent || store.agent.value;

// What failed, what to do, and the details folded.
function Failure({ item }) {
  const title = inLanguage(item.title), fix = inLanguage(item.fix);
  return html`<div class="item error" role="alert"><div><p>${title || item.plain}</p>${fix && html`<p class="fix">${fix}</p>`}
    ${title && item.plain && html`<details><summary>${t("details")}</summary><p class="plain">${item.plain}</p></details>`}</div>
    ${isNewest(item) && html`<button onClick=${() => history.retry(item)}>${t("tryAgain")}</button>`}</div>`;
}

// Counts down to the next attempt, and is gone when it begins; without a delay, it says what was tried again.
function Retry({ item }) {
  const [now, setNow] = useState(() => Date.now() / 1000), why = inLanguage(item.title) || item.plain;
  const left = Math.min(item.until - now, item.delay), isCounting = left > 0 && store.isOpen(store.view.value.run.value);
  useEffect(() => {
    const timer = isCounting && setInterval(() => setNow(Date.now() / 1000), 500);
    return () => clearInterval(timer);
  }, [isCounting]);
  if (item.delay && !isCounting) return null;
  return html`<p class="item note ${item.delay ? "retry" : ""}">${item.delay ? t("retry", { ...item, why, seconds: seconds(Math.ceil(left)) }) : why}</p>`;
}

const isNewest = (item) => !store.isOpen(store.view.value.run.value) && store.current.value && store.view.value.items.value.slice(-3).includes(item);

// Actions on an answer.
function Actions({ item }) {
  const [isCopied, setCopied] = useState(false);
  const copy = async () => { try { await navigator.clipboard.writeText(item.text); setCopied(true); setTimeout(() => setCopied(false), 1500); } catch { /* not allowed */ } };
  const act = (name, words, run) => html`<button class="icon" aria-label=${words} title=${words} onClick=${run}><${Icon} name=${name} /></button>`;
  return html`<div class="actions">${act(isCopied ? "check" : "copy", t(isCopied ? "copied" : "copyAnswer"), copy)}
    ${store.current.value && html`${act("retry", t("retryIt"), () => history.retry(item))}${act("fork", t("forkHere"), () => history.forkAfter(item))}`}</div>`;
}

function Markdown({ text }) {
  const boxRef = useRef(null), blocks = useRef(null);
  useLayoutEffect(() => {
    blocks.current = blocks.current || new Blocks(boxRef.current);
    blocks.current.draw(text);
  }, [text]);
  return html`<div class="prose" ref=${boxRef}></div>`;
}

// Messages that wait: taken by a run and not yet read, or not yet sent.
function Unsent({ view }) {
  view.version.value;
  const own = waitingIn(store.current.value), known = own.map((entry) => entry.isTaken && entry.text);
  const foreign = view.steered.filter(({ text }) => { const at = known.indexOf(text); if (at >= 0) known[at] = null; return at < 0; });
  return html`${foreign.map((item, at) => html`<${Bubble} key=${at} text=${item.text} why="toBeRead" />`)}
    ${own.map((entry) => html`<${Bubble} key=${entry.key} text=${entry.text} media=${entry.media} why=${entry.isTaken ? "toBeRead" : entry.isAsked && connection.value === "open" ? "" : "toBeSent"} back=${!entry.isAsked && !entry.run && (() => giveBack(entry))} />`)}`;
}

// The text of a message in its bubble, with what was sent with it.
function Said({ text, media }) {
  const sent = withoutFiles(text);
  return html`<div class="bubble"><${Sent} media=${[...(media ?? []), ...sent.files]} /><span>${sent.text}</span></div>`;
}

function Bubble({ text, media, why, back }) {
  return html`<article class="item said ${why ? "unsent" : ""}" aria-label=${t("you")}><${Said} text=${text} media=${media} />
    ${why && html`<p class="dim" role="status">${t(why)}${back && html` · <button class="link" onClick=${back}>${t("takeBack")}</button>`}</p>`}</article>`;
}

function UserMessage({ item }) {
  const [draft, setDraft] = useState(null), isAsked = store.toEdit.value === item;
  useEffect(() => { if (isAsked) { store.toEdit.value = null; setDraft(withoutFiles(item.text).text); } }, [isAsked]);
  if (item.isLost) return !waitingIn(store.current.value).some((entry) => entry.text === item.text) && html`<${Bubble} text=${item.text} why="notRead" />`;
  const canEdit = !item.isSteer && store.current.value, sent = withoutFiles(item.text);
  if (draft !== null) {
    const resend = (event) => { event.preventDefault(); if (draft.trim()) history.edit(item, withFiles(draft.trim(), sent.files)); };
    const key = (event) => {
      if (event.key === "Escape") { setDraft(null); document.getElementById("message")?.focus(); }
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.target.tagName === "TEXTAREA") resend(event);
    };
    return html`<form class="item said editing" onSubmit=${resend} onKeyDown=${key}>
      <${Sent} media=${[...(item.media ?? []), ...sent.files]} />
      <textarea aria-label=${t("message")} title=${t("keysHint")} rows=${Math.min(10, Math.max(3, draft.split("\n").length))} value=${draft} onInput=${(event) => setDraft(event.target.value)} ref=${(box) => box && !box.dataset.seen && (box.dataset.seen = "1", box.focus())}></textarea>
      <p><button class="primary">${t("send")}</button> <button type="button" onClick=${() => setDraft(null)}>${t("cancel")}</button></p></form>`;
  }
  return html`<h2 class="heard">${t("you")}</h2><article class="item said" aria-label=${t("you")}><${Said} text=${item.text} media=${item.media} />
    ${item.by && item.by !== store.me.value.name && html`<p class="dim">${item.by}</p>`}
    ${canEdit && html`<div class="below"><button class="quiet" onClick=${() => setDraft(sent.text)}>${t("edit")}</button><${Versions} item=${item} /></div>`}</article>`;
}

// The versions of a message: each is a session.
function Versions({ item }) {
  const found = item.index !== undefined && store.view.value.versions.value.find((each) => each.index === item.index);
  if (!found) return null;
  const { at, sessions } = found, step = (by, sign, words) => html`<button class="icon" aria-label=${t(words)} title=${t(words)} disabled=${!sessions[at + by]} onClick=${() => store.open(sessions[at + by])}>${sign}</button>`;
  return html`<span class="versions" role="group" aria-label=${t("versions")}>${step(-1, "‹", "versionBefore")}<span>${at + 1}/${sessions.length}</span>${step(1, "›", "versionAfter")}</span>`;
}

function End({ item }) {
  const parts = item.seconds >= 0.05 ? [seconds(item.seconds)] : [];
  if (item.waited >= 1) parts.push(t("waited", { time: seconds(item.waited) }));
  if (item.steps) parts.push(t("steps", { n: item.steps }));
  if (item.tokens) parts.push(t("tokens", { n: item.tokens.toLocaleString() }));
  if (item.cost) parts.push(money(item.cost));
  const isFine = item.state === "completed", name = `end_${item.state}`, why = item.why && !["error", item.state].includes(item.why) ? ` (${item.why})` : "";
  return html`<p class="item end ${isFine ? "" : item.state === "cancelled" ? "bad quiet" : "bad"}">${!isFine && html`<strong>${hasWord(name) ? t(name) : item.state}${why}</strong> · `}${parts.join(" · ")}</p>`;
}

// What a run does before its first word and after a call.
function Working({ view }) {
  const run = view.run.value;
  view.version.value;
  if (!run || run.state !== "running" || view.open.size || [...view.calls.values()].at(-1)?.state === "running") return null;
  const last = view.items.value.at(-1), word = last?.kind === "user" ? "readsMessage" : last?.kind === "call" ? "readsResult" : "working";
  return html`<p class="item working"><span class="pulse" aria-hidden="true"></span>${t(word)} <${Clock} key=${last?.id} since=${Math.max(last?.time ?? 0, view.runs.at(-1)?.modelFrom ?? run.started)} /></p>`;
}
