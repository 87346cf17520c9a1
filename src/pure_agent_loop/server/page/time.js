// The steps of a conversation on one line. Moving along it shows the conversation and the files as they were at
// the end of a step; nothing is changed until the person continues from there.
import { html, signal, useEffect, useRef, useState } from "./html.js";
import { Counts, Diff, rowsOfDiff } from "./diff.js";
import * as history from "./history.js";
import { parsed } from "./records.js";
import * as store from "./store.js";
import { isEdit } from "./view.js";
import { api, oneAtATime, sessionAt } from "./wire.js";
import { addWords, ago, subject, t, verb } from "./words.js";

addWords({
  timeLine: ["Steps of this conversation", "此对话的步骤"],
  now: ["now", "现在"],
  backToNow: ["Back to now", "回到现在"],
  stepAt: ["step {n} of {all} · {what} · {time}", "第 {n} 步，共 {all} 步 · {what} · {time}"],
  showingStep: ["Showing step {n}. Your message goes to the end of the conversation.", "正在显示第 {n} 步。消息会发送到对话末尾。"],
  continueHere: ["Continue from here", "从这里继续"],
  withFiles: ["and restore the files", "并恢复文件"],
  filesSince: ["What changed in the files since then", "此后文件的改动"],
  filesSame: ["The files are as they were then.", "文件与当时相同。"],
  filesUnknown: ["No snapshots of files: only the conversation can go back.", "没有文件快照：只能回到当时的对话。"],
  notText: ["not text", "非文本"],
  answered: ["Answer", "回答"],
});
const withFiles = signal(true), hasFiles = signal(null); // whether to go on with the files of the step; whether they differ: null until that is known
const Continue = ({ at, ...about }) => html`<button type="button" ...${about} disabled=${hasFiles.value === null} onClick=${() => history.fork(at.step, withFiles.value && hasFiles.value)}>${t("continueHere")}</button>`;
const MAX_READ = store.TURNS; // entries that are read before anybody looks back

export function Time() {
  const session = store.current.value, view = store.view.value, isRunning = store.isOpen(view.run.value), isLong = view.items.value && view.total > MAX_READ;
  const [steps, setSteps] = useState([]), [isWanted, setWanted] = useState(false), mayRead = isWanted || !isLong, at = store.past.value, keys = useRef(null), isDue = useRef(false);
  useEffect(() => { // read anew when a run ends; much only when it is wanted
    let isMounted = true;
    store.past.value = null;
    if (session && !isRunning && mayRead) store.entriesOf(session).then((entries) => isMounted && setSteps(stepsOf(entries)), store.showError);
    return () => { isMounted = false; store.past.value = null; };
  }, [session, isRunning, mayRead]);
  const go = (index) => { store.past.value = steps[index] ? { ...steps[index], index } : null; };
  keys.current = (event) => {
    const way = { "[": -1, "]": 1 }[event.key];
    if (event.key === "Escape" && at) store.past.value = null;
    if (!way || event.ctrlKey || event.metaKey || /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName)) return;
    if (!steps.length) { isDue.current = true; setWanted(true); return; }
    go(Math.max(0, (at ? at.index : steps.length) + way));
  };
  useEffect(() => {
    const press = (event) => keys.current(event);
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  useEffect(() => { if (isDue.current && steps.length) { isDue.current = false; go(steps.length - 1); } }, [steps]);
  if (isRunning || (steps.length < 2 && !isLong)) return null;
  const want = () => setWanted(true);
  const words = at ? t("stepAt", { n: at.index + 1, all: steps.length, what: at.what, time: ago(at.time) }) : t("now");
  return html`<section class="steps" aria-label=${t("timeLine")}>
    <div class="step-line"><div class="dots" aria-hidden="true">${steps.map((step, index) => html`<i key=${step.step} class="${step.kind} ${at && index > at.index ? "later" : ""}"></i>`)}</div>
      <input type="range" min="0" max=${steps.length} value=${at ? at.index : steps.length} aria-label=${t("timeLine")} aria-valuetext=${words} title="[ ]" onPointerEnter=${want} onFocus=${want} onInput=${(event) => go(Number(event.target.value))} /></div>
    ${at && html`<p><strong>${words}</strong></p><${Past} key=${session} at=${at} session=${session} />`}</section>`;
}

// Over the message field: where a message goes that is written while the past is shown.
export const Warning = ({ at }) => html`<p class="warning" role="status"><span>${t("showingStep", { n: at.index + 1 })}</span> <${Continue} at=${at} /></p>`;

// The files of a step, and ways on from there.
function Past({ at, session }) {
  const [files, setFiles] = useState(null), wanted = useRef(at), load = useRef(null);
  wanted.current = at;
  load.current ||= oneAtATime(async () => {
    const { step } = wanted.current;
    setFiles({ step, ...(await api("GET", `${sessionAt(session)}/time?step=${step}`)) });
  });
  useEffect(() => { withFiles.value = true; }, []);
  useEffect(() => { load.current(); }, [at.step]);
  const isKnown = files?.step === at.step, changes = isKnown ? files.changes : [];
  hasFiles.value = isKnown ? changes.length > 0 : null;
  return html`<div class="past" aria-busy=${!isKnown}>
    ${isKnown && (changes.length ? html`<p class="dim">${t("filesSince")}</p>` : html`<p class="dim">${t(files.known ? "filesSame" : "filesUnknown")}</p>`)}
    ${changes.map((change) => html`<details key=${`${at.step} ${change.path}`}><summary><code>${change.path}</code> ${change.is_binary ? t("notText") : html`<${Counts} change=${{ ...change, isEdit: true }} />`}</summary>
      ${change.diff && html`<${Diff} change=${{ rows: rowsOfDiff(change.diff) }} />`}</details>`)}
    <p><${Continue} at=${at} class="primary" />
      ${changes.length > 0 && html` <label><input type="checkbox" checked=${withFiles.value} onChange=${(event) => { withFiles.value = event.target.checked; }} /> ${t("withFiles")}</label>`}
      <button onClick=${() => { store.past.value = null; }}>${t("backToNow")}</button></p></div>`;
}

// One entry a step: what was done last in it, and how many messages came later, and which step of its run it is.
function stepsOf(entries) {
  const steps = new Map();
  let turn = 0, before = 0, newest = 0;
  for (const entry of entries) {
    if (entry.kind === "task") { turn++; before = newest; }
    if (!entry.step || !["call", "result", "answer"].includes(entry.kind)) continue;
    newest = Math.max(newest, entry.step);
    const step = steps.get(entry.step) ?? { step: entry.step, turn, own: entry.step - before, kind: "", what: "" };
    step.time = entry.time;
    if (entry.kind === "answer") step.what ||= t("answered");
    else if (entry.kind === "call") { step.call = entry; step.kind = isEdit({ ...entry, state: "done" }) ? "changed" : "called"; step.state = "done"; }
    else if (entry.failed) { step.kind = "failed"; step.state = entry.unasked ? "notAsked" : entry.verdict === "deny" ? "denied" : "failed"; }
    steps.set(entry.step, step);
  }
  const named = ({ call, state, what }) => (call ? `${verb(call.tool, { state })} ${subject(parsed(call.text))}`.trim().slice(0, 60) + (state === "done" ? "" : ` (${t(state)})`) : what);
  return [...steps.values()].map((step) => ({ ...step, what: named(step), later: turn - step.turn })); // the view may lack the first messages
}
