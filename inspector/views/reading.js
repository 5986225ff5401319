// The row that a person decides on fills the window, is scrolled by keys, and begins at its top; "?" tells all keys.
(help) => {
  if (window.trailforgeReading) return;
  window.trailforgeReading = true;
  const LEAST = 320, BELOW = 20, LINE = 60;
  const row = () => document.querySelector(".st-key-decide_row");
  const isTyping = (at) => at.isContentEditable || /^(TEXTAREA|SELECT|INPUT)$/.test(at.tagName);

  const scroller = () => {
    for (let each = row(); each && each !== document.body; each = each.parentElement)
      if (/auto|scroll/.test(getComputedStyle(each).overflowY)) return each;
    return row();
  };

  let seat = null;
  const fit = () => {
    const place = row();
    if (!place?.getClientRects().length) return;
    const main = document.querySelector('[data-testid="stMain"]');
    const top = scroller().getBoundingClientRect().top + (main?.scrollTop ?? 0);
    const height = `${Math.max(LEAST, Math.floor(innerHeight - top - BELOW))}px`;
    const style = document.documentElement.style;
    if (style.getPropertyValue("--row-height") !== height) style.setProperty("--row-height", height);
    const now = place.querySelector(".seat.from")?.dataset.row;
    if (now && now !== seat) {
      seat = now;
      scroller().scrollTop = 0;
    }
  };
  let asked = false;
  const fitSoon = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; fit(); });
  };
  new MutationObserver(fitSoon).observe(document.body, { childList: true, subtree: true });
  addEventListener("resize", fitSoon);
  fitSoon();

  const toggle = () => {
    const shown = document.querySelector(".all-keys");
    if (shown) return shown.remove();
    const list = document.body.appendChild(document.createElement("div"));
    list.className = "all-keys";
    list.setAttribute("role", "dialog");
    list.setAttribute("aria-label", "Keys");
    for (const [key, meaning] of help) {
      list.appendChild(document.createElement("kbd")).textContent = key;
      list.appendChild(document.createElement("span")).textContent = meaning;
    }
    list.addEventListener("click", toggle);
  };

  const by = {
    " ": (page, event) => (event.shiftKey ? -page : page), PageDown: (page) => page, PageUp: (page) => -page,
    ArrowDown: () => LINE, ArrowUp: () => -LINE, End: () => Infinity, Home: () => -Infinity,
  };
  addEventListener("keydown", (event) => {
    const at = event.composedPath()[0];
    if (event.ctrlKey || event.altKey || event.metaKey || isTyping(at) || !row()?.getClientRects().length) return;
    if (event.key === "?" || (event.key === "Escape" && document.querySelector(".all-keys"))) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return toggle();
    }
    // Who went to a button or a menu by Tab means that with these keys; who clicked it before does not.
    if (!by[event.key] || (at !== document.body && at.matches?.(":focus-visible") && !row().contains(at))) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const box = scroller();
    const step = by[event.key](box.clientHeight * 0.85, event);
    box.scrollTop = Math.min(Math.max(box.scrollTop + step, 0), box.scrollHeight);
  }, true);
}
