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
  lasso: (rows, how) => changeGroup(activeGroup, rows, how),
  mark: (which) => markRow(which),
  toggleLasso: () => toggleLasso(),
});

function select(i) {
  const links = topsOf(headline, i);
  Object.assign(map, { row: i, landmark: -1, links });
  map.reveal(map.at(map.places.rows, i));
  map.draw();
  showRow(i);
  say(`Row ${rowNumbers[i]}${labels ? `, ${valueOf(labels, i)}` : ""}, coverage ${coverage[i].toFixed(2)}. ${headline.most} ${landmarkName(links[0].landmark)}.`);
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

// Finding rows

function find(query) {
  if (query !== found.query) found = { query, rows: matching(query), place: -1 };
  showFilterValues();
  if (!found.rows.length) {
    map.matches = null;
    map.draw();
    if (/^\d+$/.test(query) && Number(query) < report.n_total) showMissing(Number(query));
    else say(`Nothing found for “${query}”.`);
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
  groupsChanged();
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
  byId("not-for").append(...(report.not_for.length ? report.not_for.map((text) => el("li", {}, text)) : [el("li", {}, NOTHING_FOUND)]));
  byId("spectrum").append(spectrumChart(report.spectrum, report.effective_rank));
  showAxes(maps[0]);
  byId("map").setAttribute("aria-label", `Map of ${plural(n, "row")} and ${plural(m, "landmark")}`);
  byId("footer").append(...report.notes.map((note) => el("p", {}, note)));
}

const NOTHING_FOUND =
  "Nothing was found on these rows: no group is unlike the landmarks, and no class is lost among others. Other rows were not looked at.";

function showAxes(chosen) {
  const trust = chosen.trust === null ? "" : ` Trustworthiness ${chosen.trust.toFixed(3)}: 1 if all neighbours here are neighbours in the representation, 0.5 for places at random.`;
  byId("axes").textContent = chosen.about + trust;
}

function fillMaps() {
  byId("which").append(...maps.map((each, k) => el("option", { value: k }, each.name)));
  byId("which").closest("label").hidden = maps.length < 2;
}

/** What rows can be coloured or chosen by, as options. */
function fieldOptions() {
  const kinds = new Map();
  for (const choice of fields) {
    if (!kinds.has(choice.group)) kinds.set(choice.group, el("optgroup", { label: choice.group }));
    kinds.get(choice.group).append(el("option", { value: choice.key }, choice.name));
  }
  return kinds.values();
}

byId("which").addEventListener("change", (event) => {
  const chosen = maps[Number(event.target.value)];
  showAxes(chosen);
  map.choose(chosen);
  say(`Map: ${chosen.name}.`);
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

/** The row in the address; one that is not on the page is said to be missing. */
function openHash() {
  const wanted = /^#row=(\d+)$/.exec(location.hash)?.[1];
  if (wanted === undefined) select(report.first);
  else if (pageOfRow.has(Number(wanted))) select(pageOfRow.get(Number(wanted)));
  else showMissing(Number(wanted));
}

window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#row=")) openHash();
});

showFacts();
fillMaps();
byId("colour").append(...fieldOptions());
fillFilter();
setTheme(null);
saySeen();
openHash();
window.krepesReport = { map, select, where: (i) => map.at(map.places.rows, i), seen, groups, rowText };
performance.mark("first-map");
