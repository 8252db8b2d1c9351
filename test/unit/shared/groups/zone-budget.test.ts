import assert from "node:assert/strict";
import { test } from "node:test";
import { parseZoneBudget } from "../../../../functions/shared/groups/zone-budget.ts";

const selector = { matchLabels: { "rollout-group": "ingester" } };
const regex = "ingester-zone-[a-z]-([0-9]+)";

function objectOf(spec: unknown): unknown {
  return { apiVersion: "rollout-operator.grafana.com/v1", kind: "ZoneAwarePodDisruptionBudget", spec };
}

function budgetOf(spec: object) {
  const parsed = parseZoneBudget(objectOf({ selector, ...spec }));
  assert.ok("budget" in parsed, "field" in parsed ? parsed.message : "");
  return parsed.budget;
}

function refusalOf(object: unknown) {
  const parsed = parseZoneBudget(object);
  assert.ok("field" in parsed, JSON.stringify(object));
  return parsed;
}

function assertRefused(spec: object, field: string, reason: RegExp): void {
  const refusal = refusalOf(objectOf({ selector, ...spec }));
  assert.equal(refusal.field, `spec.${field}`, refusal.message);
  assert.match(refusal.message, reason);
}

test("the smallest budget permits one pod of a zone to go", () => {
  assert.deepEqual(budgetOf({}), {
    allowance: { pods: 1 },
    matchLabels: new Map([["rollout-group", "ingester"]]),
    partitions: undefined,
    crossZoneEvictionDelayMs: 0,
  });
});

test("allowances are a number of pods or a percentage, and each may be 0", () => {
  assert.deepEqual(budgetOf({ maxUnavailable: 0 }).allowance, { pods: 0 });
  assert.deepEqual(budgetOf({ maxUnavailable: 3 }).allowance, { pods: 3 });
  assert.deepEqual(budgetOf({ maxUnavailablePercentage: 0 }).allowance, { percent: 0 });
  assert.deepEqual(budgetOf({ maxUnavailablePercentage: 100 }).allowance, { percent: 100 });
  for (const maxUnavailable of [-1, 1.5, "1", "50%", null, true, [], {}, 1e30]) {
    assertRefused({ maxUnavailable }, "maxUnavailable", /^spec\.maxUnavailable is .+: write an integer of at least 0/);
  }
  for (const maxUnavailablePercentage of [-1, 101, 0.5, "50%", null]) {
    assertRefused({ maxUnavailablePercentage }, "maxUnavailablePercentage", / is .+: write an integer from 0 to 100/);
  }
  assertRefused({ maxUnavailable: 0, maxUnavailablePercentage: 0 }, "maxUnavailable", /both written.+leave one out/);
});

test("a partition is the text of the expression's capture group", () => {
  const { partitions } = budgetOf({ podNamePartitionRegex: regex });
  assert.equal(partitions?.partitionOf("ingester-zone-a-12"), "12");
  for (const name of ["ingester-zone-a", "x-ingester-zone-a-12", "ingester-zone-a-12-x", ""]) {
    assert.equal(partitions?.partitionOf(name), undefined, name);
  }
  const second = budgetOf({ podNamePartitionRegex: "(.+)-zone-.-([0-9]*)", podNameRegexGroup: 2 }).partitions;
  assert.equal(second?.partitionOf("ingester-zone-a-7"), "7");
  assert.equal(second?.partitionOf("ingester-zone-a-"), undefined, "an empty group is no partition");
  assert.equal(budgetOf({ podNamePartitionRegex: "(?P<shard>[a-z]+)-\\d+" }).partitions?.partitionOf("ab-1"), "ab");
  assert.equal(budgetOf({ podNamePartitionRegex: "", podNameRegexGroup: 7 }).partitions, undefined);
});

test("the anchors are placed as in rollout-operator, so that an alternation at the top separates them", () => {
  const { partitions } = budgetOf({ podNamePartitionRegex: "a-([0-9]+)|b-([0-9]+)", podNameRegexGroup: 1 });
  assert.equal(partitions?.partitionOf("a-1-and-more"), "1");
  assert.equal(partitions?.partitionOf("x-b-1"), undefined);
});

test("the error about an expression that is not RE2 gives the reason, even if the anchors would have hidden it", () => {
  const advice = /: write an RE2 expression for the whole name of a pod, with a capture group/;
  for (const podNamePartitionRegex of [
    "(",
    ")|(",
    "(a)\\1",
    "(?=a)(b)",
    "(?<=a)(b)",
    "*(a)",
    "(a)\\",
    "(a{1001})",
    1,
    null,
  ]) {
    assertRefused({ podNamePartitionRegex }, "podNamePartitionRegex", advice);
  }
  assertRefused({ podNamePartitionRegex: "((a)" }, "podNamePartitionRegex", /missing closing \)/);
  assertRefused({ podNamePartitionRegex: "a-[0-9]+" }, "podNamePartitionRegex", /no capture group: .+ in parentheses/);
  assertRefused({ podNamePartitionRegex: `(${"a".repeat(500)})` }, "podNamePartitionRegex", /has 502 characters/);
  assertRefused({ podNamePartitionRegex: "(a{900}b{900}c{900})" }, "podNamePartitionRegex", /too many steps/);
});

test("the group's number must be that of a capture group, and is required if there are several", () => {
  const two = { podNamePartitionRegex: "(a)-(b)" };
  assertRefused(two, "podNameRegexGroup", /missing, and the expression has 2 capture groups/);
  for (const podNameRegexGroup of [0, -1, 3, 1.5, "1", null]) {
    assertRefused({ ...two, podNameRegexGroup }, "podNameRegexGroup", / is .+: write an integer from 1 to 2/);
  }
  assertRefused({ podNamePartitionRegex: regex, podNameRegexGroup: 2 }, "podNameRegexGroup", /write 1,/);
  assert.equal(budgetOf({ podNamePartitionRegex: regex, podNameRegexGroup: 1 }).partitions?.group, 1);
});

test("hostile expressions take no longer than others", () => {
  const startedMs = performance.now();
  const long = `${"a".repeat(100_000)}!`;
  for (const podNamePartitionRegex of ["(a+)+$", "((a+)+)+", "(a|aa)+", "(.*a){12}", `(${"a?".repeat(240)})`]) {
    const parsed = parseZoneBudget(objectOf({ selector, podNamePartitionRegex, podNameRegexGroup: 1 }));
    if ("budget" in parsed) assert.equal(parsed.budget.partitions?.partitionOf(long), undefined);
  }
  const slowest = budgetOf({ podNamePartitionRegex: "((?:a?){600}(?:a{700}))" }).partitions;
  assert.equal(slowest?.partitionOf("a".repeat(253)), undefined);
  refusalOf(objectOf({ selector, podNamePartitionRegex: "(?:a?){1000}".repeat(41) }));
  assert.ok(performance.now() - startedMs < 5_000, `${performance.now() - startedMs} ms`);
});

test("the selector consists of labels with strings, and any other selector is refused", () => {
  for (const given of [undefined, null, "a=b", [], 1]) {
    const refusal = refusalOf(objectOf({ selector: given }));
    assert.deepEqual([refusal.field, /write matchLabels/.test(refusal.message)], ["spec.selector", true]);
  }
  for (const matchLabels of [undefined, null, [], "a"]) {
    assertRefused({ selector: { matchLabels } }, "selector.matchLabels", /write matchLabels/);
  }
  assertRefused({ selector: { matchLabels: { a: 1 } } }, "selector.matchLabels.a", /is 1: write a string, in quotes/);
  assertRefused(
    { selector: { matchLabels: {}, matchExpressions: [] } },
    "selector.matchExpressions",
    /not supported, .+ write matchLabels/,
  );
  assert.equal(budgetOf({ selector: { matchLabels: {} } }).matchLabels.size, 0);
  const named = JSON.parse('{"matchLabels": {"__proto__": "a", "constructor": "b"}}');
  assert.deepEqual([...budgetOf({ selector: named }).matchLabels.keys()], ["__proto__", "constructor"]);
});

test("the delay is a Go duration, and needs partitions", () => {
  const withDelay = (crossZoneEvictionDelay: unknown) => ({ podNamePartitionRegex: regex, crossZoneEvictionDelay });
  for (const [text, ms] of [
    ["", 0],
    ["0", 0],
    ["90s", 90_000],
    ["1h30m", 5_400_000],
  ] as const) {
    assert.equal(budgetOf(withDelay(text)).crossZoneEvictionDelayMs, ms);
  }
  for (const text of ["-1s", "5", "1d", 300, null, "soon"]) {
    assertRefused(withDelay(text), "crossZoneEvictionDelay", / is .+: write a Go duration of at least 0/);
  }
  assert.equal(budgetOf({ crossZoneEvictionDelay: "0s" }).crossZoneEvictionDelayMs, 0);
  assertRefused({ crossZoneEvictionDelay: "5m" }, "crossZoneEvictionDelay", /write spec\.podNamePartitionRegex too/);
});

test("partitions cannot have a percentage above 0", () => {
  const percent = (maxUnavailablePercentage: number) => ({ podNamePartitionRegex: regex, maxUnavailablePercentage });
  assertRefused(percent(1), "maxUnavailablePercentage", /cannot be combined .+ write maxUnavailable/);
  assert.deepEqual(budgetOf(percent(0)).allowance, { percent: 0 });
});

test("the first of several mistakes is reported, in rollout-operator's order", () => {
  const mistakes: [field: string, wrong: object][] = [
    ["spec.maxUnavailable", { maxUnavailable: -1, maxUnavailablePercentage: 50 }],
    ["spec.maxUnavailablePercentage", { maxUnavailablePercentage: 101 }],
    ["spec.podNamePartitionRegex", { podNamePartitionRegex: "(" }],
    ["spec.selector", { selector: undefined }],
    ["spec.crossZoneEvictionDelay", { crossZoneEvictionDelay: "-5m" }],
  ];
  for (let first = 0; first < mistakes.length; first++) {
    const spec = Object.assign(
      { selector },
      ...mistakes
        .slice(first)
        .map(([, wrong]) => wrong)
        .reverse(),
    );
    assert.equal(refusalOf(objectOf(spec)).field, mistakes[first]?.[0]);
    assert.equal(refusalOf({ kind: "Pod", spec }).field, "kind", "after spec, before all else");
  }
});

test("an object without a spec, or of another kind, is no budget", () => {
  for (const object of [undefined, null, 1, "a", [], {}, { spec: null }, { spec: [] }, { kind: "Pod", spec: "a" }]) {
    assert.match(refusalOf(object).message, /^spec is .+: write a spec with a selector/);
  }
  for (const kind of [undefined, "zoneawarepoddisruptionbudget", "PodDisruptionBudget", 1]) {
    assert.match(refusalOf({ kind, spec: { selector } }).message, /^kind is .+: write ZoneAwarePodDisruptionBudget$/);
  }
});

test("a message shows a value only as far as a user can read it", () => {
  const { message } = refusalOf(objectOf({ selector, maxUnavailable: "x".repeat(1_000_000) }));
  assert.ok(message.length < 250, message);
});
