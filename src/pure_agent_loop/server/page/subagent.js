// What a subagent did, below its call: its task, its steps and its answer, from the records of its own session.
import { html, useEffect, useRef, useState } from "./html.js";
import { Item } from "./log.js";
import { showEntries } from "./records.js";
import { View } from "./view.js";
import { api, oneAtATime, sessionAt } from "./wire.js";

const MAX_ENTRIES = 500;

// `rev` grows with each change of the task; `isAtWork`: a call without a result runs.
export function Steps({ session, rev, isAtWork }) {
  const [items, setItems] = useState([]), load = useRef(null);
  load.current ||= oneAtATime(async () => {
    const view = new View(), { entries } = await api("GET", `${sessionAt(session)}?limit=${MAX_ENTRIES}`).catch(() => ({ entries: [] })); // not begun
    showEntries(view, entries, session);
    setItems(view.items.value.filter((item) => item.kind !== "end")); // in the line of the call
  });
  useEffect(() => { load.current(); }, [rev]);
  const shown = (item) => (item.kind === "user" ? { ...item, kind: "note", plain: item.text } : isAtWork && item.state === "stopped" ? { ...item, state: "running", start: item.time } : { ...item, isLast: false });
  return html`<div class="members">${items.map((item) => html`<${Item} key=${item.id} item=${shown(item)} />`)}</div>`;
}
