// The list of sessions: loaded, searched, and changed.
import { batch, signal } from "./html.js";
import { api, guarded, oneAtATime, sessionAt } from "./wire.js";

export const sessions = signal([]);
export const moreSessions = signal(null);
export const search = signal(null); // words that were searched for, and the sessions that contain them
export const dialog = signal(null); // the open dialog of dialogs.js, and what it is about
export const change = (what, session) => { dialog.value = { name: "change", what, session }; };

export const loadSessions = oneAtATime(async () => {
  const page = await api("GET", "/api/sessions?limit=100");
  batch(() => { sessions.value = page.sessions; moreSessions.value = page.next; });
  if (search.value) await query(search.value.words);
});

export const loadMoreSessions = guarded(async () => {
  const page = await api("GET", `/api/sessions?limit=100&cursor=${encodeURIComponent(moreSessions.value)}`);
  batch(() => { sessions.value = [...sessions.value, ...page.sessions]; moreSessions.value = page.next; });
});

export const rename = guarded(async (session, title) => {
  await api("POST", `${sessionAt(session)}/title`, { title });
  await loadSessions();
});

export const pin = guarded(async (session, pinned) => {
  await api("POST", `${sessionAt(session)}/pin`, { pinned });
  await loadSessions();
});

// Sessions whose title, tasks or answers contain words; an older response never replaces a newer one.
let searches = 0;
async function query(words) {
  const number = ++searches;
  if (!words) { search.value = null; return; }
  const found = await api("GET", `/api/sessions?limit=100&q=${encodeURIComponent(words)}`);
  if (number === searches) search.value = { words, sessions: found.sessions };
}
export const find = guarded(query);

export const move = guarded(async (session, folder) => {
  await api("POST", `${sessionAt(session)}/folder`, { folder });
  await loadSessions();
});
