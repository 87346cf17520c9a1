// What was sent with a message: pictures, and files as chips. The texts of files stand at the end of the message, in fences.
import { html } from "./html.js";
import { Icon } from "./icons.js";
import { t } from "./words.js";

// A message followed by the texts of files, each in a fence longer than those inside.
export function withFiles(message, files) {
  const fence = (text) => "`".repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return [message, ...files.map(({ name, content }) => `${name}:\n\n${fence(content)}\n${content}\n${fence(content)}`)].join("\n\n");
}

// The message and the files that `withFiles` has put together.
export function withoutFiles(whole) {
  const files = [];
  let text = whole;
  for (;;) {
    const fence = /\n(`{3,})$/.exec(text)?.[1], end = text.length - (fence?.length ?? 0) - 1, at = fence ? text.lastIndexOf(`:\n\n${fence}\n`, end - 1) : -1;
    const from = text.lastIndexOf("\n", at - 1) + 1, name = text.slice(from, at);
    if (at < 0 || !name || (from && !text.slice(0, from).endsWith("\n\n"))) return { text, files };
    files.unshift({ name, content: text.slice(Math.min(at + 4 + fence.length, end), end) });
    text = text.slice(0, Math.max(0, from - 2));
  }
}

export const size = (bytes) => (bytes < 1000 ? `${bytes} B` : bytes < 1e6 ? `${Math.round(bytes / 1000)} kB` : `${(bytes / 1e6).toFixed(1)} MB`);

// How much is in a file: the rows of a table below its head, the lines of a text, else bytes.
function amount({ name, content, bytes, url }) {
  if (content === undefined) return size(bytes ?? Math.round((url.length - url.indexOf(",")) * 0.75));
  const lines = content.trimEnd().split("\n").length;
  return /\.[ct]sv$/i.test(name) ? t("rows", { n: Math.max(0, lines - 1) }) : t("lines", { n: lines });
}

export const isPicture = ({ url, media_type: type }) => (type ?? url?.slice(5) ?? "").startsWith("image/");

export function Sent({ media }) {
  if (!media?.length) return null;
  return html`<ul class="sent">${media.map((file, at) => html`<li key=${at}>${isPicture(file) ? html`<img src=${file.url} alt=${file.name || t("picture")} />`
    : html`<span class="chip"><${Icon} name="file" /> <span>${file.url && !file.url.startsWith("data:") ? html`<a href=${file.url} download=${file.name}>${file.name}</a>` : file.name}</span> <span class="dim">${amount(file)}</span></span>`}</li>`)}</ul>`;
}
