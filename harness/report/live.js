// Puts what the server sends into the places of a live page: as text, never as markup. See harness/serve/live_message.py.
"use strict";
(() => {
  const source = new EventSource("events");
  const known = {};

  // Only what changed is drawn anew, so that a link keeps the focus and a screen reader is not told twice.
  const isNew = (name, value) => {
    const text = JSON.stringify(value);
    return known[name] !== text && ((known[name] = text), true);
  };

  const element = (name, text, tone) => {
    const made = document.createElement(name);
    made.textContent = text ?? "";
    if (tone) made.className = tone;
    return made;
  };

  const filled = (place, cells) => {
    const isTable = place.tagName === "TBODY";
    const row = document.createElement(isTable ? "tr" : "li");
    for (const cell of cells) {
      const made = element(isTable ? "td" : "span", cell.href ? "" : cell.text, cell.tone);
      if (cell.href) {
        const link = element("a", cell.text);
        link.href = cell.href;
        made.append(link);
      }
      row.append(made);
    }
    return row;
  };

  const svg = (name, attributes) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };

  // The drawing is 1000 wide and 100 high, and stretched to its place.
  const draw = (place, chart) => {
    const top = Math.max(1, ...chart.sections);
    const x = seconds => (1000 * Math.min(seconds, chart.total_s)) / chart.total_s;
    const now = (chart.sections.length + 1) * chart.bin_s;
    place.replaceChildren(
      ...chart.faults.map(([from, to, what]) => {
        const shade = svg("rect", { class: "fault", x: x(Math.max(from, 0)), y: 0, height: 100,
          width: Math.max(2, x(to ?? now) - x(Math.max(from, 0))) });
        const title = svg("title", {});
        title.textContent = what;
        shade.append(title);
        return shade;
      }),
      ...chart.sections.map((count, bin) => svg("rect", { class: "bar", x: x(bin * chart.bin_s), y: 100 - (96 * count) / top,
        width: 0.82 * x(chart.bin_s), height: (96 * count) / top })));
    document.querySelector("[data-text=top]").textContent = `${top.toLocaleString("en")} in ${chart.bin_s} s`;
    document.querySelector("[data-text=until]").textContent = `${Math.round(chart.total_s)} s`;
  };

  source.addEventListener("shown", event => {
    const shown = JSON.parse(event.data);
    for (const [name, text] of Object.entries(shown.texts)) {
      const place = document.querySelector(`[data-text=${name}]`);
      if (place && isNew(`text ${name}`, text)) place.textContent = text;
    }
    document.querySelector("progress").value = shown.share;
    for (const [name, rows] of Object.entries(shown.rows ?? {})) {
      const place = document.querySelector(`[data-rows=${name}]`);
      if (isNew(`rows ${name}`, rows)) place.replaceChildren(...rows.map(row => filled(place, row)));
    }
    if (shown.chart && isNew("chart", shown.chart)) draw(document.querySelector("[data-chart]"), shown.chart);
    document.querySelector("[data-lost]").hidden = true;
  });

  source.addEventListener("end", event => {
    source.close();
    document.querySelector("[data-lost]").hidden = true;
    const banner = document.querySelector("[data-end]");
    const end = JSON.parse(event.data);
    banner.querySelector(".says").replaceChildren(element("span", end.word.text, "word"), ` ${end.says}`);
    if (end.word.tone) banner.classList.add(end.word.tone);
    const link = banner.querySelector("a");
    link.textContent = end.link.text;
    link.href = end.link.href;
    banner.hidden = false;
    document.body.classList.add("ended");
  });

  source.onerror = () => { document.querySelector("[data-lost]").hidden = false; };
})();
