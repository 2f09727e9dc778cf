// The parts that explanations are made of: thumbnails, badges, buttons of rows and landmarks, bars.

const sheets = [];
if (report.images) {
  for (const address of report.images.sheets) {
    const sheet = new Image();
    sheet.src = address;
    sheets.push(sheet);
  }
}

/** A tile of the sheets, at the origin of a canvas. */
function drawTile(context, index) {
  const { width, height, pitch_x: pitchX, pitch_y: pitchY, per_row: perRow, per_sheet: perSheet } = report.images;
  const k = index % perSheet;
  const from = [(k % perRow) * pitchX, Math.floor(k / perRow) * pitchY];
  context.drawImage(sheets[Math.floor(index / perSheet)], ...from, width, height, 0, 0, width, height);
}

/** The image of a row (index < n) or of a landmark (n + l), `side` CSS pixels high; null where there is none. */
function thumbnail(index, side, description) {
  if (!report.images) return null;
  const { width, height } = report.images;
  const canvas = el("canvas", { class: "thumb", role: "img", "aria-label": description });
  const scale = side / Math.max(width, height);
  canvas.style.width = `${Math.round(width * scale)}px`;
  canvas.style.height = `${Math.round(height * scale)}px`;
  [canvas.width, canvas.height] = [width, height];
  const sheet = sheets[Math.floor(index / report.images.per_sheet)];
  const put = () => drawTile(canvas.getContext("2d"), index);
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

/** A row as a button that selects it; `words` say more about it. */
function rowButton(i, value, words = "") {
  const show = (event) => {
    const away = !panel.contains(event.currentTarget);
    select(i);
    if (away) panel.scrollIntoView({ block: "start" });
  };
  return el("button", { type: "button", class: "example", "data-row": rowNumbers[i], onclick: show },
    thumbnail(i, 44, rowName(i)), el("span", { class: "name" }, rowName(i)), rowBadge(i),
    report.texts ? el("span", { class: "quote" }, shortText(report.texts.rows[i])) : null,
    words ? el("span", { class: "quote" }, words) : null,
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
