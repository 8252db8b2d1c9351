/** What every part of the product needs is written in one place, because a second copy would sooner or later differ. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { matches, product } from "../support/tree.ts";

/** What it is, what it looks like, and where it may be written. */
const statedOnce: readonly (readonly [what: string, pattern: RegExp, path: string])[] = [
  ["NAMESPACE/GROUP", /namespace\}\/\$\{(\w+\.)*group\}/, "functions/shared/workloads/statefulsets.ts"],
  ["STATEFULSET-ORDINAL", /\}-\$\{(\w+\.)*ordinal\}|-\(?\\d\+\)?\$\//, "functions/shared/workloads/pods.ts"],
  ["the fields of an object", /!Array\.isArray\(\w+\) \? \(/, "functions/shared/base/fields.ts"],
  ["a right that is missing", /[Ll]acks the right|\bcannot \\S/, "functions/shared/kubernetes/cluster.ts"],
  ["what an error says", /\w instanceof Error \? \w+\.message/, "functions/shared/base/error-message.ts"],
  ["a list and a watch after it", /\.watch\(/, "functions/shared/cache/reflector.ts"],
  ["whether an Event is news", /sentEvents\.(has|add)\(/, "functions/shared/events/recorder.ts"],
  ["once a minute", /\?\? Number\.NEGATIVE_INFINITY\) (<|>|>=) \w+/, "triggers/telemetry/repeats.ts"],
];

test("what several parts of the product need stands in one file", () => {
  for (const [what, pattern, path] of statedOnce) {
    const places = new Set(product.filter((source) => matches([source], pattern).length > 0).map((one) => one.path));
    assert.deepEqual([...places], [path], what);
  }
});
