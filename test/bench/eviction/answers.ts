/** Counts answers and their latencies. Pure: the code that asks feeds it. */

/** All answers in one period of time. */
export interface AnswerReport {
  readonly answers: number;
  readonly perSecond: number;
  /** Time within which half, and 99 of 100, were answered; undefined if there was nothing to answer. */
  readonly p50Ms: number | undefined;
  readonly p99Ms: number | undefined;
  readonly allowed: number;
  /** Names of the pods that were allowed to go, by zone. */
  readonly allowedPods: Readonly<Record<string, readonly string[]>>;
  /** Answers with 429, after which clients retry. */
  readonly refused: number;
  /** All others: other codes, malformed answers, and missing ones. */
  readonly errors: number;
  /** Messages of refusals and errors, most frequent first, with `#` for names and numbers. */
  readonly messages: Readonly<Record<string, number>>;
}

export type Answer =
  | { readonly kind: "allowed"; readonly zone: string; readonly name: string }
  | { readonly kind: "refused" | "error"; readonly message: string };

const mostMessages = 20;

export class Answers {
  readonly #tookMs: number[] = [];
  readonly #names = new Map<string, Set<string>>();
  readonly #messages = new Map<string, number>();
  readonly #counts = { allowed: 0, refused: 0, error: 0 };

  add(answer: Answer, tookMs: number): void {
    this.#tookMs.push(tookMs);
    this.#counts[answer.kind]++;
    if (answer.kind === "allowed") {
      const names = this.#names.get(answer.zone) ?? new Set();
      this.#names.set(answer.zone, names.add(answer.name));
      return;
    }
    const message = `${answer.kind === "error" ? "error: " : ""}${withoutNames(answer.message)}`;
    const known = this.#messages.has(message) || this.#messages.size < mostMessages;
    const key = known ? message : "others";
    this.#messages.set(key, (this.#messages.get(key) ?? 0) + 1);
  }

  get count(): number {
    return this.#tookMs.length;
  }

  report(elapsedMs: number): AnswerReport {
    const sorted = this.#tookMs.toSorted((one, other) => one - other);
    const { allowed, refused, error: errors } = this.#counts;
    return {
      answers: sorted.length,
      perSecond: (sorted.length * 1000) / elapsedMs,
      p50Ms: percentile(sorted, 0.5),
      p99Ms: percentile(sorted, 0.99),
      allowed,
      allowedPods: Object.fromEntries([...this.#names].map(([zone, names]) => [zone, [...names]])),
      refused,
      errors,
      messages: Object.fromEntries([...this.#messages].sort(([, one], [, other]) => other - one)),
    };
  }
}

/** The nearest rank: the smallest value that this share of all values does not exceed. */
export function percentile(sorted: readonly number[], share: number): number | undefined {
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)];
}

function withoutNames(message: string): string {
  return message
    .replaceAll(/\b[a-z]+(-[a-z]+)*-\d+\b/g, "#")
    .replaceAll(/\bzone-[a-z]\b/g, "zone-#")
    .replaceAll(/\d+/g, "#");
}
