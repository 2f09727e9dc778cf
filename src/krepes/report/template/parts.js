// The parts that explanations are made of: thumbnails, badges, buttons of rows and landmarks, bars, agreement.

const sheets = [];
if (report.images) {
  for (const address of report.images.sheets) {
    const sheet = new Image();
    sheet.src = address;
    sheets.push(sheet);
  }
}

/** The image of a row (index < n) or of a landmark (n + l), `side` CSS pixels high; null where there is none. */
function thumbnail(index, side, description) {
  if (!report.images) return null;
  const { width, height, pitch_x: pitchX, pitch_y: pitchY, per_row: perRow, per_sheet: perSheet } = report.images;
  const canvas = el("canvas", { class: "thumb", role: "img", "aria-label": description });
  const scale = side / Math.max(width, height);
  canvas.style.width = `${Math.round(width * scale)}px`;
  canvas.style.height = `${Math.round(height * scale)}px`;
  [canvas.width, canvas.height] = [width, height];
  const sheet = sheets[Math.floor(index / perSheet)];
  const k = index % perSheet;
  const put = () =>
    canvas.getContext("2d").drawImage(sheet, (k % perRow) * pitchX, Math.floor(k / perRow) * pitchY, width, height, 0, 0, width, height);
  if (sheet.complete && sheet.naturalWidth) put();
  else sheet.addEventListener("load", put, { once: true });
  return canvas;
}

function badge(column, code) {
  const mark = el("span", { class: "swatch" });
  mark.style.background = levelColour(code);
  return el("span", { class: "badge" }, mark, levelOf(column, code));
}

const rowBadge = (i) => (labels ? badge(labels, labels.values[i]) : null);
const landmarkBadge = (l) => (labels && landmarkLabels ? badge(labels, landmarkLabels[l]) : null);

const shortText = (text) => (text.length > 60 ? `${text.slice(0, 59)}…` : text);

/** A row as a button that selects it. */
function rowButton(i, value) {
  const show = (event) => {
    const away = !panel.contains(event.currentTarget);
    select(i);
    if (away) panel.scrollIntoView({ block: "start" });
  };
  return el("button", { type: "button", class: "example", "data-row": rowNumbers[i], onclick: show },
    thumbnail(i, 44, rowName(i)), el("span", { class: "name" }, rowName(i)), rowBadge(i),
    report.texts ? el("span", { class: "quote" }, shortText(report.texts.rows[i])) : null,
    el("span", { class: "amount" }, value));
}

/** The name of a landmark, as a button that selects it. */
function landmarkButton(l, self) {
  return el("button", { type: "button", class: "landmark", onclick: () => selectLandmark(l), title: "Show this landmark" },
    thumbnail(n + l, 38, landmarkName(l)),
    el("span", { class: "who" },
      el("span", { class: "name" }, landmarkName(l), self ? el("em", {}, " itself") : null), landmarkBadge(l),
      report.texts ? el("span", { class: "quote" }, shortText(report.texts.landmarks[l])) : null));
}

/** A bar from zero: `share` of the half or whole width, to the left where it is negative. */
function bar(share, twoSided) {
  const fill = el("span", { class: share < 0 ? "fill negative" : "fill" });
  const width = Math.min(1, Math.abs(share)) * (twoSided ? 50 : 100);
  fill.style.width = `${width}%`;
  if (twoSided) fill.style.left = share < 0 ? `${50 - width}%` : "50%";
  return el("span", { class: twoSided ? "track two-sided" : "track", "aria-hidden": "true" }, fill);
}

// Agreement of a row and a landmark, column by column: the usual squared difference from the landmark, over all rows,
// less that of this row, in the units in which the kernel compares.

const scaled = (feature, value) => ((Number.isNaN(value) ? feature.fill : value) - feature.mean) / feature.scale;

for (const feature of features) {
  if (feature.levels) {
    feature.shares = new Float64Array(feature.levels.length);
    for (const code of feature.values) feature.shares[code] += 1 / n;
    continue;
  }
  let [sum, squares, absent] = [0, 0, 0];
  for (const value of feature.values) {
    const z = scaled(feature, value);
    sum += z / n;
    squares += (z * z) / n;
    absent += Number.isNaN(value) / n;
  }
  Object.assign(feature, { centre: sum, variance: squares - sum * sum, absent });
}

function agreement(feature, row, l) {
  const [here, there] = [feature.values[row], feature.ofLandmarks[l]];
  if (feature.levels) return 2 * (1 - feature.shares[there]) - (here === there ? 0 : 2);
  const [x, z] = [scaled(feature, here), scaled(feature, there)];
  let found = feature.variance + (feature.centre - z) ** 2 - (x - z) ** 2;
  if (feature.indicator) {
    const missing = Number.isNaN(there);
    found += (missing ? 1 - feature.absent : feature.absent) - (Number.isNaN(here) === missing ? 0 : 1);
  }
  return found;
}

/** The columns in which a row and a landmark agree most: [{feature, score}], only where they agree more than usual. */
function agreements(row, l) {
  return features
    .map((feature) => ({ feature, score: agreement(feature, row, l) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score);
}

const featureText = (feature, value) => (feature.levels ? feature.levels[value] : plain(value));

function agreementWords({ feature }, row, l) {
  const [here, there] = [featureText(feature, feature.values[row]), featureText(feature, feature.ofLandmarks[l])];
  return here === there ? `${feature.name} ${here}` : `${feature.name} ${here} / ${there}`;
}
