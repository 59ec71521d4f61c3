// The map: points as 16-bit places and a byte of colour, written straight into the pixels of a canvas.
for (const map of document.querySelectorAll(".map")) {
  const canvas = map.querySelector("canvas"), status = map.querySelector("[role=status]"), legend = map.querySelector(".legend");
  const paint = canvas.getContext("2d", { alpha: false }), style = getComputedStyle(document.documentElement);
  const hues = ["s1", "s2", "s3", "s4", "s5", "s6", "s8", "best", "wrong", "trans", "accent", "s7"];
  const colour = (name) => {
    const [r, g, b] = style.getPropertyValue(`--${name}`).trim().match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
    return (255 << 24) | (b << 16) | (g << 8) | r;
  };
  const half = (a, b) => ((a >>> 1) & 0x7f7f7f7f) + ((b >>> 1) & 0x7f7f7f7f);
  const packed = hues.map(colour), paper = colour("card"), dim = half(paper, colour("s7")) | (255 << 24), ink = style.getPropertyValue("--ink");
  let places = null, groups = null, names = [], hidden = new Set(), view = { x: 0, y: 0, zoom: 1 }, tool = "move", corners = [], queued = false;
  const shape = () => {
    const width = Math.round(map.clientWidth), height = Math.round(Math.min(620, Math.max(320, width * 0.6)));
    if (canvas.width !== width || canvas.height !== height) [canvas.width, canvas.height] = [width, height];
  };
  const side = () => Math.min(canvas.width, canvas.height) - 24;
  const left = () => canvas.width / 2 - (side() * view.zoom) / 2 + view.x, top_ = () => canvas.height / 2 - (side() * view.zoom) / 2 + view.y;
  // What says "none of these" is drawn first, in the colour of rules; the list of points is sorted for it once.
  const last = () => (names.length > 1 && /^(others|none|not|never)/.test(names[names.length - 1]) ? names.length - 1 : -1);
  let picture = null, pixels = null, sorted = null;
  const draw = () => {
    queued = false;
    shape();
    const { width, height } = canvas, began = performance.now();
    if (!width) return;
    if (!picture || picture.width !== width || picture.height !== height) {
      picture = paint.createImageData(width, height);
      pixels = new Uint32Array(picture.data.buffer);
    }
    pixels.fill(paper);
    if (places) {
      const scale = (side() * view.zoom) / 65535, x0 = left(), y0 = top_(), many = places.length / 2, none = last();
      const size = many > 20000 && view.zoom < 3 ? 2 : many > 2000 ? 3 : 5, right = width - size, bottom = height - size;
      const inks = new Uint32Array(256);
      for (let group = 0; group < 256; group++) inks[group] = hidden.has(group) ? 0 : group === none ? dim : packed[group % packed.length];
      for (let at = 0; at < many; at++) {
        const n = sorted ? sorted[at] : at, hue = inks[groups ? groups[n] : 0];
        const x = (x0 + places[2 * n] * scale) | 0, y = (y0 + places[2 * n + 1] * scale) | 0;
        if (hue === 0 || x < 0 || y < 0 || x > right || y > bottom) continue;
        for (let row = 0, start = y * width + x; row < size; row++, start += width) for (let column = 0; column < size; column++) pixels[start + column] = hue;
      }
    }
    paint.putImageData(picture, 0, 0);
    map.dataset.spent = (performance.now() - began).toFixed(1);
    if (corners.length) {
      paint.beginPath();
      for (const [x, y] of corners) paint.lineTo(left() + x * side() * view.zoom, top_() + y * side() * view.zoom);
      paint.closePath();
      paint.strokeStyle = ink;
      paint.lineWidth = 2;
      paint.stroke();
    }
    map.dataset.frames = Number(map.dataset.frames ?? 0) + 1;
  };
  const redraw = () => { if (!queued) { queued = true; requestAnimationFrame(draw); } };
  const load = async () => {
    const began = performance.now(), [first, second] = await Promise.all([fetch(`/${map.dataset.places}`), fetch(`/${map.dataset.groups}`)]);
    if (first.status === 202) {
      const { share } = await first.json();
      status.textContent = `the layout is being made: ${Math.round(100 * share)} %`;
      // Until it is there, the components stand in for it.
      const other = map.dataset.places.replace("=neighbours", "=components");
      if (!places && other !== map.dataset.places) {
        const stand = await fetch(`/${other}`), body = await stand.arrayBuffer();
        if (stand.status === 200) { places = new Uint16Array(body); draw(); }
      }
      return setTimeout(load, 1500);
    }
    if (second.status === 202) { status.textContent = "labels are still being looked at"; setTimeout(load, 1500); }
    if (!first.ok) { status.textContent = "The map cannot be drawn."; return undefined; }
    places = new Uint16Array(await first.arrayBuffer());
    if (second.status === 200) {
      const bytes = new Uint8Array(await second.arrayBuffer()), end = bytes.indexOf(10);
      names = JSON.parse(new TextDecoder().decode(bytes.subarray(0, end))).names;
      groups = bytes.slice(end + 1);
      const none = last(), first = [], rest = [];
      for (let n = 0; n < groups.length; n++) (groups[n] === none ? first : rest).push(n);
      sorted = Uint32Array.from(first.concat(rest));
    }
    legend.replaceChildren(...names.map((name, group) => {
      const item = document.createElement("li"), button = document.createElement("button"), dot = document.createElement("i"), text = document.createElement("bdi");
      dot.style.background = `var(--${group === names.length - 1 && /^(others|none|not|never)/.test(name) ? "rest" : hues[group % hues.length]})`;
      text.textContent = name;
      button.append(dot, text);
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.onclick = () => {
        if (!hidden.delete(group)) hidden.add(group);
        button.setAttribute("aria-pressed", String(!hidden.has(group)));
        redraw();
      };
      item.append(button);
      return item;
    }));
    draw();
    map.dataset.painted = Math.round(performance.now() - began);
    status.textContent = `${(places.length / 2).toLocaleString("en")} images`;
    return undefined;
  };
  const at = (event) => {
    const box = canvas.getBoundingClientRect(), x = ((event.clientX - box.left) * canvas.width) / box.width, y = ((event.clientY - box.top) * canvas.height) / box.height;
    return [x, y, (x - left()) / (side() * view.zoom), (y - top_()) / (side() * view.zoom)];
  };
  const zoom = (factor, x = canvas.width / 2, y = canvas.height / 2) => {
    const next = Math.min(60, Math.max(0.8, view.zoom * factor)), grown = next / view.zoom;
    view = { x: (x - canvas.width / 2) * (1 - grown) + view.x * grown, y: (y - canvas.height / 2) * (1 - grown) + view.y * grown, zoom: next };
    redraw();
  };
  let held = null;
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    const [x, y, u, v] = at(event);
    held = { x, y, u, v, from: { ...view }, moved: false };
    if (tool === "circle") corners = [[u, v]];
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!held) return;
    const [x, y, u, v] = at(event);
    held.moved ||= Math.hypot(x - held.x, y - held.y) > 3;
    if (tool === "circle") corners.push([u, v]);
    else view = { ...view, x: held.from.x + x - held.x, y: held.from.y + y - held.y };
    redraw();
  });
  canvas.addEventListener("pointerup", (event) => {
    const { moved } = held ?? {}, [, , u, v] = at(event);
    held = null;
    if (!places) return;
    if (tool === "circle" && moved) {
      const step = Math.max(1, Math.ceil(corners.length / 24)), thin = corners.filter((_, number) => number % step === 0);
      const text = thin.map(([x, y]) => [x, y].map((value) => Math.min(1000, Math.max(0, Math.round(1000 * value)))).join(".")).join("-");
      location.assign(`/${map.dataset.images}&circle=${text}`);
    } else if (!moved) {
      let best = -1, least = (12 / (side() * view.zoom)) ** 2;
      for (let n = 0; n < places.length / 2; n++) {
        const far = (places[2 * n] / 65535 - u) ** 2 + (places[2 * n + 1] / 65535 - v) ** 2;
        if (far < least && !(groups && hidden.has(groups[n]))) [best, least] = [n, far];
      }
      if (best >= 0) location.assign(`/${map.dataset.image}/${best}`);
    }
  });
  canvas.addEventListener("wheel", (event) => { event.preventDefault(); const [x, y] = at(event); zoom(Math.exp(-event.deltaY / 400), x, y); }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const move = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] }[event.key];
    if (move) view = { ...view, x: view.x + move[0], y: view.y + move[1] };
    else if (event.key === "+") return zoom(1.3);
    else if (event.key === "-") return zoom(1 / 1.3);
    else return undefined;
    event.preventDefault();
    return redraw();
  });
  for (const button of map.querySelectorAll("[data-tool]")) button.onclick = () => {
    if (button.dataset.tool === "whole") { view = { x: 0, y: 0, zoom: 1 }; return redraw(); }
    tool = button.dataset.tool;
    for (const each of map.querySelectorAll("[aria-pressed][data-tool]")) each.setAttribute("aria-pressed", String(each === button));
    return undefined;
  };
  if (location.protocol.startsWith("http")) { map.querySelector(".tools").hidden = false; load(); addEventListener("resize", redraw); }
}
