// How two groups of rows differ: columns, classes, landmarks, and the mean of images.
//
// Numbers: d = (mean in A - mean in B) / standard deviation over all rows. Categories: of the level whose share differs most,
// h = 2 asin(sqrt(p)) - 2 asin(sqrt(q)) of its shares p in A and q in B (Cohen). Both are near 0.2 for a small and 0.8 for a
// large difference, so that columns of both kinds can be sorted by them.

const MEAN_ROWS = 400; // images of a group that its mean is taken of

/** What groups are compared by. */
const comparedFields = () => fields.filter((each) => each.group !== "Directions");

function numberDifference(column, first, second) {
  const present = (rows) => rows.map((i) => column.values[i]).filter(Number.isFinite);
  const [all, a, b] = [present(Array.from({ length: n }, (_, i) => i)), present(first), present(second)];
  if (!a.length || !b.length) return null;
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const centre = mean(all);
  const deviation = Math.sqrt(mean(all.map((value) => (value - centre) ** 2)));
  if (!(deviation > 0)) return null;
  return { column, effect: (mean(a) - mean(b)) / deviation, words: [number(mean(a)), number(mean(b))], what: "mean" };
}

/** Shares of every level among rows that have one. */
function levelShares(column, rows) {
  const shares = new Float64Array(column.levels.length);
  const present = rows.filter((i) => column.values[i] >= 0);
  for (const i of present) shares[column.values[i]] += 1 / present.length;
  return present.length ? shares : null;
}

function levelDifference(column, first, second) {
  const [p, q] = [levelShares(column, first), levelShares(column, second)];
  if (!p || !q) return null;
  const angle = (share) => 2 * Math.asin(Math.sqrt(Math.min(1, share)));
  const effects = Array.from(p, (share, code) => angle(share) - angle(q[code]));
  const code = effects.reduce((best, effect, k) => (Math.abs(effect) > Math.abs(effects[best]) ? k : best), 0);
  return { column, effect: effects[code], words: [percent(p[code]), percent(q[code])], what: column.levels[code] };
}

/** [{column, effect, words, what}], the largest difference first. */
function differences(first, second) {
  return comparedFields()
    .map((column) => (column.levels ? levelDifference : numberDifference)(column, first, second))
    .filter((found) => found && Math.abs(found.effect) > 1e-9)
    .sort((a, b) => Math.abs(b.effect) - Math.abs(a.effect));
}

/** Landmarks by the share of rows of either group that have them among their first: [{landmark, shares}]. */
function sharedLandmarks(first, second) {
  const counts = [first, second].map((rows) => {
    const found = new Float64Array(m);
    for (const i of rows) for (const { landmark } of topsOf(headline, i)) found[landmark] += 1 / rows.length;
    return found;
  });
  return Array.from({ length: m }, (_, l) => ({ landmark: l, shares: counts.map((found) => found[l]) }))
    .filter(({ shares }) => Math.max(...shares) > 0)
    .sort((a, b) => Math.max(...b.shares) - Math.max(...a.shares));
}

function differenceTable(first, second, names) {
  const found = differences(first, second).slice(0, 8);
  if (!found.length) return null;
  const largest = Math.max(...found.map(({ effect }) => Math.abs(effect)));
  const line = ({ column, effect, words, what }) => el("tr", { "data-column": column.name, "data-effect": effect },
    el("th", { scope: "row" }, column.name, el("span", { class: "what" }, what)), el("td", {}, words[0]), el("td", {}, words[1]),
    el("td", { class: "effect" }, bar(effect / largest, true)), el("td", { class: "amount" }, signed(effect)));
  return el("section", {}, el("h3", {}, "What differs"),
    el("p", { class: "help" }, "Standardised difference: 0.2 is small, 0.8 large. It describes groups that were chosen by looking; it is not a test."),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "What differs between the groups" },
      el("table", { id: "differences" }, el("thead", {}, el("tr", {}, ...["", names[0], names[1]].map((name) => el("th", { scope: "col" }, name)),
        el("th", { scope: "col", colspan: 2, class: "amount" }, "difference"))), el("tbody", {}, ...found.map(line)))));
}

function landmarkTable(first, second, names) {
  const found = sharedLandmarks(first, second).slice(0, 6);
  const both = sharedLandmarks(first, second).filter(({ shares }) => Math.min(...shares) >= 0.1).length;
  const line = ({ landmark, shares }) => el("tr", { "data-landmark": landmark }, el("th", { scope: "row" }, landmarkButton(landmark, false)),
    ...shares.map((share) => el("td", {}, percent(share))));
  return el("section", {}, el("h3", {}, "Landmarks"),
    el("p", { class: "help" }, `How many rows have a landmark among their first ${headline.nTop}. ${plural(both, "landmark")} in at least a tenth of both.`),
    el("table", { id: "shared-landmarks" }, el("thead", {}, el("tr", {}, ...["landmark", ...names].map((name) => el("th", { scope: "col" }, name)))),
      el("tbody", {}, ...found.map(line))));
}

/** The mean image of rows, on a canvas; drawn when the sheets are there. */
function meanImage(rows, side, name) {
  const { width, height } = report.images;
  const canvas = thumbnail(rows[0], side, `Mean image of ${name}`);
  const some = rows.length > MEAN_ROWS ? rows.filter((_, k) => k % Math.ceil(rows.length / MEAN_ROWS) === 0) : rows;
  const put = () => {
    const work = el("canvas", { width, height });
    const c = work.getContext("2d", { willReadFrequently: true });
    const sums = new Float64Array(4 * width * height);
    for (const i of some) {
      drawTile(c, i);
      c.getImageData(0, 0, width, height).data.forEach((value, k) => (sums[k] += value));
    }
    canvas.getContext("2d").putImageData(new ImageData(Uint8ClampedArray.from(sums, (value) => value / some.length), width, height), 0, 0);
  };
  Promise.all(sheets.map((sheet) => sheet.decode())).then(put).catch(() => {});
  return canvas;
}

function meanImages(groups, names) {
  if (!report.images) return null;
  const figure = (rows, k) => el("figure", {}, meanImage(rows, 96, names[k]), el("figcaption", {}, `mean of ${names[k]}`));
  return el("div", { class: "pair" }, ...groups.map(figure));
}
