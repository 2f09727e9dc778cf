// How the map is painted: rows, landmarks, groups, the selection, a line that is being drawn; and what lies inside it.

function trace(c, shape, x, y, size) {
  if (shape === "circle") c.arc(x, y, size, 0, 7);
  else if (shape === "square") c.rect(x - size * 0.9, y - size * 0.9, size * 1.8, size * 1.8);
  else if (shape === "cross") {
    const thin = size * 0.4;
    c.rect(x - thin, y - size * 1.2, 2 * thin, size * 2.4);
    c.rect(x - size * 1.2, y - thin, size * 2.4, 2 * thin);
  } else {
    const corners = shape === "triangle" ? [[0, -1.25], [1.1, 0.85], [-1.1, 0.85]] : [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]];
    corners.forEach(([dx, dy], k) => c[k ? "lineTo" : "moveTo"](x + dx * size, y + dy * size));
    c.closePath();
  }
}

/** Whether a point is inside a closed line [[x, y], ...]: an odd number of its edges lie to the right. */
function isInside(line, x, y) {
  let inside = false;
  for (let i = 0, j = line.length - 1; i < line.length; j = i++) {
    const [[ax, ay], [bx, by]] = [line[i], line[j]];
    if (ay > y !== by > y && x < ((bx - ax) * (y - ay)) / (by - ay) + ax) inside = !inside;
  }
  return inside;
}

function paintRows(map) {
  const c = map.context;
  for (let i = 0; i < n; i++) {
    if (!map.visible[i]) continue;
    const [x, y] = map.at(map.places.rows, i);
    if (x < -9 || y < -9 || x > map.width + 9 || y > map.height + 9) continue;
    c.globalAlpha = map.matches && !map.matches.has(i) ? 0.12 : 0.78;
    c.fillStyle = map.colours[i] || "#888";
    c.beginPath();
    trace(c, map.shapes ? map.shapes[i] : "circle", x, y, map.size);
    c.fill();
  }
  c.globalAlpha = 1;
}

/** Small outlines under the rows, so that none is covered. */
function paintLandmarks(map) {
  const c = map.context;
  c.lineWidth = 0.9;
  const size = (m > 400 ? 2.4 : 3) * Math.min(1.6, Math.sqrt(map.zoom));
  c.strokeStyle = cssColour("--quiet");
  c.globalAlpha = m > 400 ? 0.5 : 0.7;
  for (let l = 0; l < m; l++) {
    const [x, y] = map.at(map.places.landmarks, l);
    c.beginPath();
    trace(c, "diamond", x, y, size);
    c.stroke();
  }
  c.globalAlpha = 1;
}

/** Rings around the rows of the groups: [{rows, colour}]. */
function paintGroups(map) {
  const c = map.context;
  for (const { rows, colour } of map.groups) {
    const many = rows.size > 300; // then rings must not hide the colours
    [c.strokeStyle, c.lineWidth, c.globalAlpha] = [colour, many ? 0.8 : 1.1, many ? 0.5 : 1];
    for (const i of rows) {
      if (!map.visible[i]) continue;
      c.beginPath();
      c.arc(...map.at(map.places.rows, i), map.size + 1.2, 0, 7);
      c.stroke();
    }
  }
  c.globalAlpha = 1;
}

function paintLine(map) {
  if (!map.line) return;
  const c = map.context;
  c.beginPath();
  map.line.forEach(([x, y], k) => c[k ? "lineTo" : "moveTo"](x, y));
  c.closePath();
  [c.strokeStyle, c.fillStyle, c.lineWidth] = [cssColour("--accent"), cssColour("--accent"), 1.5];
  c.globalAlpha = 0.12;
  c.fill();
  c.globalAlpha = 1;
  c.stroke();
}

function paintSelection(map) {
  const c = map.context;
  const target = map.row >= 0 ? map.at(map.places.rows, map.row) : map.landmark >= 0 ? map.at(map.places.landmarks, map.landmark) : null;
  if (!target) return;
  const accent = cssColour("--accent");
  const largest = Math.max(...map.links.map((link) => Math.abs(link.value)), 1e-300);
  for (const link of map.links) {
    const end = link.row === undefined ? map.at(map.places.landmarks, link.landmark) : map.at(map.places.rows, link.row);
    c.globalAlpha = 0.25 + (0.65 * Math.abs(link.value)) / largest;
    c.strokeStyle = accent;
    c.lineWidth = 1.4;
    c.beginPath();
    c.moveTo(...target);
    c.lineTo(...end);
    c.stroke();
    c.globalAlpha = 1;
    c.beginPath();
    trace(c, link.row === undefined ? "diamond" : "circle", ...end, 5.5);
    c.fillStyle = accent;
    c.fill();
  }
  c.lineWidth = 3;
  c.strokeStyle = cssColour("--surface");
  c.beginPath();
  c.arc(...target, map.size + 5.5, 0, 7);
  c.stroke();
  c.lineWidth = 2.2;
  c.strokeStyle = accent;
  c.beginPath();
  c.arc(...target, map.size + 5, 0, 7);
  c.stroke();
  c.fillStyle = accent;
  c.beginPath();
  c.arc(...target, Math.max(2.5, map.size * 0.8), 0, 7);
  c.fill();
}
