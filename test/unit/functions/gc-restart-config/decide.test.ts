/** Which Secrets are known, counted and removed, by what a sweep has read. */
import assert from "node:assert/strict";
import { test } from "node:test";
import {
  type ConfigSnapshot,
  decide,
  mayBeDue,
  type ReadConfig,
  unnamedForMs,
} from "../../../../functions/gc-restart-config/decide.ts";
import type { NamedConfig } from "../../../../functions/shared/annotations/restart-files.ts";

const nowMs = 2_000_000;
const longAgoMs = nowMs - unnamedForMs;
/** The sweep before this one. */
const checkedMs = nowMs - 300_000;

const anew = { uid: "u", unnamedMs: nowMs, checks: 1, checkedMs: nowMs };

interface Given {
  readonly known?: Readonly<Record<string, NamedConfig>>;
  readonly read?: Readonly<Record<string, ReadConfig>>;
  readonly named?: readonly string[];
  readonly isRestarting?: boolean;
}

const there = (uid = "u", isLabelled = true): ReadConfig => ({ kind: "there", uid, resourceVersion: "7", isLabelled });
const missing: ReadConfig = { kind: "missing" };
const forbidden: ReadConfig = { kind: "forbidden", message: "the right is missing" };

function decided({ known = {}, read = { old: there() }, named = [], isRestarting = false }: Given) {
  const snapshot: ConfigSnapshot = {
    ...{ nowMs, isRestarting, named: new Set(named) },
    ...{ known: new Map(Object.entries(known)), read: new Map(Object.entries(read)) },
  };
  const { configs, ...verdict } = decide(snapshot);
  return { ...verdict, old: configs.get("old"), names: [...configs.keys()] };
}

test("a Secret becomes known when a StatefulSet names it, if it is there and has the label", () => {
  assert.deepEqual(decided({ named: ["old"] }).old, { uid: "u" });
  for (const read of [there("u", false), missing, forbidden])
    assert.deepEqual(decided({ named: ["old"], read: { old: read } }).names, [], read.kind);
  assert.deepEqual(decided({}).names, [], "nothing has named it");
});

test("a known Secret is forgotten when it is gone, or loses its label", () => {
  const known = { old: { uid: "u", unnamedMs: longAgoMs, checks: 3, checkedMs } };
  for (const read of [missing, there("u", false), there("another")]) {
    const { names, due, isChanged, guard } = decided({ known, read: { old: read } });
    assert.deepEqual([names, due, isChanged, guard], [[], [], true, "done"], JSON.stringify(read));
  }
});

test("a Secret that may not be read stays as it is known, and its time ends where it is named", () => {
  const counted = { uid: "u", unnamedMs: longAgoMs, checks: 2, checkedMs };
  const read = { old: forbidden };
  const unnamed = decided({ known: { old: counted }, read });
  assert.deepEqual([unnamed.old, unnamed.due, unnamed.guard], [counted, [], "config-forbidden"]);
  assert.deepEqual([unnamed.message, unnamed.forbidden], ["the right is missing", ["the right is missing"]]);
  assert.deepEqual(decided({ known: { old: counted }, read, named: ["old"] }).old, { uid: "u" });
});

test("the first sweep writes down the time, and each later one counts, up to three", () => {
  const first = decided({ known: { old: { uid: "u" } } });
  assert.deepEqual([first.old, first.isChanged], [anew, true]);
  const second = decided({ known: { old: { uid: "u", unnamedMs: checkedMs, checks: 1, checkedMs } } });
  assert.deepEqual([second.old?.checks, second.isChanged, second.guard], [2, true, "config-unnamed"]);
  const fourth = decided({ known: { old: { uid: "u", unnamedMs: checkedMs, checks: 3, checkedMs } } });
  assert.deepEqual([fourth.old?.checks, fourth.old?.checkedMs, fourth.isChanged, fourth.due], [3, nowMs, true, []]);
  assert.equal(
    decided({ known: { old: { uid: "u", unnamedMs: 5, checkedMs } } }).old?.checks,
    1,
    "nothing was counted",
  );
});

test("a sweep at the same moment as the one before counts, and a Secret without a time begins with the next one", () => {
  const now = { uid: "u", unnamedMs: nowMs, checks: 1, checkedMs: nowMs };
  assert.deepEqual(decided({ known: { old: now } }).old, { ...now, checks: 2 });
  assert.deepEqual(decided({ known: { old: { uid: "u", checks: 2, checkedMs } } }).old, anew);
});

test("a time of the future begins anew", () => {
  for (const ahead of [
    { unnamedMs: longAgoMs, checkedMs: nowMs + 1 },
    { unnamedMs: nowMs + 1, checkedMs },
  ]) {
    const { old, due } = decided({ known: { old: { uid: "u", checks: 3, ...ahead } } });
    assert.deepEqual([old, due], [anew, []]);
  }
});

test("the time of a Secret begins anew after more than six minutes without a sweep: something may have named it meanwhile", () => {
  const found = (before: Partial<NamedConfig>) =>
    decided({ known: { old: { uid: "u", unnamedMs: longAgoMs, checks: 3, ...before } } });
  assert.deepEqual(found({ checkedMs: nowMs - 360_000 }).due, [{ name: "old", uid: "u" }]);
  for (const before of [{ checkedMs: nowMs - 360_001 }, {}])
    assert.deepEqual([found(before).old, found(before).due], [anew, []], JSON.stringify(before));
});

test("a Secret is removed at the third sweep that finds it unnamed for 15 minutes, and not before", () => {
  const due = (unnamedMs: number, checks: number) =>
    decided({ known: { old: { uid: "u", unnamedMs, checks, checkedMs } } }).due;
  assert.deepEqual(due(longAgoMs, 2), [{ name: "old", uid: "u" }]);
  assert.deepEqual(due(longAgoMs, 1), []);
  assert.deepEqual(due(longAgoMs + 1, 3), []);
});

test("a restart that is under way stops the count and not the time, removes nothing, and is the reason", () => {
  const counted = { uid: "u", unnamedMs: longAgoMs, checks: 2, checkedMs };
  const { old, due, guard } = decided({ known: { old: counted }, isRestarting: true });
  assert.deepEqual([old, due, guard], [{ ...counted, checkedMs: nowMs }, [], "config-restarting"]);
  const late = { ...counted, checkedMs: nowMs - 360_001 };
  const { old: kept, isChanged } = decided({ known: { old: late }, isRestarting: true });
  assert.deepEqual([kept, isChanged], [late, false], "its time begins anew after the restart");
});

test("pods are read where one more sweep could remove a Secret", () => {
  assert.equal(mayBeDue({ uid: "u", unnamedMs: longAgoMs, checks: 2 }, nowMs), true);
  assert.equal(mayBeDue({ uid: "u", unnamedMs: longAgoMs, checks: 1 }, nowMs), false);
  assert.equal(mayBeDue({ uid: "u", unnamedMs: longAgoMs + 1, checks: 3 }, nowMs), false);
  assert.equal(mayBeDue({ uid: "u", unnamedMs: longAgoMs }, nowMs), false);
  assert.equal(mayBeDue({ uid: "u" }, nowMs), false);
});

test("the ledger is written where a Secret is another one, or its time or count has changed", () => {
  const named = { named: ["old"] };
  assert.equal(decided({ known: { old: { uid: "u" } }, ...named }).isChanged, false);
  assert.equal(decided({ known: { old: { uid: "before" } }, ...named }).isChanged, true);
  assert.equal(decided({ known: { old: { uid: "u", unnamedMs: 5 } }, ...named }).isChanged, true);
  assert.equal(decided({ known: { old: { uid: "u", checks: 1 } }, ...named }).isChanged, true);
});

test("at most a hundred Secrets are known, and a message names at most five", () => {
  const names = Array.from({ length: 102 }, (_, index) => `s${index}`);
  const of = <Value>(value: Value, count: number) =>
    Object.fromEntries(names.slice(0, count).map((name) => [name, value] as const));
  assert.equal(decided({ named: names, read: of(there(), 102) }).names.length, 100);
  const unnamed = { uid: "u", unnamedMs: longAgoMs, checks: 3, checkedMs };
  const removing = (count: number) => decided({ known: of(unnamed, count), read: of(there(), count) }).message;
  assert.equal(removing(5), "nothing names s0, s1, s2, s3, s4 any more");
  assert.equal(removing(7), "nothing names s0, s1, s2, s3, s4 and 2 more any more");
});
