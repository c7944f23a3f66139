// Space-time diagrams: they are whole without this; it zooms, moves, and shows at once what the pointer is on.
for (const root of document.querySelectorAll("[data-picture]")) (() => {
  const stage = root.querySelector(".stage"), svg = stage.querySelector("svg"), tip = stage.querySelector(".tip");
  const all = svg.viewBox.baseVal, full = { x: all.x, y: all.y, w: all.width, h: all.height };
  let box = { ...full }, grip = null;
  const told = new Map();
  for (const title of svg.querySelectorAll("g > title")) {  // the browser's own tip would come late, beside ours
    const group = title.parentNode, text = title.textContent;
    told.set(group, text); group.setAttribute("aria-label", text); title.remove();
  }
  function show(next) {
    const w = Math.min(Math.max(next.w, full.w / 12), full.w), h = w * full.h / full.w;
    box = { w, h, x: Math.min(Math.max(next.x, full.x), full.x + full.w - w), y: Math.min(Math.max(next.y, full.y), full.y + full.h - h) };
    svg.setAttribute("viewBox", [box.x, box.y, box.w, box.h].map(n => n.toFixed(2)).join(" "));
  }
  function at(event) {
    const r = svg.getBoundingClientRect();
    return { x: box.x + (event.clientX - r.left) / r.width * box.w, y: box.y + (event.clientY - r.top) / r.height * box.h };
  }
  const zoom = (factor, p) => show({ w: box.w * factor, x: p.x - (p.x - box.x) * factor, y: p.y - (p.y - box.y) * factor });
  const middle = () => ({ x: box.x + box.w / 2, y: box.y + box.h / 2 });
  const actions = { whole: () => show(full), in: () => zoom(0.5, middle()), out: () => zoom(2, middle()) };
  for (const button of root.querySelectorAll("[data-zoom]")) button.addEventListener("click", actions[button.dataset.zoom]);
  root.querySelector(".toolbar").hidden = false;
  svg.addEventListener("wheel", event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault(); zoom(Math.exp(event.deltaY * 0.002), at(event));
  }, { passive: false });
  svg.addEventListener("dblclick", event => zoom(0.5, at(event)));
  svg.addEventListener("pointerdown", event => { if (event.button === 0 && box.w < full.w) { grip = at(event); svg.setPointerCapture(event.pointerId); } });
  for (const name of ["pointerup", "pointercancel"]) svg.addEventListener(name, () => { grip = null; });
  svg.addEventListener("pointermove", event => {
    const p = at(event);
    if (grip) { tip.hidden = true; show({ w: box.w, x: box.x + grip.x - p.x, y: box.y + grip.y - p.y }); return; }
    const text = told.get(event.target.closest("g"));
    tip.hidden = !text;
    if (!text) return;
    tip.replaceChildren(...text.split("\n").map((line, n) => { const e = document.createElement(n ? "span" : "b"); e.textContent = line; return e; }));
    const frame = stage.getBoundingClientRect(), px = event.clientX - frame.left + stage.scrollLeft, py = event.clientY - frame.top + stage.scrollTop;
    tip.style.left = Math.max(px + 14 + tip.offsetWidth > stage.scrollLeft + frame.width ? px - 14 - tip.offsetWidth : px + 14, 4) + "px";
    tip.style.top = Math.max(Math.min(py + 12, stage.scrollTop + frame.height - tip.offsetHeight - 4), 2) + "px";
  });
  svg.addEventListener("pointerleave", () => { tip.hidden = true; });
})();
