// What is told to have been read by being seen: the form that says so is sent when somebody looks.

export function start(form) {
  const look = () => {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", look);
    // The page hears of it as of any event. Where nobody answers, the button is still there.
    const address = form.getAttribute("action");
    fetch(address, { method: "POST", body: new URLSearchParams(), redirect: "manual" }).catch(() => {});
  };
  document.addEventListener("visibilitychange", look);
  look();
}
