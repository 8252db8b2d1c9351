/**
 * The only two answers that a decision may give: take these targets now, or wait behind a named guard.
 *
 * A guard is a stable kebab-case name; its sentence is for an operator at night (DESIGN section 6).
 */

export interface Take<Target> {
  readonly kind: "take";
  readonly targets: readonly Target[];
  readonly because: string;
  /** When to look again without an event, in milliseconds; absent where the next event tells. */
  readonly recheckMs: number | undefined;
}

export interface Wait {
  readonly kind: "wait";
  readonly guard: string;
  readonly sentence: string;
  readonly recheckMs: number | undefined;
}

export type Verdict<Target> = Take<Target> | Wait;

export function take<Target>(targets: readonly Target[], because: string, recheckMs?: number): Take<Target> {
  return { kind: "take", targets, because, recheckMs };
}

export function wait(guard: string, sentence: string, recheckMs?: number): Wait {
  return { kind: "wait", guard, sentence, recheckMs };
}
