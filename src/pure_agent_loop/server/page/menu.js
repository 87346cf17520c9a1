// A button with a menu.
import { html, useEffect, useRef, useState } from "./html.js";
import { Icon } from "./icons.js";

// A button that opens a menu in the top layer; the browser closes it on Escape, and on a click elsewhere.
let menus = 0;
export function Menu({ label, icon = "more", text, children }) {
  const [isOpen, setOpen] = useState(false), [id] = useState(() => `menu-${++menus}`), button = useRef(null), box = useRef(null);
  useEffect(() => { // the menu is not shown yet
    if (isOpen) requestAnimationFrame(() => box.current && place(box.current, button.current.getBoundingClientRect()));
  }, [isOpen]);
  return html`<button type="button" ref=${button} class=${text ? "picker" : "icon"} popovertarget=${id} aria-label=${label} title=${label} aria-expanded=${isOpen}>${text} <${Icon} name=${icon} /></button>
    <div id=${id} ref=${box} popover="auto" class="popover" onBeforeToggle=${(event) => setOpen(event.newState === "open")} onClick=${() => box.current.hidePopover()}>${isOpen && children}</div>`;
}

// Placed below its button, or above if there is no room; within the window.
function place(box, { left, right, top, bottom }) {
  const { offsetWidth: width, offsetHeight: height } = box;
  box.style.left = `${Math.max(8, left + width > innerWidth - 8 ? right - width : left)}px`;
  box.style.top = `${Math.max(8, bottom + height + 8 > innerHeight ? top - height - 4 : bottom + 4)}px`;
}
