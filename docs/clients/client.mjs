// Randomisers of ldpflow.client in JavaScript, without dependencies, for browsers and Node 16 or later.
// A test of ldpflow runs them on docs/clients/vectors.json. Random integers and weights are BigInt.

export const ONE = 1n << 64n; // weight of each answer that is not true
const GRID = 20n; // a clipping bound is 2^20 steps of the grid of gradients

// A uniform integer in [0, limit) from the cryptographic generator, by rejection.
export function system(limit) {
  const bits = (limit - 1n).toString(2).length;
  const bytes = new Uint8Array(Math.ceil(bits / 8));
  for (;;) {
    globalThis.crypto.getRandomValues(bytes);
    let u = 0n;
    for (const byte of bytes) u = (u << 8n) | BigInt(byte);
    u &= (1n << BigInt(bits)) - 1n;
    if (u < limit) return u;
  }
}

// Numerator and denominator of the fraction that equals a double.
function fraction(x) {
  let denominator = 1n;
  while (!Number.isInteger(x)) {
    x *= 2;
    denominator *= 2n;
  }
  return [BigInt(x), denominator];
}

export function odds(epsilon) {
  if (!(epsilon > 0 && epsilon <= 30)) throw new RangeError(`epsilon must be in (0, 30], not ${epsilon}`);
  const [numerator, denominator] = fraction(epsilon);
  let term = ONE ** 4n;
  let total = term;
  for (let k = 1n; term > 0n; k += 1n) {
    term = (term * numerator) / (denominator * k);
    total += term;
  }
  return total / ONE ** 3n;
}

export function respond(truth, k, epsilon, draw = system) {
  const own = odds(epsilon);
  const u = draw(own + BigInt(k - 1) * ONE);
  if (u < own) return truth;
  const other = Number((u - own) / ONE);
  return other + (other >= truth ? 1 : 0);
}

export function unary(truth, k, epsilon, draw = system) {
  const total = odds(epsilon) + ONE;
  let bits = "";
  for (let j = 0; j < k; j++) bits += (j === truth ? draw(2n) === 1n : draw(total) < ONE) ? "1" : "0";
  return bits;
}

export function jitter(value, width, draw = system) {
  checkNumber(value);
  return value + width * (Number(2n * draw(1n << 52n) + 1n) / 2 ** 53 - 0.5);
}

export function to_scale(value, transform) {
  checkNumber(value);
  if (transform === "log1p") return Math.log1p(value);
  if (transform === "log") return Math.log(value);
  if (transform === "sqrt") return Math.sign(value) * Math.sqrt(Math.abs(value));
  const k = transform.length - 1;
  const j = Math.min(transform.slice(1).filter((edge) => value >= edge).length, k - 1);
  return (j + (value - transform[j]) / (transform[j + 1] - transform[j])) / k;
}

export function findBin(value, low, high, k) {
  checkNumber(value);
  let bin = 0;
  for (let m = 1; m < k; m++) if (value > low + ((high - low) * m) / k) bin++;
  return bin;
}

function checkNumber(value) {
  if (typeof value !== "number" || Number.isNaN(value)) throw new TypeError("value must be a number");
}

export function rr_sgd(value, theta, epsilon, draw = system) {
  checkNumber(value);
  return respond(value <= theta ? 1 : 0, 2, epsilon, draw);
}

export const rounds = rr_sgd;

export function cells(value, thetas, epsilon, draw = system) {
  checkNumber(value);
  return respond(thetas.filter((theta) => value > theta).length, thetas.length + 1, epsilon, draw);
}

export function thresholds(value, epsilon, low, high, k, draw = system, question = null) {
  const m = question ?? 1 + Number(draw(BigInt(k - 1)));
  return [m, respond(findBin(value, low, high, k) < m ? 1 : 0, 2, epsilon, draw)];
}

export function grr(value, epsilon, low, high, k, draw = system) {
  return respond(findBin(value, low, high, k), k, epsilon, draw);
}

export function oue(value, epsilon, low, high, k, draw = system) {
  return unary(findBin(value, low, high, k), k, epsilon, draw);
}

export function hrr(value, epsilon, low, high, k, draw = system, question = null) {
  const row = question ?? 1 + Number(draw(BigInt(k - 1)));
  return [row, respond(hadamardBit(row, findBin(value, low, high, k)), 2, epsilon, draw)];
}

function hadamardBit(row, column) {
  const ones = (row & column).toString(2).replaceAll("0", "").length;
  return 1 - (ones % 2);
}

export function haar(value, epsilon, low, high, k, draw = system, question = null) {
  if (question === null) {
    const nodes = 2 ** Number(draw(BigInt(Math.log2(k))));
    question = nodes + Number(draw(BigInt(nodes)));
  }
  const nodes = 2 ** Math.floor(Math.log2(question));
  const size = k / nodes;
  const bin = findBin(value, low, high, k);
  const sign = hadamardBit(question - nodes, Math.floor(bin / size));
  return [question, respond(bin % size < size / 2 ? sign : 1 - sign, 2, epsilon, draw)];
}

export function tree(value, epsilon, low, high, k, draw = system, question = null) {
  const level = question ?? 1 + Number(draw(BigInt(Math.log2(k) / 2)));
  const node = Math.floor(findBin(value, low, high, k) / (k / 4 ** level));
  return [level, unary(node, 4 ** level, epsilon, draw)];
}

export function laplace(gradient, epsilon, clip, draw = system) {
  const bound = 1n << GRID;
  const steps = toGrid(gradient, clip);
  const size = steps.reduce((sum, q) => sum + magnitude(q), 0n);
  const kept = size > bound ? shrink(steps, bound, size) : steps;
  const [n, d] = fraction(epsilon);
  const common = divisor(2n * bound * d, n);
  const noisy = kept.map((q) => q + discreteLaplace((2n * bound * d) / common, n / common, draw));
  return noisy.map((q) => (Number(q) * clip) / Number(bound));
}

export function gaussian(gradient, mu, clip, draw = system) {
  const bound = 1n << GRID;
  const steps = toGrid(gradient, clip);
  const square = steps.reduce((sum, q) => sum + q * q, 0n);
  const kept = square > bound * bound ? shrink(steps, bound, root(square) + 1n) : steps;
  const [n, d] = fraction(mu);
  const common = divisor(2n * bound * d, n);
  const deviation = [(2n * bound * d) / common, n / common];
  const noisy = kept.map((q) => q + discreteGaussian(deviation[0] ** 2n, deviation[1] ** 2n, draw));
  return noisy.map((q) => (Number(q) * clip) / Number(bound));
}

// Whole steps of clip/2^20, rounded exactly; a gradient that is not finite becomes 0.
function toGrid(gradient, clip) {
  if (!gradient.every(Number.isFinite)) return gradient.map(() => 0n);
  const [n, d] = fraction(clip);
  return gradient.map((g) => {
    const [a, b] = fraction(g);
    return floorDivide(2n * (a << GRID) * d + b * n, 2n * b * n);
  });
}

function floorDivide(a, b) {
  return a >= 0n ? a / b : -((-a + b - 1n) / b);
}

function magnitude(q) {
  return q < 0n ? -q : q;
}

function shrink(steps, bound, size) {
  return steps.map((q) => ((magnitude(q) * bound) / size) * (q > 0n ? 1n : -1n));
}

function divisor(a, b) {
  return b === 0n ? a : divisor(b, a % b);
}

// floor of the square root, by Newton's method from above.
function root(n) {
  if (n < 2n) return n;
  let x = 1n << BigInt(Math.ceil(n.toString(2).length / 2));
  for (;;) {
    const next = (x + n / x) >> 1n;
    if (next >= x) return x;
    x = next;
  }
}

function flip(numerator, denominator, draw) {
  for (; numerator > denominator; numerator -= denominator) if (!flip(1n, 1n, draw)) return false;
  let k = 1n;
  while (draw(denominator * k) < numerator) k += 1n;
  return k % 2n === 1n;
}

export function discreteLaplace(t, s, draw = system) {
  for (;;) {
    const u = draw(t);
    if (!flip(u, t, draw)) continue;
    let v = 0n;
    while (flip(1n, 1n, draw)) v += 1n;
    const size = (u + t * v) / s;
    const negative = draw(2n) === 1n;
    if (size > 0n || !negative) return negative ? -size : size;
  }
}

export function discreteGaussian(n, d, draw = system) {
  const t = root(n / d) + 1n;
  for (;;) {
    const x = discreteLaplace(t, 1n, draw);
    if (flip((magnitude(x) * t * d - n) ** 2n, 2n * t * t * d * n, draw)) return x;
  }
}
