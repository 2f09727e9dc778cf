// The map: rows and landmarks on a canvas that can be zoomed, moved, pointed at and walked through.

class RowMap {
  /** `events`: select(row), selectLandmark(l), hover(target, x, y), enter(), clear(). */
  constructor(canvas, events) {
    Object.assign(this, { canvas, events, zoom: 1, panX: 0, panY: 0, row: -1, landmark: -1, links: [], matches: null });
    this.context = canvas.getContext("2d");
    this.showLandmarks = true;
    this.visible = new Uint8Array(n).fill(1);
    this.colours = [];
    this.choose(maps[0]);
    new ResizeObserver(() => this.resize()).observe(canvas);
    this.pointers = new Map();
    canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    for (const kind of ["pointerdown", "pointermove", "pointerup", "pointercancel", "pointerleave"]) {
      canvas.addEventListener(kind, (event) => this[kind](event));
    }
    canvas.addEventListener("keydown", (event) => this.key(event));
    this.resize();
  }

  /** One of the maps: where rows and landmarks lie. */
  choose(places) {
    this.places = places;
    this.bounds = this.findBounds();
    Object.assign(this, { zoom: 1, panX: 0, panY: 0 });
    this.resize();
  }

  findBounds() {
    const box = { left: Infinity, right: -Infinity, low: Infinity, high: -Infinity };
    for (const places of [this.places.rows, this.places.landmarks]) {
      for (let i = 0; i < places.length; i += 2) {
        box.left = Math.min(box.left, places[i]);
        box.right = Math.max(box.right, places[i]);
        box.low = Math.min(box.low, places[i + 1]);
        box.high = Math.max(box.high, places[i + 1]);
      }
    }
    return box;
  }

  resize() {
    const { width, height } = this.canvas.getBoundingClientRect();
    if (!width || !height) return;
    this.ratio = window.devicePixelRatio || 1;
    Object.assign(this, { width, height });
    this.canvas.width = Math.round(width * this.ratio);
    this.canvas.height = Math.round(height * this.ratio);
    const { left, right, low, high } = this.bounds;
    const room = 22;
    const scales = [(width - 2 * room) / (right - left), (height - 2 * room) / (high - low)].filter(Number.isFinite);
    this.unit = scales.length ? Math.min(...scales) : 1;
    this.paint();
  }

  /** Where a place of the data is on the canvas, in CSS pixels. */
  at(places, i) {
    const { left, right, low, high } = this.bounds;
    const scale = this.unit * this.zoom;
    return [
      this.width / 2 + (places[2 * i] - (left + right) / 2) * scale + this.panX,
      this.height / 2 - (places[2 * i + 1] - (low + high) / 2) * scale + this.panY,
    ];
  }

  draw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.paint();
    });
  }

  paint() {
    const c = this.context;
    if (!this.width) return;
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    this.size = (n > 2500 ? 2.2 : n > 800 ? 2.8 : 3.6) * Math.min(2.2, Math.sqrt(this.zoom));
    this.paintRows();
    if (this.showLandmarks) this.paintLandmarks();
    this.paintSelection();
  }

  paintRows() {
    const c = this.context;
    for (let i = 0; i < n; i++) {
      if (!this.visible[i]) continue;
      const [x, y] = this.at(this.places.rows, i);
      if (x < -9 || y < -9 || x > this.width + 9 || y > this.height + 9) continue;
      c.globalAlpha = this.matches && !this.matches.has(i) ? 0.12 : 0.78;
      c.fillStyle = this.colours[i] || "#888";
      c.beginPath();
      trace(c, this.shapes ? this.shapes[i] : "circle", x, y, this.size);
      c.fill();
    }
    c.globalAlpha = 1;
  }

  paintLandmarks() {
    const c = this.context;
    c.lineWidth = 1.1;
    const size = (m > 400 ? 2.8 : 3.6) * Math.min(1.6, Math.sqrt(this.zoom));
    [c.fillStyle, c.strokeStyle] = [cssColour("--surface"), cssColour("--text")];
    for (let l = 0; l < m; l++) {
      const [x, y] = this.at(this.places.landmarks, l);
      c.beginPath();
      trace(c, "diamond", x, y, size);
      c.globalAlpha = 0.55;
      c.fill();
      c.globalAlpha = 0.75;
      c.stroke();
    }
    c.globalAlpha = 1;
  }

  paintSelection() {
    const c = this.context;
    const target = this.row >= 0 ? this.at(this.places.rows, this.row) : this.landmark >= 0 ? this.at(this.places.landmarks, this.landmark) : null;
    if (!target) return;
    const accent = cssColour("--accent");
    const largest = Math.max(...this.links.map((link) => Math.abs(link.value)), 1e-300);
    for (const link of this.links) {
      const end = link.row === undefined ? this.at(this.places.landmarks, link.landmark) : this.at(this.places.rows, link.row);
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
    c.arc(...target, this.size + 5.5, 0, 7);
    c.stroke();
    c.lineWidth = 2.2;
    c.strokeStyle = accent;
    c.beginPath();
    c.arc(...target, this.size + 5, 0, 7);
    c.stroke();
    c.fillStyle = accent;
    c.beginPath();
    c.arc(...target, Math.max(2.5, this.size * 0.8), 0, 7);
    c.fill();
  }

  /** The row or landmark nearest to a point, within reach. */
  nearest(x, y, reach) {
    let best = { distance: reach * reach, row: -1, landmark: -1 };
    const look = (places, total, kind, there) => {
      for (let i = 0; i < total; i++) {
        if (!there(i)) continue;
        const [px, py] = this.at(places, i);
        const distance = (px - x) ** 2 + (py - y) ** 2;
        if (distance < best.distance) best = { distance, row: -1, landmark: -1, [kind]: i };
      }
    };
    look(this.places.rows, n, "row", (i) => this.visible[i]);
    if (this.showLandmarks) look(this.places.landmarks, m, "landmark", () => true);
    // A landmark that is a row of the page lies on that row; the row is meant.
    if (best.landmark >= 0) {
      const row = pageOfLandmark(best.landmark);
      if (row >= 0 && this.visible[row]) return { row, landmark: -1 };
    }
    return best;
  }

  zoomBy(factor, x = this.width / 2, y = this.height / 2) {
    const zoom = Math.min(Math.max(this.zoom * factor, 0.5), 200);
    const share = zoom / this.zoom;
    this.panX = x - this.width / 2 - (x - this.width / 2 - this.panX) * share;
    this.panY = y - this.height / 2 - (y - this.height / 2 - this.panY) * share;
    this.zoom = zoom;
    this.draw();
  }

  showAll() {
    Object.assign(this, { zoom: 1, panX: 0, panY: 0 });
    this.draw();
  }

  /** Move the map so that a place is on it. */
  reveal([x, y]) {
    if (x > 8 && y > 8 && x < this.width - 8 && y < this.height - 8) return;
    this.panX += this.width / 2 - x;
    this.panY += this.height / 2 - y;
  }

  wheel(event) {
    event.preventDefault();
    const lines = event.deltaMode === 1 ? 16 : 1;
    this.zoomBy(Math.exp(-event.deltaY * lines * 0.0016), event.offsetX, event.offsetY);
  }

  pointerdown(event) {
    this.pointers.set(event.pointerId, { x: event.offsetX, y: event.offsetY });
    this.moved = this.pointers.size > 1 || false;
    this.canvas.setPointerCapture(event.pointerId);
  }

  pointermove(event) {
    const before = this.pointers.get(event.pointerId);
    const now = { x: event.offsetX, y: event.offsetY };
    if (!before) {
      const found = this.nearest(now.x, now.y, 12);
      this.events.hover(found, now.x, now.y);
      return;
    }
    if (this.pointers.size === 2) this.pinch(event.pointerId, now);
    else if (this.moved || Math.hypot(now.x - before.x, now.y - before.y) > 4) {
      this.moved = true;
      this.panX += now.x - before.x;
      this.panY += now.y - before.y;
      this.draw();
    } else return;
    this.pointers.set(event.pointerId, now);
  }

  pinch(id, now) {
    const [first, second] = [...this.pointers.entries()];
    const other = (first[0] === id ? second : first)[1];
    const before = this.pointers.get(id);
    const share = Math.hypot(now.x - other.x, now.y - other.y) / Math.max(1, Math.hypot(before.x - other.x, before.y - other.y));
    this.panX += (now.x - before.x) / 2;
    this.panY += (now.y - before.y) / 2;
    this.zoomBy(share, (now.x + other.x) / 2, (now.y + other.y) / 2);
  }

  pointerup(event) {
    if (this.pointers.has(event.pointerId) && !this.moved) {
      const found = this.nearest(event.offsetX, event.offsetY, event.pointerType === "touch" ? 24 : 12);
      if (found.row >= 0) this.events.select(found.row);
      else if (found.landmark >= 0) this.events.selectLandmark(found.landmark);
    }
    this.pointers.delete(event.pointerId);
  }

  pointercancel(event) {
    this.pointers.delete(event.pointerId);
  }

  pointerleave() {
    this.events.hover({ row: -1, landmark: -1 });
  }

  key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const actions = {
      "+": () => this.zoomBy(1.4), "=": () => this.zoomBy(1.4), "-": () => this.zoomBy(1 / 1.4), 0: () => this.showAll(),
      Enter: () => this.events.enter(), Escape: () => this.events.clear(),
    };
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) this.step(...steps[event.key]);
    else if (event.key in actions) actions[event.key]();
    else return;
    event.preventDefault();
  }

  /** Select the nearest row to the left, right, above or below. */
  step(dx, dy) {
    if (this.row < 0) {
      const middle = this.nearest(this.width / 2, this.height / 2, Infinity);
      if (middle.row >= 0) this.events.select(middle.row);
      return;
    }
    const [x, y] = this.at(this.places.rows, this.row);
    let [best, cost] = [-1, Infinity];
    for (let i = 0; i < n; i++) {
      if (!this.visible[i] || i === this.row) continue;
      const [px, py] = this.at(this.places.rows, i);
      const forward = (px - x) * dx + (py - y) * dy;
      const aside = Math.abs((px - x) * dy) + Math.abs((py - y) * dx);
      if (forward <= 0 || aside > 2 * forward) continue;
      if (forward + 2 * aside < cost) [best, cost] = [i, forward + 2 * aside];
    }
    if (best >= 0) this.events.select(best);
  }
}

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
