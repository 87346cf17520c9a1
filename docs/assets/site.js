// What the theme leaves to be done for screen readers and keyboards, when it has built the page.
addEventListener("load", () => {
  // Landmarks get names of their own.
  document.querySelectorAll(".md-code__nav").forEach((each, place) => {
    each.setAttribute("aria-label", `${each.firstElementChild.title} ${place + 1}`);
  });
  for (const each of document.querySelectorAll(".md-nav--secondary .md-nav")) {
    const contents = each.closest(".md-nav--secondary").getAttribute("aria-label");
    each.setAttribute("aria-label", `${contents}: ${each.getAttribute("aria-label")}`);
  }

  // Tables and drawings wider than the window can be scrolled with the keyboard.
  const widths = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.tabIndex = 0;
      else target.removeAttribute("tabindex");
    }
  });
  const wide = '.md-typeset__scrollwrap, p:has(> img[src$=".svg"])';
  for (const each of document.querySelectorAll(wide)) widths.observe(each);
});
