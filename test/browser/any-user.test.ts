/** The page of the shipped server, as a browser shows it: to all users, in all sizes, with any content. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, request } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { after, before, describe, type TestContext, test } from "node:test";
import type { Browser } from "playwright-core";
import { escapeTexts } from "../../functions/shared/base/escape-control.ts";
import type { Status } from "../../functions/shared/contract/status.ts";
import { openStatusPort } from "../../triggers/status/status-port.ts";
import { createReporting } from "../../triggers/telemetry/logs-and-metrics.ts";
import { eventually } from "../controlplane/api.ts";
import { newImage } from "../support/served-group.ts";
import { browserForTests } from "./program.ts";
import { faultsOf, openPage, Stage } from "./viewed.ts";

const launchBrowser = await browserForTests();
const picture = join(import.meta.dirname, "page.png");

describe("the page in a browser", { skip: launchBrowser === undefined }, () => {
  let browser: Browser;
  let stage: Stage;
  /** The status in the middle of a rollout, while a pod is broken. */
  let status: Status;

  before(async () => {
    [browser, stage] = await Promise.all([launchBrowser?.() ?? assert.fail(), Stage.open(12)]);
    await stage.start();
    const { world, group } = stage.group;
    for (const statefulSet of group.statefulSets) world.changeTemplate(statefulSet, newImage);
    const read = async () =>
      (await (await fetch(stage.url, { headers: { accept: "application/json" } })).json()) as Status;
    await eventually("half of the first zone", 60_000, async () => {
      const { groups } = await read();
      return (groups[0]?.updated ?? 0) >= 6 ? true : undefined;
    });
    world.kubelet.breakPod({ namespace: group.namespace, name: `${group.statefulSets[0]?.name}-3` });
    status = await eventually("a zone that waits for the broken pod", 60_000, async () => {
      const seen = await read();
      const verdicts = seen.groups[0]?.functions ?? [];
      return verdicts.some(({ recorded: { guard } }) => guard === "zone-settling") ? seen : undefined;
    });
  });

  after(async () => {
    await browser?.close();
    await stage?.close();
  });

  /** Shows what `read` gives, by the endpoints of the product. */
  async function show(t: TestContext, read: () => Status) {
    const address = { host: "127.0.0.1", port: 0 };
    const reporting = createReporting({ version: "1.2.3", serving: "all", level: "error", keys: () => 0 });
    const clock = { monotonicMs: () => performance.now() };
    const port = await openStatusPort({ address, read: async () => read(), requestTimeoutMs: 5_000, clock, reporting });
    t.after(() => port.close(AbortSignal.abort()));
    return `http://127.0.0.1:${port.port}/`;
  }

  test("it has no barriers, no message in the console, and never scrolls sideways, in light and in dark, from a phone to a wide screen", async () => {
    const faults = await faultsOf(browser, stage.url, async (page, colorScheme) => {
      // `PICTURE=1 npx node --test test/browser/any-user.test.ts` makes the picture of the README.
      if (process.env.PICTURE !== "1" || colorScheme !== "light") return;
      await page.setViewportSize({ width: 1280, height: 670 });
      await page.screenshot({ path: picture });
    });
    assert.deepEqual(faults, []);
  });

  test("without script it is the same, but for the link that pauses the updates", async (t) => {
    const [without, with_] = await Promise.all(
      [false, true].map((javaScriptEnabled) => browser.newPage({ javaScriptEnabled })),
    );
    const url = await show(t, () => status);
    const texts: string[] = [];
    for (const page of [without ?? assert.fail(), with_ ?? assert.fail()]) {
      await page.goto(url);
      texts.push((await page.locator("body").innerText()).replace("pause the updates", "").replaceAll(/\s+/g, " "));
      await page.close();
    }
    assert.equal(texts[0], texts[1]);
  });

  test("of 100 forged names and messages with markup none runs, when the page is loaded and when it is refreshed", async (t) => {
    let current = status;
    const url = await show(t, () => current);
    const { page, complaints } = await openPage(browser, url);
    current = forged(status);
    await page.locator("text=forged-99").first().waitFor();
    await page.reload();
    await page.locator("text=forged-99").first().waitFor();
    assert.equal(await page.evaluate("window.ran"), undefined);
    assert.equal(
      await page.locator("main :is(img, script, iframe, svg, a, form, object, base, meta, link)").count(),
      0,
    );
    assert.deepEqual(complaints, []);
    await page.close();
  });

  test("behind a proxy that has put a path before it the page, its files and its JSON load, and it goes on refreshing itself", async (t) => {
    const prefix = "/api/v1/namespaces/demo/services/http:sluice:8002/proxy";
    const proxy = createServer(async ({ url = "" }, response) => {
      const answer = url.startsWith(`${prefix}/`)
        ? await fetch(new URL(`.${url.slice(prefix.length)}`, stage.url))
        : undefined;
      response.writeHead(answer?.status ?? 404, {
        "content-type": answer?.headers.get("content-type") ?? "text/plain",
      });
      response.end(await answer?.text());
    }).listen(0, "127.0.0.1");
    await once(proxy, "listening");
    t.after(() => {
      proxy.close();
      proxy.closeAllConnections();
    });
    const { port } = proxy.address() as AddressInfo;
    for (const path of ["/", "/ui/status"]) {
      const { page, complaints } = await openPage(browser, `http://127.0.0.1:${port}${prefix}${path}`);
      const time = await page.locator(".fresh time").textContent();
      await page.locator(`.fresh time:not(:text-is("${time}"))`).waitFor();
      assert.notEqual(await page.evaluate("getComputedStyle(document.body).backgroundColor"), "rgba(0, 0, 0, 0)");
      await page.getByRole("link", { name: "JSON" }).click();
      assert.match(await page.content(), /&quot;answeredBy&quot;|"answeredBy"/);
      assert.deepEqual(complaints, []);
      await page.close();
    }
  });

  test("a website whose own name leads to this machine gets 421", async () => {
    const page = await browser.newPage();
    const answer = await page.goto(stage.url.replace("127.0.0.1", "evil.test"));
    assert.equal(answer?.status(), 421);
    assert.doesNotMatch(await page.content(), /db-zone-a/);
    await page.close();
  });

  test("a path that leaves the folder of the assets leads nowhere", async () => {
    for (const path of [
      "/assets/../package.json",
      "/assets/%2e%2e/package.json",
      "/assets/..%2fpackage.json",
      "/../",
    ]) {
      // A client that does not shorten paths.
      const asked = request(stage.url, { path });
      asked.end();
      const [answer] = await once(asked, "response");
      answer.resume();
      assert.ok(answer.statusCode === 404 || answer.headers["content-type"]?.startsWith("text/html"), path);
      assert.notEqual(path.startsWith("/assets") && answer.statusCode, 200, path);
    }
  });
});

const payloads = [
  '<img src=x onerror="window.ran=1">',
  "<script>window.ran=1</script>",
  '"><svg onload="window.ran=1">',
  "' onmouseover='window.ran=1' autofocus onfocus='window.ran=1",
  '<iframe srcdoc="<script>parent.ran=1</script>"></iframe>',
  "</title></main></body><script>window.ran=1</script>",
  '<a href="javascript:window.ran=1">x</a><base href="//evil.test">',
  "<!--><style>@import '//evil.test'</style>",
  '<object data="data:text/html,<script>1</script>"></object>',
  "&lt;script&gt;window.ran=1&lt;/script&gt;{{window.ran=1}}\u202e\u0007",
];

/** Words of the document, times and revisions keep their meaning. */
const isKept = (key: string, value: string) => /^(mode|state|ends|cell)$/.test(key) || /^\d{4}-\d\d-\d\dT/.test(value);

/** The status with 100 entries for persons, 100 Events and some groups, of which each text is markup. */
function forged(status: Status): Status {
  const replaced = (value: unknown, text: string, key = ""): unknown => {
    if (typeof value === "string") return isKept(key, value) ? value : text;
    if (typeof value !== "object" || value === null) return value;
    if (Array.isArray(value)) return value.map((one) => replaced(one, text, key));
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, replaced(one, text, name)]));
  };
  const { at } = status;
  const need = { reason: "guard", guard: "", namespace: "", object: "", since: at, sentence: "", todo: "" };
  const event = { namespace: "", object: "", reason: "", message: "", at };
  const texts = Array.from({ length: 100 }, (_, index) => `${payloads[index % payloads.length]} forged-${index}`);
  const all = texts.map((text) => replaced({ groups: status.groups, need, event }, text) as never);
  const parts = all as readonly { groups: Status["groups"]; need: never; event: never }[];
  const forgery = replaced(status, texts[99] ?? "") as Status;
  return escapeTexts({
    ...forgery,
    groups: parts.slice(0, payloads.length).flatMap(({ groups }) => groups),
    needsPerson: parts.map((part) => part.need),
    events: parts.map((part) => part.event),
  });
}
