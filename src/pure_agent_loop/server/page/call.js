// A call of a tool, folded: its state and time; inside, what went in and what came out. Diffs have colours.
import { html, useEffect, useRef, useState } from "./html.js";
import { codeBox } from "./markdown.js";
import { seconds, t } from "./words.js";

const MARKS = { running: "◌", done: "✓", failed: "✕", waiting: "?" };
const MOST_SHOWN = 20000;

export function Call({ item, rev }) {
  const [isOpen, setOpen] = useState(false);
  const head = brief(item.args);
  return html`<details class="item call ${item.state}" id="call-${item.id}" onToggle=${(event) => setOpen(event.target.open)}>
    <summary><span class="mark" role="img" aria-label=${t(item.state)}>${MARKS[item.state]}</span>
      <span class="tool">${item.tool}</span> <span class="brief">${head}</span>
      <span class="time">${item.seconds !== undefined && item.seconds !== null ? seconds(item.seconds) : item.state === "done" ? "" : t(item.state)}</span></summary>
    ${isOpen && html`<${Inside} item=${item} rev=${rev} />`}
  </details>${item.files && html`<${Files} files=${item.files} />`}`;
}

// What a tool gave beside text: pictures and sounds as such, everything else to save. The server says what is what.
export function Files({ files }) {
  return html`<div class="item files">${files.map((each) => html`<figure key=${each.number}>
    ${each.media_type.startsWith("image/") && html`<img src=${each.url} alt=${t("fileOf", { tool: each.tool })} loading="lazy" />`}
    ${each.media_type.startsWith("audio/") && html`<audio src=${each.url} controls preload="none" aria-label=${each.name}></audio>`}
    <figcaption><a href=${each.url} download=${each.name}>${each.name}</a> <span class="dim">${size(each.bytes)}</span></figcaption></figure>`)}</div>`;
}

const size = (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

function Inside({ item }) {
  return html`<div class="inside">
    ${item.verdict && html`<p class="dim">${t(item.verdict === "deny" ? "answeredDeny" : "answeredAllow")}</p>`}
    <${Args} args=${item.args} />
    ${item.progress && item.state === "running" && html`<${Code} text=${item.progress} language="" label=${t("running")} />`}
    ${item.result !== undefined && html`<${Code} text=${String(item.result).slice(0, MOST_SHOWN)} language=${kindOf(String(item.result))} label=${t("output")} />`}
  </div>`;
}

// The arguments of a call: commands and diffs as such, the rest as JSON.
export function Args({ args }) {
  if (args === undefined || args === null || args === "") return null;
  if (typeof args !== "object") return html`<${Code} text=${String(args)} language="json" label=${t("input")} />`;
  const long = Object.entries(args).filter(([, value]) => typeof value === "string" && (value.includes("\n") || isCommand(value, args)));
  const rest = Object.fromEntries(Object.entries(args).filter(([key]) => !long.some(([name]) => name === key)));
  return html`<div>${Object.keys(rest).length > 0 && html`<${Code} text=${JSON.stringify(rest, null, 2)} language="json" label=${t("input")} />`}
    ${long.map(([key, value]) => html`<${Code} key=${key} text=${value} language=${args[key] === args.command ? "bash" : kindOf(value)} label=${key} />`)}
    ${typeof args.old_text === "string" && typeof args.new_text === "string" && html`<${Code} text=${change(args.old_text, args.new_text)} language="diff" label="diff" />`}</div>`;
}

const isCommand = (value, args) => args.command === value;
const kindOf = (text) => (/^(diff --git|--- |@@ )/m.test(text) && /^[+-]/m.test(text) ? "diff" : /^\s*[[{]/.test(text) ? "json" : "");
const change = (before, after) => [...before.split("\n").map((line) => `-${line}`), ...after.split("\n").map((line) => `+${line}`)].join("\n");

function brief(args) {
  if (!args) return "";
  if (typeof args === "string") return args.slice(0, 120);
  return Object.values(args).map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(" · ").replace(/\s+/g, " ").slice(0, 120);
}

export function Code({ text, language, label }) {
  const place = useRef(null);
  useEffect(() => { place.current.replaceChildren(codeBox(text, language, label)); }, [text, language, label]);
  return html`<div ref=${place}></div>`;
}
