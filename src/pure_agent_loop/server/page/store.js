// State and actions of the page: the user, the sessions, the open session.
import { batch, effect, signal } from "./html.js";
import { View, isEdit } from "./view.js";
import { clock, t } from "./words.js";
import { loadSessions, sessions } from "./list.js";
import { deliver, deliverAll, forget, openOutbox, outbox, track, waitingIn } from "./outbox.js";
import { Wire, api, connection, guarded, note, oneAtATime, problem, sessionAt, showError } from "./wire.js";
export * from "./list.js";
export { guarded, note, problem, showError };

const WAITING_MS = 5000; // between checks for pending questions in other conversations
const MAX_EVENTS = 20000; // with more events, show the run's records instead
export const TURNS = 150, END = 1e7; // entries that are loaded at once, in whole turns; before the end
export const me = signal(null);
export const agents = signal([]);
const shared = signal([]); // tasks that the server offers for all agents
export const starters = () => [agents.value.find((known) => known.name === agent.value)?.starters, shared.value].find((tasks) => tasks?.length) ?? [];
export const current = signal(""); // the id of the open session; empty for a new one
export const view = signal(new View());
export const questions = signal([]);
export const agent = signal("");
export const model = signal(""); // chosen for the next message; empty for the agent's own
export const waiting = signal([]); // all questions this person may answer
const questionOf = signal(null); // a question on one line: of questions.js, which is loaded with the first
export const toEdit = signal(null); // the item of a message that is to be edited
export const sent = signal(0); // messages sent, so that the log shows the newest
export const past = signal(null); // the step that the time line shows, or null
export const panel = signal(""); // the open panel of app.js, or empty
const PLACES = { inbox: "approvals", fleet: "operator" }; // panels in place of the conversation, with their addresses
export const isPlace = (name) => name in PLACES;
const leavePlace = () => { if (isPlace(panel.value)) panel.value = ""; };
export const toggle = (name) => { panel.value = panel.value === name ? "" : name; };
export const mayUse = () => me.value.roles.includes("use"); // otherwise there is only the inbox
export const mayOperate = () => me.value.roles.includes("operate");
export const mayApprove = () => me.value.roles.includes("approve");
export const mayAnswer = (question) => question.live || mayApprove();
export const stateWord = (state) => t(state === "waiting" && !mayApprove() ? "state_waiting_permission" : state);
export const sideOpen = signal(false);
export const isFresh = () => !current.value && !view.value.items.value.length && !waitingIn("").length; // a conversation without a message

const linkedSession = sessionInUrl(), linkedPlace = placeInUrl(); // before `current` overwrites it
export const callKey = ({ session, call_id }) => `${session} ${call_id}`;
const answered = new Set(); // keys of calls answered here; an older list may still have them
function sessionInUrl() { return decodeURIComponent(/[#&]s=([^&]+)/.exec(location.hash)?.[1] ?? ""); }
function placeInUrl() { return Object.keys(PLACES).find((name) => location.hash === `#/${PLACES[name]}`); }
const mayOpen = (place) => (place === "inbox" ? mayApprove() : place && me.value.engine && mayOperate());
let queue = [], isDue = false, hasFiles = false;

function onEvent(event) {
  queue.push(event);
  if (!isDue && wire.watching.after >= wire.watching.last) { // what was before is shown at once
    isDue = true;
    document.hidden ? setTimeout(flush, 50) : requestAnimationFrame(flush);
  }
}

// Files are available at the end of their step, which may come in a later batch of events.
function bringsFiles(event) {
  if (event.data.has_files) hasFiles = true;
  if (event.type === "run_end" || event.type === "run_state" || event.data.media) return true;
  if (event.type !== "step_end" || !hasFiles) return false;
  hasFiles = false;
  return true;
}

function flush() {
  const events = queue;
  queue = []; isDue = false;
  if (!events.length) return;
  batch(() => {
    view.value.take(events);
    if (outbox.value.length) events.filter((event) => ["run_start", "steered", "notice"].includes(event.type)).forEach(track);
  });
  deliver(current.value);
  if (events.some((event) => event.type === "question" || event.type === "run_state")) answered.clear(); // a call may ask again
  for (const event of events) if (event.type === "answered") drop(callKey({ session: event.session, call_id: event.data.call_id }));
  if (events.some((event) => ["run_state", "question", "answered", "run_end", "run_start", "observation"].includes(event.type))) { loadQuestions(); loadWaiting(); }
  if (events.some((event) => ["run_start", "run_end", "run_state"].includes(event.type))) loadSessions();
  if (events.filter(bringsFiles).length) { loadFiles(); loadChanges(); }
}

export const wire = new Wire({
  onEvent,
  onReset: () => open(current.value, true),
  onOpen: () => { if (mayUse()) { loadSessions(); loadQuestions(); deliverAll(); } },
  onWatch: () => deliver(current.value),
});

export const hasServers = () => agents.value.some((agent) => agent.servers.length > 0); // MCP servers
export async function start() {
  const token = /[#&]token=([^&]+)/.exec(location.hash)?.[1];
  if (token) {
    history.replaceState(null, "", location.pathname); // remove it from the address bar and the history
    await login(decodeURIComponent(token));
  } else {
    await enter();
  }
}

export const login = guarded(async (token) => {
  await api("POST", "/api/login", { token });
  await enter();
});

async function enter() {
  try { me.value = (await api("GET", "/api/login")).person; } catch (error) { showError(error); }
  if (!me.value) { connection.value = "signedOut"; return; }
  connection.value = "connecting";
  if (!mayUse()) panel.value = "inbox";
  else { await loadAgents(); agent.value = agents.value[0]?.name || ""; }
  openOutbox(me.value.name);
  wire.start();
  loadWaiting();
  if (!isEntered) setInterval(() => { loadWaiting(); deliverAll(); }, WAITING_MS);
  if (mayUse()) {
    await loadSessions();
    if (linkedSession) await open(linkedSession);
    if (mayOpen(linkedPlace)) panel.value = linkedPlace;
  }
  isEntered = true;
  goTo(address(), "replaceState");
}

// A followed link, or a step in the browser's history.
addEventListener("hashchange", () => {
  if (/token=/.test(location.hash)) location.reload();
  else if (!me.value || location.hash === address()) return;
  else if (mayOpen(placeInUrl())) panel.value = placeInUrl();
  else if (mayUse()) sessionInUrl() === current.value ? leavePlace() : open(sessionInUrl());
});

export async function loadAgents() {
  const found = await api("GET", "/api/agents");
  batch(() => { agents.value = found.agents; shared.value = found.starters; });
}

export const logout = guarded(async () => { await api("POST", "/api/logout"); location.reload(); });

export const loadQuestions = oneAtATime(async () => {
  const session = current.value;
  if (!session) { questions.value = []; return; }
  const response = await api("GET", `${sessionAt(session)}/questions`);
  if (session === current.value) questions.value = response.questions.filter((question) => !answered.has(callKey(question)));
});

export const loadWaiting = oneAtATime(async () => {
  if (!mayApprove() || connection.value === "signedOut") return;
  const found = (await api("GET", "/api/questions")).questions.filter((question) => !answered.has(callKey(question)));
  const known = new Set(waiting.value.map(callKey));
  if (JSON.stringify(found) === JSON.stringify(waiting.value)) return;
  if (found.length) questionOf.value ||= (await import("./questions.js")).questionOf;
  waiting.value = found;
  const fresh = found.filter((question) => !known.has(callKey(question)));
  if (fresh.length && document.hidden && globalThis.Notification?.permission === "granted") {
    new Notification(t("nWaiting", { n: found.length }), { body: questionOf.value(fresh[0]), tag: "pal-waiting" });
  }
});

export const infoOf = (session) => session && sessions.value.find((other) => other.id === session || other.versions.includes(session));
export const titleOf = (session) => infoOf(session)?.title || view.value.run.value?.task || "";
effect(() => { document.title = waiting.value.length ? `(${waiting.value.length}) ${questionOf.value(waiting.value[0])}` : titleOf(current.value) || "pure-agent-loop"; });

export const isKnown = () => !queue.length && (!wire.watching || (wire.watching.isOn && wire.watching.after >= wire.watching.last)); // the view is up to date

export const loadFiles = oneAtATime(async () => {
  const session = current.value, shown = view.value;
  if (!session) return;
  shown.takeFiles(session, (await api("GET", `${sessionAt(session)}/files`)).files);
  if (!shown.items.value.some((item) => item.awaits)) return;
  const { entries } = await api("GET", `${sessionAt(session)}?limit=1&before=${END}`);
  (await import("./records.js")).showSent(shown, entries, session);
  shown.take([]);
});

export function fresh() {
  wire.unwatch();
  queue = [];
  batch(() => { leavePlace(); current.value = ""; view.value = new View(); questions.value = []; problem.value = ""; sideOpen.value = false; });
}

export const open = guarded(async (session, isReset = false) => {
  if (!session) return fresh();
  wire.unwatch();
  queue = [];
  waitingIn(session).filter((each) => each.started).forEach((each) => forget(each.key));
  const opened = new View();
  opened.total = Infinity; // until it is known
  batch(() => { if (!isReset) leavePlace(); current.value = session; view.value = opened; questions.value = []; sideOpen.value = false; });
  const details = await api("GET", `${sessionAt(session)}?limit=${TURNS}&before=${END}`);
  if (current.value !== session || view.value !== opened) return;
  const [newest] = details.run ? (await api("GET", `/api/runs?session=${encodeURIComponent(session)}&limit=1`)).runs : [];
  if (view.value !== opened) return;
  if (agents.value.some((known) => known.name === newest?.agent)) chooseAgent(newest.agent);
  // The newest run is shown from its events, what was before from records.
  const isWhole = newest && !isReset && details.last_event - newest.first_event < MAX_EVENTS;
  const isNew = (entry) => isWhole && entry.time >= newest.created;
  const recorded = details.entries.filter(isNew);
  opened.earlier = details.entries[0]?.index ?? 0;
  opened.total = details.total;
  opened.next = recorded[0]?.index ?? details.total;
  opened.versions.value = details.versions;
  const { adopt, showEntries, showSent } = await import("./records.js");
  if (view.value !== opened) return;
  showEntries(opened, details.entries.filter((entry) => !isNew(entry)), session);
  opened.onSent = () => showSent(opened, recorded, session);
  if (newest && !isWhole) adopt(opened, newest);
  if (newest) await watchSoon(session, isWhole ? newest.first_event - 1 : details.last_event);
  for (const load of [loadQuestions, loadFiles, loadChanges]) load();
});

// What the conversation has changed in files, and which edits were undone.
export const loadChanges = oneAtATime(async () => {
  const session = current.value, shown = view.value;
  if (!session || !agents.value.some((each) => each.can_undo)) return;
  const { changes } = await api("GET", `${sessionAt(session)}/changes`);
  shown.canUndo.value = changes.some((step) => !step.is_undone);
  if (shown.items.value.some(isEdit)) (await import("./records.js")).showChanges(shown, changes);
});
export const canUndo = () => view.value.canUndo.value;

export async function entriesOf(session) {
  const entries = [];
  for (;;) {
    const part = await api("GET", `${sessionAt(session)}?limit=2000&after=${entries.length}`);
    entries.push(...part.entries);
    if (!part.entries.length || entries.length >= part.total) return entries;
  }
}

function watchSoon(session, after) {
  return wire.watch(session, after).catch(() => {}); // not connected yet: watches after connecting
}

export const addressOf = (session) => `#s=${encodeURIComponent(session)}`;
function address() { return isPlace(panel.value) ? `#/${PLACES[panel.value]}` : current.value ? addressOf(current.value) : ""; }
let isEntered = false; // until then, the address says what to open
export const shown = () => current.value || (isEntered ? "" : linkedSession);
effect(() => {
  const hash = address();
  if (isEntered) goTo(hash, "pushState");
});
function goTo(hash, how) { if (location.hash !== hash) history[how](null, "", location.pathname + hash); }

export function follow(run) {
  if (run.session === current.value && wire.watching?.session === run.session) return;
  if (!current.value) goTo(addressOf(run.session), "replaceState"); // a new conversation gets its address
  batch(() => { current.value = run.session; view.value = new View(); questions.value = []; });
  queue = [];
  watchSoon(run.session, 0);
}

export const stop = guarded(() => wire.ask("stop", { run: view.value.run.value.id }));

const ANSWERED = "urn:pure-agent-loop:already-answered", NOT_WAITING = "urn:pure-agent-loop:not-waiting";

function drop(key) {
  const others = (list) => (list.some((other) => callKey(other) === key) ? list.filter((other) => callKey(other) !== key) : list);
  batch(() => { questions.value = others(questions.value); waiting.value = others(waiting.value); });
}

// The server reports if another answer was first.
export const answer = guarded(async (question, verdict, fields = {}) => {
  answered.add(callKey(question));
  drop(callKey(question));
  try {
    await wire.ask("answer", { session: question.session, call_id: question.call_id, verdict, ...fields });
  } catch (error) {
    const { type, by, answer: first, answered_at: at } = error.problem ?? {};
    if (type === ANSWERED) note.value = t(first === "deny" ? "answeredBy_deny" : "answeredBy_allow", { by, at: clock(at) });
    else if (type === NOT_WAITING) note.value = t("notWaiting");
    else { answered.delete(callKey(question)); loadQuestions(); loadWaiting(); throw error; }
  }
  loadQuestions();
  loadWaiting();
  return true;
});

// A message answers a tool's question, and denies calls with its text.
export const answerAll = async (text) => {
  const open = questions.value.filter(mayAnswer);
  const done = await Promise.all(open.map((question) => answer(question, question.live ? "allow" : "deny", { message: text })));
  return done.every(Boolean);
};

export const remove = guarded(async (session) => {
  const isOpened = session === current.value || infoOf(current.value)?.id === session;
  await api("DELETE", `${sessionAt(session)}`);
  if (isOpened) { goTo("", "replaceState"); fresh(); }
  await loadSessions();
});

export const chosen = () => ({ ...(agent.value && { agent: agent.value }), ...(model.value && { model: model.value }) }); // fields for a message
export const chooseAgent = (name) => batch(() => { agent.value = name; model.value = ""; });

// Actions of history.js, which is loaded for the first one.
export const later = new Proxy({}, { get: (_, name) => (...args) => import("./history.js").then((module) => module[name](...args)) });

export const isRunning = (run) => Boolean(run) && run.state === "running";
export const isOpen = (run) => isRunning(run) || Boolean(run?.state?.startsWith("waiting"));
