// Vectors in the plane: their two principal directions, by subspace iteration. The same sample gives the same picture.

const TURNS = 12;

function decode(text, dim) {
  const raw = atob(text);
  const whole = new Uint8Array(raw.length);
  for (let place = 0; place < raw.length; place += 1) whole[place] = raw.charCodeAt(place);
  const numbers = new Float32Array(dim);
  const view = new DataView(whole.buffer);
  for (let place = 0; place < dim; place += 1) numbers[place] = view.getFloat32(place * 4, true);
  return numbers;
}

/** `points`: a pair for each vector that is there; `rows`: which of the given it is. */
export function project(vectors, dim, unit) {
  const rows = [];
  const found = [];
  vectors.forEach((text, row) => {
    if (text === null) return;
    const vector = decode(text, dim);
    if (unit) {
      const length = Math.hypot(...vector) || 1;
      for (let place = 0; place < dim; place += 1) vector[place] /= length;
    }
    rows.push(row);
    found.push(vector);
  });
  if (found.length < 3) return { points: [], rows: [] };
  const mean = new Float64Array(dim);
  for (const vector of found) for (let place = 0; place < dim; place += 1) mean[place] += vector[place] / found.length;
  for (const vector of found) for (let place = 0; place < dim; place += 1) vector[place] -= mean[place];
  const axes = [start(dim, 1), start(dim, 2)];
  for (let turn = 0; turn < TURNS; turn += 1) {
    const next = axes.map((axis) => {
      const sum = new Float64Array(dim);
      for (const vector of found) {
        const weight = dot(vector, axis);
        for (let place = 0; place < dim; place += 1) sum[place] += weight * vector[place];
      }
      return sum;
    });
    orthonormal(next);
    axes.splice(0, 2, ...next);
  }
  return { points: found.map((vector) => [dot(vector, axes[0]), dot(vector, axes[1])]), rows };
}

function start(dim, seed) {
  const axis = new Float64Array(dim);
  let state = seed * 2654435761;
  for (let place = 0; place < dim; place += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    axis[place] = state / 4294967296 - 0.5;
  }
  return axis;
}

function dot(one, other) {
  let sum = 0;
  for (let place = 0; place < one.length; place += 1) sum += one[place] * other[place];
  return sum;
}

function orthonormal([first, second]) {
  scale(first);
  const shared = dot(first, second);
  for (let place = 0; place < first.length; place += 1) second[place] -= shared * first[place];
  scale(second);
}

function scale(axis) {
  const length = Math.sqrt(dot(axis, axis)) || 1;
  for (let place = 0; place < axis.length; place += 1) axis[place] /= length;
}
