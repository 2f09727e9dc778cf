// Colours: ten that colour-blind people can tell apart (Petroff 2021), then other shapes; viridis for amounts; blue to
// orange around zero for scores.

const TEN = ["#3f90da", "#ffa90e", "#bd1f01", "#832db6", "#92dadd", "#a96b59", "#e76300", "#b9ac70", "#94a4a2", "#343a46"];
const TEN_DARK = ["#57a5ee", "#ffb733", "#ee5a3c", "#b56ce4", "#92dadd", "#c98a77", "#f57f26", "#cfc387", "#aebdbb", "#f3f5f9"];
const SHAPES = ["circle", "square", "triangle", "cross"];
const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];

const isDark = () => {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
};

const cssColour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function mix(first, second, share) {
  const part = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
  const mixed = [0, 1, 2].map((k) => Math.round(part(first, k) + (part(second, k) - part(first, k)) * share));
  return `rgb(${mixed.join(",")})`;
}

function along(stops, share) {
  const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(place), stops.length - 2);
  return mix(stops[i], stops[i + 1], place - i);
}

/** Light enough at the dark end to be seen on a dark page. */
const sequential = (share) => along(isDark() ? VIRIDIS.slice(2) : VIRIDIS.slice(0, -1), share);
const diverging = (share) =>
  along(isDark() ? ["#4aa3ff", "#6b7280", "#ff9d3b"] : ["#0a5fb4", "#c3c9d1", "#d95f02"], share);

function levelColour(code) {
  if (code < 0) return cssColour("--faint");
  return (isDark() ? TEN_DARK : TEN)[code % 10];
}

const levelShape = (code) => SHAPES[code < 0 ? 0 : Math.floor(code / 10) % SHAPES.length];

/** What rows can be coloured by. */
function colourFields() {
  const fields = [];
  const add = (group, name, values, levels, around0 = false) => {
    const field = { key: String(fields.length), group, name, values, levels, hidden: new Set(), around0 };
    if (!levels) Object.assign(field, range(values, around0));
    fields.push(field);
  };
  if (labels) add("Rows", labels.name, labels.values, labels.levels);
  add("Rows", "coverage", coverage, null);
  Object.assign(fields[fields.length - 1], { low: 0, high: 1 });
  for (const column of extraColumns) add("Columns", column.name, column.values, column.levels);
  for (const d of conceptDirections) add("Concepts", `concept: ${d.name}`, d.totals, null, true);
  for (const feature of features) add("Features", feature.name, feature.values, feature.levels);
  for (const d of directions) if (d.kind !== "concept") add("Directions", d.name, d.totals, null, true);
  return fields;
}

/** From the 1st to the 99th percentile, so that one outlier does not take all colours. */
function range(values, around0) {
  const sorted = Float64Array.from(values).filter((v) => Number.isFinite(v)).sort();
  if (!sorted.length) return { low: 0, high: 1 };
  const at = (share) => sorted[Math.round(share * (sorted.length - 1))];
  let [low, high] = [at(0.01), at(0.99)];
  if (low === high) [low, high] = [sorted[0], sorted[sorted.length - 1]];
  if (around0) {
    high = Math.max(Math.abs(low), Math.abs(high));
    low = -high;
  }
  return { low, high: low === high ? low + 1 : high };
}

function fieldColour(field, i) {
  const value = field.values[i];
  if (field.levels) return levelColour(value);
  if (!Number.isFinite(value)) return cssColour("--faint");
  const share = (value - field.low) / (field.high - field.low);
  return field.around0 ? diverging(share) : sequential(share);
}

const fieldText = (field, i) => `${field.name}: ${field.levels ? levelOf(field, field.values[i]) : number(field.values[i])}`;

// On the map: the legend, and which rows are visible.

function recolour() {
  map.colours = Array.from({ length: n }, (_, i) => fieldColour(field, i));
  map.shapes = field.levels && field.levels.length > 10 ? Array.from(field.values, levelShape) : null;
  for (let i = 0; i < n; i++) {
    map.visible[i] = (field.levels && field.hidden.has(field.values[i])) || (onlyGroups && !inGroups(i)) ? 0 : 1;
  }
  map.draw();
}

function showLegend() {
  const legend = byId("legend");
  legend.replaceChildren();
  if (field.levels) legend.append(...levelLegend());
  else legend.append(numberLegend());
  legend.append(el("button", { type: "button", class: "level", id: "show-landmarks", "aria-pressed": String(map.showLandmarks), onclick: toggleLandmarks },
    el("span", { class: "diamond" }), "landmarks ", el("span", { class: "size" }, count(m))));
}

function levelLegend() {
  const sizes = new Map();
  for (const code of field.values) sizes.set(code, (sizes.get(code) || 0) + 1);
  const codes = [...sizes.keys()].sort((a, b) => (a < 0) - (b < 0) || a - b);
  const buttons = codes.map((code) => {
    const swatch = el("span", { class: `swatch ${levelShape(code)}` });
    swatch.style.setProperty("--mark", levelColour(code));
    return el("button", { type: "button", class: "level", "aria-pressed": String(!field.hidden.has(code)), "data-code": code,
      onclick: () => toggle(code) }, swatch, `${levelOf(field, code)} `, el("span", { class: "size" }, count(sizes.get(code))));
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
