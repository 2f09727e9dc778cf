// The map: rows and landmarks on a canvas that can be zoomed, moved, pointed at and walked through.

class RowMap {
  /** `events`: select(row), selectLandmark(l), hover(target, x, y), enter(), clear(), lasso(rows, how), mark(group), toggleLasso(). */
  constructor(canvas, events) {
    Object.assign(this, { canvas, events, zoom: 1, panX: 0, panY: 0, row: -1, landmark: -1, links: [], matches: null });
    Object.assign(this, { drawing: false, line: null, groups: [] });
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
    const room = Math.min(1, Math.max(0.65, Math.sqrt(this.width * this.height) / 560));
    this.size = (n > 2500 ? 2.2 : n > 800 ? 2.8 : 3.6) * room * Math.min(2.2, Math.sqrt(this.zoom));
    if (this.showLandmarks) paintLandmarks(this);
    paintRows(this);
    paintGroups(this);
    paintSelection(this);
    paintLine(this);
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
    this.line = this.drawing && !this.moved ? [[event.offsetX, event.offsetY]] : null;
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
    else if (this.line) {
      this.line.push([now.x, now.y]);
      this.moved = this.moved || Math.hypot(now.x - this.line[0][0], now.y - this.line[0][1]) > 4;
      this.draw();
    } else if (this.moved || Math.hypot(now.x - before.x, now.y - before.y) > 4) {
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
    if (this.line && this.moved && this.line.length > 2) this.closeLine(event);
    else if (this.pointers.has(event.pointerId) && !this.moved) {
      const found = this.nearest(event.offsetX, event.offsetY, event.pointerType === "touch" ? 24 : 12);
      if (found.row >= 0) this.events.select(found.row);
      else if (found.landmark >= 0) this.events.selectLandmark(found.landmark);
    }
    this.line = null;
    this.pointers.delete(event.pointerId);
  }

  closeLine(event) {
    const rows = [];
    for (let i = 0; i < n; i++) if (this.visible[i] && isInside(this.line, ...this.at(this.places.rows, i))) rows.push(i);
    this.events.lasso(rows, event.shiftKey ? "add" : event.altKey ? "remove" : "set");
    this.draw();
  }

  pointercancel(event) {
    this.line = null;
    this.pointers.delete(event.pointerId);
  }

  pointerleave() {
    this.events.hover({ row: -1, landmark: -1 });
  }

  key(event) {
    const steps = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    const actions = {
      "+": () => this.zoomBy(1.4), "=": () => this.zoomBy(1.4), "-": () => this.zoomBy(1 / 1.4), 0: () => this.showAll(),
      Enter: () => this.events.enter(), Escape: () => this.events.clear(), a: () => this.events.mark(0), b: () => this.events.mark(1),
      l: () => this.events.toggleLasso(),
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
