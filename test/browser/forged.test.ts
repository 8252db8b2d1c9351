/** What any client may write into the cluster stays text on the page of the shipped server. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser } from "playwright-core";
import { ledgerName } from "../../functions/shared/ledger/lease-name.ts";
import { eventually } from "../controlplane/api.ts";
import { namespace } from "../support/served-group.ts";
import { forgeries, hostileNames, type Place, placesOfTexts } from "./forgeries.ts";
import { browserForTests } from "./program.ts";
import { openPage, Stage } from "./viewed.ts";

const launchBrowser = await browserForTests();

describe("forged objects on the page in a browser", { skip: launchBrowser === undefined }, () => {
  let browser: Browser;
  let stage: Stage;

  before(async () => {
    [browser, stage] = await Promise.all([launchBrowser?.() ?? assert.fail(), Stage.open(2)]);
    // No other function writes the ledgers anew.
    await stage.start({ FUNCTION: "show-status" });
  });

  after(async () => {
    await browser?.close();
    await stage?.close();
  });

  const of = (place: Place) => forgeries.filter((one) => one.place === place).map(({ text }) => text);

  function sendEvents(): void {
    const texts = [...of("message"), ...of("reason"), ...of("object")];
    for (const [index, text] of texts.entries()) {
      const has = (place: Place) => of(place).includes(text);
      stage.group.world.store.create("events", namespace, {
        metadata: { name: `forged-${index}` },
        reason: has("reason") ? text : "EvictionRefused",
        message: has("message") ? text : "zone-budget: one pod is down",
        involvedObject: { kind: "StatefulSet", namespace, name: has("object") ? text : "db-zone-a" },
        source: { component: "sluice" },
        lastTimestamp: new Date().toISOString(),
      });
    }
  }

  /** One verdict for each text, of functions that no version has. */
  function writeVerdicts(): void {
    const at = Date.now();
    const verdictOf = (place: Place, text: string) => ({
      guard: place === "guard" ? text : "zone-settling",
      zone: place === "zone" ? text : "db-zone-a",
      sentence: place === "sentence" ? text : "it waits",
      ...{ since: at - 90_000, at },
    });
    const places = ["function", "guard", "zone", "sentence"] as const;
    const verdicts = places.flatMap((place) =>
      of(place).map(
        (text, index) => [place === "function" ? text : `${place}-${index}`, verdictOf(place, text)] as const,
      ),
    );
    const annotations = { "sluice.dev/verdicts": JSON.stringify(Object.fromEntries(verdicts)) };
    stage.group.world.annotate({ namespace, name: ledgerName(stage.group.group.group) }, annotations, "leases");
  }

  /** A group for each hostile name, with an annotation that does not parse. */
  function addGroups(): void {
    const { world } = stage.group;
    const values = of("annotation");
    for (const [index, group] of hostileNames.entries()) {
      const zones = [`of-${index}`];
      const { statefulSets } = world.addGroup({ namespace, group, zones, replicas: 1, maxUnavailable: "1" });
      const value = values[index];
      for (const one of statefulSets)
        if (value !== undefined) world.annotate(one, { "rollout-max-unavailable": value });
    }
  }

  test("of 100 forged Events, verdicts and annotations nothing runs, and each is shown as text", async () => {
    assert.equal(new Set(forgeries.map(({ text }) => text)).size, 100);
    assert.deepEqual([...new Set(forgeries.map(({ place }) => place))], [...placesOfTexts]);
    const { page, complaints } = await openPage(browser, stage.url);
    sendEvents();
    writeVerdicts();
    addGroups();
    const shown = async () => (await page.locator("main").textContent()) ?? "";
    const missing = async () => {
      const text = await shown();
      return forgeries.filter((one) => !text.includes(one.shown)).map((one) => `${one.place}: ${one.shown}`);
    };
    let last: readonly string[] = [];
    const isWhole = async () => {
      last = await missing();
      return last.length === 0 ? true : undefined;
    };
    await eventually("each forgery on the page that is open", 30_000, isWhole).catch(() => assert.deepEqual(last, []));
    await page.reload();
    await eventually("each forgery on a page that is loaded", 30_000, isWhole).catch(() => assert.deepEqual(last, []));
    // All details are opened, so that what is in them is laid out.
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true");
    for (const { shown: text } of forgeries) {
      const [tag = ""] = text.split(" ");
      assert.ok(await page.locator("main").getByText(tag, { exact: false }).first().isVisible(), tag);
    }
    for (const name of hostileNames) assert.ok((await shown()).includes(name), name);
    const foreign =
      "main :is(img, script, iframe, svg, math, a, form, input, button, object, embed, base, meta, link, style, template)";
    assert.equal(await page.locator(foreign).count(), 0);
    assert.equal(
      await page.evaluate(
        "[...document.querySelectorAll('*')].some((one) => [...one.attributes].some(({ name }) => /^on|^style$/.test(name)))",
      ),
      false,
    );
    assert.equal(await page.evaluate("window.ran"), undefined);
    assert.deepEqual(complaints, []);
    await page.close();
  });
});
