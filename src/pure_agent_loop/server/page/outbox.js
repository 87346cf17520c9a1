// Messages that no run has taken yet, and drafts: kept by the browser, and delivered.
import { batch, effect, signal } from "./html.js";
import { loadSessions } from "./list.js";
import * as store from "./store.js";
import { isRead } from "./view.js";
import { api, connection, freshKey, note, problem, showError } from "./wire.js";
import { t } from "./words.js";

export const outbox = signal([]); // of this tab, oldest first: {key, session, text, media, about, run, after, isTaken, isAsked, started}
export const returned = signal(null); // a message that went back into the field

// A draft survives a reload, and a visit to another conversation, in the same tab.
export const draftOf = (place) => { try { return sessionStorage.getItem(place) ?? ""; } catch { return ""; } };
export const keep = (place, text) => { try { sessionStorage[text ? "setItem" : "removeItem"](place, text); } catch { /* a private window */ } };

// Messages belong to one tab; the next page takes those of a closed one.
let place = "";
const others = () => { try { return JSON.parse(localStorage.getItem(place)) ?? []; } catch { return []; } };
const tab = String(Math.random());
function save(owner = tab) {
  if (!place) return;
  const list = [...others().filter((each) => each.tab !== tab), ...outbox.value.map((each) => ({ ...each, isAsked: false, started: undefined, tab: owner }))];
  try { localStorage[list.length ? "setItem" : "removeItem"](place, JSON.stringify(list)); } catch { /* a private window, or too large: kept until a reload */ }
}
function take() {
  const mine = others().filter((each) => !each.tab);
  try { localStorage.setItem(place, JSON.stringify(others().filter((each) => each.tab))); } catch { return; }
  put(mine);
}
export function openOutbox(person) {
  if (place === `outbox ${person}`) return;
  const early = place ? [] : outbox.value; // sent while the page loads
  place = `outbox ${person}`;
  outbox.value = [];
  take();
  put([...outbox.value, ...early]);
}
addEventListener("pagehide", () => save(""));
addEventListener("pageshow", (event) => { if (event.persisted && place) take(); });

const put = (list) => { outbox.value = list; save(); };
const set = (key, changes) => put(outbox.value.map((each) => (each.key === key ? { ...each, ...changes } : each)));
export const forget = (key) => put(outbox.value.filter((each) => each.key !== key));
export const waitingIn = (session) => outbox.value.filter((each) => each.session === session);

// A message goes back into the field of its conversation, before the text that is there.
export function giveBack({ key, session, text, media }) {
  const draft = `${store.me.value.name} ${session}`;
  forget(key);
  keep(draft, [text, draftOf(draft)].filter(Boolean).join("\n\n"));
  returned.value = { session, media };
}

effect(() => { if (connection.value === "signedOut" && outbox.value.length) problem.value = t("notSignedIn"); });

// A message is kept until the server has taken it: a run that works takes it in memory, else it starts the next run.
export function send(text, media) {
  problem.value = note.value = "";
  const session = store.shown();
  put([...outbox.value, { key: freshKey(), session, text, media, about: store.chosen() }]);
  store.sent.value++;
  deliver(session);
}

const delivering = new Map(); // sessions, and if to look once more
export async function deliver(session) {
  const isBusy = delivering.has(session);
  delivering.set(session, true);
  if (isBusy) return;
  while (delivering.get(session)) {
    delivering.set(session, false);
    try { while (await deliverOne(session)); } catch { /* no answer: later */ }
  }
  delivering.delete(session);
}

export const deliverAll = () => new Set(outbox.value.map((each) => each.session)).forEach(deliver);

// Deliver the oldest message of a session. Return whether to look for the next one.
async function deliverOne(session) {
  const isHere = session === store.current.value;
  if (connection.value !== "open" || (isHere && session && !store.isKnown())) return false;
  if (isHere) await settle(session);
  const entry = waitingIn(session).find((each) => !each.isTaken), { key, text, media, about } = entry ?? {};
  if (!entry || waitingIn(session).some((each) => each.isAsked)) return false;
  const run = (isHere && store.view.value.run.value) || session && (await api("GET", `/api/runs?session=${encodeURIComponent(session)}&limit=1`)).runs[0];
  if (store.isOpen(run)) {
    if (!isHere || !store.isRunning(run) || store.me.value.engine || media.length) return false;
    set(key, { run: run.id, after: store.wire.watching.after });
    try { await store.wire.ask("steer", { run: run.id, text }); set(key, { isTaken: true }); return true; } catch (error) {
      if (!error.problem) return false; // the connection was lost: the events tell whether it was taken
      set(key, { run: "" });
      if (!error.problem.state) return refuse(entry, error);
    } // else the run has ended in the meantime
  }
  set(key, { isAsked: true });
  try {
    started(entry, await store.wire.ask("message", { text, key, ...about, ...(session && { session }), ...(media.length && { media: media.map((item) => item.url) }) }));
  } catch (error) {
    set(key, { isAsked: false });
    if (![409, 503].includes(error.problem?.status)) return refuse(entry, error); // else another run works here: later
  }
  return false;
}

function refuse(entry, error) {
  giveBack(entry);
  showError(error);
  return true;
}

async function started(entry, run) {
  const { key, session } = entry;
  const isHere = session === store.current.value;
  batch(() => {
    if (!session) put(outbox.value.map((each) => (each.session ? each : { ...each, session: run.session })));
    const isShown = store.view.value.runs.some((other) => other.id === run.id);
    if (isShown) keepMedia(entry, run.id);
    if (!isHere || isShown) forget(key); else set(key, { started: run.id });
    if (isHere && !session) store.follow(run);
  });
  loadSessions();
  if (isHere && session && store.wire.watching?.session !== session) await store.open(session);
}

// Messages that a run has taken, and whose run has ended without them, wait again.
async function settle(session) {
  for (const { key, run, isTaken, text } of waitingIn(session).filter((each) => each.run)) {
    const known = store.view.value.runs.find((other) => other.id === run);
    if (!known && store.view.value.items.value.some((item) => item.isSteer && item.text === text)) forget(key); // in the records
    else if (!isTaken || !store.isOpen(known ?? await api("GET", `/api/runs/${encodeURIComponent(run)}`))) set(key, { run: "", isTaken: false });
  }
}

// What events tell of this tab's messages.
export function track(event) {
  const { number, session, type, run, data } = event, mine = waitingIn(session);
  const entry = mine.find((each) => (type === "run_start" ? each.started === run
    : each.run === run && number > each.after && (type === "steered" ? !each.isTaken && each.text === data.text : isRead(each.text, data))));
  if (!entry) return;
  if (type === "steered") set(entry.key, { isTaken: true }); else { keepMedia(entry, run); forget(entry.key); }
}

// The message of a run shows what was sent with it.
function keepMedia({ media }, run) {
  const item = store.view.value.items.value.findLast((other) => other.kind === "user" && other.run === run);
  if (item && media.length) { Object.assign(item, { media, awaits: 0 }); item.rev.value++; }
}
