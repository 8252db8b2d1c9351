/** How late a watch delivers: drawn from a seed, for each connection and each kind of object. */
import { type Random, seededRandom } from "../../fake-cluster/random.ts";

/** What happens to the bytes of a watch for a while. */
export interface Phase {
  /**
   * `late`: each byte comes `delayMs` after the server sent it. `frozen`: nothing comes until the phase is over, and then all
   * of it. `half-open`: nothing comes any more, and when the phase is over the connection is cut.
   */
  readonly kind: "late" | "frozen" | "half-open";
  readonly forMs: number;
  /** 0 but for `late`. */
  readonly delayMs: number;
}

export interface Lag {
  /** The most that a byte is held back in a phase `late`, in milliseconds; a frozen stream stands still for as long at most. */
  readonly mostMs: number;
  /** The most that the answer to a LIST is held back, after the server has made it. 0: LISTs pass at once. */
  readonly lateListsMs: number;
  /** Kind whose watches are always as late as they may be, while nothing else is late: the process knows all but that. */
  readonly latest?: string;
}

/** How long a phase lasts, at least and at most. */
const phaseMs = { least: 3_000, most: 15_000 };

function between(random: Random, least: number, most: number): number {
  return Math.round(least + random() * (most - least));
}

/** One of the numbers of a seed; which one depends on the words alone, not on earlier draws. */
function drawnFor(seed: number, text: string): Random {
  let mixed = seed >>> 0;
  for (const letter of text) mixed = (Math.imul(mixed ^ (letter.codePointAt(0) ?? 0), 0x01000193) + 0x9e3779b9) >>> 0;
  return seededRandom(mixed);
}

/**
 * The phases of the n-th watch of a kind, without an end. A third of them are prompt, and short delays are more frequent than
 * long ones, because nothing happens any more if everything is 15 s late.
 */
export function* phasesOf(seed: number, kind: string, n: number, { mostMs, latest }: Lag): Generator<Phase, never> {
  while (kind === latest) yield { kind: "late", forMs: phaseMs.most, delayMs: mostMs };
  const random = drawnFor(seed, `${kind} ${n}`);
  for (;;) {
    const forMs = between(random, phaseMs.least, phaseMs.most);
    const chance = random();
    const delayMs = between(random, 0, mostMs);
    if (chance < 0.3) yield { kind: "late", forMs, delayMs: 0 };
    else if (chance < 0.75) yield { kind: "late", forMs, delayMs: Math.round(delayMs * random() ** 2) };
    else if (chance < 0.92) yield { kind: "frozen", forMs: delayMs, delayMs: 0 };
    else yield { kind: "half-open", forMs: delayMs, delayMs: 0 };
  }
}

/** Time for which the answer to the n-th LIST of a kind is delayed, in milliseconds: half of them are not delayed. */
export function listDelayOf(seed: number, kind: string, n: number, { lateListsMs }: Lag): number {
  const random = drawnFor(seed, `list ${kind} ${n}`);
  return random() < 0.5 ? 0 : between(random, 0, lateListsMs);
}
