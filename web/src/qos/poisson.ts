// Rates of a Poisson process (Garwood 1936): a port of `analyze/counts/rate`.

/** ln of the gamma function for x > 0: Lanczos' approximation, g = 7, n = 9. */
export function lnGamma(x: number): number {
  const parts = [
    676.5203681218851, -1259.1392167224028, 771.3234287776531, -176.6150291621406, 12.507343278686905, -0.13857109526572012,
    9.984369578019572e-6, 1.5056327351493116e-7,
  ];
  let sum = 0.9999999999998099;
  for (const [index, part] of parts.entries()) sum += part / (x + index);
  const base = x + 6.5;
  return Math.log(Math.sqrt(2 * Math.PI) * sum) + (x - 0.5) * Math.log(base) - base;
}

/** The regularised lower incomplete gamma function (Numerical Recipes 6.2). */
function gammaBelow(a: number, x: number): number {
  if (x <= 0) return 0;
  const front = Math.exp(a * Math.log(x) - x - lnGamma(a));
  if (x < a + 1) {
    let term = 1 / a;
    let sum = term;
    for (let n = 1; Math.abs(term) > Math.abs(sum) * 1e-16; n += 1) {
      term *= x / (a + n);
      sum += term;
    }
    return front * sum;
  }
  const tiny = 1e-300;
  let b = x + 1 - a;
  let c = 1 / tiny;
  let d = 1 / b;
  let fraction = d;
  for (let n = 1, change = 0; Math.abs(change - 1) > 1e-15 && n < 100_000; n += 1) {
    const factor = -n * (n - a);
    b += 2;
    d = factor * d + b || tiny;
    c = b + factor / c || tiny;
    d = 1 / d;
    change = d * c;
    fraction *= change;
  }
  return 1 - front * fraction;
}

/** The chi-squared distribution. */
export const chiBelow = (freedom: number, x: number) => gammaBelow(freedom / 2, x / 2);

/** The quantile of the chi-squared distribution, by bisection. */
function chiQuantile(freedom: number, share: number): number {
  let low = 0;
  let high = Math.max(freedom, 1);
  while (chiBelow(freedom, high) < share) high *= 2;
  for (let step = 0; step < 200 && high - low > high * 1e-13; step += 1) {
    const middle = (low + high) / 2;
    if (chiBelow(freedom, middle) < share) low = middle;
    else high = middle;
  }
  return (low + high) / 2;
}

export interface Interval {
  low: number;
  high: number;
}

/** The two-sided interval of a rate from `events` in `exposure`. */
export function rateInterval(events: number, exposure: number, confidence: number): Interval {
  const tail = (1 - confidence) / 2;
  return {
    low: events > 0 ? chiQuantile(2 * events, tail) / (2 * exposure) : 0,
    high: chiQuantile(2 * events + 2, 1 - tail) / (2 * exposure),
  };
}
