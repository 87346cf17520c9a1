// State and actions of the page: the user, the sessions, the open session.
import { batch, effect, signal } from "./html.js";
import { View } from "./view.js";
import { Wire, api, connection, freshKey, sessionAt } from "./wire.js";

const MAX_EVENTS = 20000; // with more events, show the session's records instead
export const me = signal(null);
export const agents = signal([]);
export const sessions = signal([]);
export const moreSessions = signal(null);
export const current = signal(""); // the id of the open session; empty for a new one
export const view = signal(new View());
export const questions = signal([]);
export const agent = signal("");
export const problem = signal("");
export const panel = signal(""); // the open panel of app.js, or empty
export const toggle = (name) => { panel.value = panel.value === name ? "" : name; };
export const mayOperate = () => me.value.roles.includes("operate");
export const sideOpen = signal(false);

const linkedSession = decodeURIComponent(/[#&]s=([^&]+)/.exec(location.hash)?.[1] ?? "") || undefined; // from the URL, before `current` overwrites it
let queue = [], isDue = false, hasFiles = false;

function onEvent(event) {
  queue.push(event);
  if (!isDue) { isDue = true; document.hidden ? setTimeout(flush, 50) : requestAnimationFrame(flush); }
}

// Files are available at the end of their step, which may come in a later batch of events.
function bringsFiles(event) {
  if (event.data.has_files) hasFiles = true;
  if (event.type === "run_end" || event.type === "run_state") return true;
  if (event.type !== "step_end" || !hasFiles) return false;
  hasFiles = false;
  return true;
}

function flush() {
  const events = queue;
  queue = []; isDue = false;
  if (!events.length) return;
  view.value.take(events);
  if (events.some((event) => ["run_state", "question", "answered", "run_end", "run_start", "observation"].includes(event.type))) loadQuestions();
  if (events.some((event) => ["run_start", "run_end", "run_state"].includes(event.type))) loadSessions();
  if (events.filter(bringsFiles).length) loadFiles();
}

export const wire = new Wire({
  onEvent,
  onReset: () => open(current.value, true),
  onOpen: () => { loadSessions(); loadQuestions(); },
});

export const hasServers = () => agents.value.some((agent) => agent.servers.length > 0); // of MCP
export const showError = (error) => { problem.value = String(error.message || error); };
const guarded = (action) => async (...args) => {
  try { problem.value = ""; return await action(...args); } catch (error) { showError(error); return undefined; }
};

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
  try { me.value = await api("GET", "/api/me"); } catch (error) {
    if (connection.value !== "signedOut") showError(error);
    connection.value = "signedOut";
    return;
  }
  connection.value = "connecting";
  await loadAgents();
  agent.value = agents.value[0]?.name || "";
  wire.start();
  await loadSessions();
  if (linkedSession) await open(linkedSession);
}

export async function loadAgents() {
  agents.value = (await api("GET", "/api/agents")).agents;
}

export const logout = guarded(async () => { await api("POST", "/api/logout"); location.reload(); });

// Run one request at a time, and one more after it for all calls in between, so that an older response never comes last.
function oneAtATime(load) {
  let isBusy = false, isDue = false;
  return async function ask() {
    if (isBusy) { isDue = true; return; }
    isBusy = true; isDue = false;
    try { await load(); } catch { setTimeout(ask, 1000); }
    isBusy = false;
    if (isDue) await ask();
  };
}

export const loadSessions = oneAtATime(async () => {
  const page = await api("GET", "/api/sessions?limit=100");
  batch(() => { sessions.value = page.sessions; moreSessions.value = page.next; });
});

export const loadMoreSessions = guarded(async () => {
  const page = await api("GET", `/api/sessions?limit=100&cursor=${encodeURIComponent(moreSessions.value)}`);
  batch(() => { sessions.value = [...sessions.value, ...page.sessions]; moreSessions.value = page.next; });
});

export const loadQuestions = oneAtATime(async () => {
  const session = current.value;
  if (!session) { questions.value = []; return; }
  const response = await api("GET", `${sessionAt(session)}/questions`);
  if (session === current.value) questions.value = response.questions;
});

// Files of tool results, available at the end of a step.
export const loadFiles = oneAtATime(async () => {
  const session = current.value, shown = view.value;
  if (session) shown.takeFiles(session, (await api("GET", `${sessionAt(session)}/files`)).files);
});

export function fresh() {
  wire.unwatch();
  queue = [];
  batch(() => { current.value = ""; view.value = new View(); questions.value = []; problem.value = ""; sideOpen.value = false; });
}

export const open = guarded(async (session, isReset = false) => {
  if (!session) return fresh();
  queue = [];
  const opened = new View();
  batch(() => { current.value = session; view.value = opened; questions.value = []; sideOpen.value = false; });
  const details = await api("GET", `${sessionAt(session)}?limit=1`);
  if (current.value !== session || view.value !== opened) return;
  const runs = details.run ? (await api("GET", `/api/runs?session=${encodeURIComponent(session)}&limit=500`)).runs : [];
  const isWhole = runs.length > 0 && !isReset && details.last_event <= MAX_EVENTS && runs.at(-1).first_event === 1;
  const entries = await entriesOf(session);
  if (view.value !== opened) return;
  // Events start with this session's first run; the history of a fork is only in its records.
  opened.fromEntries(isWhole ? entries.filter((entry) => entry.time < runs.at(-1).created) : entries);
  if (runs.length) await watchSoon(session, isWhole ? 0 : details.last_event);
  loadQuestions();
  loadFiles();
});

async function entriesOf(session) {
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

effect(() => {
  const hash = current.value ? `#s=${encodeURIComponent(current.value)}` : "";
  if (!/token=/.test(location.hash) && location.hash !== hash) history.replaceState(null, "", location.pathname + hash);
});

function follow(run) {
  if (run.session === current.value && wire.watching?.session === run.session) return;
  batch(() => { current.value = run.session; view.value = new View(); questions.value = []; });
  queue = [];
  watchSoon(run.session, 0);
}

// Start a run. The idempotency key makes it safe to repeat the message after a lost connection.
export const send = guarded(async (text, media) => {
  const message = { text, key: freshKey() };
  if (media.length) message.media = media;
  if (current.value) message.session = current.value;
  if (agent.value) message.agent = agent.value;
  const run = await wire.ask("message", message);
  if (current.value && run.session === current.value && wire.watching?.session !== run.session) await open(run.session);
  else follow(run);
  loadSessions();
  return run;
});

export const steer = guarded(async (text) => {
  const run = view.value.run.value;
  await wire.ask("steer", { run: run.id, text });
  return run;
});

export const stop = guarded(() => wire.ask("stop", { run: view.value.run.value.id }));

export const answer = guarded(async (question, verdict, fields = {}) => {
  await wire.ask("answer", { session: question.session, call_id: question.call_id, verdict, ...fields });
  questions.value = questions.value.filter((other) => other.call_id !== question.call_id);
  loadQuestions();
});

// Count steps in the session's records: events only number the steps of their run.
export const edit = guarded(async (item, text) => {
  const index = view.value.items.value.filter((other) => other.kind === "user" && !other.isSteer).indexOf(item);
  let step = 0, tasks = 0;
  for (const entry of await entriesOf(current.value)) {
    if (entry.kind === "task" && tasks++ === index) break;
    step = Math.max(step, entry.step);
  }
  const run = await wire.ask("edit", { session: current.value, step, text, key: freshKey() });
  await open(run.session);
});

export const fork = guarded(async (step) => {
  const options = step ? { step } : {};
  const forked = await wire.ask("fork", { session: current.value, ...options });
  await loadSessions();
  await open(forked.session);
});

export const undo = guarded(async () => wire.ask("undo", { session: current.value }));

export const remove = guarded(async (session) => {
  await api("DELETE", `${sessionAt(session)}`);
  if (session === current.value) fresh();
  await loadSessions();
});

export const move = guarded(async (session, folder) => {
  await api("POST", `${sessionAt(session)}/folder`, { folder });
  await loadSessions();
});

export const isRunning = (run) => Boolean(run) && run.state === "running";
