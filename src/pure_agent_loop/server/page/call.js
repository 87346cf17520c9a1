// A tool call, collapsed to its state and time; inside, arguments and result. Diffs are coloured.
import { html, useEffect, useRef, useState } from "./html.js";
import { codeBox } from "./markdown.js";
import { seconds, t } from "./words.js";

const MARKS = { running: "◌", done: "✓", failed: "✕", waiting: "?" };
const MAX_SHOWN = 20000;

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

// Files of a result: images and audio inline, others as downloads. The server determines the types.
export function Files({ files }) {
  return html`<div class="item files">${files.map((file) => html`<figure key=${file.number}>
    ${file.media_type.startsWith("image/") && html`<img src=${file.url} alt=${t("fileOf", { tool: file.tool })} loading="lazy" />`}
    ${file.media_type.startsWith("audio/") && html`<audio src=${file.url} controls preload="none" aria-label=${file.name}></audio>`}
    <figcaption><a href=${file.url} download=${file.name}>${file.name}</a> <span class="dim">${size(file.bytes)}</span></figcaption></figure>`)}</div>`;
}

const size = (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

function Inside({ item }) {
  return html`<div class="inside">
    ${item.verdict && html`<p class="dim">${t(item.verdict === "deny" ? "answeredDeny" : "answeredAllow")}</p>`}
    <${Args} args=${item.args} />
    ${item.progress && item.state === "running" && html`<${Code} text=${item.progress} language="" label=${t("running")} />`}
    ${item.result !== undefined && html`<${Code} text=${String(item.result).slice(0, MAX_SHOWN)} language=${kindOf(String(item.result))} label=${t("output")} />`}
  </div>`;
}

// The arguments of a call: commands and diffs formatted, the rest as JSON.
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
  const box = useRef(null);
  useEffect(() => { box.current.replaceChildren(codeBox(text, language, label)); }, [text, language, label]);
  return html`<div ref=${box}></div>`;
}
