/** The course of resident memory in figures. Pure. */

export interface Sample {
  /** Number of reviews answered until then. */
  readonly reviews: number;
  readonly residentBytes: number;
}

export interface Slope {
  readonly firstBytes: number;
  /** Memory when a tenth, and half, of the reviews were answered. */
  readonly tenthBytes: number;
  readonly halfBytes: number;
  readonly lastBytes: number;
  readonly peakBytes: number;
  /** Slope of the line that fits the second half best (least squares); 0 if that is one sample. */
  readonly bytesPerReview: number;
}

/** Samples are in the order of time. Throws if there are none. */
export function slopeOf(samples: readonly Sample[]): Slope {
  const [first, last] = [samples[0], samples.at(-1)];
  if (first === undefined || last === undefined) throw new Error("no samples of memory");
  const at = (share: number) => samples.find(({ reviews }) => reviews >= last.reviews * share) ?? last;
  const half = at(0.5);
  return {
    firstBytes: first.residentBytes,
    tenthBytes: at(0.1).residentBytes,
    halfBytes: half.residentBytes,
    lastBytes: last.residentBytes,
    peakBytes: Math.max(...samples.map(({ residentBytes }) => residentBytes)),
    bytesPerReview: fit(samples.slice(samples.indexOf(half))),
  };
}

function fit(samples: readonly Sample[]): number {
  const mean = (values: readonly number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;
  const meanReviews = mean(samples.map(({ reviews }) => reviews));
  const meanBytes = mean(samples.map(({ residentBytes }) => residentBytes));
  let products = 0;
  let squares = 0;
  for (const { reviews, residentBytes } of samples) {
    products += (reviews - meanReviews) * (residentBytes - meanBytes);
    squares += (reviews - meanReviews) ** 2;
  }
  return squares === 0 ? 0 : products / squares;
}
