// Local times, live parts, the log's tail, and uploads in pieces. Pages can be read without any of it.
const localTimes = (root) => {
  for (const node of root.querySelectorAll("time[datetime]:not([data-local])")) {
    node.dataset.local = "";
    const local = document.createElement("span");
    local.className = "local";
    local.textContent = new Date(node.dateTime).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
    node.after(local);
  }
};
localTimes(document);

// Parts that say how often they may have changed are fetched again; who selects or types in them is not disturbed.
const parts = document.querySelectorAll("[data-renew]");
parts.forEach((part, number) => {
  let tag = "";
  setInterval(async () => {
    if (document.hidden || part.contains(document.activeElement) || part.querySelector("details[open]")) return;
    try {
      const answer = await fetch(location.href, { headers: tag ? { "If-None-Match": tag } : {} });
      if (!answer.ok) return; // 304: nothing has changed
      tag = answer.headers.get("etag") || "";
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
      const same = fresh.querySelectorAll("[data-renew]")[number];
      if (same) { part.replaceChildren(...same.childNodes); localTimes(part); }
    } catch { /* the server is away for now */ }
  }, 1000 * part.dataset.renew);
});

const log = document.querySelector("[data-log]");
if (log && !log.hasAttribute("data-ended")) {
  let cursor = log.dataset.cursor;
  const look = async () => {
    try {
      const answer = await fetch(`${log.dataset.log}?cursor=${encodeURIComponent(cursor)}`);
      if (answer.ok) {
        const part = await answer.json();
        cursor = part.cursor;
        if (part.restarted) log.textContent = "";
        log.append(part.messages.map(([time, line]) => `${time} ${line}\n`).join("") + part.text);
        if (part.ended) return;
      }
    } catch { /* asked again below */ }
    setTimeout(look, 2000);
  };
  setTimeout(look, 1000);
}

const form = document.querySelector("#upload");
if (form) {
  const state = document.querySelector("#upload-state"), bar = document.querySelector("#upload-progress");
  const say = (text) => { state.textContent = text; };
  const ask = async (method, path, body, raw) => {
    const headers = { "X-CSRF-Token": form.dataset.csrf, "Longshot-Time": String(Date.now() / 1000) };
    if (!raw && body) headers["Content-Type"] = "application/json";
    const answer = await fetch(`/api/v1${path}`, { method, headers, body: raw || (body && JSON.stringify(body)) });
    const content = await answer.json().catch(() => ({}));
    return { status: answer.status, content };
  };
  const digest = async (file) => {
    const bytes = await crypto.subtle.digest("SHA-256", await file.arrayBuffer());
    return [...new Uint8Array(bytes)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
  };
  const pause = (seconds) => new Promise((done) => setTimeout(done, 1000 * seconds));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const file = document.querySelector("#file").files[0], button = form.querySelector("button");
    if (file.size > Number(form.dataset.limit)) {
      say(`The archive has ${file.size.toLocaleString("en")} bytes, at most ${Number(form.dataset.limit).toLocaleString("en")} are taken.`);
      return;
    }
    button.disabled = true;
    try {
      say("Looking at the file …");
      const sheet = {};
      for (const node of form.querySelectorAll("textarea")) if (node.value.trim()) sheet[node.name.slice(6)] = node.value;
      const wish = { size: file.size, sha256: await digest(file), name: file.name,
        phase: document.querySelector("#phase").value, league: document.querySelector("#league").value, fact_sheet: sheet };
      // An upload that broke off is gone on with: the same file is the same upload.
      const key = `upload ${wish.sha256} ${wish.phase} ${wish.league}`;
      let begun = null;
      const earlier = sessionStorage.getItem(key);
      if (earlier) {
        const answer = await ask("GET", `/uploads/${earlier}`);
        if (answer.status === 200 && answer.content.state === "open") begun = answer.content;
      }
      if (!begun) {
        const answer = await ask("POST", "/uploads", wish);
        if (answer.status !== 200) { say(answer.content.detail || "The server did not answer."); return; }
        begun = answer.content;
        sessionStorage.setItem(key, begun.id);
      }
      bar.hidden = false;
      let sent = begun.received, failures = 0;
      while (sent < file.size) {
        const piece = file.slice(sent, sent + Number(form.dataset.chunk));
        let answer;
        try { answer = await ask("PUT", `/uploads/${begun.id}?offset=${sent}`, null, piece); } catch { answer = { status: 0, content: {} }; }
        if (answer.status === 200) { sent = answer.content.received; failures = 0; }
        else if ([0, 409, 429, 502, 503].includes(answer.status) && failures++ < 8) {
          say(answer.content.detail || "The connection broke; trying again …");
          await pause(failures);
          const now = await ask("GET", `/uploads/${begun.id}`).catch(() => null);
          if (now?.status === 200) sent = now.content.received;
        } else { say(answer.content.detail || "The connection broke; send it again and it goes on from here."); return; }
        bar.value = sent / file.size;
        say(`${sent.toLocaleString("en")} of ${file.size.toLocaleString("en")} bytes sent`);
      }
      say("Checking it …");
      const receipt = await ask("POST", `/uploads/${begun.id}/finish`);
      sessionStorage.removeItem(key);
      if (receipt.status !== 200) { say(receipt.content.detail || "The server did not answer."); return; }
      location.assign(`/submissions/${receipt.content.submission}`);
    } catch { say("The server cannot be reached; send it again and it goes on from here."); }
    finally { button.disabled = false; }
  });
}
