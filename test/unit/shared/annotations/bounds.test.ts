/**
 * The largest list or map that Sluice reads from other clients: 100 entries and 4 KiB. What Sluice writes has limits
 * of its own.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Annotation, Malformed } from "../../../../functions/shared/annotations/entry.ts";
import { heldGroups } from "../../../../functions/shared/annotations/foundationdb.ts";
import { downscaleLeader } from "../../../../functions/shared/annotations/scaling.ts";
import { podSelector, suspendTogether } from "../../../../functions/shared/annotations/suspension.ts";
import { read, reservations } from "../../../../functions/shared/annotations/table.ts";
import { parseStoredBudget, selects } from "../../../../functions/shared/groups/governing.ts";
import {
  compileSelector,
  parseDisruptionBudget,
  refusalOf,
} from "../../../../functions/shared/groups/pod-disruption-budget.ts";
import { parseZoneBudget } from "../../../../functions/shared/groups/zone-budget.ts";
import { parseMarks } from "../../../../functions/shared/volumes/foundationdb-marks.ts";
import { parsePvc } from "../../../../functions/shared/volumes/pvc.ts";
import { namespace, pod } from "../../functions/advance-zone-rollout/given.ts";

const metadata = { name: "a", namespace, uid: "u", resourceVersion: "1" };
const pairs = (count: number) => Array.from({ length: count }, (_, index) => [`key-${index}`, "v"] as const);
const asText = (count: number) =>
  pairs(count)
    .map((pair) => pair.join("="))
    .join();

/** Labels with this many bytes together, in the form of an annotation. */
function textOf(bytes: number): string {
  const parts = Array.from({ length: 40 }, (_, index) => `key-${String(index).padStart(2, "0")}=${"v".repeat(63)}`);
  const text = parts.join();
  return `${text},${"k".repeat(63)}/${"k".repeat(bytes - text.length - 67)}=v`;
}

function parsed<T>(entry: Annotation<T>, text: string) {
  const malformed: Malformed[] = [];
  const annotations = { [entry.key]: text };
  return { value: read(entry, { ...metadata, annotations }, malformed), malformed };
}

test("an annotation that selects pods by 100 labels is read, and one with 101 is malformed, with a warning that says so", () => {
  assert.equal(parsed(podSelector, asText(100)).value?.size, 100);
  const { value, malformed } = parsed(podSelector, asText(101));
  assert.equal(value, undefined);
  assert.match(malformed[0]?.message ?? "", /write LABEL=VALUE,LABEL=VALUE, at most 100 of them/);
  const annotations = { "sluice.dev/owner": "Cluster.example.com/c", [podSelector.key]: asText(101) };
  const claim = parsePvc({ metadata: { ...metadata, annotations } });
  assert.equal(claim.owned?.selector.kind, "malformed");
  assert.equal(claim.malformed.length, 1);
});

test("an annotation of 4,096 bytes is read, and one of 4,097 bytes is malformed, even with fewer characters", () => {
  const text: Annotation<string> = { ...podSelector, parse: (given) => given };
  for (const [given, isRead] of [
    ["x".repeat(4_096), true],
    ["x".repeat(4_097), false],
    ["é".repeat(2_048), true],
    [`${"é".repeat(2_048)}x`, false],
  ] as const) {
    assert.equal(parsed(text, given).value !== undefined, isRead, `${Buffer.byteLength(given)} bytes`);
  }
  assert.match(parsed(text, "x".repeat(4_097)).malformed[0]?.message ?? "", /, which has more than 4096 bytes; write /);
  assert.equal(textOf(4_097).length, 4_097);
  assert.equal(parsed(podSelector, textOf(4_097)).value, undefined);
});

test("a name that is compared as a whole may be longer, because without it Sluice would follow no StatefulSet", () => {
  assert.equal(parsed(downscaleLeader, "x".repeat(10_000)).value?.length, 10_000);
});

test("annotations that Sluice writes may be longer: a ledger, the process groups on hold, the volume claims of one pod", () => {
  const groups = Object.fromEntries(
    Array.from({ length: 200 }, (_, index) => [`storage-${index}`, { since: "2026-01-01T00:00:00Z" }]),
  );
  assert.equal(Object.keys(parsed(heldGroups, JSON.stringify(groups)).value ?? {}).length, 200);
  const names = Array.from({ length: 100 }, (_, index) => `${"n".repeat(240)}-${index}`);
  const annotations = { [suspendTogether.key]: names.join() };
  assert.deepEqual(parsePvc({ metadata: { ...metadata, annotations } }).together, names);
  assert.equal(parsed(suspendTogether, "n,".repeat(20_000)).value, undefined);
  assert.equal(reservations.on, "Lease");
});

const budgetOf = (matchLabels: object) => ({
  kind: "ZoneAwarePodDisruptionBudget",
  metadata,
  spec: { maxUnavailable: 1, selector: { matchLabels } },
});

test("a budget with 100 labels is read; one with 101 labels or 4,097 bytes is invalid, and still governs all its pods", () => {
  assert.ok("budget" in parseZoneBudget(budgetOf(Object.fromEntries(pairs(100)))));
  const many = parseZoneBudget(budgetOf(Object.fromEntries(pairs(101))));
  assert.deepEqual(many, {
    field: "spec.selector.matchLabels",
    message: "spec.selector.matchLabels has 101 entries: write at most 100",
  });
  assert.ok("budget" in parseZoneBudget(budgetOf({ k: "v".repeat(4_095) })));
  const long = parseZoneBudget(budgetOf({ k: "v".repeat(4_096) }));
  assert.equal("field" in long && long.message, "spec.selector.matchLabels has 4097 bytes: write at most 4096");
  const stored = parseStoredBudget(budgetOf(Object.fromEntries(pairs(10_000))) as never);
  assert.equal(stored.matchLabels.size, 100);
  assert.equal(selects(stored, Object.fromEntries(pairs(100))), true);
});

test("a PodDisruptionBudget with a larger selector counts as selecting every pod while it allows no disruption", () => {
  const values = pairs(101).map(([key]) => key);
  const within = { matchExpressions: [{ key: "app", operator: "In", values: values.slice(0, 100) }] };
  assert.ok("labels" in compileSelector(within));
  for (const [selector, excess] of [
    [{ matchLabels: Object.fromEntries(pairs(101)) }, "has 101 entries: write at most 100"],
    [{ matchExpressions: [{ key: "app", operator: "In", values }] }, "has 101 entries: write at most 100"],
    [
      { matchExpressions: pairs(101).map(([key]) => ({ key, operator: "Exists" })) },
      "has 101 entries: write at most 100",
    ],
    [
      {
        matchExpressions: pairs(101).map(([key], index) => ({
          key,
          operator: "In",
          values: pairs(index > 99 ? 999 : 1).map(([name]) => name),
        })),
      },
      "has 101 entries: write at most 100",
    ],
    [{ matchLabels: { k: "v".repeat(4_096) } }, "has 4097 bytes: write at most 4096"],
    [
      { matchLabels: { k: "v" }, matchExpressions: [{ key: "key", operator: "In", values: ["v".repeat(4_092)] }] },
      "has 4097 bytes: write at most 4096",
    ],
  ] as const) {
    const refusal = (disruptionsAllowed: number) => {
      const status = { observedGeneration: 1, disruptionsAllowed };
      const object = { metadata: { ...metadata, name: "pdb", generation: 1 }, spec: { selector }, status };
      return refusalOf(pod("a-0"), [parseDisruptionBudget(object as never)]);
    };
    const reason = `PodDisruptionBudget pdb allows no disruption now and may select it: its selector ${excess}`;
    assert.equal(refusal(0), reason);
    assert.equal(refusal(1), undefined);
  }
});

test("labels of a FoundationDBCluster beyond the limits count as unreadable", () => {
  const marksOf = (labels: object) => parseMarks({ metadata: { ...metadata, name: "orders" }, spec: { labels } });
  assert.equal(marksOf({ matchLabels: Object.fromEntries(pairs(100)) }).unreadable, undefined);
  assert.match(marksOf({ matchLabels: Object.fromEntries(pairs(101)) }).unreadable ?? "", /matchLabels of orders/);
  const ids = pairs(101).map(([key]) => key);
  assert.match(marksOf({ processGroupIDLabels: ids }).unreadable ?? "", /processGroupIDLabels of orders/);
});
