// Where a row and another row or a landmark agree, column by column: the usual squared difference from the other, over all
// rows, less that of this row, in the units in which the kernel compares.

/** A value on the curve of its column, by straight lines between its points. */
function bent(curve, value) {
  if (!curve) return value;
  const [x, u] = curve;
  const k = x.findIndex((knot) => knot >= value);
  if (k <= 0) return u[k < 0 ? u.length - 1 : 0];
  return u[k - 1] + ((u[k] - u[k - 1]) * (value - x[k - 1])) / (x[k] - x[k - 1]);
}

const scaled = (feature, value) =>
  (bent(feature.curve, Number.isNaN(value) ? feature.fill : value) - feature.mean) / feature.scale;

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

/** Of values of a column: of this row, and of the row or landmark it is compared with. */
function agreement(feature, here, there) {
  if (feature.levels) return 2 * (1 - feature.shares[there]) - (here === there ? 0 : 2);
  const [x, z] = [scaled(feature, here), scaled(feature, there)];
  let found = feature.variance + (feature.centre - z) ** 2 - (x - z) ** 2;
  if (feature.indicator) {
    const missing = Number.isNaN(there);
    found += (missing ? 1 - feature.absent : feature.absent) - (Number.isNaN(here) === missing ? 0 : 1);
  }
  return found;
}

const CLOSE = 0.25; // of the column's standard deviation

const isSame = (here, there) => here === there || (Number.isNaN(here) && Number.isNaN(there));

/** Whether numbers are close for their column; one that is missing is close to none that is there. */
function isClose(feature, here, there) {
  if (feature.levels || Number.isNaN(here) || Number.isNaN(there)) return false;
  return Math.abs(scaled(feature, here) - scaled(feature, there)) <= CLOSE * Math.sqrt(feature.variance);
}

/** The columns in which values are the same or close, the most telling first: [{feature, here, there}]. */
function agreements(i, valuesOf) {
  return features
    .map((feature, k) => ({ feature, here: feature.values[i], there: valuesOf(feature, k) }))
    .filter(({ feature, here, there }) => isSame(here, there) || isClose(feature, here, there))
    .map((found) => ({ ...found, score: agreement(found.feature, found.here, found.there) }))
    .filter(({ score }) => score > 0)
    .sort((a, b) => b.score - a.score);
}

/** A value as the table has it: a level, one of the two words that 1 and 0 stand for, or a number. */
function featureText(feature, value) {
  if (feature.levels) return feature.levels[value];
  return (value === 1 || value === 0) && feature.pair ? feature.pair[1 - value] : plain(value);
}

/** "Same colour (red), similar height (38 and 39)"; empty where nothing agrees. */
function agreementWords(found) {
  const words = found.map(({ feature, here, there }, k) => {
    const [first, second] = [featureText(feature, here), featureText(feature, there)];
    if (!feature.levels && Number.isNaN(here)) return `${feature.name} missing in both`;
    const said = first === second ? `same ${feature.name} (${first})` : `similar ${feature.name} (${first} and ${second})`;
    return k ? said : said[0].toUpperCase() + said.slice(1);
  });
  return words.join(", ");
}
