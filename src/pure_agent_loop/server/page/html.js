// Templates, hooks and signals for all views.
import { h, render } from "./vendor/preact.js";
import { useEffect, useLayoutEffect, useRef, useState } from "./vendor/hooks.js";
import htm from "./vendor/htm.js";
export { render, useEffect, useLayoutEffect, useRef, useState };
export { signal, computed, batch, effect } from "./vendor/signals.js";
export const html = htm.bind(h);

// A module that is loaded on first use, with the look and words of all of them.
const load = async (file) => (await Promise.all([import(`./${file}.js`), import("./panels.js").then(({ ready }) => ready)]))[0];

// What such a module exports; null until it is loaded, and while it is not wanted.
export function useModule(file, isWanted = true) {
  const [known, setKnown] = useState(null);
  useEffect(() => { if (isWanted && !known) load(file).then(setKnown, async (error) => (await import("./wire.js")).showError(error)); }, [isWanted]);
  return known;
}

// A component of such a module.
export function Lazy({ file, part, ...about }) {
  const known = useModule(file);
  return known && html`<${known[part]} ...${about} />`;
}
