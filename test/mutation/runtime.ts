/** State that mutated sources read: which mutant is active. While a run is recorded, they write here which mutants it feels. */

const compute: Readonly<Record<string, (left: never, right: never) => unknown>> = {
  "<": (left, right) => left < right,
  "<=": (left, right) => left <= right,
  ">": (left, right) => left > right,
  ">=": (left, right) => left >= right,
  "===": (left, right) => left === right,
  "!==": (left, right) => left !== right,
  "+": (left, right) => left + right,
  "-": (left, right) => left - right,
  "*": (left, right) => left * right,
  "/": (left, right) => left / right,
  "%": (left, right) => left % right,
};

/** One for each thread. */
export const state = {
  /** Number of the active mutant; 0 for none. */
  on: 0,
  /** Numbers of the mutants that would have made a difference since it was cleared. */
  felt: new Set<number>(),
  /** How often a loop's body was entered, and how often it may be. */
  turns: 0,
  mostTurns: Number.POSITIVE_INFINITY,

  turn(): void {
    if (++state.turns > state.mostTurns) throw new Error("a loop has no end");
  },

  reach(first: number, count: number): void {
    for (let number = first; number < first + count; number++) state.felt.add(number);
  },

  operands(first: number, operator: string, alternatives: readonly string[], left: never, right: never): unknown {
    const value = compute[operator]?.(left, right);
    for (const [index, other] of alternatives.entries()) {
      if (!Object.is(compute[other]?.(left, right), value)) state.felt.add(first + index);
    }
    return value;
  },

  truth<T>(numberOfTrue: number, numberOfFalse: number, value: T): T {
    state.felt.add(value ? numberOfFalse : numberOfTrue);
    // What is only as good as true or false may be used as what it is: `found && found.name`.
    if (typeof value !== "boolean") state.felt.add(value ? numberOfTrue : numberOfFalse);
    return value;
  },

  present<T>(number: number, value: T): T {
    if (value !== undefined && value !== null) state.felt.add(number);
    return value;
  },
};
