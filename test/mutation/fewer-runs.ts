/** fast-check as it is used while mutants are tried. */
import type fastCheck from "fast-check";

/** A hundredth of the runs of the longest properties: otherwise every surviving mutant would cost a minute. */
const mostRuns = 200;

/** Uses the same values each time, without a search for a smaller counterexample, and with few runs. */
export function withFewerRuns(fc: typeof fastCheck): typeof fastCheck {
  fc.configureGlobal({ seed: 1, endOnFailure: true });
  const assert = ((property: never, parameters: { readonly numRuns?: number } = {}) => {
    const { numRuns } = parameters;
    const fewer = numRuns === undefined ? {} : { numRuns: Math.min(numRuns, mostRuns) };
    return fc.assert(property, { ...parameters, ...fewer } as never);
  }) as typeof fastCheck.assert;
  return { ...fc, assert };
}
