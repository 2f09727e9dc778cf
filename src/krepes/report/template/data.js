// What the page holds: numbers from base64, texts as they are, and how both are written.

const ARRAYS = {
  float32: Float32Array, float64: Float64Array, int16: Int16Array, int32: Int32Array, uint8: Uint8Array,
  uint16: Uint16Array, uint32: Uint32Array,
};

function unpack(packed) {
  if (!packed) return null;
  const text = atob(packed.base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return new ARRAYS[packed.type](bytes.buffer);
}

const report = JSON.parse(document.getElementById("data").textContent);
const rowNumbers = unpack(report.rows);
const n = rowNumbers.length;
const coverage = unpack(report.coverage);
const maps = report.maps.map((each) => ({ ...each, rows: unpack(each.rows), landmarks: unpack(each.landmarks) }));
const landmarkNorms = unpack(report.landmarks.norms);
const landmarkRows = unpack(report.landmarks.rows);
const landmarkLabels = unpack(report.landmarks.labels);
const m = landmarkNorms.length;
const pageOfRow = new Map(Array.from(rowNumbers, (row, i) => [row, i]));

/** Values are steps of the largest of their row: step / STEPS * largest. */
const STEPS = 32767;

function unpackTops(tops) {
  const [steps, largest] = [unpack(tops.steps), unpack(tops.largest)];
  const values = Float64Array.from(steps, (step, j) => (step / STEPS) * largest[Math.floor(j / tops.n_top)]);
  return { nTop: tops.n_top, landmarks: unpack(tops.landmarks), values };
}

const unpackColumn = (column) => ({ ...column, values: unpack(column.values) });

const headline = { ...report.headline, ...unpackTops(report.headline) };
const nearest = { rows: unpack(report.nearest.rows), distances: unpack(report.nearest.distances) };
nearest.count = nearest.rows.length / n;
const heat = report.heat && { ...report.heat, shares: unpack(report.heat.shares), largest: unpack(report.heat.largest) };
const directions = report.directions.map((d) => ({ ...d, ...unpackTops(d), totals: unpack(d.totals) }));
const conceptDirections = directions.filter((d) => d.kind === "concept");
const labels = report.labels && unpackColumn(report.labels);
const extraColumns = report.columns.map(unpackColumn);
const features = report.features.map((f) => ({ ...unpackColumn(f), ofLandmarks: unpack(f.of_landmarks), rebuilt: unpack(f.rebuilt) }));
const rebuilt = report.rebuilt && {
  error: unpack(report.rebuilt.actual), expected: unpack(report.rebuilt.expected), trusted: unpack(report.rebuilt.trusted),
};

/** The top landmarks of a row: [{landmark, value}], largest first. */
function topsOf(tops, row) {
  const found = [];
  for (let j = row * tops.nTop; j < (row + 1) * tops.nTop; j++) {
    found.push({ landmark: tops.landmarks[j], value: tops.values[j] });
  }
  return found;
}

/** The nearest other rows of a row: [{row, distance}], nearest first. */
function nearestTo(row) {
  return Array.from({ length: nearest.count }, (_, k) => {
    const j = row * nearest.count + k;
    return { row: nearest.rows[j], distance: nearest.distances[j] };
  });
}

/** A number in few digits: 1,234, 0.0123, 1.2e-7; a missing one as a dash. */
function number(value, digits = 3) {
  if (value === null || Number.isNaN(value)) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(digits - 1).replaceAll("-", "−");
  const text = size >= 10 ** (digits - 1) ? Math.round(value).toLocaleString("en") : value.toPrecision(digits);
  return text.replace("-", "−");
}

/** A value of the data, with all the digits that are kept. */
function plain(value) {
  if (Number.isNaN(value)) return "missing";
  return String(Number(value.toPrecision(6))).replace("-", "−");
}

const percent = (share) => `${(100 * share).toFixed(share > 0 && share < 0.01 ? 1 : 0)} %`;
const signed = (value) => (value > 0 ? "+" : "") + number(value);
const count = (value) => value.toLocaleString("en");
const plural = (value, word) => `${count(value)} ${word}${value === 1 ? "" : "s"}`;

const levelOf = (column, code) => (code < 0 ? `no ${column.name}` : column.levels[code]);
const valueOf = (column, i) => (column.levels ? levelOf(column, column.values[i]) : plain(column.values[i]));

const rowName = (i) => `row ${rowNumbers[i]}`;

function landmarkName(l) {
  if (!landmarkRows) return `landmark ${l}`;
  return report.landmarks.rows_of_data ? `row ${landmarkRows[l]}` : `training row ${landmarkRows[l]}`;
}

/** The place on the page of the row that a landmark is, or -1. */
const pageOfLandmark = (l) =>
  report.landmarks.rows_of_data ? pageOfRow.get(landmarkRows[l]) ?? -1 : -1;

/** An element; texts are set as text, never as HTML. */
function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const byId = (id) => document.getElementById(id);
