// Which parts of a row its representation depends on: pixels over the image, columns in the table.

const hasHeat = (i) => heat !== null && i < heat.largest.length;

/** How far the row moves without a part, in shares of the usual distance between two rows. */
const heatOf = (i, part) => (heat.shares[i * heat.n_parts + part] / 255) * heat.largest[i];

/** The image of a row, with what counts in it: strong colour where the representation would move most. */
function heatMap(i, side) {
  if (!report.images || !hasHeat(i) || !heat.grid) return null;
  const [down, across] = heat.grid;
  const canvas = thumbnail(i, side, `${rowName(i)}, heat map: ${heatWords(i)}`);
  const over = el("canvas", { class: "thumb over", "aria-hidden": "true" });
  [over.width, over.height] = [across, down];
  const [c, colour] = [over.getContext("2d"), [255, 106, 0]];
  const pixels = c.createImageData(across, down);
  for (let part = 0; part < heat.n_parts; part++) {
    pixels.data.set([...colour, heat.shares[i * heat.n_parts + part] * 0.85], 4 * part);
  }
  c.putImageData(pixels, 0, 0);
  return el("div", { class: "heat" }, canvas, over);
}

function heatWords(i) {
  const [down, across] = heat.grid;
  const shares = heat.shares.subarray(i * heat.n_parts, (i + 1) * heat.n_parts);
  const most = shares.indexOf(Math.max(...shares));
  const place = (at, total, words) => words[Math.min(2, Math.floor((3 * at) / total))];
  const where = `${place(Math.floor(most / across), down, ["top", "middle", "bottom"])} ${place(most % across, across, ["left", "centre", "right"])}`;
  if (heat.exact) return `the patches at the ${where} add most to the row's representation, which is the sum over all patches`;
  return `the patch at the ${where} counts most; at its mean, the row would move ${number(heat.largest[i])} of the usual distance`;
}

/** Under the name of a feature: how far the row moves without the column. */
function heatBar(i, part) {
  const [share, value] = [heat.shares[i * heat.n_parts + part] / 255, heatOf(i, part)];
  return el("span", { class: "counts", "data-heat": value }, bar(share, false), el("span", { class: "amount" }, number(value, 2)));
}
