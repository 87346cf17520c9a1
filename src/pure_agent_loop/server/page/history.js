// Actions on a conversation as a whole: edit a message, ask again, fork, undo.
import { draftOf, keep } from "./outbox.js";
import { chosen, current, entriesOf, guarded, loadChanges, loadSessions, me, note, open, view, wire } from "./store.js";
import { freshKey } from "./wire.js";
import { t } from "./words.js";

// The step of the session before a message: events only number the steps of their run.
async function stepBefore(item) {
  const after = view.value.items.value.filter((other) => other.kind === "user" && !other.isSteer), entries = await entriesOf(current.value);
  const tasks = entries.filter((entry) => entry.kind === "task"), task = tasks.at(after.indexOf(item) - after.length);
  return Math.max(0, ...entries.slice(0, entries.indexOf(task)).map((entry) => entry.step));
}

export const edit = guarded(async (item, text) => {
  const media = await asUrls(item.media);
  const run = await wire.ask("edit", { session: current.value, step: await stepBefore(item), text, ...(media.length && { media }), key: freshKey(), ...chosen() });
  await open(run.session);
});

// The message that an item belongs to, and the next one.
function messagesAround(item) {
  const items = view.value.items.value, at = items.indexOf(item), isTask = (other) => other.kind === "user" && !other.isSteer;
  return [items.slice(0, at).findLast(isTask), items.slice(at).find(isTask)];
}

export const retry = (item) => { const [message] = messagesAround(item); return message && edit(message, message.text); };
export const forkAfter = guarded(async (item) => {
  const [, next] = messagesAround(item);
  await fork(next && await stepBefore(next));
});

export const fork = guarded(async (step, files) => {
  const options = { ...(step && { step }), ...(files && { files }) };
  const forked = await wire.ask("fork", { session: current.value, ...options }), [from, to] = [current.value, forked.session].map((session) => `${me.value.name} ${session}`);
  keep(to, draftOf(from)); // what was written goes along
  keep(from, "");
  await loadSessions();
  await open(forked.session);
  tellKept(forked.files);
});

// Files that were not restored, since they have changed in the meantime.
function tellKept(report) {
  const kept = (report?.conflicts ?? []).map((each) => `${each.path} (${each.reason})`).join(", ");
  if (kept) note.value = t("notRestored", { files: kept });
  return kept;
}

export const undo = guarded(async () => {
  try {
    const report = await wire.ask("undo", { session: current.value }), files = [...report.restored, ...report.removed];
    if (!tellKept(report)) note.value = files.length ? t("undone", { files: files.join(", ") }) : t("nothingToUndo");
  } catch (error) { // undone elsewhere
    if (error.problem?.type !== "urn:pure-agent-loop:nothing-to-undo") throw error;
    note.value = t("nothingToUndo");
  }
  loadChanges();
});

// Media of a message that is sent again, as `data:` URLs.
const asUrls = (media) => Promise.all((media ?? []).map(async ({ url }) => {
  if (url.startsWith("data:")) return url;
  const blob = await (await fetch(url)).blob();
  return new Promise((done) => { const reader = new FileReader(); reader.onload = () => done(reader.result); reader.readAsDataURL(blob); });
}));
