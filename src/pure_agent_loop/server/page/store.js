// The state of the page and what can be done: who is here, the sessions, the one that is open.
import { batch, effect, signal } from "./html.js";
import { View } from "./view.js";
import { Wire, api, connection, freshKey } from "./wire.js";

const MOST_EVENTS = 20000; // more are not read again: the session's records say what was
export const me = signal(null);
export const agents = signal([]);
export const sessions = signal([]);
export const moreSessions = signal(null);
export const current = signal(""); // the id of the open session; empty for a new one
export const view = signal(new View());
export const questions = signal([]);
export const agent = signal("");
export const problem = signal("");
export const panel = signal(""); // the name of one of app.js's, or empty
export const toggle = (name) => { panel.value = panel.value === name ? "" : name; };
export const mayOperate = () => me.value.roles.includes("operate");
export const sideOpen = signal(false);

const asked = /[#&]s=([\w.-]+)/.exec(location.hash)?.[1]; // the session in the address, before it follows `current`
let queue = [], isDue = false, hasFiles = false;

function told(event) {
  queue.push(event);
  if (!isDue) { isDue = true; document.hidden ? setTimeout(flush, 50) : requestAnimationFrame(flush); }
}

// Files can be had once the step that gave them has ended; both may come at once, or far apart.
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
  if (events.some((each) => ["run_state", "question", "answered", "run_end", "run_start", "observation"].includes(each.type))) loadQuestions();
  if (events.some((each) => ["run_start", "run_end", "run_state"].includes(each.type))) loadSessions();
  if (events.filter(bringsFiles).length) loadFiles();
}

export const wire = new Wire({
  told,
  reset: () => open(current.value, true),
  opened: () => { loadSessions(); loadQuestions(); },
});

export const hasServers = () => agents.value.some((each) => each.servers.length > 0); // of MCP
export const tell = (error) => { problem.value = String(error.message || error); };
const guarded = (action) => async (...given) => {
  try { problem.value = ""; return await action(...given); } catch (error) { tell(error); return undefined; }
};

export async function begin() {
  const token = /[#&]token=([^&]+)/.exec(location.hash)?.[1];
  if (token) {
    history.replaceState(null, "", location.pathname); // out of the address bar and the history
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
    if (connection.value !== "nobody") tell(error);
    connection.value = "nobody";
    return;
  }
  connection.value = "connecting";
  await loadAgents();
  agent.value = agents.value[0]?.name || "";
  wire.start();
  await loadSessions();
  if (asked) await open(asked);
}

export async function loadAgents() {
  agents.value = (await api("GET", "/api/agents")).agents;
}

export const logout = guarded(async () => { await api("POST", "/api/logout"); location.reload(); });

// One request at a time, and one more for all that was asked for meanwhile: an older answer never comes last.
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
  const found = await api("GET", "/api/sessions?limit=100");
  batch(() => { sessions.value = found.sessions; moreSessions.value = found.next; });
});

export const loadMoreSessions = guarded(async () => {
  const found = await api("GET", `/api/sessions?limit=100&cursor=${encodeURIComponent(moreSessions.value)}`);
  batch(() => { sessions.value = [...sessions.value, ...found.sessions]; moreSessions.value = found.next; });
});

export const loadQuestions = oneAtATime(async () => {
  const session = current.value;
  if (!session) { questions.value = []; return; }
  const found = await api("GET", `/api/sessions/${session}/questions`);
  if (session === current.value) questions.value = found.questions;
});

// What tools gave beside text: it can be had as soon as the step has ended.
export const loadFiles = oneAtATime(async () => {
  const session = current.value, shown = view.value;
  if (session) shown.takeFiles(session, (await api("GET", `/api/sessions/${session}/files`)).files);
});

export function fresh() {
  wire.unwatch();
  queue = [];
  batch(() => { current.value = ""; view.value = new View(); questions.value = []; problem.value = ""; sideOpen.value = false; });
}

export const open = guarded(async (session, isReset = false) => {
  if (!session) return fresh();
  queue = [];
  const made = new View();
  batch(() => { current.value = session; view.value = made; questions.value = []; sideOpen.value = false; });
  const about = await api("GET", `/api/sessions/${session}?limit=1`);
  if (current.value !== session || view.value !== made) return;
  const runs = about.run ? (await api("GET", `/api/runs?session=${session}&limit=500`)).runs : [];
  const isWhole = runs.length > 0 && !isReset && about.last_event <= MOST_EVENTS && runs.at(-1).first_event === 1;
  const entries = await entriesOf(session);
  if (view.value !== made) return;
  // Events begin with the first run of this session; what a fork brought along stands in its records only.
  made.fromEntries(isWhole ? entries.filter((each) => each.time < runs.at(-1).created) : entries);
  if (runs.length) await watchSoon(session, isWhole ? 0 : about.last_event);
  loadQuestions();
  loadFiles();
});

async function entriesOf(session) {
  const entries = [];
  for (;;) {
    const part = await api("GET", `/api/sessions/${session}?limit=2000&after=${entries.length}`);
    entries.push(...part.entries);
    if (!part.entries.length || entries.length >= part.total) return entries;
  }
}

function watchSoon(session, after) {
  return wire.watch(session, after).catch(() => {}); // not open yet: it watches when it is
}

effect(() => {
  const hash = current.value ? `#s=${current.value}` : "";
  if (!/token=/.test(location.hash) && location.hash !== hash) history.replaceState(null, "", location.pathname + hash);
});

function follow(run) {
  if (run.session === current.value && wire.watching?.session === run.session) return;
  batch(() => { current.value = run.session; view.value = new View(); questions.value = []; });
  queue = [];
  watchSoon(run.session, 0);
}

// Begin a run. With a key, so that a message that was on its way when the connection broke begins one run.
export const send = guarded(async (text, media) => {
  const about = { text, key: freshKey() };
  if (media.length) about.media = media;
  if (current.value) about.session = current.value;
  if (agent.value) about.agent = agent.value;
  const run = await wire.ask("message", about);
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

export const answer = guarded(async (question, verdict, about = {}) => {
  await wire.ask("answer", { session: question.session, call_id: question.call_id, verdict, ...about });
  questions.value = questions.value.filter((each) => each.call_id !== question.call_id);
  loadQuestions();
});

// The records know how many steps of the session stand before a message; events count the steps of their run.
export const edit = guarded(async (item, text) => {
  const index = view.value.items.value.filter((each) => each.kind === "user" && !each.isSteer).indexOf(item);
  let step = 0, tasks = 0;
  for (const each of await entriesOf(current.value)) {
    if (each.kind === "task" && tasks++ === index) break;
    step = Math.max(step, each.step);
  }
  const run = await wire.ask("edit", { session: current.value, step, text, key: freshKey() });
  await open(run.session);
});

export const fork = guarded(async (step) => {
  const about = step ? { step } : {};
  const made = await wire.ask("fork", { session: current.value, ...about });
  await loadSessions();
  await open(made.session);
});

export const undo = guarded(async () => wire.ask("undo", { session: current.value }));

export const remove = guarded(async (session) => {
  await api("DELETE", `/api/sessions/${session}`);
  if (session === current.value) fresh();
  await loadSessions();
});

export const move = guarded(async (session, folder) => {
  await api("POST", `/api/sessions/${session}/folder`, { folder });
  await loadSessions();
});

export const isRunning = (run) => Boolean(run) && run.state === "running";
