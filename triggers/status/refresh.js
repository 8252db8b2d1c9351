/** Keeps the page fresh: fetches it every 2 s, and lets idiomorph, which stands before this, change what has changed. */
const [everyMs, lostMs, speakMs] = [2_000, 5_000, 10_000];
const live = document.getElementById("live");
const make = (name, attributes) => live.appendChild(Object.assign(document.createElement(name), attributes));
const notice = make("p", { className: "card away", hidden: true });
const spoken = make("p", { className: "hidden", role: "status" });
const link = make("a", {});
let [answeredMs, spokenMs, isFetching] = [performance.now(), performance.now(), false];
let [news, lastWords] = [live.dataset.news, live.dataset.news];

const isPaused = () => location.hash === "#paused";
const callbacks = {
  // Users open and close details, and this script alone fills its own element.
  beforeAttributeUpdated: (name, element) => name !== "open" || element.localName !== "details",
  beforeNodeMorphed: (element) => element !== live,
};

function show(text) {
  const next = new DOMParser().parseFromString(text, "text/html");
  // Another version answers.
  if (next.querySelector("script")?.src !== import.meta.url) return location.reload();
  document.title = next.title;
  news = next.getElementById("live").dataset.news;
  Idiomorph.morph(document.body, next.body, { morphStyle: "outerHTML", callbacks });
  answeredMs = performance.now();
}

async function fetchPage() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" }, signal: AbortSignal.timeout(lostMs) });
  const text = await answer.text();
  if (answer.ok && !isPaused()) show(text);
}

function refresh() {
  update();
  if (isFetching || document.hidden || isPaused()) return;
  isFetching = true;
  const ended = () => (isFetching = false);
  fetchPage().then(ended, ended);
}

function update() {
  if (document.hidden || isPaused()) answeredMs = performance.now();
  const isLost = performance.now() - answeredMs >= lostMs;
  document.documentElement.classList.toggle("lost", isLost);
  notice.textContent = `No answer since ${document.querySelector(".fresh time").textContent}.`;
  notice.hidden = !isLost;
  link.href = isPaused() ? "#updating" : "#paused";
  link.textContent = isPaused() ? "the updates are paused: go on" : "pause the updates";
  const words = isLost ? notice.textContent : news;
  if (words === lastWords || performance.now() - spokenMs < speakMs) return;
  [spoken.textContent, lastWords, spokenMs] = [words, words, performance.now()];
}

update();
setInterval(refresh, everyMs);
setInterval(update, 500);
document.addEventListener("visibilitychange", refresh);
addEventListener("hashchange", refresh);
