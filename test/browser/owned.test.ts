/** Groups of other owners, and restarts of processes, on the page of the shipped server in a real browser. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import type { GroupStatus, Status } from "../../functions/shared/contract/status.ts";
import { makeClaim } from "../../functions/shared/ledger/claim.ts";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { eventually } from "../controlplane/api.ts";
import { group as ownerGroup } from "../support/owned.ts";
import { missingIn } from "../support/page-compared.ts";
import { readElements } from "../support/page-elements.ts";
import { groupName, namespace } from "../support/served-group.ts";
import { createLedgerOf, createOwnedGroup, writePhase } from "../support/status-groups.ts";
import { browserForTests } from "./program.ts";
import { faultsOf, openPage, Stage } from "./viewed.ts";

const launchBrowser = await browserForTests();
const seconds = 1_000;
const minutes = 60 * seconds;
/** No watch serves a group of another owner: its pods are listed every 10 s, and the page reads every 2 s. */
const listedWithinMs = 40 * seconds;

/** An owner that needs a person. Its pods have no volume claims that name their zone, and its name is as long as names may be. */
const cache = { kind: "RedisCluster", name: "cache-".padEnd(253, "x") };
const hostile = {
  kind: "<svg onload=ran=1>",
  name: `"><img src=x onerror="window.ran=1"></title><script>window.ran=1</script>`,
};
const hostileMessage = `<script>window.ran=1</script><a href="javascript:window.ran=1">mend it here</a>' onfocus='window.ran=1`;
const groupOf = ({ kind, name }: typeof cache) => `owner:${kind}.example.com/${name}`;

/** The document without what its script adds. */
const sent = `(() => {
  const root = document.documentElement.cloneNode(true);
  root.querySelector("#live").replaceChildren();
  return root.outerHTML;
})()`;

describe("groups of other owners on the page in a browser", { skip: launchBrowser === undefined }, () => {
  let browser: Browser;
  let stage: Stage;

  before(async () => {
    [browser, stage] = await Promise.all([launchBrowser?.() ?? assert.fail(), Stage.open(2)]);
    const { world } = stage.group;
    const uids = createOwnedGroup(world, namespace, ["a", "b"], 3);
    addPods(cache, "cache");
    createLedgerOf(world, namespace, groupOf(cache));
    writeWaits();
    writeLedger(ownerGroup, { claims: [leavingOf("b-1", uids)] });
    writeRestarts();
    // No other function writes the ledgers anew.
    await stage.start({ FUNCTION: "show-status" });
  });

  after(async () => {
    await browser?.close();
    await stage?.close();
  });

  /** Pods that this owner controls. The embedded world has no objects of such kinds, and takes their owners for existing. */
  function addPods({ kind, name }: typeof cache, prefix: string): void {
    const owner = { apiVersion: "example.com/v1", kind, name, uid: `uid-of-${prefix}`, controller: true };
    for (const number of [0, 1])
      stage.group.world.store.create("pods", namespace, {
        metadata: { name: `${prefix}-${number}`, ownerReferences: [owner] },
        spec: { containers: [{ name: "db", image: "db:1" }] },
      } as never);
  }

  interface Written {
    readonly claims?: readonly ReturnType<typeof makeClaim>[];
    readonly verdicts?: object;
  }

  function writeLedger(group: string, { claims, verdicts }: Written): void {
    const annotations = {
      ...(claims && { "sluice.dev/claims": claims.map(({ line }) => line).join("\n") }),
      ...(verdicts && { "sluice.dev/verdicts": JSON.stringify(verdicts) }),
    };
    stage.group.world.annotate({ namespace, name: ledgerName(group) }, annotations, "leases");
  }

  /** What a function has recorded in the ledger of a group. */
  function recordVerdict(
    group: string,
    by: string,
    guard: string,
    zone: string,
    sentence: string,
    sinceMs: number,
  ): void {
    const at = Date.now();
    writeLedger(group, { verdicts: { [by]: { guard, zone, sentence, since: at - sinceMs, at } } });
  }

  function writeWaits(): void {
    recordVerdict(ownerGroup, "suspend-group", "zones-down", "a", "a waits: b: 1 of 3 down (1 claimed)", 20 * seconds);
    const why = "cache-0 stays: nothing says that its data is not needed";
    recordVerdict(groupOf(cache), "suspend-group", "not-drained", "unknown", why, 5 * minutes);
  }

  /** Sluice takes a pod, which a claim of the ledger names by its uid. */
  function leavingOf(pod: string, uids: ReadonlyMap<string, string>) {
    const number = 2 ** 30 + 5;
    const named = {
      id: "one",
      kind: "scale-down",
      zone: "b",
      by: "suspend-group",
      uids: { [pod]: uids.get(pod) ?? "" },
    };
    return makeClaim({
      ...(named as typeof named & { kind: "scale-down" }),
      ...{ members: [{ first: number, last: number }], stampMs: Date.now(), phase: "confirmed", terms: "asked" },
    });
  }

  /** Of processes in the pods of StatefulSets: one is at work, one waits, and one has failed. */
  function writeRestarts(): void {
    const anchor = { resource: "pods", name: "db-zone-a-1", annotation: "elasticsearch.k8s.elastic.co/restart-phase" };
    const claim = makeClaim({
      ...{
        id: "two",
        kind: "process",
        zone: "db-zone-a",
        members: [{ first: 1, last: 1 }],
        by: "advance-process-restart",
      },
      ...{ anchor, mode: "single", phase: "stopping", terms: "asked", stampMs: Date.now() - 40 * seconds },
    });
    writeLedger(groupName, { claims: [claim] });
    const why = "db-zone-b: the process manager of db-zone-b-0 does not answer";
    recordVerdict(groupName, "advance-process-restart", "manager-silent", "db-zone-b", why, 3 * minutes);
    const { world } = stage.group;
    writePhase(world, namespace, "db-zone-a-1", "stop");
    writePhase(world, namespace, "db-zone-b-0", "schedule");
    writePhase(world, namespace, "db-zone-c-1", "failed");
  }

  const readStatus = async () =>
    (await (await fetch(stage.url, { headers: { accept: "application/json" } })).json()) as Status;

  const ownedOf = ({ groups }: Status, group: string): GroupStatus =>
    groups.find((one) => one.group === group) ?? assert.fail(group);

  /** Nothing is on its way: the page is compared with one document. */
  function isSettled({ groups, needsPerson }: Status, count: number): boolean {
    const cells = groups.flatMap(({ zones }) => zones.flatMap((zone) => zone.cells.map(({ cell }) => cell)));
    const isMoving = cells.some((cell) => cell === "not ready" || cell === "terminating");
    return !isMoving && groups.length === count && needsPerson.length === count;
  }

  /** The elements of the page that is open, and the document of `count` groups that it shows. */
  async function readBoth(page: Page, count: number) {
    return eventually("the page and its document", listedWithinMs, async () => {
      const status = await readStatus();
      if (!isSettled(status, count)) throw new Error(`the document is ${JSON.stringify(status)}`);
      const root = readElements(await page.evaluate<string>(sent));
      const [time] = root.all("p.fresh").flatMap((one) => one.values("datetime"));
      return time === status.at ? { root, status } : undefined;
    });
  }

  test("each message, pod, time and command of a group that waits, of one that needs a person, and of restarts is on the page", async () => {
    const { page, complaints } = await openPage(browser, stage.url);
    const { root, status } = await readBoth(page, 3);
    assert.deepEqual(missingIn(root, status), []);
    const [waiting, needing, restarting] = [ownerGroup, groupOf(cache), groupName].map((one) => ownedOf(status, one));
    assert.deepEqual(
      waiting?.zones.map(({ name, cells }) => [name, cells.map(({ cell }) => cell)]),
      [
        ["a", ["ready"]],
        ["b", ["ready", "claimed", "ready"]],
      ],
    );
    assert.deepEqual(
      [needing, restarting].map((one) => one?.zones.map(({ name, wanted }) => [name, wanted])),
      [[["unknown", 2]], ["a", "b", "c"].map((zone) => [`db-zone-${zone}`, 2])],
    );
    assert.deepEqual(
      restarting?.restarts.map(({ state, zone, pods }) => [state, zone, pods]),
      [
        ["at work", "db-zone-a", "1"],
        ["waiting", "db-zone-b", "0"],
        ["failed", "db-zone-c", "1"],
      ],
    );
    assert.deepEqual(status.needsPerson.map(({ guard, object }) => [guard, object]).sort(), [
      ["manager-silent", "db-zone-b"],
      ["not-drained", "unknown"],
      ["restart-failed", "db-zone-c"],
    ]);
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true");
    const seen = ((await page.locator("body").innerText()) ?? "").replaceAll(/\s+/g, " ");
    const recorded = [
      ...status.groups.flatMap((one) => one.functions.map(({ recorded }) => recorded)),
      ...status.needsPerson,
    ];
    for (const { sentence, todo } of [...recorded, ...status.groups.flatMap(({ restarts }) => restarts)])
      for (const text of [sentence, todo ?? ""]) assert.ok(text === "nothing" || seen.includes(text), text);
    assert.deepEqual(complaints, []);
    await page.close();
  });

  test("with them the page has no barriers, no message in the console, and never scrolls sideways, in light and in dark", async () => {
    assert.deepEqual(await faultsOf(browser, stage.url), []);
  });

  // Both wait for the same LISTs.
  describe("as they change", { concurrency: true }, () => {
    test("a verdict in the ledger of another owner comes to the page that is open, and so does a pod of it that goes", async () => {
      const { page, complaints } = await openPage(browser, stage.url);
      const article = page.locator("article", { hasText: ownerGroup });
      await article.locator('.pods [title="a, pod 2: ready on the wanted revision"]').waitFor();
      await page.evaluate("document.mark = true");
      stage.group.world.store.delete("pods", { namespace, name: "a-2" }, {});
      recordVerdict(ownerGroup, "suspend-group", "pod-missing", "a", "a-2 is to come back, and is not there yet", 0);
      await article.getByText("a-2 is to come back, and is not there yet").waitFor({ timeout: listedWithinMs });
      await article.locator('.pods [title="a, pod 2: missing"]').waitFor({ timeout: listedWithinMs });
      assert.equal(await page.evaluate("document.mark"), true, "the document is the same");
      assert.deepEqual(complaints, []);
      await page.close();
    });

    test("of markup in the name of another owner and in the verdicts of its ledger nothing runs, when it comes to the page and when that is loaded", async () => {
      const { page, complaints } = await openPage(browser, stage.url);
      addPods(hostile, "hostile");
      createLedgerOf(stage.group.world, namespace, groupOf(hostile));
      recordVerdict(groupOf(hostile), "suspend-group", "not-drained", "unknown", hostileMessage, 2 * minutes);
      const seen = async () => {
        const text = await page.locator("main").innerText();
        return [hostile.kind, hostile.name, hostileMessage].every((one) => text.includes(one)) ? true : undefined;
      };
      await eventually("the hostile owner on the page that is open", listedWithinMs, seen);
      await page.reload();
      await eventually("the hostile owner on a page that is loaded", listedWithinMs, seen);
      const { root, status } = await readBoth(page, 4);
      assert.deepEqual(missingIn(root, status), []);
      assert.equal(await page.locator("main :is(img, script, svg, a)").count(), 0);
      assert.equal(await page.evaluate("window.ran"), undefined);
      assert.deepEqual(complaints, []);
      await page.close();
    });
  });
});
