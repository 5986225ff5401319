// Keys decide on the row that stands on the page when they go down, once.
//
// Streamlit leaves the buttons of the row before in the page until a run has ended, and each of them hears the keys, too:
// one press then spoke for two rows. So presses are taken here, before Streamlit sees them, and click the one button that
// is the shown row's. What cannot be taken is said on the page.
(keys) => {
  const LONGEST_WAIT_MS = 3000;
  const DRAWING_MS = 700; // a run that has ended may not be drawn to its end yet
  if (window.trailforgeKeys) return;
  window.trailforgeKeys = true;
  let pressed = null; // the showing, as it was drawn, for which a key has spoken

  // Of the row that is shown whole: its seat, and which drawing of it this is. The marks stand before and after the row.
  const shown = () => {
    const from = document.querySelector(".st-key-decide_row .seat.from");
    const ends = [...document.querySelectorAll(".st-key-decide_row .seat.to")];
    const to = ends.filter((end) => end.dataset.seat === from?.dataset.seat).pop();
    return to && { seat: to.dataset.seat, drawing: `${to.dataset.seat}.${to.dataset.run}` };
  };
  const isRunning = () =>
    document.querySelector('[data-testid="stApp"]')?.dataset.testScriptState !== "notRunning";
  const isTyping = (at) =>
    at.isContentEditable || /^(TEXTAREA|SELECT)$/.test(at.tagName) || (at.tagName === "INPUT" &&
      !/^(checkbox|radio|range|button|file|reset|submit|color)$/.test(at.type));

  // The name of the button that a key is for; a keyboard without Latin letters is read by the places of its keys.
  const nameOf = (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return undefined;
    if (/^[a-z]$/i.test(event.key)) return event.shiftKey ? undefined : keys[event.key.toLowerCase()];
    return keys[event.key] ?? (event.shiftKey ? undefined : keys[event.code.replace(/^(Key|Digit)/, "").toLowerCase()]);
  };

  const tell = (key, why) => {
    let note = document.querySelector(".not-taken");
    if (!note) {
      note = document.body.appendChild(document.createElement("div"));
      note.className = "not-taken";
      note.setAttribute("role", "status");
    }
    note.textContent = `“${key}” was not taken: ${why}`;
    note.dataset.times = Number(note.dataset.times ?? 0) + 1;
    clearTimeout(note.ending);
    note.ending = setTimeout(() => { note.textContent = ""; }, 2500);
  };

  // The row is drawn before its buttons: the press waits for its own.
  const click = (key, name, row, begun) => {
    const button = document.querySelector(`.st-key-decide-${name}-${row.seat} button`);
    if (button && !button.disabled) return button.click();
    const until = begun + (isRunning() ? LONGEST_WAIT_MS : DRAWING_MS);
    if (!button && performance.now() < until && shown()?.seat === row.seat)
      return requestAnimationFrame(() => click(key, name, row, begun));
    pressed = null;
    tell(key, "there is nothing for it to do");
  };

  addEventListener("keydown", (event) => {
    const name = nameOf(event);
    const place = document.querySelector(".st-key-decide_row");
    if (!name || !place || isTyping(event.composedPath()[0])) return;
    event.stopImmediatePropagation();
    event.preventDefault();
    if (event.repeat) return; // a key that is held is one press
    const row = shown();
    if (!place.getClientRects().length) tell(event.key, "no row is shown");
    else if (!row || row.drawing === pressed) tell(event.key, "the next row is not there yet");
    else {
      pressed = row.drawing;
      click(event.key, name, row, performance.now());
    }
  }, true);

  // The same for a person's own clicks.
  const seated = new RegExp(`st-key-decide-(?:${Object.values(keys).join("|")})-(\\d+)(?:\\s|$)`);
  addEventListener("click", (event) => {
    const button = event.isTrusted && event.target.closest?.('[class*="st-key-decide-"] button');
    const seat = button && seated.exec(button.closest('[class*="st-key-decide-"]').className)?.[1];
    if (!seat || !document.querySelector(".st-key-decide_row")) return;
    const row = shown();
    if (row?.seat === seat && row.drawing !== pressed) {
      pressed = row.drawing;
      return;
    }
    event.stopImmediatePropagation();
    event.preventDefault();
    tell(button.innerText.split("\n")[0], "the next row is not there yet");
  }, true);
}
