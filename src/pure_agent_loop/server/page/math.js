// Formulas: TeX to MathML, which a browser draws by itself. Loaded with the first formula; what comes of a
// formula goes through the sanitizer, which lets nothing but MathML's own elements and their measures by.
import temml from "./vendor/temml.js";
import "./vendor/purify.js";

const TAGS = ["math", "mrow", "mi", "mn", "mo", "ms", "mtext", "mspace", "mfrac", "msqrt", "mroot", "mstyle", "msub", "msup", "msubsup",
  "munder", "mover", "munderover", "mmultiscripts", "mprescripts", "none", "mtable", "mtr", "mtd", "mpadded", "mphantom", "merror"];
const ATTRIBUTES = ["display", "displaystyle", "scriptlevel", "mathvariant", "stretchy", "symmetric", "fence", "separator", "form", "largeop",
  "movablelimits", "accent", "accentunder", "lspace", "rspace", "linethickness", "minsize", "maxsize", "width", "height", "depth", "voffset",
  "columnalign", "columnspacing", "rowspacing", "notation"];
const RULES = { ALLOWED_TAGS: TAGS, ALLOWED_ATTR: ATTRIBUTES, ALLOW_DATA_ATTR: false, ALLOW_ARIA_ATTR: false, IN_PLACE: true };
const LIMITS = { throwOnError: true, trust: false, annotate: false, maxExpand: 200, maxSize: [20, 100] };
const MOST = 5000;

// Put a formula in the place of its source; what is none stays as it was written.
export function draw(place, tex, isDisplay) {
  if (tex.length > MOST) return;
  const formula = document.createElement("span");
  try { temml.render(tex, formula, { ...LIMITS, displayMode: isDisplay, macros: {} }); } catch { return; }
  globalThis.DOMPurify.sanitize(formula.firstElementChild, RULES); // as elements: a text with styles is against the policy
  formula.className = isDisplay ? "formula display" : "formula";
  formula.title = tex;
  if (isDisplay) formula.tabIndex = 0; // a long one is scrolled
  place.replaceWith(formula);
}
