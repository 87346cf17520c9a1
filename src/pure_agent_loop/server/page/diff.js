// Differences between two texts line by line, drawn as rows.
import { html, useState } from "./html.js";
import { t } from "./words.js";

const MAX_CELLS = 250_000; // cells in the table of common lines; larger changes are shown as removed, then added
const MAX_SHOWN = 300, MAX_LINE = 500, MAX_PAIRS = 20, LIKE = 0.4; // characters that a result shows of a line, that are compared; lines; share of equal characters
const WORDS = /\p{sc=Han}|[\p{L}\p{N}_]+|\s+|./gu;
const AROUND = 3; // unchanged lines kept before and after a change

// Rows of a unified diff, without the lines that name the file.
export function rowsOfDiff(diff) {
  let old = 0, now = 0;
  return diff.slice(diff.search(/^@@/m)).replace(/\n$/, "").split("\n").filter((line) => /^[-+@ ]/.test(line)).map((line) => {
    const [, first, next] = /^@@ -(\d+).* \+(\d+)/.exec(line) ?? [], sign = line[0];
    if (first) { old = Number(first); now = Number(next); return ["@", line]; }
    return [sign, line.slice(1), sign === "-" ? old++ : (old += sign === " " ? 1 : 0, now++)];
  });
}

// Rows of a change: sign (" ", "-", "+", or "@" for the head of a hunk), text, and line number. The first line has the number `start`;
// if `start` is unknown there are no numbers.
function rowsOf(before, after, start) {
  if (before.endsWith("\n") && after.endsWith("\n")) return rowsOf(before.slice(0, -1), after.slice(0, -1), start);
  const old = before === "" ? [] : before.split("\n"), now = after === "" ? [] : after.split("\n");
  let head = 0, tail = 0;
  while (head < old.length && head < now.length && old[head] === now[head]) head++;
  while (tail < old.length - head && tail < now.length - head && old.at(-1 - tail) === now.at(-1 - tail)) tail++;
  const rows = old.slice(0, head).map((line) => [" ", line]);
  rows.push(...middle(old.slice(head, old.length - tail), now.slice(head, now.length - tail)));
  rows.push(...old.slice(old.length - tail).map((line) => [" ", line]));
  let last = start, next = start; // line numbers before and after the change
  const numbered = rows.map(([sign, text]) => [sign, text, sign === "-" ? last++ : (last += sign === " " ? 1 : 0, next++)]);
  return hunks(numbered, Boolean(start));
}

// The changed rows with some around them; a head before each hunk, where lines are left out or numbers are known.
function hunks(rows, isNumbered) {
  const out = [];
  let offset = 0; // of the new line numbers
  for (let at = 0; at < rows.length; at++) {
    const isKept = (index) => rows.slice(Math.max(0, index - AROUND), index + AROUND + 1).some(([sign]) => sign !== " ");
    if (!isKept(at)) continue;
    let end = at;
    while (end < rows.length && isKept(end)) end++;
    const hunk = rows.slice(at, end), count = (sign) => hunk.filter((row) => row[0] !== sign).length, first = hunk[0][2] - (hunk[0][0] === "-" ? 0 : offset);
    if (isNumbered) out.push(["@", `@@ -${first},${count("+")} +${first + offset},${count("-")} @@`]);
    else if (out.length) out.push(["@", "⋯"]);
    out.push(...hunk.map(([sign, text, number]) => [sign, text, isNumbered ? number : ""]));
    offset += count("-") - count("+");
    at = end;
  }
  return out;
}

// The longest common subsequence of the lines between the first and the last change.
function middle(old, now) {
  const plain = [...old.map((line) => ["-", line]), ...now.map((line) => ["+", line])];
  if (!old.length || !now.length || old.length * now.length > MAX_CELLS) return plain;
  const width = now.length + 1, best = new Uint32Array((old.length + 1) * width);
  for (let i = old.length - 1; i >= 0; i--) {
    for (let j = now.length - 1; j >= 0; j--) {
      best[i * width + j] = old[i] === now[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  const rows = [];
  let i = 0, j = 0;
  while (i < old.length || j < now.length) {
    if (i < old.length && j < now.length && old[i] === now[j]) { rows.push([" ", old[i++]]); j++; }
    else if (j >= now.length || (i < old.length && best[(i + 1) * width + j] >= best[i * width + j + 1])) rows.push(["-", old[i++]]);
    else rows.push(["+", now[j++]]);
  }
  return rows;
}

// The change that a call makes: rows, and how many lines come and go; null if it is not an edit. A question has the texts `around`
// the change and its `line`; a result has its rows, unless they are too many or too long.
export function changeOf({ tool, args, line, around = [], result }) {
  if (!args || typeof args !== "object") return null;
  const isEdit = typeof args.old_text === "string" && typeof args.new_text === "string";
  if (!isEdit && !(tool === "write_file" && typeof args.content === "string")) return null;
  const hunk = isEdit && /^@@ -\d+,(\d+) \+\d+,(\d+) @@\n[^]*/m.exec(result ?? ""), done = hunk ? rowsOfDiff(hunk[0]) : [], [above = "", below = ""] = around;
  const isWhole = hunk && ["+", "-"].every((sign, at) => done.filter((row) => row[0] !== sign).length - 1 === Number(hunk[at + 1])) && done.every(([, text]) => text.length < MAX_SHOWN);
  const rows = isWhole ? done : isEdit ? rowsOf(above + args.old_text + below, above + args.new_text + below, hunk ? startOf(args, done) : line && line - above.split("\n").length + 1) : args.content.replace(/\n$/, "").split("\n").map((line, at) => ["+", line, at + 1]);
  const count = (wanted) => rows.filter(([sign]) => sign === wanted).length;
  return { rows, isEdit, added: count("+"), removed: count("-") };
}

// The line where an edit began, by the rows around it.
function startOf({ old_text: before, new_text: after }, rows) {
  const old = before.split("\n"), now = after.split("\n");
  let same = 0;
  while (same < old.length && old[same] === now[same]) same++;
  return rows.find(([sign]) => "+-".includes(sign))[2] - same;
}

// Marks the words that differ where a removed line is like an added one: rows with pairs of a text and whether it is marked.
function marked(rows) {
  const out = rows.map((row) => row.slice());
  for (let at = 0; at < rows.length; at++) {
    if (rows[at][0] !== "-") continue;
    let middleOf = at, end;
    while (rows[middleOf]?.[0] === "-") middleOf++;
    for (end = middleOf; rows[end]?.[0] === "+";) end++;
    for (let from = middleOf; at < middleOf; at++) {
      let best = null;
      for (let other = from; other < Math.min(end, from + MAX_PAIRS); other++) {
        const words = middle(...[at, other].map((index) => rows[index][1].slice(0, MAX_LINE).match(WORDS) ?? []));
        const length = (kinds) => words.filter(([sign]) => kinds.includes(sign)).reduce((sum, [, word]) => sum + word.trim().length, 0);
        const likeness = length(" ") / Math.max(length(" -"), length(" +"), 1);
        if (likeness >= (best?.likeness ?? LIKE)) best = { likeness, other, words };
      }
      if (!best) continue;
      from = best.other + 1;
      for (const index of [at, best.other]) out[index][3] = [...best.words.filter(([sign]) => [" ", rows[index][0]].includes(sign)).map(([sign, word]) => [word, sign !== " "]), [rows[index][1].slice(MAX_LINE)]];
    }
    at = end - 1;
  }
  return out;
}

export const Counts = ({ change }) => html`<span class="counts"><span class="added">+${change.added}</span>${change.isEdit && html` <span class="removed">−${change.removed}</span>`}</span>`;

const KINDS = { "+": "added", "-": "removed", " ": "" };

export const MAX_ROWS = 200; // of a change, drawn at first

export function Diff({ change }) {
  const [isWhole, setWhole] = useState(false);
  const rows = marked(isWhole ? change.rows : change.rows.slice(0, MAX_ROWS)), hidden = change.rows.length - rows.length;
  const digits = Math.max(...change.rows.map((row) => String(row[2] ?? "").length));
  return html`<div class="diff"><pre tabindex="0" aria-label="diff"><code>${rows.map(([sign, line, number, words], at) => (sign === "@" ? html`<span key=${at} class="hunk">${line}\n</span>`
    : html`<span key=${at} class="row ${KINDS[sign]}">${digits > 0 && html`<span class="number">${String(number).padStart(digits)} </span>`}${sign}${words ? words.map(([word, isMarked]) => (isMarked ? html`<mark>${word}</mark>` : word)) : line || " "}\n</span>`))}</code></pre>
    ${hidden > 0 && html`<button class="link" onClick=${() => setWhole(true)}>${t("moreRows", { n: hidden })}</button>`}</div>`;
}
