// The timeline: draws what is visible of up to some hundred thousand sections on one canvas, and goes to what was found.
"use strict";
for (const root of document.querySelectorAll("[data-timeline]")) (() => {
  const alone = document.querySelectorAll("[data-timeline]").length === 1;
  const data = JSON.parse(document.getElementById(root.dataset.timeline).textContent);
  const stage = root.querySelector(".stage");
  const canvas = root.querySelector("canvas");
  const tip = root.querySelector(".tip");
  const where = root.querySelector(".where");
  const ctx = canvas.getContext("2d");
  const BLAME = ["lock", "client", "undecided"];
  const KEY_COLOURS = ["s0", "s1", "s2", "s3", "s5"];  // grey is for a key of an unknown client
  const SAYS = ["both still held valid leases: the lock is to blame", "a client outlived its lease",
                "the record allows both readings: undecided"];

  // --- columns -------------------------------------------------------------------------------------------------
  const S = data.sections, N = S ? S.step.length : 0;
  const start = new Float64Array(N), end = new Float64Array(N);
  const rows = data.clients.map(() => []);
  for (let i = 0, t = 0; i < N; i++) {
    t += S.step[i]; start[i] = t; end[i] = t + S.length[i];
    rows[S.client[i]].push(i);
  }
  const O = data.overlaps, F = data.faults;
  // The findings, and their moments: [finding, from, to, rows of clients, rows of nodes]. What the nodes held, by start.
  const K = data.findings || [], M = data.moments || [], H = data.held;
  const heldFrom = [];
  if (H) H.step.reduce((t, step) => { heldFrom.push(t + step); return t + step; }, 0);
  // What clients asked the nodes: sent, and the three other times after that; -1 for one that never came.
  const R = data.requests, asked = root.querySelector(".asked"), sent = [], MOST_DRAWN = 400, MOST_TOLD = 60, LONGEST = 2e6;
  if (R) R.step.reduce((t, step) => { sent.push(t + step); return t + step; }, 0);
  const over = n => sent[n] + Math.max(R.reached[n], R.left[n], R.came[n], 0);
  let shown = [], told = "";              // the numbers of the requests that are drawn; what is told of them
  const name = f => (f.unplanned ? "unplanned: " : "") + f.what;
  const overlapsOf = new Map();
  O.forEach((o, n) => { for (const s of [o[0], o[1]]) { if (!overlapsOf.has(s)) overlapsOf.set(s, []); overlapsOf.get(s).push(n); } });

  // Faults that are in force together lie in lanes of their own.
  const laneEnds = [], laneLast = [];
  for (const f of F) {
    let lane = laneEnds.findIndex(t => t <= f.from);
    if (lane < 0) lane = laneEnds.length;
    laneEnds[lane] = Math.max(f.to, f.from + 1); f.lane = lane;
    if (laneLast[lane]) laneLast[lane].next = f;
    laneLast[lane] = f;
    const tally = (links, at) => { const m = new Map(); for (const l of links) if (l[at] >= 0) m.set(l[at], (m.get(l[at]) || 0) + 1); return m; };
    for (const h of f.hits) if (h.of === "link") { h.clients = tally(h.rows, 0); h.nodes = tally(h.rows, 1); }
  }

  // --- geometry ------------------------------------------------------------------------------------------------
  const LEFT = 84, RIGHT = 14, AXIS = 24;
  const laneH = laneEnds.length > 6 ? 8 : 17;
  const clientH = data.clients.length <= 16 ? 24 : data.clients.length <= 40 ? 14 : 7;
  const keyLanes = H ? Math.min(data.keys.length, 4) : 1, nodeH = H ? (keyLanes > 1 ? 8 + 6 * keyLanes : 20) : 15;
  const lanesY = AXIS, foundY = lanesY + Math.max(laneEnds.length, 1) * laneH + 6, stripY = foundY + (M.length ? 18 : 0);
  const clientsY = stripY + 18, nodesY = clientsY + data.clients.length * clientH + 12;
  const bottom = nodesY + data.nodes.length * nodeH, height = bottom + 22;
  let width = 0, v0 = 0, v1 = data.end, chosen = -1, moment = -1, key = -1, colours = {};
  const plotW = () => Math.max(width - LEFT - RIGHT, 10);
  const x = t => LEFT + (t - v0) / (v1 - v0) * plotW();
  const time = px => v0 + (px - LEFT) / plotW() * (v1 - v0);

  const fmt = us => { const a = Math.abs(us);
    return a < 1000 ? us.toFixed(0) + " µs" : a < 1e4 ? (us / 1e3).toFixed(2) + " ms" : a < 1e6 ? (us / 1e3).toFixed(1) + " ms" : (us / 1e6).toFixed(3) + " s"; };
  const at = us => (us / 1e6).toFixed(v1 - v0 < 1e5 ? 4 : 3) + " s";

  // --- drawing -------------------------------------------------------------------------------------------------
  function readColours() {
    const style = getComputedStyle(document.documentElement);
    for (const name of ["panel", "ink", "soft", "line", "faint", "section", "beyond", "wait", "lock", "client", "undecided", "fault", "unplanned", "cut", "slow", "down", "s0", "s1", "s2", "s3", "s5"])
      colours[name] = style.getPropertyValue("--" + name).trim();
  }
  function stripes(colour) {
    const tile = document.createElement("canvas"); tile.width = tile.height = 6;
    const c = tile.getContext("2d"); c.strokeStyle = colour; c.lineWidth = 1.6;
    c.beginPath(); for (const d of [-6, 0, 6]) { c.moveTo(d, 6); c.lineTo(d + 6, 0); } c.stroke();
    return ctx.createPattern(tile, "repeat");
  }
  function bar(from, to, y, h, least) {   // a rectangle in time, cut to the plot; returns whether anything is visible
    const a = Math.max(x(from), LEFT), b = Math.min(Math.max(x(to), x(from) + least), LEFT + plotW());
    if (b <= a) return false;
    ctx.fillRect(a, y, b - a, h); return true;
  }
  function firstEnding(list, t) {         // of one client's sections, the first that ends at or after t
    let lo = 0, hi = list.length;
    while (lo < hi) { const mid = (lo + hi) >> 1; if (end[list[mid]] < t) lo = mid + 1; else hi = mid; }
    return lo;
  }
  function drawSections(list, y, h, beyond) {
    const perPx = plotW() / (v1 - v0), cover = new Float32Array(Math.ceil(plotW()) + 1), late = [];
    const showWaits = v1 - v0 < 4e6;
    ctx.fillStyle = colours.section;
    for (let n = firstEnding(list, v0); n < list.length; n++) {
      const i = list[n];
      if (start[i] - (showWaits ? S.wait[i] : 0) > v1) break;
      if (key >= 0 && S.key[i] !== key) continue;
      if (showWaits && S.wait[i] * perPx > 3) {
        ctx.fillStyle = colours.wait; bar(start[i] - S.wait[i], start[i], y + h - 2, 2, 0); ctx.fillStyle = colours.section;
      }
      if (start[i] > v1) continue;
      const valid = Math.min(end[i], start[i] + Math.max(S.valid[i], 0)), w = (valid - start[i]) * perPx;
      if (w >= 3) bar(start[i], valid, y, h, 1);
      else { const px = Math.floor(x(start[i]) - LEFT); if (px >= 0 && px < cover.length) cover[px] += Math.max(w, 0.05); }
      if (end[i] > valid) late.push(i);
    }
    for (let px = 0; px < cover.length; px++) if (cover[px] > 0) {  // dense: the fuller, the darker
      ctx.globalAlpha = Math.min(0.5 + 0.5 * cover[px], 1); ctx.fillRect(LEFT + px, y, 1, h);
    }
    ctx.globalAlpha = 1;
    for (const i of late) {
      const from = Math.max(start[i] + S.valid[i], start[i]), wide = (end[i] - from) * perPx > 5;
      ctx.fillStyle = wide ? beyond : colours.beyond; bar(from, end[i], y, h, 2);
      if (wide) { ctx.fillStyle = colours.beyond; bar(from, end[i], y, 1, 2); bar(from, end[i], y + h - 1, 1, 2); }
    }
  }
  function drawHeld() {                   // which client's key each node held; several keys lie in lanes of their own
    const laneH = (nodeH - 6) / keyLanes, named = keyLanes === 1;
    for (let n = 0; n < heldFrom.length && heldFrom[n] <= v1; n++) {
      const to = heldFrom[n] + H.length[n], k = H.key[n];
      if (to < v0 || (key >= 0 && k !== key)) continue;
      const c = H.client[n], y = nodesY + H.node[n] * nodeH + 2 + (k % keyLanes) * laneH;
      ctx.fillStyle = c < 0 ? colours.undecided : colours[KEY_COLOURS[c % KEY_COLOURS.length]]; ctx.globalAlpha = 0.75;
      bar(heldFrom[n], to, y, laneH, 1); ctx.globalAlpha = 1;
      const a = Math.max(x(heldFrom[n]), LEFT), w = Math.min(x(to), LEFT + plotW()) - a;
      if (named && w > 26) { ctx.textAlign = "left"; ctx.fillStyle = colours.ink; ctx.font = "10px system-ui, sans-serif"; label(c < 0 ? "?" : data.clients[c], a + 3, y + laneH / 2, w - 4); }
    }
    ctx.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
  }
  function inView() {                     // none while there are too many, or some are not on the page
    if (!R || v1 - v0 > LONGEST) return [[], "zoom in to see requests"];
    if (!R.kept.some(k => k[0] <= v0 && v1 <= k[1])) return [[], "requests here are not on the page"];
    const found = [];                     // one that a link held may have been sent long before
    for (let n = 0; n < sent.length && sent[n] <= v1; n++) if (over(n) >= v0 && found.push(n) > MOST_DRAWN) return [[], "zoom in to see requests"];
    return [found, found.length === 1 ? "1 request" : found.length + " requests"];
  }
  function laneOf(n, row) {               // in a client's row a lane a node, in a node's row a lane a client: top and height
    const [y, h, of, lane] = row === undefined ? [nodesY + R.node[n] * nodeH + 2, nodeH - 6, R.who.length, R.client[n]] : [clientsY + (row + 1) * clientH - 7, 6, data.nodes.length, R.node[n]];
    return [y + h * lane / of, Math.max(h / of, 1)];
  }
  function drawRequests() {               // from sent to answered, at the client and at the node, and the ways between
    for (const n of shown) {
      const answered = R.came[n] >= 0, came = answered ? sent[n] + R.came[n] : over(n);
      ctx.fillStyle = ctx.strokeStyle = answered ? colours.ink : colours.cut; ctx.lineWidth = 1;
      ctx.globalAlpha = 0.6;               // at the foot of the row: links that hold requests must not hide its sections
      for (const row of R.rows[R.client[n]]) { const [y, h] = laneOf(n, row); bar(sent[n], came, y, h, 2); }
      ctx.globalAlpha = 1;
      if (R.reached[n] < 0) continue;
      const [y, h] = laneOf(n), first = R.rows[R.client[n]][0];
      bar(sent[n] + R.reached[n], R.left[n] < 0 ? over(n) : sent[n] + R.left[n], y, h, 2);
      if (first === undefined) continue;
      const [top, high] = laneOf(n, first), way = (from, to, y0, y1) => { if (x(from) >= LEFT && x(to) <= LEFT + plotW()) { ctx.beginPath(); ctx.moveTo(x(from), y0); ctx.lineTo(x(to), y1); ctx.stroke(); } };
      ctx.globalAlpha = 0.35;
      way(sent[n], sent[n] + R.reached[n], top + high, y);
      if (answered && R.left[n] >= 0) { ctx.setLineDash([3, 3]); way(sent[n] + R.left[n], came, y, top + high); ctx.setLineDash([]); }
      ctx.globalAlpha = 1;
    }
  }
  function aboutRequest(n) {
    const client = R.who[R.client[n]], node = data.nodes[R.node[n]];
    const came = R.came[n] >= 0 ? "answered " + (R.replies[R.reply[n]] || "with nothing") + " after " + fmt(R.came[n])
      : R.left[n] >= 0 ? "answered, but the answer did not arrive" : R.reached[n] >= 0 ? "reached " + node + ", never answered" : "did not reach " + node;
    return [client + " asked " + node + ": " + R.words[R.word[n]], "sent " + at(sent[n]) + ", " + came];
  }
  function tellRequests(said) {           // the same as text, for readers and for the keyboard
    if (!asked) return;
    asked.hidden = !R;
    const lines = shown.slice(0, MOST_TOLD).map(n => aboutRequest(n).join("; "));
    if (shown.length > MOST_TOLD) lines.push("and " + (shown.length - MOST_TOLD) + " more");
    asked.querySelector("summary").textContent = shown.length ? said + " in view" : "Requests: " + said;
    asked.querySelector("ul").replaceChildren(...lines.map(text => { const e = document.createElement("li"); e.textContent = text; return e; }));
  }
  function drawMoments() {                // a mark in the strip and a line in each row; the chosen one is a band
    const tone = m => colours[K[m[0]].blame] || colours.beyond;
    M.forEach((m, n) => {
      if (m[2] < v0 || m[1] > v1) return;
      const isChosen = n === moment;
      ctx.fillStyle = tone(m);
      if (isChosen) { ctx.globalAlpha = 0.14; bar(m[1], m[2], foundY, bottom - foundY, 6); ctx.globalAlpha = 1; }
      bar(m[1], m[2], isChosen ? foundY - 1 : foundY + 3, isChosen ? 15 : 7, 6);
      for (const r of m[3]) bar(m[1], m[2], clientsY + r * clientH, isChosen ? 3 : 2, 6);
      for (const r of m[4]) bar(m[1], m[2], nodesY + r * nodeH, isChosen ? 3 : 2, 6);
    });
  }
  function axisStep() {
    const rough = (v1 - v0) / Math.max(plotW() / 110, 1), power = Math.pow(10, Math.floor(Math.log10(rough)));
    return [1, 2, 5, 10].map(m => m * power).find(s => s >= rough);
  }
  function label(text, px, py, maxW) {
    if (ctx.measureText(text).width > maxW) {
      let n = Math.floor(text.length * maxW / ctx.measureText(text).width) - 1;
      if (n < 4) return; text = text.slice(0, n) + "…";
    }
    ctx.fillText(text, px, py);
  }
  function draw() {
    const ratio = window.devicePixelRatio || 1;
    width = stage.clientWidth;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); canvas.style.height = height + "px";
    }
    ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
    ctx.clearRect(0, 0, width, height);
    ctx.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
    ctx.textBaseline = "middle";
    const right = LEFT + plotW(), beyond = stripes(colours.beyond), down = stripes(colours.down);

    ctx.textAlign = "center";                                     // axis
    const step = axisStep(), digits = Math.max(0, -Math.floor(Math.log10(step / 1e6) + 1e-9));
    for (let t = Math.ceil(v0 / step) * step; t <= v1; t += step) {
      ctx.fillStyle = colours.faint; ctx.fillRect(x(t), AXIS - 4, 1, bottom - AXIS + 4);
      ctx.fillStyle = colours.soft; if (x(t) < right - 10) ctx.fillText((t / 1e6).toFixed(digits) + " s", Math.max(x(t), LEFT + 12), 11);
    }
    for (const f of F) {                                          // faults: shade, lane, label
      if (f.to < v0 || f.from > v1) continue;
      ctx.fillStyle = f.unplanned ? colours.unplanned : colours.fault;
      ctx.globalAlpha = f.took ? 0.11 : 0.04; bar(f.from, f.to, lanesY, bottom - lanesY, 1);
      ctx.globalAlpha = f.took ? 0.5 : 0.18; bar(f.from, f.to, lanesY + f.lane * laneH, laneH - 2, 2);
      ctx.globalAlpha = 1;
      if (laneH > 12) {
        ctx.textAlign = "left"; ctx.fillStyle = colours.ink; ctx.font = "11px system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
        const a = Math.max(x(f.from), LEFT) + 4; label(name(f), a, lanesY + f.lane * laneH + laneH / 2 - 1, Math.min(f.next ? x(f.next.from) : right, right) - a - 10);
        ctx.font = "12px system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif";
      }
    }
    ctx.textAlign = "right"; ctx.fillStyle = colours.soft;         // names of rows
    ctx.fillText("faults", LEFT - 10, lanesY + Math.max(laneEnds.length, 1) * laneH / 2 - 1);
    if (M.length) ctx.fillText("findings", LEFT - 10, foundY + 7);
    ctx.fillText("overlaps", LEFT - 10, stripY + 6);
    data.clients.forEach((name, r) => {
      const y = clientsY + r * clientH;
      ctx.fillStyle = colours.faint; ctx.fillRect(LEFT, y + clientH - 1, plotW(), 1);
      if (clientH < 10 && r % 4) return;
      ctx.fillStyle = colours.ink; label(name, LEFT - 10, y + clientH / 2, LEFT - 14);
    });
    data.nodes.forEach((name, r) => {
      const y = nodesY + r * nodeH;
      ctx.fillStyle = colours.faint; ctx.fillRect(LEFT, H ? y + nodeH - 2 : y + nodeH / 2, plotW(), 1);
      ctx.fillStyle = colours.soft; ctx.fillText(name, LEFT - 10, y + nodeH / 2);
    });
    for (const f of F) {                                          // whom they hit
      if (f.to < v0 || f.from > v1 || !f.took) continue;
      const marks = (hit, y0, h, of, colour, off) => { ctx.fillStyle = colour; for (const [r, n] of hit) {
        ctx.globalAlpha = 0.35 + 0.65 * n / of; bar(f.from, f.to, y0 + r * h + h - off, 3, 1); } ctx.globalAlpha = 1; };
      // By an effect's `look`, what the rows of its clients or nodes are filled with, how opaque, and whether only in a thin line.
      const LOOKS = { clock: [colours.slow, 1, true], cut: [colours.cut, 1, true], stopped: [down, 1], down: [colours.down, 0.75], killed: [colours.down, 0.45] };
      for (const h of f.hits) {
        if (h.of === "link") {
          marks(h.clients, clientsY, clientH, data.nodes.length, colours[h.look], clientH / 2 + 2);
          marks(h.nodes, nodesY, nodeH, data.clients.length, colours[h.look], nodeH / 2 + 1);
          continue;
        }
        const [y0, rowH, edge] = h.of === "client" ? [clientsY, clientH, 1] : [nodesY, nodeH, 2], [fill, alpha, thin] = LOOKS[h.look];
        ctx.fillStyle = fill; ctx.globalAlpha = alpha;
        for (const r of h.rows) bar(f.from, f.to, y0 + r * rowH + (thin ? rowH - 5 : edge), thin ? 3 : rowH - 2 - edge, thin ? 1 : 2);
        ctx.globalAlpha = 1;
      }
    }
    if (H) drawHeld();
    const pad = clientH > 12 ? 4 : 1, barH = clientH - 2 * pad - (clientH > 12 ? 1 : 0);
    rows.forEach((list, r) => drawSections(list, clientsY + r * clientH + pad, barH, beyond));
    for (const blame of [2, 1, 0]) {                              // overlaps last, and the lock's on top
      ctx.fillStyle = colours[BLAME[blame]];
      for (const o of O) {
        if (o[4] !== blame || o[3] < v0 || o[2] > v1 || (key >= 0 && S.key[o[0]] !== key)) continue;
        for (const s of [o[0], o[1]]) bar(o[2], o[3], clientsY + S.client[s] * clientH + pad, barH, 5);
        bar(o[2], o[3], stripY, 12, 5);
      }
    }
    const [requests, said] = inView();
    shown = requests; drawRequests();
    drawMoments();
    if (chosen >= 0) {
      const o = O[chosen], mid = x((o[2] + o[3]) / 2);
      ctx.strokeStyle = colours[BLAME[o[4]]]; ctx.lineWidth = 1; ctx.setLineDash([2, 3]);
      if (mid > LEFT && mid < right) { ctx.beginPath(); ctx.moveTo(mid, stripY); ctx.lineTo(mid, bottom); ctx.stroke(); }
      ctx.setLineDash([]);
    }
    ctx.textAlign = "right";
    let room = LEFT;
    for (const [text, t] of data.marks) if (t >= v0 && t <= v1) {
      ctx.strokeStyle = colours.soft; ctx.setLineDash([3, 3]); ctx.beginPath(); ctx.moveTo(x(t), AXIS); ctx.lineTo(x(t), bottom + 3); ctx.stroke(); ctx.setLineDash([]);
      ctx.fillStyle = colours.soft;
      if (x(t) - ctx.measureText(text).width - 8 > room) ctx.fillText(text, x(t) - 4, bottom + 12);
      room = x(t);
    }
    if (!N) { ctx.textAlign = "center"; ctx.fillStyle = colours.soft; ctx.fillText("no section was recorded", LEFT + plotW() / 2, clientsY + data.clients.length * clientH / 2); }
    const seen = at(v0) + " to " + at(v1) + (moment >= 0 ? " · " + aboutMoment(moment)[0] : chosen >= 0 ? " · overlap " + (chosen + 1) + " of " + O.length : "");
    if (where.textContent !== seen) where.textContent = seen;
    if (told !== said + shown) { told = said + shown; tellRequests(said); }
  }
  let isDue = false;
  const redraw = () => { if (!isDue) { isDue = true; requestAnimationFrame(() => { isDue = false; draw(); }); } };

  // --- moving --------------------------------------------------------------------------------------------------
  function view(a, b) {
    const span = Math.min(Math.max(b - a, 200), data.end), from = Math.min(Math.max(a, 0), data.end - span);
    v0 = from; v1 = from + span; tip.hidden = true; redraw();
  }
  const zoom = (factor, around) => { const t = around === undefined ? (v0 + v1) / 2 : around; view(t - (t - v0) * factor, t + (v1 - t) * factor); };
  const pan = share => { const d = (v1 - v0) * share; view(v0 + d, v1 + d); };
  const whole = () => { chosen = moment = -1; view(0, data.end); };
  function showOverlap(n) {
    chosen = n; moment = -1;
    const o = O[n], from = Math.min(start[o[0]], start[o[1]]), to = Math.max(end[o[0]], end[o[1]]), room = (to - from) * 0.3 + 200;
    view(from - room, to + room);
  }
  function showMoment(n) {                // with the sections of its clients that it touches
    const m = M[n];
    let from = m[1], to = m[2];
    for (const r of m[3]) for (let i = firstEnding(rows[r], m[1]); i < rows[r].length && start[rows[r][i]] <= m[2]; i++) {
      from = Math.min(from, start[rows[r][i]]); to = Math.max(to, end[rows[r][i]]);
    }
    const room = Math.max((to - from) * 0.2, 20000);
    moment = n; chosen = O.findIndex(o => Math.abs(o[2] - m[1]) < 2000 && m[3].includes(S.client[o[0]]));
    view(from - room, to + room);
  }
  const walk = by => { if (!M.length) next(by); else showMoment(moment < 0 ? (by > 0 ? 0 : M.length - 1) : (moment + by + M.length) % M.length); };
  const next = by => { if (O.length) showOverlap(chosen < 0 ? (by > 0 ? 0 : O.length - 1) : (chosen + by + O.length) % O.length); };
  const longest = () => { let best = 0; O.forEach((o, n) => { if (o[3] - o[2] > O[best][3] - O[best][2]) best = n; }); showOverlap(best); };
  const actions = { whole, longest, in: () => zoom(0.5), out: () => zoom(2), previous: () => walk(-1), next: () => walk(1), overlap: () => next(1) };
  for (const button of root.querySelectorAll("[data-do]")) button.addEventListener("click", actions[button.dataset.do]);
  for (const button of alone ? document.querySelectorAll("[data-moment]") : []) {
    button.hidden = false;
    button.addEventListener("click", () => { showMoment(Number(button.dataset.moment)); stage.scrollIntoView({ block: "center" }); canvas.focus({ preventScroll: true }); });
  }
  canvas.addEventListener("keydown", event => {
    const keys = { ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": actions.in, "=": actions.in, "-": actions.out, "0": whole, Home: whole, n: actions.next, p: actions.previous, o: actions.overlap };
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault(); keys[event.key]();
  });
  canvas.addEventListener("wheel", event => {
    const here = time(event.clientX - canvas.getBoundingClientRect().left);
    if (event.ctrlKey || event.metaKey || document.activeElement === canvas) {
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / plotW()); else zoom(Math.exp(event.deltaY * 0.002), here);
    } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) { event.preventDefault(); pan(event.deltaX / plotW()); }
  }, { passive: false });
  let grip = null;
  canvas.addEventListener("pointerdown", event => { if (event.button === 0) { grip = { px: event.clientX, v0, v1 }; canvas.setPointerCapture(event.pointerId); } });
  canvas.addEventListener("pointerup", () => { grip = null; });
  canvas.addEventListener("pointercancel", () => { grip = null; });
  canvas.addEventListener("click", event => {
    const box = canvas.getBoundingClientRect(), n = momentAt(event.clientX - box.left, event.clientY - box.top);
    if (n >= 0) showMoment(n);
  });
  canvas.addEventListener("dblclick", event => zoom(0.25, time(event.clientX - canvas.getBoundingClientRect().left)));
  canvas.addEventListener("pointermove", event => {
    if (grip) { const d = (grip.px - event.clientX) / plotW() * (grip.v1 - grip.v0); view(grip.v0 + d, grip.v1 + d); return; }
    hover(event);
  });
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });

  // --- details -------------------------------------------------------------------------------------------------
  function momentAt(px, py) {             // the one whose mark in the strip that is
    if (!M.length || px < LEFT || py < foundY || py >= stripY) return -1;
    return M.findIndex(m => x(m[1]) - 3 <= px && px <= Math.max(x(m[2]), x(m[1]) + 6) + 3);
  }
  function aboutMoment(n) {
    const m = M[n], first = M.findIndex(other => other[0] === m[0]), many = M.filter(other => other[0] === m[0]).length;
    return ["finding " + (m[0] + 1) + " of " + K.length + (many > 1 ? ", example " + (n - first + 1) + " of " + many : "") + ": " + K[m[0]].text,
            K[m[0]].who, at(m[1]) + (m[2] > m[1] ? ", for " + fmt(m[2] - m[1]) : "")];
  }
  function aboutHeld(py, t, near) {
    if (!H || py < nodesY || py >= bottom) return null;
    const r = Math.floor((py - nodesY) / nodeH);
    const lines = heldFrom.flatMap((from, n) => H.node[n] === r && from - near <= t && from + H.length[n] + near >= t && (key < 0 || H.key[n] === key)
      ? ["key " + data.keys[H.key[n]] + " of " + (H.client[n] < 0 ? "an unknown client" : data.clients[H.client[n]]) + ", " + at(from) + " to " + at(from + H.length[n])] : []);
    return lines.length ? [data.nodes[r] + " held"].concat(lines.slice(0, 6)) : null;
  }
  function aboutSection(i) {
    const lines = [data.clients[S.client[i]] + ", section " + S.number[i], "key " + data.keys[S.key[i]], at(start[i]) + " to " + at(end[i]) + ", held for " + fmt(S.length[i]),
                   "waited " + fmt(S.wait[i])];
    const over = S.length[i] - S.valid[i];
    lines.push(S.valid[i] > 1e12 || S.slack[i] > 1e12 ? "the lock reported no validity" : over > S.slack[i] ? "outlived its lease by " + fmt(over - S.slack[i]) : over > 0 ? "may have outlived its lease" : fmt(-over) + " of validity left");
    if (S.ended[i]) lines.push(["", "killed inside", "still inside when the record ended"][S.ended[i]]);
    if (S.token[i] !== null) lines.push("token " + S.token[i]);
    for (const n of (overlapsOf.get(i) || []).slice(0, 4)) {
      const o = O[n], other = o[0] === i ? o[1] : o[0];
      lines.push("overlaps " + data.clients[S.client[other]] + ", section " + S.number[other] + " for " + fmt(o[3] - o[2]) + "; " + SAYS[o[4]]);
    }
    return lines;
  }
  const aboutFault = f => [name(f), f.nemesis + ", " + at(f.from) + " to " + (f.healed ? at(f.to) : "the end: no healing was recorded"), (f.took ? "seen: " : "did not take: ") + f.seen];
  function requestsAt(py, t, near) {      // those whose lane in that row is there
    const isIn = ([y, h]) => y - 1 <= py && py <= y + h + 1;
    return shown.filter(n => sent[n] - near <= t && t <= over(n) + near && (isIn(laneOf(n)) || R.rows[R.client[n]].some(row => isIn(laneOf(n, row)))));
  }
  function hover(event) {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top, t = time(px), near = (v1 - v0) / plotW() * 3;
    let lines = null;
    const found = momentAt(px, py);
    if (found >= 0) lines = aboutMoment(found);
    else if (px >= LEFT && py >= stripY && py < clientsY) {
      const n = O.findIndex(o => o[2] - near <= t && o[3] + near >= t);
      if (n >= 0) lines = ["overlap of " + fmt(O[n][3] - O[n][2])].concat(aboutSection(O[n][1]).slice(0, 2), SAYS[O[n][4]]);
    } else if (px >= LEFT && py >= clientsY && py < nodesY - 12) {
      const list = rows[Math.floor((py - clientsY) / clientH)] || [], n = firstEnding(list, t - near);
      if (n < list.length && start[list[n]] <= t + near) lines = aboutSection(list[n]);
    }
    const requests = px >= LEFT ? requestsAt(py, t, near) : [];
    if (requests.length) lines = requests.slice(0, 3).flatMap(aboutRequest).concat(lines || []);
    if (!lines && px >= LEFT) lines = aboutHeld(py, t, near);
    if (!lines && px >= LEFT && py >= lanesY) {
      const here = F.filter(f => f.from - near <= t && f.to + near >= t && (py >= stripY || f.lane === Math.floor((py - lanesY) / laneH)));
      if (here.length) lines = here.slice(0, 3).flatMap(aboutFault);
    }
    tip.hidden = !lines;
    if (!lines) return;
    tip.replaceChildren(...lines.map((line, n) => { const e = document.createElement(n ? "span" : "b"); e.textContent = line; return e; }));
    const x1 = px + 14 + tip.offsetWidth > width ? px - 14 - tip.offsetWidth : px + 14;
    tip.style.left = Math.max(x1, 4) + "px"; tip.style.top = Math.max(Math.min(py + 12, height - tip.offsetHeight - 4), 2) + "px";
  }

  // --- start ---------------------------------------------------------------------------------------------------
  const filter = root.querySelector("select");
  if (data.keys && data.keys.length > 1 && data.keys.length <= 200) {
    data.keys.forEach((name, n) => filter.add(new Option("key " + name, n)));
    filter.hidden = false; filter.addEventListener("change", () => { key = Number(filter.value); redraw(); });
  }
  for (const button of root.querySelectorAll("[data-needs]")) {
    const isThere = button.dataset.needs === "overlap" ? O.length : M.length;
    button.disabled = !isThere; button.hidden = button.dataset.needs === "finding" && !data.findings;
  }
  function fromAddress() {                // #12.5-13 shows these seconds, #overlap-2 the second overlap, #finding-3 the third finding
    const found = /^#(?:overlap-(\d+)|([\d.]+)-([\d.]+)|finding-(\d+))$/.exec(location.hash);
    if (!found) return;
    if (found[4]) { const n = M.findIndex(m => m[0] === found[4] - 1); if (n >= 0) showMoment(n); }
    else if (found[1]) { if (O[found[1] - 1]) showOverlap(found[1] - 1); } else view(found[2] * 1e6, found[3] * 1e6);
  }
  readColours(); draw();
  if (alone) { addEventListener("hashchange", fromAddress); fromAddress(); }
  if (O[root.dataset.show - 1]) showOverlap(root.dataset.show - 1);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); redraw(); });
  new ResizeObserver(redraw).observe(stage);
})();
