// Markdown to elements. Raw HTML is shown as text, the output passes a sanitizer with a short list of tags,
// and nothing that a model writes is loaded: images other than data URLs are replaced by their text.
import { marked } from "./vendor/marked.js";
import "./vendor/purify.js";
import { t } from "./words.js";

const purify = globalThis.DOMPurify;
const DATA_IMAGE = /^data:image\/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]+$/;
const LINK = /^(https?:|mailto:)/i;
const MAX_HIGHLIGHTED = 40000;
const TAGS = ["p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "strong", "em", "del",
  "code", "pre", "table", "thead", "tbody", "tr", "th", "td", "a", "img", "span"];
const RULES = { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ["href", "src", "alt", "title", "start", "align", "data-lang"],
  ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, RETURN_DOM_FRAGMENT: true };
const COLOURS = { ALLOWED_TAGS: ["span"], ALLOWED_ATTR: ["class"], RETURN_DOM_FRAGMENT: true };

const escaped = (text) => text.replace(/[&<>"']/g, (char) => `&#${char.charCodeAt(0)};`);
const formula = (name, level, start, rule) => ({
  name, level,
  start: (text) => { const at = text.search(start); return at < 0 ? undefined : at; },
  tokenizer: (text) => {
    const match = rule.exec(text);
    return match ? { type: name, raw: match[0], tex: (match[1] ?? match[2]).trim(), isDisplay: level === "block" || /^(\$\$|\\\[)/.test(match[0]) } : undefined;
  },
  renderer: ({ tex, isDisplay }) => `<code data-lang="${isDisplay ? DISPLAY : INLINE}">${escaped(tex)}</code>`,
});
const INLINE = "tex-inline", DISPLAY = "tex-display";
marked.use({
  // Amounts of money are not formulas: a formula has no space inside its dollar signs and no digit after them.
  extensions: [formula("formulas", "block", /^ {0,3}(\$\$|\\\[)/m, /^ {0,3}(?:\$\$([^$]+?)\$\$|\\\[([^]+?)\\\])[ \t]*(?:\n|$)/),
    formula("formula", "inline", /\$|\\[([]/, /^(?:\$\$([^$\n]+?)\$\$|\\[([]([^\n]+?)\\[)\]])/),
    formula("money", "inline", /\$/, /^\$((?![\s$])(?:[^$\n\\`]|\\[^\n])*?[^\s$\\])\$(?![\d$\w])/)],
  gfm: true,
  breaks: false,
  renderer: {
    html: ({ text }) => escaped(text),
    code: ({ text, lang }) => `<pre><code data-lang="${escaped((lang || "").split(/\s/)[0])}">${escaped(text)}</code></pre>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
    image: ({ href, text }) => (DATA_IMAGE.test(href) ? `<img src="${escaped(href)}" alt="${escaped(text)}">`
      : `<span>${escaped(t("imageHidden", { alt: text || href }))}</span>`),
  },
});

// Tabs inside fences as a character that no text has: in a list, the parser would turn them into blanks.
const TAB = "\uFDD0", FENCE = /^((?:[ \t>]|[-*+][ \t]|\d+[.)][ \t])*)(`{3,}|~{3,})/;
const toTabs = (text) => text.replaceAll(TAB, "\t");
const columnAfter = (column, char) => column + (char === "\t" ? 4 - (column % 4) : 1);
function withoutTabs(text) {
  if (!text.includes("\t")) return text;
  let fence = "", width = 0;
  return text.split("\n").map((line) => {
    const opening = FENCE.exec(line), bare = line.trim();
    if (!fence) {
      if (opening) { fence = opening[2]; width = [...opening[1]].reduce(columnAfter, 0); }
      return line;
    }
    if (bare.startsWith(fence) && !bare.replaceAll(fence[0], "")) { fence = ""; return line; }
    let at = 0;
    for (let column = 0; column < width && /[ \t>]/.test(line[at] ?? ""); at++) column = columnAfter(column, line[at]);
    return line.slice(0, at) + line.slice(at).replaceAll("\t", TAB);
  }).join("\n");
}

// Renders growing text as blocks. Finished blocks keep their elements.
export class Blocks {
  constructor(container) {
    this.container = container;
    this.raws = [];
    this.frozen = 0; // number of finished blocks
    this.frozenText = "";
  }

  draw(text) {
    if (!text.startsWith(this.frozenText)) { this.frozen = 0; this.frozenText = ""; }
    const tokens = marked.lexer(withoutTabs(text.slice(this.frozenText.length)));
    const kept = tokens.filter((token) => token.type !== "space");
    kept.forEach((token, index) => {
      const at = this.frozen + index;
      if (this.raws[at] === token.raw) return;
      const block = document.createElement("div");
      block.className = "block";
      block.dir = "auto"; // the side of list marks and quotes
      token.links = tokens.links;
      const list = [token];
      list.links = tokens.links;
      block.append(clean(toTabs(marked.parser(list))));
      finish(block);
      const old = this.container.children[at];
      old ? old.replaceWith(block) : this.container.append(block);
      this.raws[at] = token.raw;
    });
    const count = this.frozen + kept.length;
    while (this.container.children.length > count) this.container.lastChild.remove();
    this.raws.length = count;
    // Text before a blank line is finished if a token follows; a list includes its blank lines.
    const gap = tokens.findLastIndex((token, index) => token.type === "space" && index > 0 && index < tokens.length - 1);
    if (gap > 0) {
      const done = tokens.slice(0, gap + 1);
      this.frozenText += toTabs(done.map((token) => token.raw).join(""));
      this.frozen += done.filter((token) => token.type !== "space").length;
      if (!text.startsWith(this.frozenText)) { this.frozen = 0; this.frozenText = ""; }
    }
  }
}

function clean(html) {
  return purify.sanitize(html, RULES);
}

function finish(block) {
  for (const link of block.querySelectorAll("a")) {
    const href = link.getAttribute("href") || "";
    if (!LINK.test(href)) { link.replaceWith(...link.childNodes); continue; }
    link.rel = "noopener noreferrer nofollow";
    link.target = "_blank";
    link.title = href; // show the real target
  }
  for (const image of block.querySelectorAll("img")) {
    if (!DATA_IMAGE.test(image.getAttribute("src") || "")) image.remove();
  }
  for (const item of block.querySelectorAll("li")) if (/^[☑☐] /.test(item.textContent)) item.className = "task";
  for (const table of block.querySelectorAll("table")) {
    const frame = document.createElement("div");
    frame.className = "table";
    frame.tabIndex = 0;
    table.replaceWith(frame);
    frame.append(table);
  }
  for (const code of block.querySelectorAll(`code[data-lang="${INLINE}"], code[data-lang="${DISPLAY}"], pre > code[data-lang="math"]`)) {
    const isDisplay = code.dataset.lang !== INLINE, target = code.parentNode.localName === "pre" ? code.parentNode : code;
    import("./math.js").then((math) => math.draw(target, code.textContent, isDisplay)).catch(() => {}); // keep the source
  }
  for (const code of block.querySelectorAll("pre > code:not([data-lang='math'])")) code.parentNode.replaceWith(codeBox(code.textContent, code.dataset.lang || ""));
}

// Code with its language, a copy button, and highlighting for known languages.
export function codeBox(text, language, label = language) {
  const box = document.createElement("div"), head = document.createElement("div"), name = document.createElement("span");
  const copy = document.createElement("button"), pre = document.createElement("pre"), code = document.createElement("code");
  box.className = "code";
  box.dir = "ltr";
  head.className = "code-head";
  name.textContent = label || "text";
  copy.type = "button";
  copy.textContent = t("copy");
  copy.addEventListener("click", async () => {
    try { await navigator.clipboard.writeText(text); } catch { return; }
    copy.textContent = t("copied");
    setTimeout(() => { copy.textContent = t("copy"); }, 1500);
  });
  code.textContent = text;
  pre.tabIndex = 0;
  pre.append(code);
  head.append(name, copy);
  box.append(head, pre);
  colour(code, text, language.toLowerCase());
  return box;
}

const NAMES = { py: "python", js: "typescript", jsx: "typescript", mjs: "typescript", javascript: "typescript", ts: "typescript", sh: "bash", shell: "bash", zsh: "bash", console: "bash", html: "xml", svg: "xml", yml: "yaml", golang: "go", rs: "rust", patch: "diff" };
const KNOWN = new Set(["python", "typescript", "bash", "json", "diff", "css", "xml", "sql", "yaml", "go", "rust"]);
const loaded = new Map();

function grammar(name) {
  if (!loaded.has(name)) {
    loaded.set(name, Promise.all([import("./vendor/highlight/core.js"), import(name === "css" ? "./css.js" : `./vendor/highlight/${name}.js`)]).then(([core, language]) => {
      core.default.registerLanguage(name, language.default);
      return core.default;
    }));
  }
  return loaded.get(name);
}

async function colour(code, text, language) {
  const name = NAMES[language] || language;
  if (!KNOWN.has(name) || text.length > MAX_HIGHLIGHTED) return;
  try {
    const highlight = await grammar(name);
    const output = highlight.highlight(text, { language: name, ignoreIllegals: true }).value;
    code.replaceChildren(purify.sanitize(output, COLOURS));
  } catch { /* stays plain */ }
}
