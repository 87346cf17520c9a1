// Formulas: TeX to MathML, which browsers render. Loaded with the first formula. The output passes a sanitizer
// that only allows MathML elements and layout attributes.
import temml from "./vendor/temml.js";
import "./vendor/purify.js";

const TAGS = ["math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle", "msub", "msup", "msubsup",
  "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mtd", "mpadded", "mphantom", "merror", "menclose"];
const ATTRIBUTES = ["display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "symmetric", "fence", "separator", "form", "largeop",
  "movablelimits", "accent", "accentunder", "lspace", "rspace", "linethickness", "minsize", "maxsize", "width", "height", "depth", "voffset",
  "columnalign", "columnspacing", "rowspacing", "notation", "class"];
const RULES = { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, IN_PLACE: true };
const LIMITS = { throwOnError: true, trust: false, annotate: false, maxExpand: 200, maxSize: [20, 100] };
const MAX_LENGTH = 5000;
// Lines, colours and gaps that are styles; no address fits in them.
const STYLES = ["color", "border-top", "border-right", "border-bottom", "border-left", "padding-top", "padding-right", "padding-bottom", "padding-left", "math-depth"];

// Browsers without <menclose> draw its content alone.
const LOOK = `.enclosed.top { border-top: .06em solid; padding-top: .1em; } .enclosed.bottom { border-bottom: .06em solid; padding-bottom: .1em; }
  .enclosed:is(.updiagonalstrike, .downdiagonalstrike, .horizontalstrike) { background: linear-gradient(var(--way, to bottom right), transparent 48%, currentColor 48% 52%, transparent 52%); }
  .enclosed.downdiagonalstrike { --way: to top right; } .enclosed.horizontalstrike { --way: to bottom; }
  mtd.tml-left { text-align: -webkit-left; } mtd.tml-right { text-align: -webkit-right; }`;
const look = new CSSStyleSheet();
look.replaceSync(LOOK);
document.adoptedStyleSheets = [...document.adoptedStyleSheets, look];

let namespace = null; // of MathML
const make = (name, ...children) => {
  const element = document.createElementNS(namespace, name);
  element.append(...children);
  return element;
};

// A prime is raised by its own shape: as a superscript, in a font without forms for scripts, it floats. A tall base keeps it, lowered.
function lowerPrimes(formula) {
  for (const prime of formula.querySelectorAll(".tml-prime")) {
    const script = prime.closest("msup, msubsup"), base = script?.firstElementChild, around = prime.parentElement;
    if (!base) continue;
    const hasPrime = base.lastElementChild?.classList.contains("tml-prime");
    if (base.children.length && !hasPrime) {
      const lowered = make("mpadded");
      lowered.setAttribute("voffset", "-.35em");
      prime.replaceWith(lowered);
      lowered.append(prime);
      continue;
    }
    const row = hasPrime ? base : make("mrow");
    if (!hasPrime) { base.replaceWith(row); row.append(base); }
    row.append(prime);
    if (around !== script && !around.children.length) around.remove();
    if (script.localName === "msup" && script.children.length === 1) script.replaceWith(row);
    if (script.localName === "msubsup" && script.children.length === 2) script.replaceWith(make("msub", ...script.children));
  }
}

// Replace a formula's source by its rendering. Invalid formulas stay as source.
export function draw(element, tex, isDisplay) {
  if (tex.length > MAX_LENGTH) return;
  const formula = document.createElement("span");
  try { temml.render(tex, formula, { ...LIMITS, displayMode: isDisplay, macros: {} }); } catch { return; }
  namespace = formula.firstElementChild.namespaceURI;
  const styled = [...formula.querySelectorAll("[style]")].map((part) => [part, STYLES.map((name) => [name, part.style.getPropertyValue(name)])]);
  globalThis.DOMPurify.sanitize(formula.firstElementChild, RULES); // in place: serialized styles would violate the CSP
  for (const [part, styles] of styled) styles.forEach(([name, value]) => value && part.style.setProperty(name, value));
  for (const part of formula.querySelectorAll("menclose")) {
    const row = make("mrow", ...part.children);
    row.setAttribute("class", `enclosed ${part.getAttribute("notation")}`);
    part.replaceWith(row);
  }
  lowerPrimes(formula);
  formula.className = isDisplay ? "formula display" : "formula";
  formula.title = tex;
  if (isDisplay) formula.tabIndex = 0; // long formulas scroll
  element.replaceWith(formula);
}
