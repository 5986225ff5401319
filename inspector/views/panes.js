// A pane opens at what it is shown for: the first mark in it, but for those of text that documents share.
//
// Panes come and go with the rows. Each is looked at once, when a person first sees it; from then on it is theirs to scroll.
() => {
  if (window.trailforgePanes) return;
  window.trailforgePanes = true;
  const PANES = ".paper > .body, .passage > .body, .turn.folded > .text";

  const open = (pane) => {
    const mark = pane.querySelector("mark:not(.shared)");
    if (!mark) return;
    const above = mark.getBoundingClientRect().top - pane.getBoundingClientRect().top;
    pane.scrollTop = Math.max(0, above - pane.clientHeight / 3);
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries.filter((each) => each.isIntersecting)) {
      seen.unobserve(entry.target);
      open(entry.target);
    }
  });
  const known = new WeakSet();
  const look = () => {
    for (const pane of document.querySelectorAll(PANES)) {
      if (known.has(pane)) continue;
      known.add(pane);
      seen.observe(pane);
    }
  };
  new MutationObserver(look).observe(document.body, { childList: true, subtree: true });
  look();
}
