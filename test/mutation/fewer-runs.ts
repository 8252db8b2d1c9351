/** fast-check as it is used while mutants are tried. */
import type fastCheck from "fast-check";

/** A hundredth of what the longest properties ask for: every mutant that lives would cost a minute otherwise. */
const mostRuns = 200;

/** The same values each time, no search for a smaller counterexample, and not more runs than are worth their time. */
export function withFewerRuns(fc: typeof fastCheck): typeof fastCheck {
  fc.configureGlobal({ seed: 1, endOnFailure: true });
  const assert = ((property: never, parameters: { readonly numRuns?: number } = {}) => {
    const { numRuns } = parameters;
    const fewer = numRuns === undefined ? {} : { numRuns: Math.min(numRuns, mostRuns) };
    return fc.assert(property, { ...parameters, ...fewer } as never);
  }) as typeof fastCheck.assert;
  return { ...fc, assert };
}
