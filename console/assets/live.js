/* Live views: a page that the server rendered whole listens for its topics' snapshots and keeps itself up to date.
 *
 * Everything arrives as data and leaves as text: nodes are filled by textContent and attributes, never by markup.
 * Where the socket fails the same snapshots are polled; the badge says which of Live, Polling, Stale it is. A part that is
 * slow to read, or that a fault of ours keeps back, says so itself, and as of when it is; the others go on.
 *
 * Marks: data-live-topic on a section; inside it data-live-text, -figure, -time, -age, -width, -show, -hide, -state,
 * -href, -link, -value, and data-live-list with a <template> and data-live-key.
 */

const POLL_MS = 2500;
const SILENCE_MS = 45_000; // two missed pings of 20 s, and a little
const HIDDEN_MS = 15_000;
const FETCH_MS = 8_000;
const LOGGED_OUT = 4401;
const FIRST_RETRY_MS = 1000, LONGEST_RETRY_MS = 10_000;
const KEPT_BACK = {
  query_too_slow: "This part is slow to read",
  internal_error: "This part cannot be read because of a fault of ours",
  not_shown: "This part could not be shown, so reload the page",
};

const figures = new Intl.NumberFormat("en-US");
const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dayAndClock = new Intl.DateTimeFormat(undefined, {
  day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});

/* ---- showing ---- */

function valueAt(data, path) {
  return path.split(".").reduce((part, name) => (part === null || part === undefined ? undefined : part[name]), data);
}

function isThere(value) {
  return Array.isArray(value) ? value.length > 0 : Boolean(value);
}

export function ageWords(seconds) {
  for (const [size, unit] of [[86_400, "d"], [3_600, "h"], [60, "min"]]) {
    if (seconds >= 2 * size) return `${Math.floor(seconds / size)} ${unit}`;
  }
  return `${Math.max(0, Math.floor(seconds))} s`;
}

function utcWords(moment) {
  return `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function showTime(node) {
  const moment = new Date(node.getAttribute("datetime") || "");
  if (Number.isNaN(moment.getTime())) return;
  const isToday = moment.toDateString() === new Date().toDateString();
  setText(node, (isToday ? clock : dayAndClock).format(moment));
  node.title = utcWords(moment);
}

function showAge(node) {
  const moment = new Date(node.getAttribute("datetime") || "");
  if (!Number.isNaN(moment.getTime())) setText(node, ageWords((Date.now() - moment.getTime()) / 1000));
}

function setMoment(node, value, show, nothing) {
  if (!value) {
    node.removeAttribute("datetime");
    node.removeAttribute("title");
    setText(node, nothing);
    return;
  }
  node.setAttribute("datetime", value);
  node.title = utcWords(new Date(value));
  show(node);
}

function filled(pattern, data) {
  return pattern.replace(/\{([a-z_.]+)\}/g, (_all, path) => encodeURIComponent(valueAt(data, path) ?? ""));
}

const MARKS = {
  text: (node, value) => setText(node, value === null || value === undefined ? "" : String(value)),
  figure: (node, value) => setText(node, typeof value === "number" ? figures.format(value) : "–"),
  time: (node, value) => setMoment(node, value, showTime, ""),
  age: (node, value) => setMoment(node, value, showAge, "–"),
  width: (node, value) => { node.style.width = `${Number(value) || 0}%`; },
  show: (node, value) => { node.hidden = !isThere(value); },
  hide: (node, value) => { node.hidden = isThere(value); },
  state: (node, value) => { node.dataset.state = String(value ?? ""); },
  value: (node, value) => { node.value = Number(value) || 0; },
};

function ownNodes(root, selector) {
  // A list's rows are bound to their own item, not to the section's data.
  const list = root.closest("[data-live-list]");
  const nodes = [...root.querySelectorAll(selector)].filter((node) => {
    const around = node.parentElement?.closest("[data-live-list]") ?? null;
    return around === null || around === list || !root.contains(around);
  });
  if (root.matches(selector)) nodes.push(root);
  return nodes;
}

function bind(root, data) {
  for (const [mark, show] of Object.entries(MARKS)) {
    for (const node of ownNodes(root, `[data-live-${mark}]`)) {
      const path = node.getAttribute(`data-live-${mark}`);
      if (path) show(node, valueAt(data, path));
    }
  }
  for (const node of ownNodes(root, "[data-live-href]")) {
    node.setAttribute(node.tagName === "FORM" ? "action" : "href", filled(node.dataset.liveHref, data));
  }
  for (const node of ownNodes(root, "[data-live-link]")) {
    const path = String(valueAt(data, node.dataset.liveLink) ?? "");
    if (/^\/(?![/\\])/.test(path)) node.setAttribute("href", path);
    else node.removeAttribute("href");
  }
  for (const node of ownNodes(root, "[data-live-list]")) {
    if (node !== root) bindList(node, valueAt(data, node.dataset.liveList) ?? []);
  }
}

function bindList(container, items) {
  const pattern = container.querySelector(":scope > template");
  const key = container.dataset.liveKey || "id";
  // Rows are kept by key, so that a button under somebody's finger stays the same button.
  const rows = new Map([...container.children].filter((row) => row !== pattern).map((row) => [row.dataset.key, row]));
  let after = null;
  for (const item of items) {
    const name = String(item[key]);
    let row = rows.get(name);
    rows.delete(name);
    if (!row) {
      row = pattern.content.firstElementChild.cloneNode(true);
      row.dataset.key = name;
      row.dataset.fresh = "1";
    }
    bind(row, item);
    const place = after === null ? container.firstElementChild : after.nextElementSibling;
    if (row !== place) container.insertBefore(row, place);
    after = row;
  }
  rows.forEach((row) => row.remove());
}

/* ---- listening ---- */

class Feed {
  constructor(sections, badge) {
    this.sections = new Map();
    for (const section of sections) {
      const topic = section.dataset.liveTopic;
      this.sections.set(topic, [...(this.sections.get(topic) || []), section]);
    }
    this.badge = badge;
    this.versions = new Map(sections.map((one) => [one.dataset.liveTopic, Number(one.dataset.liveVersion) || 0]));
    this.etags = new Map();
    this.keptBack = new Map(); // topic -> reason word
    this.lastGood = Date.now();
    this.lastPoll = 0;
    this.heard = 0;
    this.isFed = false; // a snapshot came through this socket
    this.isUnavailable = false;
    this.isLoggedOut = false;
    this.isPaused = false;
    this.failures = 0;
    this.socket = null;
    this.poller = null;
    this.retry = null;
  }

  start() {
    this.connect();
    setInterval(() => this.watch(), 1000);
    document.addEventListener("visibilitychange", () => this.onVisibility());
    window.addEventListener("online", () => this.hurry());
    window.addEventListener("pagehide", () => this.socket?.close());
  }

  connect() {
    clearTimeout(this.retry);
    if (this.socket || this.isPaused || this.isLoggedOut) return;
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/ws/live/`, ["roundtrip.live"]);
    this.socket = socket;
    this.heard = Date.now();
    socket.onopen = () => {
      this.heard = Date.now();
      for (const topic of this.sections.keys()) socket.send(JSON.stringify({ type: "subscribe", topic }));
    };
    socket.onmessage = (event) => this.onMessage(JSON.parse(event.data));
    socket.onclose = (event) => {
      if (this.socket === socket) this.onClose(event.code);
    };
  }

  onMessage(message) {
    this.heard = Date.now();
    if (message.type === "snapshot") {
      this.isFed = true;
      this.failures = 0;
      this.isUnavailable = false;
      this.stopPolling();
      this.apply(message);
    } else if (message.type === "ping" && this.isFed && !this.isUnavailable) {
      this.lastGood = Date.now();
    } else if (message.type === "error" && message.code in KEPT_BACK) {
      this.isFed = true; // the socket brings what there is
      this.stopPolling();
      this.keepBack(message.topic, message.code);
    } else if (message.type === "error") {
      if (message.code === "unavailable") this.isUnavailable = true;
      if (message.code === "not_authenticated") this.isLoggedOut = true;
    }
    this.showBadge();
  }

  onClose(code) {
    this.socket = null;
    this.isFed = false;
    if (code === LOGGED_OUT) this.isLoggedOut = true;
    if (!this.isPaused) {
      const wait = Math.min(LONGEST_RETRY_MS, FIRST_RETRY_MS * 2 ** this.failures);
      this.failures = Math.min(this.failures + 1, 8);
      this.retry = setTimeout(() => this.connect(), wait * (0.5 + Math.random() / 2));
      this.startPolling();
    }
    this.showBadge();
  }

  watch() {
    if (this.socket && Date.now() - this.heard > SILENCE_MS) {
      const silent = this.socket;
      this.onClose(0); // a dead line sends no close event; do not wait for one
      silent.close();
    }
    document.querySelectorAll("time[data-live-age]").forEach(showAge);
    this.showBadge();
  }

  hurry() {
    this.failures = 0;
    this.connect();
  }

  onVisibility() {
    clearTimeout(this.hiding);
    if (document.hidden) {
      this.hiding = setTimeout(() => this.pause(), HIDDEN_MS);
    } else if (this.isPaused) {
      this.isPaused = false;
      this.hurry();
      this.startPolling(); // what is on the page may be old; do not wait for the socket
    }
  }

  pause() {
    this.isPaused = true;
    this.stopPolling();
    clearTimeout(this.retry);
    const socket = this.socket;
    this.socket = null;
    this.isFed = false;
    socket?.close();
  }

  /* ---- polling ---- */

  startPolling() {
    if (this.poller === null && !this.isLoggedOut) {
      this.poller = setInterval(() => this.poll(), POLL_MS);
      this.poll();
    }
  }

  stopPolling() {
    clearInterval(this.poller);
    this.poller = null;
  }

  async poll() {
    if (this.isPolling) return;
    this.isPolling = true;
    try {
      const answers = await Promise.all([...this.sections.keys()].map((topic) => this.ask(topic)));
      if (answers.every(Boolean)) this.lastPoll = this.lastGood = Date.now();
    } catch {
      // the badge says so
    } finally {
      this.isPolling = false;
      this.showBadge();
    }
  }

  async ask(topic) {
    const headers = this.etags.has(topic) ? { "If-None-Match": this.etags.get(topic) } : {};
    const response = await fetch(`/api/v1/live/?topic=${encodeURIComponent(topic)}`, {
      headers, cache: "no-store", credentials: "same-origin", signal: AbortSignal.timeout(FETCH_MS),
    });
    if (response.status === 304) {
      this.keepBack(topic, null);
      return true;
    }
    if (response.status === 401 || response.status === 403) {
      this.isLoggedOut = true;
      this.stopPolling();
      return false;
    }
    if (!response.ok) {
      const { code } = await response.json().catch(() => ({}));
      if (!(code in KEPT_BACK)) return false;
      this.keepBack(topic, code);
      return true;
    }
    const message = await response.json();
    this.etags.set(topic, response.headers.get("ETag") || "");
    this.apply({ ...message, topic });
    return true;
  }

  /* ---- both ---- */

  apply(message) {
    this.lastGood = Date.now();
    if (message.version < (this.versions.get(message.topic) ?? 0)) return; // an old one never replaces a newer one
    this.versions.set(message.topic, message.version);
    try {
      for (const section of this.sections.get(message.topic) ?? []) bind(section, message.data);
      this.keepBack(message.topic, null);
    } catch (error) {
      console.error(error);
      this.keepBack(message.topic, "not_shown");
    }
  }

  keepBack(topic, code) {
    // One line at the head of the part, gone with the next snapshot of it.
    if (code) this.keptBack.set(topic, code);
    else if (!this.keptBack.delete(topic)) return;
    const moment = new Date((this.versions.get(topic) || 0) / 1000); // the database's clock, in microseconds
    for (const section of this.sections.get(topic) ?? []) {
      let line = section.querySelector(":scope > [data-live-kept-back]");
      if (!code) line?.remove();
      else {
        if (!line) {
          line = document.createElement("p");
          line.className = "rt-kept-back";
          line.dataset.liveKeptBack = "";
          line.setAttribute("role", "status");
          section.prepend(line);
        }
        setText(line, `${KEPT_BACK[code]}; shown as of ${clock.format(moment)}`);
        line.title = utcWords(moment);
      }
    }
  }

  state() {
    if (this.isLoggedOut) return ["stale", "Logged out: reload the page"];
    const late = this.keptBack.size ? ", but not all of it" : "";
    if (this.socket?.readyState === WebSocket.OPEN && this.isFed && !this.isUnavailable) {
      return [late ? "partly" : "live", `Live${late}`];
    }
    if (Date.now() - this.lastPoll < 3 * POLL_MS) return ["polling", `Polling${late}`];
    if (Date.now() - this.lastGood < 2 * POLL_MS && !this.isUnavailable) return ["connecting", "Connecting"];
    return ["stale", `Stale since ${clock.format(new Date(this.lastGood))}`];
  }

  showBadge() {
    if (!this.badge) return;
    const [state, words] = this.state();
    if (this.badge.dataset.state !== state) this.badge.dataset.state = state;
    setText(this.badge, words);
  }
}

/* ---- the page ---- */

function ask(event) {
  const words = event.target.dataset?.confirm;
  if (words && !window.confirm(words)) event.preventDefault();
}

function begin() {
  document.querySelectorAll("time[data-live-time][datetime]").forEach(showTime);
  document.addEventListener("submit", ask);
  const sections = [...document.querySelectorAll("[data-live-topic]")];
  if (sections.length) new Feed(sections, document.querySelector("[data-live-badge]")).start();
}

begin();
