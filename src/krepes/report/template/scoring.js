"use strict";
// A program of krepes.export, carried out for one row, and the controls that change the row.
const page = JSON.parse(document.getElementById("data").textContent);
const ARRAYS = { float32: Float32Array, float64: Float64Array, int16: Int16Array, int32: Int32Array, uint8: Uint8Array, uint16: Uint16Array, uint32: Uint32Array };

function unpacked(given) {
  if (given.words) return { shape: given.shape, data: given.words };
  const bytes = Uint8Array.from(atob(given.base64), (letter) => letter.charCodeAt(0));
  return { shape: given.shape, data: new ARRAYS[given.type](bytes.buffer) };
}
const constants = new Map(Object.entries(page.constants).map(([name, given]) => [name, unpacked(given)]));

const size = (shape) => shape.reduce((a, b) => a * b, 1);
const make = (shape) => ({ shape, data: new Float64Array(size(shape)) });

function strides(shape, rank) {
  const steps = new Array(rank).fill(0);
  let step = 1;
  for (let i = shape.length - 1; i >= 0; i--) {
    if (shape[i] !== 1) steps[i + rank - shape.length] = step;
    step *= shape[i];
  }
  return steps;
}
function elementwise(f, ...parts) {
  const rank = Math.max(...parts.map((part) => part.shape.length));
  const shape = Array.from({ length: rank }, (_, i) =>
    Math.max(...parts.map((part) => part.shape[i - rank + part.shape.length] ?? 1)));
  const steps = parts.map((part) => strides(part.shape, rank)), out = make(shape), at = new Array(rank).fill(0);
  const places = parts.map(() => 0), values = new Array(parts.length);
  for (let n = 0; n < out.data.length; n++) {
    for (let p = 0; p < parts.length; p++) values[p] = parts[p].data[places[p]];
    out.data[n] = f(...values);
    for (let i = rank - 1; i >= 0; i--) {
      at[i]++;
      for (let p = 0; p < parts.length; p++) places[p] += steps[p][i];
      if (at[i] < shape[i]) break;
      for (let p = 0; p < parts.length; p++) places[p] -= steps[p][i] * shape[i];
      at[i] = 0;
    }
  }
  return out;
}
function byRow(a, width, f) { // f(row, write) over the last axis
  const d = a.shape.at(-1), n = a.data.length / d, out = make([...a.shape.slice(0, -1), width]);
  for (let i = 0; i < n; i++) f(a.data.subarray(i * d, (i + 1) * d), out.data.subarray(i * width, (i + 1) * width));
  return out;
}
function matmul(a, b) { // (..., r, k) (..., k, c); a matrix serves every part of the other
  const k = a.shape.at(-1), c = b.shape.at(-1), rows = a.shape.at(-2), many = (b.shape.length > a.shape.length ? b : a).shape.slice(0, -2);
  const batch = size(many), out = make([...many, rows, c]), mine = a.shape.length > 2, own = b.shape.length > 2;
  for (let s = 0; s < batch; s++) for (let i = 0; i < rows; i++) for (let t = 0; t < k; t++) {
    const x = a.data[((mine ? s * rows : 0) + i) * k + t];
    if (x !== 0) for (let j = 0; j < c; j++) out.data[(s * rows + i) * c + j] += x * b.data[((own ? s * k : 0) + t) * c + j];
  }
  return out;
}
function erf(x) { // by the series near zero, a continued fraction beyond
  const z = Math.abs(x);
  if (z > 6) return Math.sign(x);
  if (z < 2.5) {
    let term = x, sum = x;
    for (let n = 1; n < 60; n++) { term *= -x * x / n; sum += term / (2 * n + 1); }
    return sum * 2 / Math.sqrt(Math.PI);
  }
  let f = 0;
  for (let n = 60; n > 0; n--) f = n / 2 / (z + f);
  return Math.sign(x) * (1 - Math.exp(-z * z) / Math.sqrt(Math.PI) / (z + f));
}
function rowsOf(index, table) {
  const width = size(table.shape.slice(1)), flat = index.shape.at(-1) === 1 ? index.shape.slice(0, -1) : index.shape;
  const words = Array.isArray(table.data), out = { shape: [...flat, ...table.shape.slice(1)], data: [] };
  const parts = Array.from(index.data, (i) => table.data.slice(i * width, (i + 1) * width));
  if (words) out.data = parts.flat();
  else { out.data = new Float64Array(parts.length * width); parts.forEach((part, i) => out.data.set(part, i * width)); }
  return out;
}
function manhattan(x, Y) {
  const [m, d] = Y.shape;
  return byRow(x, m, (row, out) => {
    for (let j = 0; j < m; j++) { let sum = 0; for (let t = 0; t < d; t++) sum += Math.abs(row[t] - Y.data[j * d + t]); out[j] = sum; }
  });
}
function patches(a, { shape: [h, w, c], side }) {
  const out = make([1, h * w, side * side * c]), before = Math.floor((side - 1) / 2);
  const inside = (i, n) => (i < 0 ? -i : i >= n ? 2 * n - 2 - i : i); // reflected at the edge
  let n = 0;
  for (let i = 0; i < h; i++) for (let j = 0; j < w; j++) for (let s = 0; s < side; s++) for (let t = 0; t < side; t++) {
    const first = (inside(i + s - before, h) * w + inside(j + t - before, w)) * c;
    for (let q = 0; q < c; q++) out.data[n++] = a.data[first + q];
  }
  return out;
}
const each = (f) => (...parts) => elementwise(f, ...parts);
const OPERATIONS = {
  add: each((a, b) => a + b), sub: each((a, b) => a - b), mul: each((a, b) => a * b), div: each((a, b) => a / b),
  min: each(Math.min), max: each(Math.max), greater: each((a, b) => +(a > b)), equal: each((a, b) => +(a === b)),
  neg: each((a) => -a), exp: each(Math.exp), log: each(Math.log), sqrt: each(Math.sqrt), abs: each(Math.abs), tanh: each(Math.tanh),
  sin: each(Math.sin), cos: each(Math.cos), asin: each(Math.asin), floor: each(Math.floor), erf: each(erf),
  sigmoid: each((a) => 1 / (1 + Math.exp(-a))), isnan: each((a) => +Number.isNaN(a)), where: each((c, a, b) => (c ? a : b)),
  matmul, rows: rowsOf, manhattan, patches, cast: (a) => a,
  sum: (a) => byRow(a, 1, (row, out) => { out[0] = row.reduce((s, v) => s + v, 0); }),
  argmax: (a) => byRow(a, 1, (row, out) => { out[0] = row.indexOf(Math.max(...row)); }),
  softmax: (a) => byRow(a, a.shape.at(-1), (row, out) => {
    const top = Math.max(...row), powers = Array.from(row, (v) => Math.exp(v - top)), total = powers.reduce((s, v) => s + v, 0);
    powers.forEach((v, j) => { out[j] = v / total; });
  }),
  concat: (...parts) => {
    const out = make([1, parts.reduce((s, part) => s + part.shape.at(-1), 0)]);
    let first = 0;
    for (const part of parts) { out.data.set(part.data, first); first += part.data.length; }
    return out;
  },
  columns: (a, { places }) => byRow(a, places.length, (row, out) => places.forEach((p, j) => { out[j] = row[p]; })),
  expand: (a) => ({ shape: [a.shape[0], 1, ...a.shape.slice(1)], data: a.data }),
  squeeze: (a) => ({ shape: a.shape.slice(0, -1), data: a.data }),
  reshape: (a, { shape }) => ({ shape: [a.data.length / size(shape), ...shape], data: a.data }),
  flatten: (a) => ({ shape: [a.shape[0], size(a.shape.slice(1))], data: a.data }),
  smallest: (a, { k }) => byRow(a, 1, (row, out) => { out[0] = Float64Array.from(row).sort()[k - 1]; }),
  code: (a, { keys, values, default: other }) => {
    const at = keys.indexOf(a.data[0]) >= 0 ? keys.indexOf(a.data[0]) : keys.indexOf(String(a.data[0]).trim());
    return { shape: [1, 1], data: Float64Array.of(at < 0 ? other : values[at]) };
  },
};

function numeric(v) { // dates become seconds since 1970, as the clock shows them
  if (v === null || v === "" || v === undefined) return NaN;
  if (typeof v !== "string" || !Number.isNaN(+v)) return +v;
  const clock = v.replace(/(Z|[+-]\d\d:?\d\d)$/, "");
  return Date.parse(clock.length > 10 ? `${clock}Z` : clock) / 1000;
}
function score(row) { // {input: number, word, date or list of numbers} -> {output: list}
  const known = new Map(constants);
  for (const port of page.inputs) {
    const given = row[port.name];
    if (port.dtype === "string") known.set(port.name, { shape: [1, 1], data: [given ?? ""] });
    else known.set(port.name, { shape: [1, ...port.shape], data: Float64Array.from([given].flat(3), numeric) });
  }
  for (const step of page.steps) {
    const given = step.inputs.map((name) => known.get(name));
    if (Object.keys(step.attributes).length) given.push(step.attributes);
    known.set(step.output, OPERATIONS[step.op](...given));
  }
  return Object.fromEntries(Object.entries(page.outputs).map(([name, value]) => [name, Array.from(known.get(value).data)]));
}

// Controls
const element = (kind, settings = {}, ...inside) => {
  const made = Object.assign(document.createElement(kind), settings);
  made.append(...inside);
  return made;
};
const row = {}, shown = [];
let before = {}; // what was said of the row that changes are compared with
function show(number) { return typeof number === "number" ? String(+number.toPrecision(5)) : String(number); }

const isDate = (port) => port.meaning.startsWith("seconds since 1970");
const dateOf = (seconds) => new Date(1000 * Math.round(seconds)).toISOString().slice(0, 19);

function numberField(port) {
  const dated = isDate(port), written = dated ? dateOf : show;
  const slider = element("input", { type: "range", min: port.low, max: port.high, step: "any", ariaLabel: port.name });
  const box = element("input", { type: dated ? "datetime-local" : "number", step: dated ? "1" : "any", placeholder: "missing", ariaLabel: `${port.name}, ${dated ? "date" : "number"}` });
  slider.oninput = () => { row[port.name] = dated ? dateOf(+slider.value) : +slider.value; box.value = written(+slider.value); update(); };
  box.oninput = () => { row[port.name] = box.value === "" ? null : dated ? box.value : +box.value; if (box.value !== "") slider.value = numeric(box.value); update(); };
  shown.push(() => {
    const v = numeric(row[port.name]);
    if (dated && !Number.isNaN(v)) row[port.name] = dateOf(v);
    box.value = Number.isNaN(v) ? "" : written(v);
    if (!Number.isNaN(v)) slider.value = v;
  });
  return [slider, box];
}
function wordField(port) {
  const choice = element("select", { ariaLabel: port.name });
  for (const word of [...port.levels, ""]) choice.append(element("option", { value: word, textContent: word === "" ? "(missing)" : word }));
  const other = element("input", { type: "text", placeholder: "another word", ariaLabel: `${port.name}, word` });
  choice.onchange = () => { row[port.name] = choice.value; other.value = ""; update(); };
  other.oninput = () => { row[port.name] = other.value; update(); };
  shown.push(() => { const known = port.levels.includes(row[port.name]) || !row[port.name]; choice.value = known ? row[port.name] ?? "" : ""; other.value = known ? "" : row[port.name]; });
  return [choice, other];
}
function pictureField(port) {
  const [h, w] = port.shape, canvas = element("canvas", { width: w, height: h, ariaLabel: "picture; draw with the pointer" }), pen = canvas.getContext("2d");
  const top = port.dtype === "uint8" ? 255 : port.high;
  const paint = () => {
    const image = pen.createImageData(w, h);
    row[port.name].flat(2).forEach((v, i) => { const grey = 255 * v / top; image.data.set([grey, grey, grey, 255], 4 * i); });
    pen.putImageData(image, 0, 0);
  };
  const draw = (event) => {
    if (!event.buttons) return;
    const box = canvas.getBoundingClientRect(), x = Math.floor((event.clientX - box.left) / box.width * w), y = Math.floor((event.clientY - box.top) / box.height * h);
    if (x < 0 || y < 0 || x >= w || y >= h) return;
    const flat = row[port.name].flat(2);
    flat[y * w + x] = event.shiftKey ? 0 : top;
    row[port.name] = flat;
    paint();
    update();
  };
  canvas.onpointerdown = canvas.onpointermove = draw;
  const clear = element("button", { textContent: "Clear", onclick: () => { row[port.name] = new Array(h * w).fill(0); paint(); update(); } });
  shown.push(paint);
  return [canvas, clear];
}
function controls() {
  const inputs = document.getElementById("inputs");
  for (const port of page.inputs) {
    if (page.picture) { inputs.append(...pictureField(port)); continue; }
    if (port.dtype !== "string" && size(port.shape) > 1) continue; // pasted as JSON
    const parts = port.dtype === "string" ? wordField(port) : numberField(port);
    inputs.append(element("div", { className: "field" }, element("span", { textContent: port.name, title: `${port.name}: ${port.meaning}` }), ...parts));
  }
}
const was = (now, earlier) => element("span", { className: "was", textContent: earlier === undefined || show(now) === show(earlier) ? "" : `was ${show(earlier)}` });
function bars(names, values, earlier = []) {
  const most = Math.max(...values.map(Math.abs), 1e-300), body = element("tbody");
  names.forEach((name, i) => {
    const bar = element("div", { className: values[i] < 0 ? "bar against" : "bar" });
    bar.style.width = `${100 * Math.abs(values[i]) / most}%`;
    body.append(element("tr", {}, element("td", { textContent: name }), element("td", {}, bar), element("td", { className: "number" }, was(values[i], earlier[i]), " ", show(values[i]))));
  });
  return body;
}
function update() {
  document.getElementById("problem").textContent = "";
  const found = score(row), outputs = document.getElementById("outputs");
  outputs.replaceChildren();
  for (const [name, values] of Object.entries(found)) {
    if (name === "kernel_values") continue;
    const earlier = before[name] ?? [];
    if (name === "probabilities") outputs.append(element("table", {}, bars(page.classes.map(String), values, earlier)));
    else if (values.length > 1) {
      const first = values.slice(0, 16), title = first.length < values.length ? `${name}, the first 16 of ${values.length} numbers` : name;
      outputs.append(element("h2", { textContent: title }), element("table", {}, bars(first.map((_, i) => String(i)), first, earlier)));
    }
    else outputs.append(element("p", { className: "big" }, `${name}: ${show(values[0])} `, was(values[0], earlier[0])));
  }
  if (page.coefficients) explain(found);
  document.getElementById("pasted").value = JSON.stringify(row);
}
function explain(found) {
  const A = constants.get(page.coefficients), c = A.shape[1], K = found.kernel_values;
  const scored = found.probabilities ?? found.embedding ?? [0];
  const of = scored.map(Math.abs).indexOf(Math.max(...scored.map(Math.abs)));
  const adds = K.map((k, j) => k * A.data[j * c + Math.min(of, c - 1)]);
  const best = adds.map((_, j) => j).sort((a, b) => Math.abs(adds[b]) - Math.abs(adds[a])).slice(0, 8);
  const names = best.map((j) => (page.rows ? `row ${page.rows[j]}` : `landmark ${j}`));
  document.getElementById("explained").textContent = found.probabilities ? `to the score of ${page.classes[of]}` : found.embedding ? `to component ${of}` : "to the prediction, in standard units";
  document.getElementById("explained").append(" (exact terms of a sum; those of similar landmarks cancel)");
  document.getElementById("landmarks").replaceChildren(bars(names, best.map((j) => adds[j])));
}
function take(given) {
  for (const port of page.inputs) {
    if (!(port.name in given)) throw new Error(`${port.name} is not there; write null where it is missing.`);
    row[port.name] = given[port.name];
  }
  shown.forEach((each) => each());
  compare();
}
function compare() { before = score(row); update(); }
document.getElementById("compare").onclick = compare;
document.getElementById("pasted").onchange = (event) => {
  try { take(JSON.parse(event.target.value)); } catch (error) { document.getElementById("problem").textContent = `This row cannot be read: ${error.message}`; }
};
controls();
take(page.start);
window.krepesScore = score;
