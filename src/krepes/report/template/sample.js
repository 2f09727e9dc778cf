// The panel of the selected row or landmark.

const panel = byId("sample");
let chosenDirection = null; // none yet: that of the row's own class

/** Other content for the panel; the focus stays in it if it was there, on the same button if that is there again. */
function fillPanel(parts) {
  const active = document.activeElement;
  const [inside, name] = [panel.contains(active), active?.getAttribute("aria-label")];
  panel.replaceChildren(...parts.filter(Boolean));
  if (!inside) return;
  const same = [...panel.querySelectorAll(".steps button")].find((button) => button.getAttribute("aria-label") === name);
  (same ?? panel).focus({ preventScroll: true });
}

function directionFor(i) {
  if (chosenDirection !== null) return chosenDirection;
  const own = labels ? `${labels.name}: ${valueOf(labels, i)} against the others` : "";
  const found = directions.findIndex((d) => d.name === own);
  return found >= 0 ? found : Math.max(0, directions.findIndex((d) => d.kind === "class"));
}

function emptyPanel() {
  fillPanel([el("h2", {}, "No row selected"), el("p", { class: "help" }, "Choose a row on the map, or find one by its number.")]);
}

/** Say that a row is not on this page, and why. */
function showMissing(row) {
  Object.assign(map, { row: -1, landmark: -1, links: [] });
  map.draw();
  const beyond = row >= report.n_total;
  const why = beyond
    ? `The data have ${plural(report.n_total, "row")}, from 0 to ${count(report.n_total - 1)}.`
    : `It is not among the ${count(n)} of ${count(report.n_total)} rows on this page, which are a random sample. The page was written with at most ${count(n)} rows.`;
  fillPanel([el("h2", {}, `Row ${row} is not on this page`), el("p", { id: "missing" }, why)]);
  say(`Row ${row} is not on this page. ${why}`);
}

function showRow(i) {
  const tops = topsOf(headline, i);
  fillPanel([
    heading(`Row ${rowNumbers[i]}`, rowBadge(i), [
      el("button", { type: "button", id: "copy", onclick: () => copyRow(i) }, "Copy as text"),
      stepButton("‹", "Previous row", () => stepRow(-1)), stepButton("›", "Next row", () => stepRow(1)),
      stepButton("×", "Clear the selection", () => clearSelection()),
    ]),
    el("div", { class: "specimen" }, portrait(i), quotation("rows", i), el("div", {}, coverageOf(i), rebuiltWords(i))),
    headlineSection(i, tops),
    nearestSection(i),
    featureSection(i, tops),
    contributionSection(i),
  ]);
}

function heading(text, mark, buttons) {
  return el("div", { class: "panel-heading" }, el("h2", {}, text), mark, el("div", { class: "steps" }, ...buttons));
}

const stepButton = (sign, name, action) => el("button", { type: "button", "aria-label": name, title: name, onclick: action }, sign);

const quotation = (kind, i) => (report.texts ? el("blockquote", {}, report.texts[kind][i]) : null);

/** The image of a row; beside it what the representation has kept of it, and which pixels it depends on. */
function portrait(i) {
  if (!report.images) return null;
  const figure = (picture, words) => (picture ? el("figure", {}, picture, el("figcaption", {}, words)) : null);
  return el("div", { class: "pair" }, figure(thumbnail(i, 112, rowName(i)), "this row"),
    rebuilt ? figure(thumbnail(n + m + i, 112, `${rowName(i)}, rebuilt`), "rebuilt") : null,
    figure(heatMap(i, 112), "what counts"));
}

function rebuiltWords(i) {
  if (!rebuilt) return null;
  const words = el("p", {}, "Rebuilt with error ", el("strong", {}, rebuilt.error[i].toFixed(3)), `, expected ${rebuilt.expected[i].toFixed(3)}`);
  return el("div", { class: "rebuilt", "data-error": rebuilt.error[i] }, words, rebuilt.trusted[i]
    ? el("p", { class: "help" }, "What comes back from the representation alone: 0 is exact, 1 as far as the mean row.")
    : el("p", { class: "warning" }, "What comes back from the representation cannot be trusted for this row."));
}

function coverageOf(i) {
  const low = coverage[i] < report.low_coverage;
  const level = el("meter", { min: 0, max: 1, low: report.low_coverage, value: coverage[i], "aria-label": "Coverage" });
  return el("div", { class: "coverage", "data-coverage": coverage[i] },
    el("p", {}, "Coverage ", el("strong", {}, coverage[i].toFixed(3)), level),
    low
      ? el("p", { class: "warning", role: "alert" }, "This sample is unlike every landmark. The explanations below say little about it.")
      : el("p", { class: "help" }, "How well the landmarks represent this row: 1 is fully, 0 not at all."),
    ...extraColumns.map((column) => el("p", { class: "extra" }, `${column.name}: ${valueOf(column, i)}`)));
}

function headlineSection(i, tops) {
  const largest = Math.max(...tops.map((top) => Math.abs(top.value)), 1e-300);
  const list = el("ol", { class: "influences", id: "headline" });
  for (const { landmark, value } of tops) {
    const agreed = agreementWords(agreements(i, (feature) => feature.ofLandmarks[landmark]).slice(0, 3));
    list.append(el("li", { "data-landmark": landmark, "data-value": value },
      landmarkButton(landmark, pageOfLandmark(landmark) === i), bar(value / largest, false),
      el("span", { class: "amount" }, percent(value)),
      agreed ? el("p", { class: "agreed" }, agreed) : null));
  }
  const rest = 1 - tops.reduce((sum, top) => sum + top.value, 0);
  list.append(el("li", { class: "unexplained", "data-value": rest }, el("span", { class: "name" }, "unexplained by these"),
    bar(rest / largest, false), el("span", { class: "amount" }, percent(rest))));
  return el("section", {}, el("h3", {}, headline.title), el("p", { class: "help" }, headline.about), list);
}

function nearestSection(i) {
  const found = nearestTo(i);
  if (!found.length) return null;
  const alike = labels ? found.filter(({ row }) => labels.values[row] === labels.values[i]).length : 0;
  const words = `Nearest in the representation; 1 is the usual distance between two rows.${labels ? ` ${alike} of ${found.length} have the same ${labels.name}.` : ""}`;
  const example = ({ row, distance }) =>
    rowButton(row, number(distance, 2), agreementWords(agreements(i, (feature) => feature.values[row]).slice(0, 2)));
  return el("section", { id: "nearest" }, el("h3", {}, "Nearest rows"), el("p", { class: "help" }, words),
    el("div", { class: features.length ? "examples wide" : "examples" }, ...found.map(example)));
}

function contributionSection(i) {
  const current = directionFor(i);
  const choice = el("select", { id: "direction", onchange: (event) => {
    chosenDirection = Number(event.target.value);
    section.replaceWith(contributionSection(i));
    byId("direction").focus();
  } });
  directions.forEach((d, k) => choice.append(el("option", { value: k, selected: k === current }, d.kind === "concept" ? `concept: ${d.name}` : d.name)));
  const d = directions[current];
  const section = el("section", {}, el("h3", {}, "Along a direction"),
    el("label", { class: "field" }, "along ", choice),
    el("p", { class: "help" }, meaning(d)), contributionBars(d, i));
  return section;
}

function meaning(d) {
  if (d.kind === "class") return "What these examples add to the linear probe's score, from the middle of the data on.";
  if (d.kind === "concept") return "What these examples add to the concept, from the middle of the data on; zero is the mean of the concept's negatives.";
  return "What these examples add to this component, from the middle of the data on.";
}

function contributionBars(d, i) {
  const tops = topsOf(d, i);
  const total = d.totals[i];
  const shown = tops.reduce((sum, top) => sum + top.value, 0);
  const others = total - d.constant - shown;
  const largest = Math.max(...tops.map((top) => Math.abs(top.value)), Math.abs(others), Math.abs(d.constant), 1e-300);
  const line = (kind, name, value, extra = {}) =>
    el("li", { class: kind, "data-value": value, ...extra }, name, bar(value / largest, true), el("span", { class: "amount" }, signed(value)));
  const list = el("ul", { class: "contributions", id: "contributions", "data-direction": d.name });
  for (const { landmark, value } of tops) {
    list.append(line("landmark-part", landmarkButton(landmark, pageOfLandmark(landmark) === i), value, { "data-landmark": landmark }));
  }
  list.append(line("others", el("span", { class: "name" }, "unexplained by these"), others));
  list.append(line("constant", el("span", { class: "name" }, "middle of the data"), d.constant));
  list.append(el("li", { class: "total", "data-value": total }, el("span", { class: "name" }, "sum = value of this row"), el("span"), el("span", { class: "amount" }, signed(total))));
  const sizes = tops.reduce((sum, top) => sum + Math.abs(top.value), Math.abs(others));
  const cancels = sizes > 2 * Math.abs(shown + others);
  return el("div", {}, cancels ? el("p", { class: "help", id: "cancels" }, "These parts cancel: without sign they are more than twice their sum, so that no single one says much. The shares above do not cancel.") : null, list);
}

function featureSection(i, tops) {
  if (!features.length) return null;
  const warm = hasHeat(i);
  const body = el("tbody");
  const order = [...features.keys()].sort((a, b) => (warm ? heatOf(i, b) - heatOf(i, a) : a - b));
  const fill = (l) => body.replaceChildren(...order.map((k) => {
    const [feature, here, there] = [features[k], features[k].values[i], features[k].ofLandmarks[l]];
    return el("tr", { class: isSame(here, there) || isClose(feature, here, there) ? "agrees" : null },
      el("th", { scope: "row" }, feature.name, warm ? heatBar(i, k) : null), el("td", {}, featureText(feature, here)),
      feature.rebuilt ? el("td", { class: "rebuilt" }, featureText(feature, feature.rebuilt[i])) : null,
      el("td", {}, featureText(feature, there)), el("td", { class: "amount agreement" }, signed(agreement(feature, here, there))));
  }));
  const other = el("select", { id: "compare", "aria-label": "Landmark to compare with", onchange: (event) => fill(Number(event.target.value)) });
  for (const { landmark } of tops) other.append(el("option", { value: landmark }, landmarkName(landmark)));
  fill(tops[0].landmark);
  const head = (name, kind) => el("th", { scope: "col", class: kind ?? null }, name);
  return el("section", {}, el("h3", {}, "Features"),
    el("p", { class: "help" }, "Bold: the same, or close for the column. Agreement: how much nearer to the landmark this row is than rows usually are, in the kernel's units.",
      warm ? " The bar under a name is how much the column counts: how far the row would move with it at its mean, in usual distances." : null),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Features of the row and the landmark" },
      el("table", { id: "features" }, el("thead", {}, el("tr", {}, head("Feature"), head("This row"), features[0].rebuilt ? head("Rebuilt") : null,
        el("th", { scope: "col" }, other), head("Agreement", "amount"))), body)));
}

function showLandmark(l) {
  const { rows, first } = rowsLedBy(l);
  const page = pageOfLandmark(l);
  fillPanel([
    heading(`Landmark: ${landmarkName(l)}`, landmarkBadge(l), [stepButton("×", "Clear the selection", () => clearSelection())]),
    el("div", { class: "specimen" }, thumbnail(n + l, 128, landmarkName(l)), quotation("landmarks", l),
      el("div", { class: "coverage" }, el("p", {}, "Norm of its coefficients ", el("strong", {}, number(landmarkNorms[l]))),
        el("p", { class: "help" }, `The first landmark of ${plural(first, "row")} on this page.`),
        page >= 0 ? el("button", { type: "button", onclick: () => select(page) }, "Explain this row itself") : null)),
    el("section", {}, el("h3", {}, headline.rows), rows.length
      ? el("div", { class: "examples" }, ...rows.map(({ row, value }) => rowButton(row, percent(value))))
      : el("p", { class: "help" }, headline.none)),
    features.length ? landmarkFeatures(l) : null,
  ]);
  return rows;
}

function landmarkFeatures(l) {
  return el("section", {}, el("h3", {}, "Features"), el("div", { class: "scroll" }, el("table", {}, el("tbody", {},
    ...features.map((f) => el("tr", {}, el("th", { scope: "row" }, f.name), el("td", {}, featureText(f, f.ofLandmarks[l]))))))));
}

/** The rows that have a landmark among their first, and of how many it is the first. */
function rowsLedBy(l, most = 8) {
  const rows = [];
  let first = 0;
  for (let j = 0; j < headline.landmarks.length; j++) {
    if (headline.landmarks[j] !== l) continue;
    rows.push({ row: Math.floor(j / headline.nTop), value: headline.values[j] });
    if (j % headline.nTop === 0) first++;
  }
  rows.sort((a, b) => Math.abs(b.value) - Math.abs(a.value));
  return { rows: rows.slice(0, most), first };
}
