// Actions on a conversation as a whole: edit a message, ask again, fork, undo.
import { agents, chosen, current, entriesOf, guarded, loadSessions, note, open, view, wire } from "./store.js";
import { freshKey } from "./wire.js";
import { t } from "./words.js";

// The step of the session before a message: events only number the steps of their run.
async function stepBefore(item) {
  const index = view.value.items.value.filter((other) => other.kind === "user" && !other.isSteer).indexOf(item);
  let step = 0, tasks = 0;
  for (const entry of await entriesOf(current.value)) {
    if (entry.kind === "task" && tasks++ === index) break;
    step = Math.max(step, entry.step);
  }
  return step;
}

export const edit = guarded(async (item, text) => {
  const run = await wire.ask("edit", { session: current.value, step: await stepBefore(item), text, key: freshKey(), ...chosen() });
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
  const forked = await wire.ask("fork", { session: current.value, ...options });
  await loadSessions();
  await open(forked.session);
});

export const canUndo = () => {
  const run = view.value.run.value;
  return Boolean((agents.value.find((each) => each.name === run?.agent) ?? agents.value[0])?.can_undo);
};

export const undo = guarded(async () => {
  try {
    const report = await wire.ask("undo", { session: current.value }), files = [...report.restored, ...report.removed];
    note.value = files.length ? t("undone", { files: files.join(", ") }) : t("nothingToUndo");
  } catch (error) {
    if (error.problem?.type !== "urn:pure-agent-loop:nothing-to-undo") throw error;
    note.value = t("nothingToUndo");
  }
});
