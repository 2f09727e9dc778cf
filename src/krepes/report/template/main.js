// The page: what is selected, coloured, filtered and found, and how one gets there.

const fields = colourFields();
let field = fields[0];
let found = { query: "", rows: [], place: -1 };

const map = new RowMap(byId("map"), {
  select: (i) => select(i),
  selectLandmark: (l) => selectLandmark(l),
  hover: showTooltip,
  enter: () => panel.focus(),
  clear: () => clearSelection(),
});

function select(i) {
  const links = topsOf(influence, i);
  Object.assign(map, { row: i, landmark: -1, links });
  map.reveal(map.at(map.places.rows, i));
  map.draw();
  showRow(i);
  say(`Row ${rowNumbers[i]}${labels ? `, ${valueOf(labels, i)}` : ""}, coverage ${coverage[i].toFixed(2)}. Most influential: ${landmarkName(links[0].landmark)}.`);
  remember(`#row=${rowNumbers[i]}`);
}

function selectLandmark(l) {
  const rows = showLandmark(l);
  Object.assign(map, { row: -1, landmark: l, links: rows });
  map.reveal(map.at(map.places.landmarks, l));
  map.draw();
  say(`Landmark, ${landmarkName(l)}.`);
}

function clearSelection() {
  Object.assign(map, { row: -1, landmark: -1, links: [], matches: null });
  found = { query: "", rows: [], place: -1 };
  map.draw();
  emptyPanel();
  saySeen();
  remember("#");
}

function stepRow(by) {
  for (let k = 1; k <= n; k++) {
    const i = (map.row + by * k + n * k) % n;
    if (map.visible[i]) return select(i);
  }
}

/** In the address, so that a link leads to a row; some browsers forbid that for files. */
function remember(hash) {
  try {
    history.replaceState(null, "", hash);
  } catch {
    // The page works without.
  }
}

// Colours, legend and filter

function recolour() {
  map.colours = Array.from({ length: n }, (_, i) => fieldColour(field, i));
  map.shapes = field.levels && field.levels.length > 10 ? Array.from(field.values, levelShape) : null;
  for (let i = 0; i < n; i++) map.visible[i] = field.levels && field.hidden.has(field.values[i]) ? 0 : 1;
  map.draw();
}

function showLegend() {
  const legend = byId("legend");
  legend.replaceChildren();
  if (field.levels) legend.append(...levelLegend());
  else legend.append(numberLegend());
  legend.append(el("button", { type: "button", class: "level", id: "show-landmarks", "aria-pressed": String(map.showLandmarks), onclick: toggleLandmarks },
    el("span", { class: "diamond" }), "landmarks", el("span", { class: "size" }, count(m))));
}

function levelLegend() {
  const sizes = new Map();
  for (const code of field.values) sizes.set(code, (sizes.get(code) || 0) + 1);
  const codes = [...sizes.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b);
  const buttons = codes.map((code) => {
    const swatch = el("span", { class: `swatch ${levelShape(code)}` });
    swatch.style.setProperty("--mark", levelColour(code));
    return el("button", { type: "button", class: "level", "aria-pressed": String(!field.hidden.has(code)), "data-code": code,
      onclick: () => toggle(code) }, swatch, levelOf(field, code), el("span", { class: "size" }, count(sizes.get(code))));
  });
  const all = (name, hidden) => el("button", { type: "button", class: "all", onclick: () => filter(hidden) }, name);
  return [el("div", { class: "levels", role: "group", "aria-label": `Show or hide by ${field.name}` }, ...buttons,
    all("all", []), all("none", codes))];
}

function numberLegend() {
  const ramp = el("span", { class: "ramp" });
  const stops = Array.from({ length: 9 }, (_, k) => (field.around0 ? diverging : sequential)(k / 8));
  ramp.style.background = `linear-gradient(to right, ${stops.join(", ")})`;
  return el("div", { class: "scale" }, el("span", {}, number(field.low)), ramp, el("span", {}, number(field.high)), el("span", { class: "size" }, field.name));
}

function toggleLandmarks() {
  map.showLandmarks = !map.showLandmarks;
  showLegend();
  map.draw();
  byId("show-landmarks").focus();
}

function toggle(code) {
  if (field.hidden.has(code)) field.hidden.delete(code);
  else field.hidden.add(code);
  filter([...field.hidden]);
  byId("legend").querySelector(`[data-code="${code}"]`)?.focus();
}

function filter(hidden) {
  field.hidden = new Set(hidden);
  recolour();
  showLegend();
  saySeen();
}

const seen = () => map.visible.reduce((sum, value) => sum + value, 0);

function saySeen() {
  const shown = seen();
  say(shown === n ? `${plural(n, "row")} on the map.` : `${count(shown)} of ${plural(n, "row")} on the map.`);
}

function say(text) {
  byId("status").textContent = text;
}

// Finding rows

function find(query) {
  if (query !== found.query) found = { query, rows: matching(query), place: -1 };
  if (!found.rows.length) {
    const absent = /^\d+$/.test(query) && Number(query) < report.n_total && n < report.n_total;
    say(absent ? `Row ${query} is not among the ${count(n)} of ${count(report.n_total)} rows on this page.` : `Nothing found for “${query}”.`);
    map.matches = null;
    map.draw();
    return;
  }
  found.place = (found.place + 1) % found.rows.length;
  map.matches = found.rows.length > 1 ? new Set(found.rows) : null;
  select(found.rows[found.place]);
  if (found.rows.length > 1) say(`${count(found.place + 1)} of ${plural(found.rows.length, "match").replace("matchs", "matches")} for “${query}”.`);
}

/** A row number, or text in labels, columns, levels and texts. */
function matching(query) {
  if (/^\d+$/.test(query) && pageOfRow.has(Number(query))) return [pageOfRow.get(Number(query))];
  const wanted = query.toLowerCase();
  const columns = [labels, ...extraColumns, ...features].filter((column) => column && column.levels);
  const codes = columns.map((column) => new Set(column.levels.flatMap((level, code) => (level.toLowerCase().includes(wanted) ? [code] : []))));
  return Array.from(rowNumbers.keys()).filter((i) =>
    columns.some((column, k) => codes[k].has(column.values[i])) || report.texts?.rows[i].toLowerCase().includes(wanted));
}

function showTooltip({ row, landmark }, x, y) {
  const tip = byId("tooltip");
  byId("map").style.cursor = row >= 0 || landmark >= 0 ? "pointer" : "grab";
  tip.hidden = row < 0 && landmark < 0;
  if (tip.hidden) return;
  const lines = row >= 0 ? [rowName(row), fieldText(field, row)] : ["landmark", landmarkName(landmark)];
  if (row >= 0 && labels && field.values !== labels.values) lines.push(`${labels.name}: ${valueOf(labels, row)}`);
  tip.replaceChildren(...[thumbnail(row >= 0 ? row : n + landmark, 56, ""), el("div", {}, ...lines.map((line) => el("div", {}, line)))].filter(Boolean));
  const { width, height } = map;
  tip.style.left = `${Math.min(x + 14, Math.max(0, width - tip.offsetWidth - 6))}px`;
  tip.style.top = `${y + 18 + tip.offsetHeight > height ? y - tip.offsetHeight - 10 : y + 18}px`;
}

// Light and dark

function setTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
  byId("theme").textContent = isDark() ? "Light" : "Dark";
  byId("theme").setAttribute("aria-pressed", String(isDark()));
  byId("theme").setAttribute("aria-label", isDark() ? "Change to a light page" : "Change to a dark page");
  recolour();
  showLegend();
  showConcepts();
  map.paint();
  if (map.row >= 0) showRow(map.row);
  else if (map.landmark >= 0) showLandmark(map.landmark);
}

let screenTheme = null;
window.addEventListener("beforeprint", () => {
  screenTheme = document.documentElement.dataset.theme ?? null;
  setTheme("light");
});
window.addEventListener("afterprint", () => setTheme(screenTheme));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(document.documentElement.dataset.theme ?? null));

// Header, model card and controls

function showFacts() {
  const fact = ([name, value]) => [el("dt", {}, name), el("dd", {}, value)];
  byId("subtitle").textContent = report.subtitle;
  byId("notice").textContent = report.notice;
  byId("tiles").append(...report.tiles.map(([name, value]) => el("div", {}, ...fact([name, value]))));
  byId("card").append(...report.card.flatMap(fact));
  byId("spectrum").append(spectrumChart(report.spectrum, report.effective_rank));
  byId("axes").textContent = maps[0].about;
  byId("map").setAttribute("aria-label", `Map of ${plural(n, "row")} and ${plural(m, "landmark")}`);
  byId("footer").append(...report.notes.map((note) => el("p", {}, note)));
}

function fillMaps() {
  byId("which").append(...maps.map((each, k) => el("option", { value: k }, each.name)));
  byId("which").closest("label").hidden = maps.length < 2;
}

function fillColours() {
  const groups = new Map();
  for (const choice of fields) {
    if (!groups.has(choice.group)) groups.set(choice.group, el("optgroup", { label: choice.group }));
    groups.get(choice.group).append(el("option", { value: choice.key }, choice.name));
  }
  byId("colour").append(...groups.values());
}

byId("which").addEventListener("change", (event) => {
  const chosen = maps[Number(event.target.value)];
  byId("axes").textContent = chosen.about;
  map.choose(chosen);
});
byId("colour").addEventListener("change", (event) => {
  field = fields[Number(event.target.value)];
  filter([...field.hidden]);
});
byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const query = byId("query").value.trim();
  if (query) find(query);
});
byId("zoom-in").addEventListener("click", () => map.zoomBy(1.5));
byId("zoom-out").addEventListener("click", () => map.zoomBy(1 / 1.5));
byId("zoom-all").addEventListener("click", () => map.showAll());
byId("theme").addEventListener("click", () => setTheme(isDark() ? "light" : "dark"));
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && event.target !== byId("map") && event.target.tagName !== "SELECT") {
    if (event.target === byId("query")) byId("query").value = "";
    clearSelection();
    byId("map").focus();
  }
});

showFacts();
fillMaps();
fillColours();
setTheme(null);
saySeen();
const wantedRow = pageOfRow.get(Number(/^#row=(\d+)$/.exec(location.hash)?.[1] ?? NaN));
select(wantedRow ?? report.first);
window.krepesReport = { map, select, where: (i) => map.at(map.places.rows, i), seen };
