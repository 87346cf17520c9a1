// Templates, hooks and signals for all views.
import { h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";
export { render };
export { useEffect, useLayoutEffect, useRef, useState } from "./vendor/hooks.js";
export { signal, computed, batch, effect } from "./vendor/signals.js";
export const html = htm.bind(h);

// A module that is loaded on first use, with the look and words of all of them.
export const load = async (file) => (await Promise.all([import(`./${file}.js`), import("./panels.js").then(({ ready }) => ready)]))[0];
