/** The page of the shipped server stays fresh in a real browser. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import type { Browser, Page } from "playwright-core";
import { newImage } from "../support/served-group.ts";
import { browserForTests } from "./program.ts";
import { controlClock, openPage, Stage } from "./viewed.ts";

const launchBrowser = await browserForTests();

/** An answer that is on its way through a route would fail when its page closes. */
async function closeRouted(page: Page): Promise<void> {
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await page.close();
}

describe("the page in a browser", { skip: launchBrowser === undefined }, () => {
  let browser: Browser;
  let stage: Stage;

  before(async () => {
    [browser, stage] = await Promise.all([launchBrowser?.() ?? assert.fail(), Stage.open(2)]);
    await stage.start();
  });

  after(async () => {
    await browser?.close();
    await stage?.close();
  });

  /** Changes the image of the group, and then the next one. */
  let images = 0;
  const changeImage = () => {
    images++;
    for (const statefulSet of stage.group.group.statefulSets)
      stage.group.world.changeTemplate(statefulSet, `${newImage}.${images}`);
  };

  test("a change of the cluster is seen within 3 s, while focus, scrolling and opened details stay", async () => {
    const viewport = { width: 390, height: 300 };
    const { page, complaints } = await openPage(browser, stage.url, { viewport });
    await page.locator("#rest").waitFor();
    await page.locator("summary").first().click();
    await page.locator("summary").first().focus();
    await page.evaluate("document.querySelector('.wide').scrollTo(40, 0); scrollTo(0, 120)");
    const stateOf = () =>
      page.evaluate(
        "[document.activeElement.localName, scrollY, document.querySelector('.wide').scrollLeft, document.querySelectorAll('details[open]').length]",
      );
    const before = await stateOf();
    assert.deepEqual(before, ["summary", 120, 40, 1]);
    const time = await page.locator(".fresh time").textContent();
    // It stays at rest, but for one pod.
    const { world, group } = stage.group;
    world.pause(group.statefulSets[0] ?? assert.fail());
    await page.locator("text=paused").first().waitFor({ timeout: 3_000 });
    assert.notEqual(await page.locator(".fresh time").textContent(), time);
    assert.deepEqual(await stateOf(), before);
    world.pause(group.statefulSets[0] ?? assert.fail(), false);
    changeImage();
    await page.locator("h2#work").waitFor({ timeout: 3_000 });
    assert.deepEqual(complaints, []);
    await page.close();
  });

  test("when the server is killed the page says so within 6 s and turns grey, and goes on without a reload when another one is there", async () => {
    const { page } = await openPage(browser, stage.url);
    await page.evaluate("document.mark = true");
    await page.locator("main").waitFor();
    const greyOf = () => page.evaluate("getComputedStyle(document.querySelector('main')).filter");
    assert.equal(await greyOf(), "none");
    await stage.kill();
    const notice = page.locator(".live .card");
    await notice.waitFor({ timeout: 6_000 });
    assert.match((await notice.textContent()) ?? "", /^No answer since \d\d:\d\d:\d\d UTC\.$/);
    assert.equal(await greyOf(), "grayscale(1)");
    const time = await page.locator(".fresh time").textContent();
    await stage.start();
    await notice.waitFor({ state: "hidden", timeout: 10_000 });
    assert.equal(await greyOf(), "none");
    assert.notEqual(await page.locator(".fresh time").textContent(), time);
    assert.equal(await page.evaluate("document.mark"), true, "the document is the same");
    await page.close();
  });

  test("a page whose script is of another version than the answer loads itself again", async () => {
    const { page } = await openPage(browser, stage.url);
    await page.evaluate("document.mark = true");
    await page.route(stage.url, async (route) => {
      if (route.request().resourceType() !== "fetch") return route.continue();
      const response = await route.fetch();
      await route.fulfill({ response, body: (await response.text()).replace("assets/refresh-", "assets/refresh-1") });
    });
    await page.waitForEvent("load");
    assert.equal(await page.evaluate("document.mark"), undefined);
    await closeRouted(page);
  });

  test("a hidden tab fetches nothing, and neither does one whose user has paused the updates by the link", async () => {
    const { page, complaints } = await openPage(browser, stage.url);
    const { elapse } = await controlClock(page);
    assert.equal(await elapse(6_000), 3);
    const setHidden = (isHidden: boolean) =>
      page.evaluate(
        `Object.defineProperty(document, "hidden", { value: ${isHidden}, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`,
      );
    await setHidden(true);
    assert.equal(await elapse(20_000), 0);
    await Promise.all([page.waitForRequest(stage.url), setHidden(false)]);
    await page.getByRole("link", { name: "pause the updates" }).click();
    assert.equal(await elapse(20_000), 0);
    assert.equal(await page.locator(".live .card").isVisible(), false, "the server is there");
    await Promise.all([page.waitForRequest(stage.url), page.getByRole("link", { name: "go on" }).click()]);
    assert.equal(await elapse(4_000), 2);
    assert.deepEqual(complaints, []);
    await page.close();
  });

  test("one line is read out, at most every 10 s, and not before something has changed", async () => {
    const { page, complaints } = await openPage(browser, stage.url);
    const { elapse } = await controlClock(page);
    const line = page.getByRole("status");
    let news = "one";
    await page.route(stage.url, async (route) => {
      const answer = await route.fetch();
      const body = (await answer.text()).replace(/data-news="[^"]*"/, `data-news="${news}"`);
      await route.fulfill({ response: answer, body });
    });
    const spokenAfter = async (ms: number) => {
      await elapse(ms);
      return line.textContent();
    };
    assert.equal(await line.count(), 1);
    assert.equal(await line.textContent(), "");
    assert.equal(await spokenAfter(12_000), "one");
    news = "two";
    assert.equal(await spokenAfter(4_000), "one");
    assert.equal(await spokenAfter(8_000), "two");
    assert.deepEqual(complaints, []);
    await closeRouted(page);
  });
});
