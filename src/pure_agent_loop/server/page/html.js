// Templates, hooks and signals for all views.
import { h, render } from "./vendor/preact.js";
import htm from "./vendor/htm.js";
export { render };
export { useEffect, useLayoutEffect, useRef, useState } from "./vendor/hooks.js";
export { signal, computed, batch, effect } from "./vendor/signals.js";
export const html = htm.bind(h);
