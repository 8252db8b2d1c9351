/** Clusters that are not as a status would like them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { escapeTexts } from "../../../../functions/shared/base/escape-control.ts";
import type { Status } from "../../../../functions/shared/contract/status.ts";
import { renderPage } from "../../../../triggers/status/page.ts";
import { guardsByFunction } from "../../../../triggers/table.ts";
import { missingIn } from "../../../support/page-compared.ts";
import { readElements } from "../../../support/page-elements.ts";
import { claimOf, nowMs, zone } from "../advance-zone-rollout/given.ts";
import { certificate, event, groupOf, ledger, minute, parked, statusOf, volume, waitingFor } from "./given.ts";
import { answeredBy, started } from "./started.ts";

async function pageOf(status: Status) {
  const page = readElements(await renderPage(escapeTexts(status)));
  assert.deepEqual(missingIn(page, escapeTexts(status)), []);
  return page;
}

test("a group whose zone is in a namespace that is not served has the zones of the served ones alone", async () => {
  const namespaces = ["app"];
  const { world, read } = await started({ namespaces }, { answeredBy: { ...answeredBy, namespaces } });
  world.addGroup({ namespace: "elsewhere", group: "ingester", zones: ["d"], replicas: 3 });
  const status = await read(10);
  assert.deepEqual(
    status?.groups.map((group) => [group.namespace, group.group, group.zones.map(({ name }) => name)]),
    [["app", "ingester", ["ingester-a", "ingester-b", "ingester-c"]]],
  );
  assert.deepEqual([status?.leftOut, JSON.stringify(status).includes("elsewhere")], [[], false]);
});

test("a verdict by a function and with a guard that are names of JavaScript is shown as one that this version does not know", async () => {
  const recorded = { guard: "keys", zone: "", sentence: "a: waits", since: nowMs - 60 * minute, at: nowMs };
  const status = statusOf({ ledger: ledger({ verdicts: { constructor: recorded } }) }, { guards: guardsByFunction });
  const [group] = status.groups;
  assert.deepEqual(
    group?.functions.map((one) => [one.function, one.recorded.guard, one.recorded.ends, one.recorded.todo]),
    [["constructor", "keys", null, null]],
  );
  assert.deepEqual(status.needsPerson, []);
  await pageOf(status);
});

test("times that another clock has written ten minutes ahead need no person, last no negative time, and are shown", async () => {
  const ahead = -10;
  const claim = claimOf("a:0", "scale-down", { stampMs: Date.UTC(2026, 0, 1, 0, 20) });
  const future = ledger({ claims: [claim] });
  const verdict = waitingFor("strategy-not-on-delete", ahead);
  for (const group of [
    { ledger: verdict },
    { zones: [zone("a", "...")], ledger: waitingFor("zone-settling", ahead) },
    { ledger: future },
  ]) {
    const status = statusOf(group, { events: [event("EvictionRefused", "zone-budget: 1 down", ahead)] });
    assert.deepEqual(
      [status.needsPerson, status.waiting],
      [[], []],
      "an Event of the future is not of the last two minutes",
    );
    const page = await pageOf(status);
    assert.doesNotMatch(page.text, /-\d+ (s|min|h)\b/);
  }
  const never = statusOf({}, { events: [event("EvictionRefused", "never-possible: maxUnavailable 0", ahead)] });
  assert.equal(never.needsPerson.length, 1, "arithmetic is so, whatever the time is");
});

test("times that another clock has written ten minutes late are as old as they say, and lose nothing", async () => {
  const status = statusOf(
    { ledger: waitingFor("strategy-not-on-delete", 10) },
    { parked: [parked(1)], volumes: [volume(-0.2)] },
  );
  assert.deepEqual(status.needsPerson.map(({ reason }) => reason).sort(), ["guard", "volume-removal-near"]);
  assert.match((await pageOf(status)).text, /for 10 min/);
});

test("2147483647 replicas, 10,000 pods and 500 groups have every field on the page", async () => {
  const huge = zone("a", "n", { replicas: 2_147_483_647 });
  const wide = zone("b", `${"n".repeat(8_000)}${"x".repeat(1_000)}${"o".repeat(1_000)}`);
  const groups = Array.from({ length: 500 }, (_, index) =>
    groupOf({ key: { namespace: "db", group: `g-${index}` }, ...(index === 0 ? { zones: [huge, wide] } : {}) }),
  );
  const status = statusOf({}, { groups, certificate: certificate(300) });
  assert.equal(status.groups[0]?.wanted, 2_147_483_647 + 10_000);
  const page = await pageOf(status);
  assert.equal(page.all("article").length + page.one("ul.rest").all("li").length, 500);
});
