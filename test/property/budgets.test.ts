import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { parseZoneBudget } from "../../functions/shared/groups/zone-budget.ts";
import { validateZoneBudget } from "../../functions/validate-zone-budget/function.ts";

const anyValue = fc.jsonValue({ maxDepth: 2 });
const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.oneof({ weight: 4, arbitrary }, { weight: 1, arbitrary: anyValue });
const expression = fc.oneof(
  fc.constantFrom("a-([0-9]+)", "(a+)+$", "(a)|(b)", "(?P<x>.*)", "", "(", "[", "*", "(?i)(a)\\", "(\\pL{3})", "^(.)$"),
  fc.stringMatching(/^[()[\]{}*+?|\\^$.a-c0-9,:<>P=!-]{0,30}$/),
);

/** Specs whose fields are mostly plausible, so that every check is reached. */
const spec = fc.record(
  {
    maxUnavailable: maybe(fc.integer({ min: -2, max: 4 })),
    maxUnavailablePercentage: maybe(fc.integer({ min: -2, max: 103 })),
    selector: maybe(fc.record({ matchLabels: maybe(fc.dictionary(fc.string(), fc.string())) })),
    podNamePartitionRegex: maybe(expression),
    podNameRegexGroup: maybe(fc.integer({ min: -1, max: 3 })),
    crossZoneEvictionDelay: maybe(fc.constantFrom("", "5m", "-5m", "0", "1d")),
  },
  { requiredKeys: ["selector"] },
);
/** Objects that are valid apart from the user's choices, because random fields alone hardly ever agree with each other. */
const sound = fc.record({
  kind: fc.constant("ZoneAwarePodDisruptionBudget"),
  spec: fc.record(
    {
      maxUnavailable: fc.integer({ min: 0, max: 4 }),
      selector: fc.record({ matchLabels: fc.dictionary(fc.string(), fc.string()) }),
      podNamePartitionRegex: fc.constantFrom("a-([0-9]+)", "(a+)+$", "(?P<x>.*)", "^(.)$"),
    },
    { requiredKeys: ["selector"] },
  ),
});
const object = fc.oneof(
  { weight: 1, arbitrary: anyValue },
  { weight: 3, arbitrary: sound },
  { weight: 9, arbitrary: fc.record({ kind: maybe(fc.constant("ZoneAwarePodDisruptionBudget")), spec: maybe(spec) }) },
);

test("any object is either a usable budget, or a field and a message that names it", () => {
  let [runs, budgets] = [0, 0];
  fc.assert(
    fc.property(object, fc.string(), (given, podName) => {
      runs++;
      const parsed = parseZoneBudget(given);
      if ("field" in parsed) {
        assert.ok(parsed.message.startsWith(parsed.field), parsed.message);
        return;
      }
      budgets++;
      const { allowance, partitions, crossZoneEvictionDelayMs } = parsed.budget;
      assert.ok(("pods" in allowance ? allowance.pods : allowance.percent) >= 0);
      assert.ok(crossZoneEvictionDelayMs >= 0);
      assert.notEqual(partitions?.partitionOf(podName), "");
    }),
    { numRuns: 3_000 },
  );
  // A share, because the mutation run draws fewer.
  assert.ok(budgets > runs / 10, `${budgets} of ${runs} were budgets`);
});

const handler = validateZoneBudget.open(undefined as never);

test("for any review the answer is the same in a dry run, and never an exception", async () => {
  await fc.assert(
    fc.asyncProperty(
      object,
      anyValue,
      fc.constantFrom("CREATE", "UPDATE", "DELETE", ""),
      async (given, old, operation) => {
        const names = {
          uid: "1",
          namespace: "",
          name: "",
          resource: { group: "", version: "v1", resource: "pods" },
          user: "",
          subresource: "",
          path: "",
          deadlineMs: 0,
        };
        const request = { ...names, operation, object: given, oldObject: old };
        const answer = await handler.review({ ...request, dryRun: false });
        assert.deepEqual(await handler.review({ ...request, dryRun: true }), answer);
      },
    ),
    { numRuns: 500 },
  );
});
