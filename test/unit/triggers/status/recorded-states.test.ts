/** The page has each field of the JSON, in states that runs of the demo and of the simulation were in. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { escapeTexts } from "../../../../functions/shared/base/escape-control.ts";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { decide } from "../../../../functions/show-status/decide.ts";
import { renderPage } from "../../../../triggers/status/page.ts";
import { missingIn } from "../../../support/page-compared.ts";
import { readElements } from "../../../support/page-elements.ts";
import { readSnapshots } from "../../../support/recorded-status.ts";

const recorded = readSnapshots();

test("there are more than 12 recorded states, of the demo and of the simulation", () => {
  const names = [...recorded.keys()];
  const ofDemo = names.filter((name) => name.startsWith("the-demo-"));
  assert.ok(names.length > 12 && ofDemo.length >= 5 && names.length - ofDemo.length >= 7, names.join());
});

for (const [name, snapshot] of recorded)
  test(`without script the page has every field of the JSON: ${name}`, async () => {
    const status = escapeTexts(decide(snapshot));
    const page = readElements(await renderPage(status));
    assert.deepEqual(missingIn(page, status), []);
  });

/** The leaves of a status by path, each with a status that differs from it in this leaf alone. */
function changedIn(status: Status): Map<string, Status> {
  const changed = new Map<string, Status>();
  const visit = (value: unknown, path: string, put: (value: unknown) => unknown): void => {
    if (typeof value !== "object" || value === null) {
      if (!changed.has(path)) changed.set(path, put(otherThan(value)) as Status);
      return;
    }
    for (const [key, one] of Object.entries(value)) {
      const [inner, replaced] = Array.isArray(value)
        ? [path, (other: unknown) => value.with(Number(key), other)]
        : [path === "" ? key : `${path}.${key}`, (other: unknown) => ({ ...value, [key]: other })];
      visit(one, inner, (other) => put(replaced(other)));
    }
  };
  visit(status, "", (value) => value);
  return changed;
}

/** Another value of the same type. */
function otherThan(value: unknown): unknown {
  if (typeof value === "number") return value + 1_000_000;
  if (typeof value === "boolean") return !value;
  if (value === null) return "something";
  return /^\d{4}-.*Z$/.test(String(value)) ? "2001-02-03T04:05:06.789Z" : `${value} or so`;
}

test("a page that lacks a field, or has another value in it, is noticed: each field once", async () => {
  const noticed = new Set<string>();
  const unnoticed = new Set<string>();
  for (const snapshot of recorded.values()) {
    const status = escapeTexts(decide(snapshot));
    const page = readElements(await renderPage(status));
    for (const [path, changed] of changedIn(status)) {
      const isNoticed = missingIn(page, changed).some((one) => one.startsWith(`${path}: `));
      (isNoticed ? noticed : unnoticed).add(path);
    }
  }
  assert.deepEqual([...unnoticed], []);
  assert.ok(noticed.size > 60, [...noticed].join(" "));
});
