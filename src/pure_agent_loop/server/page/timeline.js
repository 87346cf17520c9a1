// Timeline of a run: a row for the model, rows for concurrent calls, a mark per step.
import { html, useState } from "./html.js";
import * as store from "./store.js";
import { cacheWords, money, seconds, t, usedWords } from "./words.js";

const MAX_FRAMES = 60; // frames to wait until folded calls are drawn
const WAIT = 0.1; // width of a longer wait, as a share of the work
const ROW = 22, LEFT = 60, WIDTH = 380;

export function Timeline() {
  const view = store.view.value;
  view.version.value;
  const [zoom, setZoom] = useState(1);
  const run = view.runs.at(-1);
  if (!run) return html`<section class="panel" aria-label=${t("timeline")}><h2>${t("timeline")}</h2><p class="dim">${t("noRun")}</p></section>`;
  const end = run.ended || run.updated, length = Math.max(end - run.started, 0.001);
  const waits = [...(run.waits || []), ...(run.waitsSince ? [[run.waitsSince, end]] : [])], waited = waits.reduce((sum, [from, to]) => sum + to - from, 0);
  // A wait for a person takes little room, however long it was.
  const short = Math.max(length - waited, 0.001) * WAIT, scaled = (time) => waits.reduce((at, [from, to]) => at - Math.max(0, (Math.min(time, to) - from) * (1 - Math.min(1, short / (to - from || 1)))), time - run.started);
  const width = WIDTH * zoom, x = (time) => LEFT + (scaled(time) / Math.max(scaled(end), 0.001)) * (width - LEFT - 10);
  const rows = assignRows(run.spans, end);
  const height = (Math.max(1, ...rows.map(([row]) => row + 1)) + 1) * ROW + 8;
  const show = (span) => {
    const item = view.items.value.find((other) => (span.callId ? other.callId === span.callId : other.kind === "answer" && other.step === span.step && other.run === run.id));
    if (!item?.callId) return;
    const folded = [...document.querySelectorAll("details.calls")].find((each) => each.dataset.from <= item.id && item.id <= each.dataset.to);
    if (folded) folded.open = true; // its calls are drawn only then
    const reveal = (tries) => {
      const element = document.getElementById(`call-${item.id}`);
      if (element) { element.open = true; element.scrollIntoView({ block: "center" }); element.querySelector("summary")?.focus(); }
      else if (tries) requestAnimationFrame(() => reveal(tries - 1));
    };
    reveal(MAX_FRAMES);
  };
  return html`<section class="panel" aria-label=${t("timeline")}><h2>${t("timeline")} <span class="dim">${seconds(length)} · ${t("tokens", { n: (run.tokens || run.marks?.at(-1)?.tokens || 0).toLocaleString() })}${run.usage?.cached_tokens ? ` · ${t("cachedShare", { n: Math.round((100 * run.usage.cached_tokens) / run.usage.prompt_tokens) })}` : ""}${run.cost ? ` · ${money(run.cost)}` : ""}</span>
      <span class="grow"></span><button class="icon" aria-label="−" onClick=${() => setZoom(Math.max(1, zoom / 2))}>−</button><button class="icon" aria-label="+" onClick=${() => setZoom(Math.min(16, zoom * 2))}>+</button></h2>
    <div class="scroll" tabindex="0" role="group" aria-label=${t("timeline")}><svg width=${width} height=${height} role="group" aria-label=${t("timeline")}>
      <text x="4" y=${ROW - 6}>${t("model")}</text><text x="4" y=${2 * ROW - 6}>${t("tool")}</text>
      ${waits.map(([from, to]) => html`<rect key=${from} class="wait" x=${x(from)} y="0" width=${Math.max(x(to) - x(from), 1)} height=${height - 14} role="img" aria-label=${t("waited", { time: seconds(to - from) })}><title>${t("waited", { time: seconds(to - from) })}</title></rect>`)}
      ${spaced(run.marks || [], x).map((mark) => html`<g key=${mark.step}><line class="mark" x1=${x(mark.at)} x2=${x(mark.at)} y1="0" y2=${height - 14} /><text class="mark" x=${x(mark.at)} y=${height - 2}>${mark.isFar ? t("stepN", { n: mark.step }) : ""}</text></g>`)}
      ${rows.map(([row, span], index) => {
        const from = x(span.start), to = Math.max(x(span.end || end), from + 3);
        const used = span.used ? `, ${[usedWords(span.used.in, span.used.out, span.used.cached), ...cacheWords(span.used.written, span.used.missed)].join(", ")}` : "", share = span.used?.in ? span.used.cached / span.used.in : 0;
        const label = `${span.tool || t("model")}, ${t("stepN", { n: span.step })}, ${seconds((span.end || end) - span.start)}${used}`;
        return html`<g key=${index}><rect class="bar ${span.kind} ${span.failed ? "failed" : ""}" x=${from} y=${row * ROW + 3} width=${to - from} height=${ROW - 6} rx="4" role="button" tabindex="0" aria-label=${label}
          onClick=${() => show(span)} onKeyDown=${(event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); show(span); } }}><title>${label}</title></rect>
          ${share > 0 && html`<rect class="cached" x=${from} y=${row * ROW + ROW - 7} width=${(to - from) * share} height="4" />`}</g>`;
      })}</svg></div></section>`;
}

// Labels of steps that would overlap are left out.
function spaced(marks, x) {
  let last = LEFT;
  return marks.map((mark) => {
    const isFar = x(mark.at) - last > 44;
    if (isFar) last = x(mark.at);
    return { ...mark, isFar };
  });
}

// Concurrent calls get separate rows.
function assignRows(spans, end) {
  const ends = [];
  return spans.map((span) => {
    if (span.kind === "model") return [0, span];
    let row = ends.findIndex((rowEnd) => rowEnd <= span.start);
    if (row < 0) row = ends.length;
    ends[row] = span.end || end;
    return [row + 1, span];
  });
}
