// Icons for the page: drawings of 16 by 16, in the text's colour.
import { html } from "./html.js";

const PATHS = {
  menu: "M2 4h12M2 8h12M2 12h12", plus: "M8 3v10M3 8h10", close: "M4 4l8 8M12 4l-8 8", check: "M3 8.5l3.2 3L13 4.5",
  send: "M8 13V3M4 7l4-4 4 4", stop: "M3.5 3.5h9v9h-9z", copy: "M6 6h7v7H6zM3 10V3h7", retry: "M13 8a5 5 0 1 1-1.6-3.7M13 2v3h-3",
  fork: "M4 3v10M4 9c5 0 8-1 8-5M10 5.5L12 3.5l2 2", pencil: "M3 13l.6-2.8L11 3l2 2-7.3 7.4zM9.8 4.2l2 2", more: "M3 8h.01M8 8h.01M13 8h.01",
  terminal: "M3 4l4 4-4 4M8.5 12H13", file: "M4 2h5l3 3v9H4zM9 2v3h3", search: "M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.5 10.5L14 14",
  globe: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12zM2 8h12M8 2c2.4 3 2.4 9 0 12M8 2c-2.4 3-2.4 9 0 12", list: "M6 4h7M6 8h7M6 12h7M3 4h.01M3 8h.01M3 12h.01",
  tool: "M8 2l5 3v6l-5 3-5-3V5zM8 8l5-3M8 8v6M8 8L3 5", inbox: "M2 9h3.5l1 2h3l1-2H14M2 9l2-6h8l2 6v4H2z", clip: "M12.5 7.5l-5 5a3 3 0 0 1-4.2-4.2l5.5-5.5a2 2 0 0 1 2.8 2.8L6.4 10.8a1 1 0 0 1-1.4-1.4L9.5 5",
  server: "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01", chat: "M2.5 3.5h11v7H7l-3 2.5v-2.5H2.5z",
  chart: "M3 2v11h11M6 10V7M9 10V4M12 10V6", undo: "M3 6h6a3.5 3.5 0 0 1 0 7H6M5.5 3.5L3 6l2.5 2.5", download: "M8 2.5v8M4.5 7L8 10.5 11.5 7M3 13.5h10",
  trash: "M3 4.5h10M6 4.5V3h4v1.5M4.5 4.5l.5 9h6l.5-9", pin: "M5.5 2.5h5M6 2.5l.5 4-2 2.5h7l-2-2.5.5-4M8 9v5", folder: "M2 4h4l1.5 1.5H14V13H2z", down: "M4.5 6.5L8 10l3.5-3.5",
  gear: "M8 10.2a2.2 2.2 0 1 0 0-4.4 2.2 2.2 0 0 0 0 4.4zM8 1.8v2M8 12.2v2M1.8 8h2M12.2 8h2M3.6 3.6L5 5M11 11l1.4 1.4M12.4 3.6L11 5M5 11l-1.4 1.4",
};

export const Icon = ({ name }) => html`<svg class="glyph" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true"><path d=${PATHS[name]} /></svg>`;
