// Formulas: TeX to MathML, which browsers render. Loaded with the first formula. The output passes a sanitizer
// that only allows MathML elements and layout attributes.
import temml from "./vendor/temml.js";
import "./vendor/purify.js";

const TAGS = ["math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle", "msub", "msup", "msubsup",
  "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mtd", "mpadded", "mphantom", "merror"];
const ATTRIBUTES = ["display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "symmetric", "fence", "separator", "form", "largeop",
  "movablelimits", "accent", "accentunder", "lspace", "rspace", "linethickness", "minsize", "maxsize", "width", "height", "depth", "voffset",
  "columnalign", "columnspacing", "rowspacing", "notation"];
const RULES = { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, IN_PLACE: true };
const LIMITS = { throwOnError: true, trust: false, annotate: false, maxExpand: 200, maxSize: [20, 100] };
const MAX_LENGTH = 5000;

// Replace a formula's source by its rendering. Invalid formulas stay as source.
export function draw(element, tex, isDisplay) {
  if (tex.length > MAX_LENGTH) return;
  const formula = document.createElement("span");
  try { temml.render(tex, formula, { ...LIMITS, displayMode: isDisplay, macros: {} }); } catch { return; }
  globalThis.DOMPurify.sanitize(formula.firstElementChild, RULES); // in place: serialized styles would violate the CSP
  formula.className = isDisplay ? "formula display" : "formula";
  formula.title = tex;
  if (isDisplay) formula.tabIndex = 0; // long formulas scroll
  element.replaceWith(formula);
}
