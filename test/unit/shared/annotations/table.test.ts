import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type Annotation,
  annotationTable,
  type Malformed,
  read,
  rolloutGroup,
  rolloutMaxUnavailable,
  rolloutPaused,
  settledThrough,
} from "../../../../functions/shared/annotations/table.ts";
import { eventReasons } from "../../../../functions/shared/events/reasons.ts";
import { podObject } from "../../functions/advance-zone-rollout/given.ts";

/** Reads an entry from an object with `text` for it. Returns the value and the warnings. */
function readText<T>(entry: Annotation<T>, text: string | undefined) {
  const malformed: Malformed[] = [];
  const table = text === undefined ? {} : { [entry.key]: text };
  const { metadata } = podObject("a-0", { metadata: { labels: {}, annotations: {}, [`${entry.kind}s`]: table } });
  return { value: read(entry, metadata, malformed), malformed };
}

const allowances: readonly [string, object | undefined][] = [
  ["1", { pods: 1 }],
  ["20", { pods: 20 }],
  [" 3", { pods: 3 }],
  ["3\n", { pods: 3 }],
  ["\t 4 \r\n", { pods: 4 }],
  ["+5", { pods: 5 }],
  ["007", { pods: 7 }],
  ["1%", { percent: 1 }],
  [" 25% ", { percent: 25 }],
  ["+25%", { percent: 25 }],
  ["100%", { percent: 100 }],
  ["9007199254740991", { pods: 9007199254740991 }],
  ["", undefined],
  [" ", undefined],
  ["0", undefined],
  ["-0", undefined],
  ["-1", undefined],
  ["0%", undefined],
  ["-5%", undefined],
  ["101%", undefined],
  ["5 %", undefined],
  ["%", undefined],
  ["%5", undefined],
  ["5%%", undefined],
  ["1.5", undefined],
  ["2.0", undefined],
  ["12.5%", undefined],
  ["1e2", undefined],
  ["0x10", undefined],
  ["1_000", undefined],
  ["1,000", undefined],
  ["+ 5", undefined],
  ["++5", undefined],
  ["5 6", undefined],
  ["5\n6", undefined],
  ["٣", undefined],
  ["three", undefined],
  ["NaN", undefined],
  ["Infinity", undefined],
  ["9007199254740993", undefined],
  ["99999999999999999999999", undefined],
];

for (const [text, expected] of allowances) {
  const meaningOf = expected === undefined ? "is malformed" : `means ${JSON.stringify(expected)}`;
  test(`rollout-max-unavailable ${JSON.stringify(text)} ${meaningOf}`, () => {
    const { value, malformed } = readText(rolloutMaxUnavailable, text);
    assert.deepEqual(value, expected);
    assert.equal(malformed.length, expected === undefined ? 1 : 0);
  });
}

test("rollout-paused is exactly true or false, and anything else causes a warning and does not pause", () => {
  assert.deepEqual(readText(rolloutPaused, "true"), { value: true, malformed: [] });
  assert.deepEqual(readText(rolloutPaused, "false"), { value: false, malformed: [] });
  for (const text of ["True", "TRUE", " true", "true ", "1", "yes", "t", "False", ""]) {
    const { value, malformed } = readText(rolloutPaused, text);
    assert.equal(value, undefined, text);
    assert.equal(malformed.length, 1, text);
  }
});

test("rollout-group may be any label value, and the empty one names a group of its own", () => {
  for (const text of ["", "ingester", "Odd_Value.1"]) {
    assert.deepEqual(readText(rolloutGroup, text), { value: text, malformed: [] });
  }
  assert.deepEqual(readText(rolloutGroup, undefined), { value: undefined, malformed: [] });
});

test("a label is not read from an annotation of the same key, nor an annotation from a label", () => {
  const { metadata } = podObject("a-0", {
    metadata: {
      labels: { [rolloutMaxUnavailable.key]: "3", [rolloutPaused.key]: "true" },
      annotations: { [rolloutGroup.key]: "group" },
    },
  });
  assert.equal(read(rolloutMaxUnavailable, metadata), undefined);
  assert.equal(read(rolloutPaused, metadata), undefined);
  assert.equal(read(rolloutGroup, metadata), undefined);
});

test("settled-through is a plain decimal number, and a malformed one does not count as absent", () => {
  assert.deepEqual(readText(settledThrough, "123"), { value: 123, malformed: [] });
  assert.deepEqual(readText(settledThrough, undefined), { value: undefined, malformed: [] });
  for (const text of ["", "-1", "+1", "1.0", "1e3", " 1", "9007199254740993", "x"]) {
    assert.equal(readText(settledThrough, text).malformed.length, 1, text);
  }
});

test("a warning quotes the value, and says what to write and what counts until then", () => {
  const { malformed } = readText(rolloutMaxUnavailable, "5 %");
  assert.deepEqual(malformed, [
    {
      key: "rollout-max-unavailable",
      message:
        'annotation rollout-max-unavailable is "5 %"; write an integer above 0, or 1% to 100% of spec.replicas, ' +
        "rounded down, at least 1. Until then: 1.",
    },
  ]);
  assert.equal(
    readText(rolloutPaused, "True").malformed[0]?.message,
    'annotation grafana.com/rollout-paused is "True"; write true or false. Until then: false.',
  );
});

test("a warning shortens a long value", () => {
  const description = readText(rolloutMaxUnavailable, "9".repeat(5_000)).malformed[0]?.message ?? "";
  assert.match(description, /9{60}…"/);
  assert.ok(description.length < 300);
});

test("the keys of rollout-operator are read as its users write them", () => {
  assert.equal(rolloutGroup.key, "rollout-group");
  assert.equal(rolloutMaxUnavailable.key, "rollout-max-unavailable");
  assert.equal(rolloutPaused.key, "grafana.com/rollout-paused");
  assert.equal(rolloutGroup.kind, "label");
  assert.equal(rolloutMaxUnavailable.kind, "annotation");
  assert.equal(rolloutPaused.kind, "annotation");
});

test("every key is a valid qualified name, is unique, and has a description", () => {
  const keys = annotationTable.map(({ key }) => key);
  assert.equal(new Set(keys).size, keys.length);
  for (const { key, meaning, grammar, fallback } of annotationTable) {
    const [, prefix = "", name = ""] = /^(?:([a-z0-9.-]+)\/)?([a-z0-9][-A-Za-z0-9]*[a-z0-9])$/.exec(key) ?? [];
    assert.ok(name.length > 0 && name.length <= 63, key);
    assert.ok(prefix.length <= 253, key);
    for (const explanation of [meaning, grammar, fallback]) assert.ok(explanation.length > 0, key);
  }
});

test("every Event reason is unique and in the style of Kubernetes", () => {
  const reasons: string[] = Object.values(eventReasons);
  assert.equal(new Set(reasons).size, reasons.length);
  for (const reason of reasons) assert.match(reason, /^[A-Z][A-Za-z]{2,127}$/);
});
