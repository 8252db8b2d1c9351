/** What the check before an uninstall says of the objects that it has found. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideUninstall, type FinalizerEnd, type LeftObject } from "../../../../triggers/uninstall/decide.ts";

const end = (finalizer: string, state: FinalizerEnd["state"]): FinalizerEnd => ({
  finalizer,
  setting: `${finalizer.toUpperCase()}_SETTING`,
  functions: [`take-${finalizer}`],
  state,
});
const left = (...finalizers: readonly string[]): LeftObject => ({ shown: `owner ${finalizers.join("-")}`, finalizers });
const decided = (objects: readonly LeftObject[], ...ends: readonly FinalizerEnd[]) =>
  decideUninstall("db", objects, ends);
const remedy = (objects: readonly LeftObject[], ...ends: readonly FinalizerEnd[]) =>
  decided(objects, ...ends).lines.at(-1) ?? "";

test("twenty objects are named, and those beyond are counted", () => {
  const named = (count: number) =>
    decided(
      Array.from({ length: count }, () => left("a")),
      end("a", "keep"),
    ).lines;
  assert.equal(named(20).length, 22);
  assert.equal(named(21).length, 23);
  assert.equal(named(21)[21], "and 1 more");
});

test("what is left is going only if a setting removes each finalizer of it", () => {
  const kindOf = (...ends: readonly FinalizerEnd[]) => decided([left("a"), left("b")], ...ends).kind;
  assert.equal(kindOf(end("a", "remove"), end("b", "remove")), "going");
  assert.equal(kindOf(end("a", "remove"), end("b", "keep")), "kept");
  assert.equal(kindOf(end("a", "remove")), "kept");
});

test("the remedy names the settings of finalizers that are kept, and of no others", () => {
  const text = remedy([left("a", "b")], end("a", "remove"), end("b", "keep"), end("c", "keep"));
  assert.match(text, /, or B_SETTING=remove without the chart/);
  assert.ok(!text.includes("serve "), text);
});

test("the remedy names the functions to serve for finalizers that no served function removes", () => {
  const text = remedy([left("a", "b")], end("a", "unserved"), end("b", "keep"));
  assert.match(text, /^serve take-a as well, set uninstall\.prepare=true/);
  assert.match(text, /or A_SETTING=remove and B_SETTING=remove without the chart/);
});

test("for a finalizer that no function knows, the remedy is the version of Sluice that put it there", () => {
  assert.match(remedy([left("z")], end("a", "keep")), /^serve the version of Sluice that put them there, wait/);
});
