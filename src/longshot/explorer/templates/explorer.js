// Arrow keys and Esc follow the page's own links; running work is asked for now and then; plots can be saved.
// Pages are complete without any of it.
const facts = document.querySelector("[data-live]");
document.addEventListener("keydown", (event) => {
  if (!facts || event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog") || document.querySelector("dialog[open]")) return;
  const target = facts.dataset[event.key.toLowerCase()];
  if (target) {
    event.preventDefault();
    location.assign(target);
  } else if (document.querySelector(`button[data-key="${CSS.escape(event.key.toLowerCase())}"]`)) {
    document.querySelector(`button[data-key="${CSS.escape(event.key.toLowerCase())}"]`).click();
  } else if (event.key === "/") {
    const field = document.querySelector('input[type="search"], input[name="where"]');
    if (field) { event.preventDefault(); field.focus(); }
  }
});
if (facts && facts.dataset.live && location.protocol.startsWith("http")) {
  // One look at a time: a page that takes long, as one whose curves are drawn, is waited for and not asked for again.
  let tag = "", before = null, working = false, stale = false;
  const renew = async () => {
    const answer = await fetch(location.href);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("main");
    // Who types or has something open is not disturbed: a line says that there is something new.
    const busy = document.activeElement.closest("main input, main select") || document.querySelector("main details[open]");
    if (busy) facts.hidden = false;
    else if (fresh) {
      document.querySelector("main").replaceChildren(facts, ...[...fresh.childNodes].filter((node) => !node.dataset?.hasOwnProperty("live")));
      markers();
    }
    return Boolean(fresh) && !answer.headers.has("refresh");
  };
  const look = async () => {
    if (working) return;
    working = true;
    try {
      const answer = await fetch(facts.dataset.live, { headers: tag && !stale ? { "If-None-Match": tag } : {} });
      if (answer.status !== 200) return;
      tag = answer.headers.get("etag") || "";
      const { items } = await answer.json();
      for (const item of items) {
        const by = (name) => document.querySelectorAll(`[data-${name}="${CSS.escape(item.id)}"]`);
        for (const node of by("state")) { node.textContent = item.state; node.className = `state ${item.state}`; }
        if (!item.total) continue;
        for (const node of by("spark")) node.setAttribute("points", item.spark);
        const words = `${item.done.toLocaleString("en")} of ${item.total.toLocaleString("en")} ${item.unit}`;
        for (const node of by("count")) node.textContent = words + (item.note ? ` · ${item.note}` : "");
        for (const node of by("meter")) {
          node.setAttribute("aria-label", words);
          node.firstElementChild.style.width = `${(100 * item.done) / item.total}%`;
        }
      }
      const shape = JSON.stringify(items.map((item) => [item.id, item.state, item.changed]));
      stale ||= before !== null && shape !== before;
      before = shape;
      if (stale) stale = !(await renew());
    } catch { /* the server is gone for now: the next look may find it */ } finally { working = false; }
  };
  look();
  setInterval(() => document.hidden || look(), 3000);
}
// Pictures that cannot be had say why; tiles that are crossed out are gone, damaged, or other pictures by now.
for (const node of document.querySelectorAll(".sprite")) {
  const url = /url\("?(.*?)"?\)/.exec(getComputedStyle(node).getPropertyValue("--sprite"))?.[1]?.replace(/^'|'$/g, "");
  if (!url || !location.protocol.startsWith("http")) continue;
  const image = new Image();
  image.onerror = async () => {
    const answer = await fetch(url);
    const line = document.createElement("p");
    line.className = "notice";
    line.textContent = `No pictures: ${answer.ok ? "they cannot be decoded." : await answer.text()}`;
    if (!document.querySelector(".notice.pictureless")) { line.classList.add("pictureless"); node.before(line); }
  };
  image.src = url;
}
for (const plot of document.querySelectorAll("svg.plot")) {
  const line = document.createElement("p");
  line.className = "save dim";
  for (const kind of ["SVG", "PNG"]) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = kind;
    button.setAttribute("aria-label", `Save this plot as ${kind}`);
    button.addEventListener("click", () => save(plot, kind));
    line.append(button);
  }
  plot.after(line);
}
function save(plot, kind) {
  const copy = plot.cloneNode(true), box = plot.viewBox.baseVal, own = [plot, ...plot.querySelectorAll("*")];
  [copy, ...copy.querySelectorAll("*")].forEach((node, place) => {
    const style = getComputedStyle(own[place]);
    for (const name of ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font", "opacity"])
      node.style.setProperty(name, style.getPropertyValue(name));
    node.removeAttribute("class");
  });
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", box.width);
  copy.setAttribute("height", box.height);
  copy.style.background = getComputedStyle(document.documentElement).getPropertyValue("--card");
  const text = new XMLSerializer().serializeToString(copy);
  const give = (url, ending) => {
    const link = document.createElement("a");
    link.href = url;
    link.download = `plot.${ending}`;
    link.click();
  };
  const data = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  if (kind === "SVG") return give(data, "svg");
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [3 * box.width, 3 * box.height];
    canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
    give(canvas.toDataURL("image/png"), "png");
  };
  image.src = data;
}
// Items are pinned to the top or hidden for this reader alone: a cookie holds their digits.
const markers = () => {
  for (const button of document.querySelectorAll("button[data-mark]")) {
    button.hidden = !location.protocol.startsWith("http");
    button.onclick = () => {
      const name = `longshot-${button.dataset.mark}`;
      const held = new RegExp(`(?:^|; )${name}=([0-9a-f.]*)`).exec(document.cookie)?.[1].split(".").filter(Boolean) ?? [];
      const item = button.dataset.item, next = held.includes(item) ? held.filter((each) => each !== item) : [item, ...held].slice(0, 300);
      document.cookie = `${name}=${next.join(".")}; path=/; max-age=31536000; SameSite=Strict`;
      location.reload();
    };
  }
};
markers();
// Queries show their nearest supports; a picture grows in a window of its own, with those beside it.
for (const task of document.querySelectorAll(".grows")) {
  const near = (figure) => (figure?.dataset.near ?? "").split(" ").filter(Boolean).map((at) => task.querySelector(`[data-at="support-${at}"]`)).filter(Boolean);
  const look = (figure) => {
    const shown = near(figure);
    for (const tile of task.querySelectorAll(".near")) tile.classList.remove("near");
    for (const tile of shown) tile.classList.add("near");
    task.classList.toggle("looking", shown.length > 0);
  };
  for (const kind of ["pointerover", "focusin"]) task.addEventListener(kind, (event) => look(event.target.closest(".asked")));
  for (const kind of ["pointerleave", "focusout"]) task.addEventListener(kind, () => look(null));
  const tiles = [...task.querySelectorAll("a.tile[data-at]")];
  const grow = (tile) => {
    const figure = tile.closest(".asked"), dialog = document.createElement("dialog");
    const make = (name, text, facts = {}) => Object.assign(document.createElement(name), { textContent: text, ...facts });
    const large = make("figure", "", { className: "large" }), row = make("div", "", { className: "row" });
    large.append(make("img", "", { src: `/${task.dataset.large.replace("%", tile.dataset.at)}`, alt: tile.getAttribute("aria-label") }), make("figcaption", tile.getAttribute("aria-label")));
    const close = make("button", "Close", { type: "button", onclick: () => dialog.close() });
    row.append(make("a", "Its answers and scores", { href: tile.href }), close);
    dialog.className = "grown";
    dialog.setAttribute("aria-label", "One picture, large");
    dialog.append(large);
    if (near(figure).length) {
      const beside = make("div", "", { className: "shots sprite grows", style: task.getAttribute("style") });
      for (const support of near(figure)) beside.append(support.cloneNode());
      dialog.append(make("h3", "Nearest supports"), beside);
    }
    dialog.append(row);
    dialog.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key], next = step && tiles[tiles.indexOf(tile) + step];
      if (next) { dialog.close(); grow(next); }
    });
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", () => { dialog.remove(); tile.focus({ preventScroll: true }); });
    task.after(dialog);
    dialog.showModal();
    close.focus();
  };
  task.addEventListener("click", (event) => {
    const tile = event.target.closest("a.tile[data-at]");
    if (!tile || event.ctrlKey || event.metaKey || event.shiftKey || !location.protocol.startsWith("http")) return;
    event.preventDefault();
    grow(tile);
  });
}
// A point of a plot shows its task in pictures, under a pointer, by the keyboard, and on the first touch.
for (const plot of document.querySelectorAll("svg.plot")) {
  const card = document.createElement("div");
  card.className = "card peek";
  card.hidden = true;
  plot.after(card);
  let shown = null;
  const peek = (link) => {
    if (shown === link) return;
    shown = link;
    card.hidden = !link;
    if (!link) return;
    const url = link.getAttribute("href"), text = document.createElement("p");
    text.textContent = link.getAttribute("aria-label");
    card.replaceChildren(text);
    if (/\/task\/\d+/.test(url) && location.protocol.startsWith("http")) {
      const image = Object.assign(new Image(192, 48), { src: `${url.split("?")[0]}/strip.jpg`, alt: "" });
      card.append(image);
    }
    const box = link.getBoundingClientRect(), around = plot.parentElement.getBoundingClientRect();
    card.style.left = `${Math.max(0, Math.min(box.left - around.left, around.width - 220))}px`;
    card.style.top = `${box.bottom - around.top + 6}px`;
  };
  plot.addEventListener("pointerover", (event) => event.pointerType !== "touch" && peek(event.target.closest("a")));
  plot.addEventListener("focusin", (event) => peek(event.target.closest("a")));
  for (const kind of ["pointerleave", "focusout"]) plot.addEventListener(kind, (event) => event.pointerType !== "touch" && peek(null));
  plot.addEventListener("click", (event) => {
    const link = event.target.closest("a");
    if (event.pointerType === "touch" && link && link !== plot.tapped) { event.preventDefault(); plot.tapped = link; shown = null; peek(link); }
  });
}
